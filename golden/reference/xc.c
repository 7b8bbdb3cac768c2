/* XC, the exponent-class codec: encoder and decoder in one file of C99 that needs nothing else.
 *
 * The format is told in docs/reference/formats.md, section "XC". This is its reference for those
 * who write another: plain loops over elements, no speed.
 *
 *     struct xc_coding coding;
 *     xc_coding_init(&coding, XC_BF16, 120, 0);            // centre 120, pattern 0
 *
 *     uint8_t *stream = malloc(xc_bound(&coding, nbytes));
 *     size_t size = xc_encode(&coding, data, nbytes, stream);
 *
 *     struct xc_result r = xc_decode(&coding, stream, size, data, nbytes);
 *     if (r.status != XC_OK) ...                           // at byte r.offset of the stream
 *
 * xc_coding_init   0, or -1 if there is no such element format, centre or pattern.
 * xc_bound         bytes that a stream of nbytes never exceeds.
 * xc_encode        writes the stream and returns its bytes. nbytes may be any number; the last
 *                  line of 128 bytes is filled up with zeros.
 * xc_decode        writes the nbytes bytes that were encoded. The first error in stream order ends
 *                  it: valid_bytes bytes before it are written and right. It reads nothing outside
 *                  the stream and writes nothing outside nbytes, whatever the stream holds, and
 *                  accepts only what xc_encode writes. Checksums are the caller's.
 *
 * Elements are little-endian in memory, whatever the machine is.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XC_LINE_BYTES 128
#define XC_MAX_ELEMENTS 128
#define XC_MAX_LINE_BYTES 130

enum xc_format { XC_BF16, XC_FP32, XC_FP16, XC_E4M3, XC_E5M2, XC_FORMATS };

/* Numbers as in cdma.golden.StreamStatus. */
enum xc_status {
    XC_OK = 0,
    XC_MASK_TRUNCATED = 1,    /* the stream ends before or in a line's header or mask */
    XC_PAYLOAD_TRUNCATED = 2, /* the stream ends behind them, in the line */
    XC_TRAILING_BYTES = 3,    /* bytes follow the last line */
    XC_NONZERO_FILL = 5,      /* the last line holds more than zeros behind nbytes */
    XC_BAD_TOKEN = 9          /* a line that the encoder does not write */
};

struct xc_coding {
    int exponent_bits, mantissa_bits;
    int element_bytes, elements; /* bytes of an element, elements of a line */
    int mask_bytes, header_bytes;
    int extra_bits[4];       /* by class */
    uint8_t class_of[256];   /* by exponent */
    uint8_t index_of[256];   /* by exponent */
    int exponent_of[4][16];  /* by class and index; -1 for the escape and where there is none */
};

struct xc_result {
    enum xc_status status;
    size_t offset;      /* of the first error: of its line, or of what follows the last line */
    size_t valid_bytes; /* bytes of output before it; all of them if there is none */
};

enum { XC_ZEROS, XC_DENSE, XC_SPARSE, XC_RAW };
enum { XC_ESCAPE_CLASS = 3, XC_ESCAPE_INDEX = 15 };

int xc_coding_init(struct xc_coding *c, int format, int centre, int pattern)
{
    static const int exponent_bits[XC_FORMATS] = {8, 8, 5, 4, 5};
    static const int mantissa_bits[XC_FORMATS] = {7, 23, 10, 3, 2};
    static const int extra_bits[4][4] = {{0, 0, 2, 4}, {0, 0, 2, 4}, {1, 1, 2, 4}, {2, 2, 3, 4}};
    /* Distances, the likely ones first. From 4 on, the order is that of all patterns; what is
     * behind -5, 7 goes on with 8, 9, and so on. */
    static const int first[4][6] = {
        {0, -1, 1, 2, 3, -2}, {0, 1, -1, 2, 3, -2}, {0, -1, 1, -2, 2, 3}, {0, -1, 1, -2, 2, 3}};
    static const int then[7] = {4, -3, 5, -4, 6, -5, 7};
    int place = 0;

    if (format < 0 || format >= XC_FORMATS || centre < 0 || centre > 255 || pattern < 0 ||
        pattern > 3)
        return -1;
    c->exponent_bits = exponent_bits[format];
    c->mantissa_bits = mantissa_bits[format];
    c->element_bytes = (1 + c->exponent_bits + c->mantissa_bits) / 8;
    c->elements = XC_LINE_BYTES / c->element_bytes;
    c->mask_bytes = c->elements / 8;
    c->header_bytes = format == XC_FP32 ? 2 : 1;
    memset(c->class_of, XC_ESCAPE_CLASS, sizeof c->class_of);
    memset(c->index_of, XC_ESCAPE_INDEX, sizeof c->index_of);
    for (int k = 0; k < 4; k++) {
        c->extra_bits[k] = extra_bits[pattern][k];
        for (int i = 0; i < 16; i++) {
            int distance, exponent;
            c->exponent_of[k][i] = -1;
            if (i >= 1 << c->extra_bits[k] || (k == XC_ESCAPE_CLASS && i == XC_ESCAPE_INDEX))
                continue;
            distance = place < 6 ? first[pattern][place]
                     : place < 13 ? then[place - 6] : place - 5;
            place++;
            exponent = (centre - distance) & 255;
            c->exponent_of[k][i] = exponent;
            c->class_of[exponent] = (uint8_t)k;
            c->index_of[exponent] = (uint8_t)i;
        }
    }
    return 0;
}

size_t xc_bound(const struct xc_coding *c, size_t nbytes)
{
    size_t lines = nbytes / XC_LINE_BYTES + (nbytes % XC_LINE_BYTES != 0);
    return lines * (size_t)(c->header_bytes + XC_LINE_BYTES);
}

/* A field that is written or read: `at` is its first byte, `bits` how many bits it has so far. */
struct xc_field {
    uint8_t *at;
    size_t bits;
};

static size_t xc_field_bytes(size_t bits) { return (bits + 7) / 8; }

static void xc_put(struct xc_field *field, uint32_t number, int width)
{
    for (int i = 0; i < width; i++, field->bits++) {
        uint8_t *byte = field->at + field->bits / 8;
        if (field->bits % 8 == 0)
            *byte = 0;
        *byte |= (uint8_t)((number >> i & 1) << field->bits % 8);
    }
}

static uint32_t xc_get(const uint8_t *at, size_t *bits, int width)
{
    uint32_t number = 0;
    for (int i = 0; i < width; i++, ++*bits)
        number |= (uint32_t)(at[*bits / 8] >> *bits % 8 & 1) << i;
    return number;
}

static uint32_t xc_element(const struct xc_coding *c, const uint8_t *line, int index)
{
    uint32_t word = 0;
    for (int i = 0; i < c->element_bytes; i++)
        word |= (uint32_t)line[index * c->element_bytes + i] << 8 * i;
    return word;
}

static int xc_exponent(const struct xc_coding *c, uint32_t word)
{
    return (int)(word >> c->mantissa_bits & ((1u << c->exponent_bits) - 1));
}

static uint32_t xc_mantissa(const struct xc_coding *c, uint32_t word)
{
    return word & ((1u << c->mantissa_bits) - 1);
}

/* A line of 128 bytes, at most XC_MAX_LINE_BYTES in the stream; returns how many. */
static size_t xc_encode_line(const struct xc_coding *c, const uint8_t *line, uint8_t *out)
{
    uint32_t kept[XC_MAX_ELEMENTS], mantissas = 0;
    size_t extras = 0, escapes = 0, behind, size;
    int count = 0, dropped = 0, rest_bits, sparse;
    struct xc_field field;

    for (int i = 0; i < c->elements; i++) {
        uint32_t word = xc_element(c, line, i);
        int exponent = xc_exponent(c, word), k = c->class_of[exponent];
        if (!word)
            continue;
        kept[count++] = word;
        mantissas |= xc_mantissa(c, word);
        extras += (size_t)c->extra_bits[k];
        escapes += k == XC_ESCAPE_CLASS && c->index_of[exponent] == XC_ESCAPE_INDEX;
    }
    if (c->header_bytes == 2)
        while (count && dropped < c->mantissa_bits && !(mantissas >> dropped & 1))
            dropped++;
    rest_bits = c->mantissa_bits + 1 - dropped;
    sparse = count < c->elements;
    behind = xc_field_bytes(extras) + xc_field_bytes(escapes * (size_t)c->exponent_bits);
    size = (size_t)(c->header_bytes + (sparse ? c->mask_bytes : 0)) +
           xc_field_bytes(2 * (size_t)count) +
           xc_field_bytes((size_t)(rest_bits * count)) + behind;
    if (c->header_bytes == 2)
        out[1] = (uint8_t)dropped;
    if (!count) {
        out[0] = XC_ZEROS;
        return (size_t)c->header_bytes;
    }
    if (behind > 63 || size > XC_LINE_BYTES) {
        memset(out, 0, (size_t)c->header_bytes);
        out[0] = XC_RAW << 6;
        memcpy(out + c->header_bytes, line, XC_LINE_BYTES);
        return (size_t)(c->header_bytes + XC_LINE_BYTES);
    }
    out[0] = (uint8_t)((sparse ? XC_SPARSE : XC_DENSE) << 6 | (int)behind);
    field.at = out + c->header_bytes;
    field.bits = 0;
    for (int i = 0; sparse && i < c->elements; i++)
        xc_put(&field, xc_element(c, line, i) != 0, 1);
    field.at += xc_field_bytes(field.bits);
    field.bits = 0;
    for (int i = 0; i < count; i++)
        xc_put(&field, c->class_of[xc_exponent(c, kept[i])], 2);
    field.at += xc_field_bytes(field.bits);
    field.bits = 0;
    for (int i = 0; i < count; i++) {
        xc_put(&field, xc_mantissa(c, kept[i]) >> dropped, rest_bits - 1);
        xc_put(&field, kept[i] >> (8 * c->element_bytes - 1), 1);
    }
    field.at += xc_field_bytes(field.bits);
    field.bits = 0;
    for (int i = 0; i < count; i++) {
        int exponent = xc_exponent(c, kept[i]);
        xc_put(&field, c->index_of[exponent], c->extra_bits[c->class_of[exponent]]);
    }
    field.at += xc_field_bytes(field.bits);
    field.bits = 0;
    for (int i = 0; i < count; i++) {
        int exponent = xc_exponent(c, kept[i]);
        if (c->class_of[exponent] == XC_ESCAPE_CLASS && c->index_of[exponent] == XC_ESCAPE_INDEX)
            xc_put(&field, (uint32_t)exponent, c->exponent_bits);
    }
    return size;
}

size_t xc_encode(const struct xc_coding *c, const void *data, size_t nbytes, uint8_t *stream)
{
    const uint8_t *from = data;
    uint8_t line[XC_LINE_BYTES], *to = stream;

    for (size_t done = 0; done < nbytes; done += XC_LINE_BYTES) {
        size_t part = nbytes - done < XC_LINE_BYTES ? nbytes - done : XC_LINE_BYTES;
        memset(line, 0, sizeof line);
        memcpy(line, from + done, part);
        to += xc_encode_line(c, line, to);
    }
    return (size_t)(to - stream);
}

/* The line that starts at `in`, of which `left` bytes are there: its 128 bytes and its size. */
static enum xc_status xc_decode_line(const struct xc_coding *c, const uint8_t *in, size_t left,
                                     uint8_t *line, size_t *size)
{
    uint8_t again[XC_MAX_LINE_BYTES], present[XC_MAX_ELEMENTS];
    size_t head = (size_t)c->header_bytes, behind, at, rest_at, extra_at, escape_at;
    size_t classes = 0, rests = 0, extras = 0, escapes = 0, ones = 0, bits = 0;
    int kind, dropped, rest_bits, count = 0;

    if (left < head)
        return XC_MASK_TRUNCATED;
    kind = in[0] >> 6;
    behind = in[0] & 63;
    dropped = head == 2 ? in[1] : 0;
    if (kind == XC_SPARSE && left < head + (size_t)c->mask_bytes)
        return XC_MASK_TRUNCATED;
    memset(line, 0, XC_LINE_BYTES);
    if (kind == XC_ZEROS || kind == XC_RAW) {
        if (behind || dropped)
            return XC_BAD_TOKEN;
        *size = head;
        if (kind == XC_ZEROS)
            return XC_OK;
        *size += XC_LINE_BYTES;
        if (left < *size)
            return XC_PAYLOAD_TRUNCATED;
        memcpy(line, in + head, XC_LINE_BYTES);
        /* Raw lines are those that the encoder leaves raw. */
        return xc_encode_line(c, line, again) == *size ? XC_OK : XC_BAD_TOKEN;
    }
    if (dropped > c->mantissa_bits)
        return XC_BAD_TOKEN;
    for (int i = 0; i < c->elements; i++) {
        present[i] = kind == XC_DENSE || xc_get(in + head, &ones, 1);
        count += present[i];
    }
    if (!count || (kind == XC_SPARSE && count == c->elements))
        return XC_BAD_TOKEN;
    rest_bits = c->mantissa_bits + 1 - dropped;
    at = head + (size_t)(kind == XC_SPARSE ? c->mask_bytes : 0);
    rest_at = at + xc_field_bytes(2 * (size_t)count);
    extra_at = rest_at + xc_field_bytes((size_t)(rest_bits * count));
    *size = extra_at + behind;
    if (*size > XC_LINE_BYTES)
        return XC_BAD_TOKEN;
    if (left < *size)
        return XC_PAYLOAD_TRUNCATED;
    for (int i = 0; i < count; i++)
        bits += (size_t)c->extra_bits[xc_get(in + at, &classes, 2)];
    if (xc_field_bytes(bits) > behind)
        return XC_BAD_TOKEN;
    escape_at = extra_at + xc_field_bytes(bits);
    classes = 0;
    for (int i = 0; i < c->elements; i++) {
        uint32_t mantissa, sign, word;
        int k, index, exponent;
        if (!present[i])
            continue;
        k = (int)xc_get(in + at, &classes, 2);
        mantissa = xc_get(in + rest_at, &rests, rest_bits - 1) << dropped;
        sign = xc_get(in + rest_at, &rests, 1);
        index = (int)xc_get(in + extra_at, &extras, c->extra_bits[k]);
        exponent = c->exponent_of[k][index];
        if (exponent < 0) {
            size_t end = escape_at + xc_field_bytes(escapes + (size_t)c->exponent_bits);
            if (end > *size)
                return XC_BAD_TOKEN;
            exponent = (int)xc_get(in + escape_at, &escapes, c->exponent_bits);
        }
        if (exponent >> c->exponent_bits)
            return XC_BAD_TOKEN;
        word = mantissa | (uint32_t)exponent << c->mantissa_bits |
               sign << (8 * c->element_bytes - 1);
        for (int b = 0; b < c->element_bytes; b++)
            line[i * c->element_bytes + b] = (uint8_t)(word >> 8 * b);
    }
    /* There is one form for each line: all else that could be wrong shows here. */
    if (xc_encode_line(c, line, again) != *size || memcmp(again, in, *size))
        return XC_BAD_TOKEN;
    return XC_OK;
}

struct xc_result xc_decode(const struct xc_coding *c, const uint8_t *stream, size_t size,
                           void *data, size_t nbytes)
{
    struct xc_result result = {XC_OK, 0, 0};
    uint8_t line[XC_LINE_BYTES], *to = data;
    size_t at = 0;

    while (result.valid_bytes < nbytes) {
        size_t left = nbytes - result.valid_bytes, used = 0;
        size_t part = left < XC_LINE_BYTES ? left : XC_LINE_BYTES;
        result.status = xc_decode_line(c, stream + at, size - at, line, &used);
        for (size_t i = part; result.status == XC_OK && i < XC_LINE_BYTES; i++)
            if (line[i])
                result.status = XC_NONZERO_FILL;
        if (result.status != XC_OK) {
            result.offset = at;
            return result;
        }
        memcpy(to + result.valid_bytes, line, part);
        result.valid_bytes += part;
        at += used;
    }
    if (at < size) {
        result.status = XC_TRAILING_BYTES;
        result.offset = at;
    }
    return result;
}
