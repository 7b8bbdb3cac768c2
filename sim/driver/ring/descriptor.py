"""Descriptors, and what the engine would say to a bad one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdma.hw.codec.registry import line_codec
from cdma.hw.config import DEFAULT_CODECS
from cdma.hw.dma.control.descriptor import (
    DESCRIPTOR_DTYPE,
    DESCRIPTOR_FIELDS,
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    Flag,
    Opcode,
    Status,
)
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver.errors import DescriptorError
from cdma.sim.driver.integers import is_integer
from cdma.sim.driver.windows import OPEN, Windows

Fields = Mapping[str, int]
"""A descriptor's fields by name; what is missing is 0."""

OUTWARD = (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
INWARD = (Opcode.DECOMPRESS_IN, Opcode.COPY_IN)
COMPRESSED = (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN)

FLAGS: dict[int, Flag] = {
    Opcode.COMPRESS_OUT: Flag.INTERRUPT | Flag.VERIFY | Flag.THROTTLE_CLASS,
    Opcode.DECOMPRESS_IN: Flag.INTERRUPT | Flag.CHECK_CRC,
    Opcode.COPY_OUT: Flag.INTERRUPT | Flag.THROTTLE_CLASS,
    Opcode.COPY_IN: Flag.INTERRUPT,
    Opcode.FENCE: Flag.INTERRUPT,
}
"""Which flags an opcode may have."""


def integers(fields: Fields) -> dict[str, int]:
    """The same fields in Python's integers, with which sums do not overflow as with numpy's.

    Raises
    ------
    DescriptorError
        A field has a value that its bytes cannot hold, or there is no such field.
    """
    sizes = dict(DESCRIPTOR_FIELDS)
    for name, value in fields.items():
        if name not in sizes:
            raise DescriptorError(name, f"must be one of {', '.join(sizes)}")
        _check_integer(name, value)
        largest = 2 ** (8 * sizes[name]) - 1
        if not 0 <= value <= largest:
            raise DescriptorError(name, f"must be 0 to {largest}, not {value}")
    return {name: int(value) for name, value in fields.items()}


def packed(fields: Fields) -> np.ndarray[Any, np.dtype[np.void]]:
    """The 64 bytes that the engine reads; raises as `integers` does."""
    entry = np.zeros((), DESCRIPTOR_DTYPE)
    for name, value in integers(fields).items():
        entry[name] = value
    return entry


def check(
    fields: Fields,
    element_bytes: int,
    codecs: Sequence[str] = DEFAULT_CODECS,
    windows: Windows = OPEN,
) -> None:
    """Raise what the engine would answer, for the field at fault, in the order in which it looks.

    For a record outside of its window there would be no answer: the ring would stop.

    Parameters
    ----------
    fields
    element_bytes
        The engine's.
    codecs
        Names of those that the engine has.
    windows
        The engine's.

    Raises
    ------
    DescriptorError
    """
    for name, value in fields.items():
        _check_integer(name, value)
    d = {name: int(fields.get(name, 0)) for name, _ in DESCRIPTOR_FIELDS}
    _check_window(
        "record", "records", d["record"] // ENTRY_BYTES * ENTRY_BYTES, ENTRY_BYTES, windows
    )
    _check_opcode(d["opcode"])
    opcode = Opcode(d["opcode"])
    _check_reserved(d, opcode, element_bytes, codecs)
    _check_alignment(d, element_bytes)
    if opcode is not Opcode.FENCE:
        _check_lengths(d, opcode)
        _check_overlap(d, opcode)
        source, destination = ("device", "host") if opcode in OUTWARD else ("host", "device")
        _check_window("src", source, d["src"], _source_bytes(d), windows)
        _check_window("dst", destination, d["dst"], d["dst_capacity"], windows)


def host_range(fields: Fields) -> tuple[int, int]:
    """The addresses in host memory that a transfer may touch, its record's not included."""
    get = fields.get
    if get("opcode", 0) in OUTWARD:
        return get("dst", 0), get("dst", 0) + get("dst_capacity", 0)
    return get("src", 0), get("src", 0) + _source_bytes(fields)


def _check_integer(name: str, value: object) -> None:
    if not is_integer(value):
        raise DescriptorError(name, f"must be an integer, not {value!r}")


def _source_bytes(fields: Fields) -> int:
    compressed = fields.get("opcode") == Opcode.DECOMPRESS_IN
    return fields.get("src_length" if compressed else "length", 0)


def _check_opcode(opcode: int) -> None:
    if opcode not in list(Opcode):
        names = ", ".join(f"{code.value} ({code.name})" for code in Opcode)
        raise DescriptorError("opcode", f"must be {names}, not {opcode}", Status.BAD_OPCODE)


def _check_reserved(d: Fields, opcode: Opcode, element_bytes: int, codecs: Sequence[str]) -> None:
    def refuse(field: str, right: str) -> None:
        raise DescriptorError(field, f"must be {right}, not {d[field]}", Status.BAD_FLAG)

    if wrong := d["flags"] & ~int(FLAGS[opcode]):
        allowed = " and ".join(str(flag.name) for flag in FLAGS[opcode])
        names = " and ".join(str(flag.name) for flag in Flag if wrong & flag)
        raise DescriptorError(
            "flags",
            f"of {opcode.name} may have {allowed}, not {names or hex(wrong)}",
            Status.BAD_FLAG,
        )
    numbers = {line_codec(name).number: name for name in codecs}
    numbers.pop(None, None)
    if opcode in COMPRESSED and d["codec"] not in numbers:
        refuse("codec", " or ".join(f"{number} ({name})" for number, name in numbers.items()))
    if opcode not in COMPRESSED and d["codec"]:
        refuse("codec", f"0 for {opcode.name}")
    if opcode in COMPRESSED and d["element_bytes"] != element_bytes:
        refuse("element_bytes", f"{element_bytes}, which the engine was built for")
    used = line_codec(numbers[d["codec"]]).parameter_bits if opcode in COMPRESSED else 0
    if d["parameters"] >> used:
        refuse("parameters", f"0 beyond the codec's {used} bits")
    unused = ["reserved"]
    if opcode not in COMPRESSED:
        unused.append("element_bytes")
    if opcode is not Opcode.DECOMPRESS_IN:
        unused.append("src_length")
    if not d["flags"] & Flag.CHECK_CRC:
        unused.append("crc32")
    if opcode is Opcode.FENCE:
        unused += ["src", "dst", "length", "dst_capacity"]
    for field in unused:
        if d[field]:
            refuse(field, f"0 for {opcode.name} with these flags")


def _check_alignment(d: Fields, element_bytes: int) -> None:
    for field, alignment in (
        ("record", ENTRY_BYTES),
        ("src", element_bytes),
        ("dst", element_bytes),
    ):
        if d[field] % alignment:
            raise DescriptorError(
                field, f"must be a multiple of {alignment}, not {d[field]:#x}", Status.MISALIGNED
            )


def _check_lengths(d: Fields, opcode: Opcode) -> None:
    for field in ("length", "src_length") if opcode is Opcode.DECOMPRESS_IN else ("length",):
        if not d[field]:
            raise DescriptorError(field, "must be at least 1, not 0", Status.BAD_LENGTH)
    device, host = ("device", DEVICE_ADDRESS_BITS), ("host", HOST_ADDRESS_BITS)
    source, destination = (device, host) if opcode in OUTWARD else (host, device)
    for field, nbytes, (name, bits) in (
        ("src", _source_bytes(d), source),
        ("dst", d["dst_capacity"], destination),
    ):
        if d[field] + nbytes > 1 << bits:
            raise DescriptorError(
                field,
                f"must leave {nbytes} bytes up to the end of {name} addresses, {1 << bits:#x}, not "
                f"be {d[field]:#x}",
                Status.BAD_LENGTH,
            )


def _check_overlap(d: Fields, opcode: Opcode) -> None:
    start, end = host_range(d)
    if d["record"] < end and d["record"] + ENTRY_BYTES > start:
        raise DescriptorError(
            "record",
            f"must not lie in what is read or written, {start:#x} to {end:#x}, as "
            f"{d['record']:#x} does",
            Status.OVERLAP,
        )


def _check_window(field: str, name: str, start: int, nbytes: int, windows: Windows) -> None:
    if not windows.holds(name, start, nbytes):
        first, last = windows.ends(name)
        raise DescriptorError(
            field,
            f"must leave {nbytes} bytes within windows.{name}, {first:#x} to {last:#x}, not be "
            f"{start:#x}",
            Status.OUTSIDE_WINDOW,
        )
