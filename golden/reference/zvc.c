/* ZVC, zero-value compression: encoder and decoder in one file of C99 that needs nothing else.
 *
 * The format is told in docs/reference/formats.md, section "ZVC". This is its reference for those
 * who write another: plain loops over elements, no speed.
 *
 *     uint8_t *stream = malloc(zvc_bound(4, nbytes));     // elements of 4, 2 or 1 bytes
 *     size_t size = zvc_encode(4, data, nbytes, stream);
 *
 *     struct zvc_result r = zvc_decode(4, stream, size, data, nbytes);
 *     if (r.status != ZVC_OK) ...                         // at byte r.offset of the stream
 *
 * zvc_bound    bytes that a stream of nbytes never exceeds; 0 if no element has so many bytes.
 * zvc_encode   writes the stream and returns its bytes. nbytes may be any number; the last line of
 *              128 bytes is filled up with zeros.
 * zvc_decode   writes the nbytes bytes that were encoded. The first error in stream order ends it:
 *              valid_bytes bytes before it are written and right. It reads nothing outside the
 *              stream and writes nothing outside nbytes, whatever the stream holds, and accepts
 *              only what zvc_encode writes. Checksums are the caller's.
 *
 * Elements are the same on every machine, as they are only compared with zero.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ZVC_LINE_BYTES 128

/* Numbers as in cdma.golden.StreamStatus. */
enum zvc_status {
    ZVC_OK = 0,
    ZVC_MASK_TRUNCATED = 1,    /* the stream ends in a line's mask */
    ZVC_PAYLOAD_TRUNCATED = 2, /* the stream ends in or before an element that is in the mask */
    ZVC_TRAILING_BYTES = 3,    /* bytes follow the last line */
    ZVC_ZERO_ELEMENT = 4,      /* an element that is in the mask is zero */
    ZVC_NONZERO_FILL = 5       /* an element has a byte behind nbytes that is not zero */
};

struct zvc_result {
    enum zvc_status status;
    size_t offset;      /* of the first error: of its mask, of its element, or of what follows */
    size_t valid_bytes; /* bytes of output before it; all of them if there is none */
};

static int zvc_any(const uint8_t *at, size_t count)
{
    while (count)
        if (at[--count])
            return 1;
    return 0;
}

static size_t zvc_mask_bytes(size_t element) { return ZVC_LINE_BYTES / element / 8; }

size_t zvc_bound(size_t element, size_t nbytes)
{
    size_t lines = nbytes / ZVC_LINE_BYTES + (nbytes % ZVC_LINE_BYTES != 0);
    if (element != 4 && element != 2 && element != 1)
        return 0;
    return lines * (zvc_mask_bytes(element) + ZVC_LINE_BYTES);
}

size_t zvc_encode(size_t element, const void *data, size_t nbytes, uint8_t *stream)
{
    const uint8_t *from = data;
    uint8_t line[ZVC_LINE_BYTES], *to = stream;

    for (size_t done = 0; done < nbytes; done += ZVC_LINE_BYTES) {
        size_t part = nbytes - done < ZVC_LINE_BYTES ? nbytes - done : ZVC_LINE_BYTES;
        uint8_t *mask = to;
        memset(line, 0, sizeof line);
        memcpy(line, from + done, part);
        memset(mask, 0, zvc_mask_bytes(element));
        to += zvc_mask_bytes(element);
        for (size_t i = 0; i < ZVC_LINE_BYTES / element; i++) {
            if (!zvc_any(line + i * element, element))
                continue;
            mask[i / 8] |= (uint8_t)(1 << i % 8);
            memcpy(to, line + i * element, element);
            to += element;
        }
    }
    return (size_t)(to - stream);
}

static struct zvc_result zvc_end(enum zvc_status status, size_t offset, size_t valid_bytes)
{
    struct zvc_result result = {status, offset, valid_bytes};
    return result;
}

struct zvc_result zvc_decode(size_t element, const uint8_t *stream, size_t size, void *data,
                             size_t nbytes)
{
    uint8_t *to = data;
    size_t at = 0;

    for (size_t line = 0; line < nbytes; line += ZVC_LINE_BYTES) {
        const uint8_t *mask = stream + at;
        if (size - at < zvc_mask_bytes(element))
            return zvc_end(ZVC_MASK_TRUNCATED, at, line);
        at += zvc_mask_bytes(element);
        for (size_t i = 0; i < ZVC_LINE_BYTES / element; i++) {
            size_t place = line + i * element;
            size_t valid = place < nbytes ? place : nbytes;
            /* The element's bytes that are data; those behind are fill. */
            size_t inside = nbytes - valid < element ? nbytes - valid : element;
            if (!(mask[i / 8] >> i % 8 & 1)) {
                memset(to + valid, 0, inside);
                continue;
            }
            if (size - at < element)
                return zvc_end(ZVC_PAYLOAD_TRUNCATED, at, valid);
            if (!zvc_any(stream + at, element))
                return zvc_end(ZVC_ZERO_ELEMENT, at, valid);
            if (zvc_any(stream + at + inside, element - inside))
                return zvc_end(ZVC_NONZERO_FILL, at, valid);
            memcpy(to + valid, stream + at, inside);
            at += element;
        }
    }
    if (at < size)
        return zvc_end(ZVC_TRAILING_BYTES, at, nbytes);
    return zvc_end(ZVC_OK, 0, nbytes);
}
