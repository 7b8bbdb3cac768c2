"""BPC told one bit at a time, from the table: what the fast model must equal. Bits are '0', '1'."""

import struct
from itertools import pairwise

from cdma.golden import StreamStatus

ONES = 2**31 - 1


def code_of_base(base: int) -> str:
    """The code of a signed word."""
    if base == 0:
        return "000"
    for prefix, bits in (("001", 4), ("010", 8), ("011", 16)):
        if -(1 << bits - 1) <= base < 1 << bits - 1:
            return prefix + f"{base & (1 << bits) - 1:0{bits}b}"
    return "1" + f"{base & 2**32 - 1:032b}"


def code_of_plane(dbx: int, dbp: int) -> str:
    """The code of a plane with a DBX that is not zero."""
    ones = [place for place in range(31) if dbx >> place & 1]
    if dbp == 0:
        return "00001"
    if dbx == ONES:
        return "00000"
    if len(ones) == 2 and ones[1] == ones[0] + 1:
        return "00010" + f"{ones[0]:05b}"
    if len(ones) == 1:
        return "00011" + f"{ones[0]:05b}"
    return "1" + f"{dbx:031b}"


def code_of_run(planes: int) -> str:
    """The code of some planes in a row with a DBX of zero."""
    return "001" if planes == 1 else "01" + f"{planes - 2:05b}"


def planes_of(words: list[int]) -> list[int]:
    """DBP_32 to DBP_0 of 32 signed words."""
    deltas = [after - before for before, after in pairwise(words)]
    return [
        sum((delta >> p & 1) << place for place, delta in enumerate(deltas))
        for p in range(32, -1, -1)
    ]


def encode(entry: bytes) -> str:
    """The code of 128 bytes."""
    words = list(struct.unpack("<32i", entry))
    code = code_of_base(words[0])
    above = run = 0
    for dbp in planes_of(words):
        dbx, above = dbp ^ above, dbp
        if dbx == 0:
            run += 1
            continue
        code += (code_of_run(run) if run else "") + code_of_plane(dbx, dbp)
        run = 0
    return code + (code_of_run(run) if run else "")


def to_bytes(code: str) -> bytes:
    """Bits to bytes, the first bit being the most significant, with zeros behind."""
    padded = code + "0" * (-len(code) % 8)
    return int("1" + padded, 2).to_bytes(len(padded) // 8 + 1, "big")[1:]


def decode(code: bytes) -> tuple[StreamStatus, int, int, bytes]:
    """Status, offset in bytes, bits of the code up to there, and the entry."""
    bits = "".join(f"{byte:08b}" for byte in code)
    position = 0

    def failed(status: StreamStatus) -> tuple[StreamStatus, int, int, bytes]:
        return status, position // 8, position, bytes(128)

    length = 33 if bits.startswith("1") else {"000": 3, "001": 7, "010": 11}.get(bits[:3], 19)
    if len(bits) < length:
        return failed(StreamStatus.PAYLOAD_TRUNCATED)
    digits = bits[1:33] if length == 33 else bits[3:length]
    base = int(digits, 2) if digits else 0
    if digits.startswith("1"):
        base -= 1 << len(digits)
    if code_of_base(base) != bits[:length]:
        return failed(StreamStatus.BAD_TOKEN)
    position = length

    planes: list[int] = []
    above = 0
    after_run = False
    while len(planes) < 33:
        rest = bits[position:]
        run, dbx, length = 0, 0, 10
        if rest.startswith("1"):
            length, dbx = 32, int(rest[1:32] or "0", 2)
        elif rest.startswith("01"):
            length, run = 7, int(rest[2:7] or "0", 2) + 2
        elif rest.startswith("001"):
            length, run = 3, 1
        elif rest.startswith("00000"):
            length, dbx = 5, ONES
        elif rest.startswith("00001"):
            length, dbx = 5, above
        elif rest.startswith("00010"):
            dbx = 3 << int(rest[5:10] or "0", 2)
        elif rest.startswith("00011"):
            dbx = 1 << int(rest[5:10] or "0", 2)
        if len(rest) < length:
            return failed(StreamStatus.PAYLOAD_TRUNCATED)
        if run:
            if after_run or len(planes) + run > 33:
                return failed(StreamStatus.BAD_TOKEN)
            planes += [above] * run
        else:
            if dbx == 0 or dbx > ONES or code_of_plane(dbx, dbx ^ above) != rest[:length]:
                return failed(StreamStatus.BAD_TOKEN)
            above ^= dbx
            planes.append(above)
        after_run = bool(run)
        position += length

    words = [base]
    for place in range(31):
        delta = sum((planes[32 - p] >> place & 1) << p for p in range(32))
        word = (words[-1] + delta) % 2**32
        words.append(word - 2**32 if word >> 31 else word)
    if planes_of(words) != planes:
        return StreamStatus.BAD_TOKEN, 0, position, bytes(128)
    if "1" in bits[position : -(-position // 8) * 8]:
        return failed(StreamStatus.NONZERO_FILL)
    return StreamStatus.OK, 0, position, struct.pack("<32i", *words)
