"""XC told one line and one bit at a time, as the page says it: what the fast codec must equal."""

import zlib

from cdma.golden import StreamStatus

FORMATS = {"bf16": (8, 7), "fp32": (8, 23), "fp16": (5, 10), "e4m3": (4, 3), "e5m2": (5, 2)}
"""Exponent and mantissa bits."""
CLASSES = (
    ((0,), (-1,), (1, 2, 3, -2), (4, -3, 5, -4, 6, -5, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    ((0,), (1,), (-1, 2, 3, -2), (4, -3, 5, -4, 6, -5, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    ((0, -1), (1, -2), (2, 3, 4, -3), (5, -4, 6, -5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)),
    (
        (0, -1, 1, -2),
        (2, 3, 4, -3),
        (5, -4, 6, -5, 7, 8, 9, 10),
        (11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25),
    ),
)
EXTRA_BITS = ((0, 0, 2, 4), (0, 0, 2, 4), (1, 1, 2, 4), (2, 2, 3, 4))
ESCAPE = (3, 15)


class SlowXc:
    """The codec for one element format and one pair of parameters."""

    def __init__(self, name, centre, pattern):
        self.exponent_bits, self.mantissa_bits = FORMATS[name]
        self.bits = 1 + self.exponent_bits + self.mantissa_bits
        self.elements = 1024 // self.bits
        self.trims = name == "fp32"
        self.centre = centre
        self.extra_bits = EXTRA_BITS[pattern]
        self.classes = CLASSES[pattern]

    def code(self, exponent):
        """Class and index."""
        distance = (self.centre - exponent + 128) % 256 - 128
        for number, distances in enumerate(self.classes):
            if distance in distances:
                return number, distances.index(distance)
        return ESCAPE

    def exponent(self, number, index):
        """The inverse of `code`, but for escapes; maybe one that the format does not have."""
        return (self.centre - self.classes[number][index]) % 256

    def encode_line(self, words):
        """The bytes of a line of elements' bit patterns."""
        raw = b"".join(word.to_bytes(self.bits // 8, "little") for word in words)
        raw = bytes([0xC0, 0] if self.trims else [0xC0]) + raw
        kept = [word for word in words if word]
        if not kept:
            return bytes(2 if self.trims else 1)
        mantissas = [word % 2**self.mantissa_bits for word in kept]
        dropped = 0
        if self.trims:
            while dropped < self.mantissa_bits and not any(m >> dropped & 1 for m in mantissas):
                dropped += 1
        rest_bits = self.mantissa_bits - dropped + 1
        classes, rest, extras, escapes = Bits(), Bits(), Bits(), Bits()
        for word, mantissa in zip(kept, mantissas, strict=True):
            exponent = word >> self.mantissa_bits & 2**self.exponent_bits - 1
            number, index = self.code(exponent)
            classes.append(number, 2)
            rest.append(mantissa >> dropped | word >> self.bits - 1 << rest_bits - 1, rest_bits)
            extras.append(index, self.extra_bits[number])
            if (number, index) == ESCAPE:
                escapes.append(exponent, self.exponent_bits)
        behind = extras.bytes() + escapes.bytes()
        if len(behind) > 63:
            return raw
        header = [(2 if len(kept) < self.elements else 1) << 6 | len(behind)]
        if self.trims:
            header.append(dropped)
        mask = Bits()
        if len(kept) < self.elements:
            for word in words:
                mask.append(int(word != 0), 1)
        line = bytes(header) + mask.bytes() + classes.bytes() + rest.bytes() + behind
        return line if len(line) <= 128 else raw

    def encode(self, data):
        """The stream of these bytes."""
        data += bytes(-len(data) % 128)
        size = self.bits // 8
        stream = b""
        for start in range(0, len(data), 128):
            places = range(start, start + 128, size)
            stream += self.encode_line(
                [int.from_bytes(data[p : p + size], "little") for p in places]
            )
        return stream

    def decode_line(self, stream, start):
        """The line's 128 bytes and its length, or a status, from where it starts."""
        head = 2 if self.trims else 1
        here = stream[start:]
        if len(here) < head:
            return StreamStatus.MASK_TRUNCATED
        kind, behind = here[0] >> 6, here[0] & 63
        dropped = here[1] if self.trims else 0
        mask_bytes = self.elements // 8 if kind == 2 else 0
        if len(here) < head + mask_bytes:
            return StreamStatus.MASK_TRUNCATED
        if kind in (0, 3) and (behind or dropped):
            return StreamStatus.BAD_TOKEN
        if dropped > self.mantissa_bits:
            return StreamStatus.BAD_TOKEN
        if kind == 0:
            return bytes(128), head
        if kind == 3:
            if len(here) < head + 128:
                return StreamStatus.PAYLOAD_TRUNCATED
            line = here[head : head + 128]
            if self.encode(line) != here[: head + 128]:
                return StreamStatus.BAD_TOKEN
            return line, head + 128
        present = [1] * self.elements
        if kind == 2:
            mask = int.from_bytes(here[head : head + mask_bytes], "little")
            present = [mask >> place & 1 for place in range(self.elements)]
            if sum(present) in (0, self.elements):
                return StreamStatus.BAD_TOKEN
            head += mask_bytes
        kept = sum(present)
        rest_bits = self.mantissa_bits - dropped + 1
        rest_at = head + -(-2 * kept // 8)
        extras_at = rest_at + -(-rest_bits * kept // 8)
        length = extras_at + behind
        if length > 128:
            return StreamStatus.BAD_TOKEN
        if len(here) < length:
            return StreamStatus.PAYLOAD_TRUNCATED
        classes = read(here[head:rest_at], [2] * kept)
        rests = read(here[rest_at:extras_at], [rest_bits] * kept)
        widths = [self.extra_bits[number] for number in classes]
        extras_end = extras_at + -(-sum(widths) // 8)
        indices = read(here[extras_at:extras_end], widths)
        codes = list(zip(classes, indices, strict=True))
        escaped = [self.exponent_bits] * codes.count(ESCAPE)
        escapes = iter(read(here[extras_end:length], escaped))
        words = []
        for (number, index), rest in zip(codes, rests, strict=True):
            escape = (number, index) == ESCAPE
            exponent = next(escapes) if escape else self.exponent(number, index)
            mantissa = rest % 2 ** (rest_bits - 1) << dropped
            sign = rest >> rest_bits - 1
            words.append(
                sign << self.bits - 1
                | exponent % 2**self.exponent_bits << self.mantissa_bits
                | mantissa
            )
        placed = iter(words)
        size = self.bits // 8
        line = b"".join((next(placed) if p else 0).to_bytes(size, "little") for p in present)
        # All else that could be wrong makes another line of what was decoded.
        if self.encode(line) != here[:length]:
            return StreamStatus.BAD_TOKEN
        return line, length

    def decode(self, stream, nbytes, crc=None):
        """Status, offset, valid bytes and those bytes."""
        out, start = b"", 0
        for number in range(-(-nbytes // 128)):
            found = self.decode_line(stream, start)
            if isinstance(found, StreamStatus):
                return found, start, 128 * number, out
            line, length = found
            if any(line[nbytes - 128 * number :]) and nbytes < 128 * (number + 1):
                return StreamStatus.NONZERO_FILL, start, 128 * number, out
            out, start = out + line, start + length
        out = out[:nbytes]
        if start < len(stream):
            return StreamStatus.TRAILING_BYTES, start, nbytes, out
        if crc is not None and zlib.crc32(out) != crc:
            return StreamStatus.CRC_MISMATCH, len(stream), nbytes, out
        return StreamStatus.OK, 0, nbytes, out


class Bits:
    """A field: numbers one behind the other, each with its least significant bit first."""

    def __init__(self):
        self.value = self.length = 0

    def append(self, number, width):
        self.value |= number << self.length
        self.length += width

    def bytes(self):
        return self.value.to_bytes(-(-self.length // 8), "little")


def read(field, widths):
    """The numbers of these widths that a field holds; zeros behind its end."""
    value, numbers = int.from_bytes(field, "little"), []
    for width in widths:
        numbers.append(value % 2**width)
        value >>= width
    return numbers
