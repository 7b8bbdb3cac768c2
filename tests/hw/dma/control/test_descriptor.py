"""Descriptors: the same bytes for software and hardware; good ones and bad ones for other tests."""

import numpy as np
import pytest

from cdma.hw.dma.control.descriptor import (
    DESCRIPTOR_DTYPE,
    DESCRIPTOR_FIELDS,
    RECORD_DTYPE,
    RECORD_FIELDS,
    Descriptor,
    Flag,
    Opcode,
    Record,
    Status,
)

OUT = {
    "opcode": Opcode.COMPRESS_OUT,
    "element_bytes": 4,
    "tag": 7,
    "src": 0x1000,
    "dst": 0x2_0000_0000,
    "length": 4096,
    "dst_capacity": 5000,
    "record": 0x100_0000,
}
IN = {
    "opcode": Opcode.DECOMPRESS_IN,
    "element_bytes": 4,
    "src": 0x2_0000_0000,
    "dst": 0x1000,
    "length": 4096,
    "src_length": 300,
    "dst_capacity": 4096,
    "record": 0x100_0000,
}
COPY_OUT = {**OUT, "opcode": Opcode.COPY_OUT, "element_bytes": 0}
COPY_IN = {**IN, "opcode": Opcode.COPY_IN, "element_bytes": 0, "src_length": 0}
FENCE = {"opcode": Opcode.FENCE, "record": 64}
DEVICE_END = 1 << 40
HOST_END = 1 << 64

GOOD = [
    OUT,
    IN,
    COPY_OUT,
    COPY_IN,
    FENCE,
    {**FENCE, "flags": Flag.INTERRUPT},
    {**OUT, "flags": Flag.INTERRUPT | Flag.VERIFY | Flag.THROTTLE_CLASS},
    {**COPY_OUT, "flags": Flag.THROTTLE_CLASS},
    {**IN, "flags": Flag.CHECK_CRC, "crc32": 0xDEADBEEF},
    {**OUT, "src": DEVICE_END - 4096},
    {**OUT, "dst": HOST_END - 5000},
    {**OUT, "dst_capacity": 0},
    {**IN, "dst": DEVICE_END - 4096},
    {**OUT, "record": OUT["dst"] - 64},
    {**OUT, "record": (OUT["dst"] + 5000 + 63) // 64 * 64},
    {**OUT, "length": 1},
]
BAD = [
    (Status.BAD_OPCODE, {**OUT, "opcode": 0}),
    (Status.BAD_OPCODE, {**OUT, "opcode": 6}),
    (Status.BAD_OPCODE, {**OUT, "opcode": 255, "flags": 255, "src": 1}),
    (Status.BAD_FLAG, {**OUT, "flags": Flag.CHECK_CRC}),
    (Status.BAD_FLAG, {**OUT, "flags": 0x10}),
    (Status.BAD_FLAG, {**OUT, "codec": 1}),
    (Status.BAD_FLAG, {**OUT, "element_bytes": 2}),
    (Status.BAD_FLAG, {**COPY_OUT, "element_bytes": 4}),
    (Status.BAD_FLAG, {**OUT, "reserved": 1 << 31}),
    (Status.BAD_FLAG, {**OUT, "parameters": 1}),
    (Status.BAD_FLAG, {**IN, "parameters": 1 << 31}),
    (Status.BAD_FLAG, {**OUT, "src_length": 1}),
    (Status.BAD_FLAG, {**IN, "crc32": 1}),
    (Status.BAD_FLAG, {**IN, "flags": Flag.VERIFY}),
    (Status.BAD_FLAG, {**IN, "flags": Flag.THROTTLE_CLASS}),
    (Status.BAD_FLAG, {**FENCE, "length": 1}),
    (Status.BAD_FLAG, {**FENCE, "flags": Flag.VERIFY, "record": 1}),
    (Status.MISALIGNED, {**OUT, "src": 0x1002}),
    (Status.MISALIGNED, {**OUT, "dst": 0x2_0000_0001}),
    (Status.MISALIGNED, {**OUT, "record": 0x100_0020}),
    (Status.MISALIGNED, {**FENCE, "record": 8}),
    (Status.MISALIGNED, {**OUT, "src": 0x1002, "length": 0}),
    (Status.BAD_LENGTH, {**OUT, "length": 0}),
    (Status.BAD_LENGTH, {**IN, "src_length": 0}),
    (Status.BAD_LENGTH, {**COPY_IN, "length": 0}),
    (Status.BAD_LENGTH, {**OUT, "src": DEVICE_END - 4092}),
    (Status.BAD_LENGTH, {**OUT, "src": DEVICE_END}),
    (Status.BAD_LENGTH, {**OUT, "dst": HOST_END - 4996}),
    (Status.BAD_LENGTH, {**IN, "dst": DEVICE_END - 4092}),
    (Status.BAD_LENGTH, {**IN, "src": HOST_END - 296}),
    (Status.OVERLAP, {**OUT, "record": OUT["dst"]}),
    (Status.OVERLAP, {**OUT, "record": (OUT["dst"] + 4999) // 64 * 64}),
    (Status.OVERLAP, {**OUT, "dst": OUT["record"] + 60}),
    (Status.OVERLAP, {**IN, "record": IN["src"] + 256}),
    (Status.OVERLAP, {**COPY_IN, "record": COPY_IN["src"] + 4032}),
]


@pytest.mark.parametrize(
    ("dtype", "layout", "names"),
    [(DESCRIPTOR_DTYPE, Descriptor(), DESCRIPTOR_FIELDS), (RECORD_DTYPE, Record(), RECORD_FIELDS)],
)
def test_software_and_hardware_see_the_same_bytes(dtype, layout, names):
    assert dtype.itemsize == layout.size // 8 == 64
    for position, (name, size) in enumerate(names):
        value = int.from_bytes(bytes([position + 1]) * size, "little")
        entry = np.frombuffer(layout.const({name: value}).as_bits().to_bytes(64, "little"), dtype)
        field = entry[name][0]
        assert field.tobytes() == value.to_bytes(size, "little")
        assert entry.tobytes().count(0) == 64 - size
