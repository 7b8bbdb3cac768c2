"""Quantization one bit at a time, from docs/reference/formats.md: the fast model must equal it.

Bits are '0' and '1', in the order in which they are sent.
"""

import math
import struct

RAW = object()


def fp32(number: float) -> float:
    """The nearest number of fp32; infinite where it is too large."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def number_of(value: float, bound: float) -> object:
    """q of a value, or RAW."""
    if not math.isfinite(value):
        return RAW
    nearest = value / (2 * bound)
    if not abs(nearest) < 2**22:
        return RAW
    q = round(nearest)
    if math.isinf(fp32(q * 2 * bound)):
        return RAW
    other = q + 1 if value > fp32(q * 2 * bound) else q - 1
    for candidate in (q, other):
        if abs(q) < 2**22 > abs(candidate) and abs(fp32(candidate * 2 * bound) - value) <= bound:
            return candidate
    return RAW


def low_bits(number: int, width: int) -> str:
    """A number's bits, least significant first."""
    return "".join(str(number >> bit & 1) for bit in range(width))


def zigzag(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def forms_of(numbers: list[int]) -> list[bytes]:
    """Every form that a line of 32 numbers may have."""
    kinds = [
        (0, numbers),
        (1, [zigzag(number) for number in numbers]),
        (2, [zigzag(b - a) for a, b in zip([0, *numbers], numbers, strict=False)]),
    ]
    forms = []
    for kind, symbols in kinds:
        if min(symbols) < 0:
            continue
        present = [symbol - 1 for symbol in symbols if symbol]
        marks = "".join("1" if symbol else "0" for symbol in symbols)
        for mapped, sent, front in ((0, symbols, ""), (1, present, marks)):
            width = max((number.bit_length() for number in sent), default=0)
            bits = low_bits(width, 5) + str(mapped) + low_bits(kind, 2) + front
            bits += "".join(low_bits(number, width) for number in sent)
            bits += "0" * (-len(bits) % 8)
            octets = [bits[place : place + 8] for place in range(0, len(bits), 8)]
            forms.append(bytes(int(octet[::-1], 2) for octet in octets))
    return forms


def compress(values: list[float], words: bytes, bound: float) -> bytes:
    """The stream of values, whose bytes are `words`."""
    words += bytes(-len(words) % 128)
    values = values + [0.0] * (len(words) // 4 - len(values))
    stream = b""
    for start in range(0, len(values), 32):
        numbers = [number_of(value, bound) for value in values[start : start + 32]]
        if RAW in numbers:
            stream += b"\xc0" + words[4 * start : 4 * start + 128]
        else:
            stream += min(forms_of(numbers), key=lambda form: (len(form), form[0]))
    return stream
