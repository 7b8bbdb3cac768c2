"""docs/reference/formats.md tells what the code does."""

import re

import numpy as np
import pytest

from cdma import golden
from cdma.golden import StreamStatus, container
from cdma.golden.buddy import xc_entry
from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    MapStatus,
    Target,
    split_sectors,
)
from cdma.golden.buddy.entry import SECTORS, SIZES, EntryCodec
from cdma.golden.formats.xc.elements import ELEMENT_FORMATS
from cdma.golden.formats.xc.patterns import EXTRA_BITS, PATTERNS, classes
from tests.lib.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "formats.md"
ARRAY = np.array([0, 0, 1.0, 0, 0, -0.0], "<f4")


def block(name):
    """The bytes of the page's block of that name."""
    found = re.search(rf"^```hex {name}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found, f"no block of hexadecimal numbers for {name}"
    return bytes.fromhex(re.sub(r";.*", "", found[1]))


def test_data():
    assert block("data") == ARRAY.tobytes()


@pytest.mark.parametrize("name", ["zvc", "rle", "csr", "bpc", "xc"])
def test_stream(name):
    assert golden.codec(name).compress(ARRAY).tobytes() == block(name)


@pytest.mark.parametrize(
    ("name", "parameters"), [("zfp 32", {"rate": 32}), ("quantize 0.125", {"bound": 0.125})]
)
def test_lossy_stream(name, parameters):
    assert golden.codec(name.split()[0], **parameters).compress(ARRAY).tobytes() == block(name)


def test_xc_stream_of_bf16():
    line = np.zeros(64, "<u2")
    line[:2] = 0x3F80, 0xBF40
    assert golden.codec("xc", 2, centre=127).compress(line).tobytes() == block("xc bf16 127 0")


def test_xc_classes():
    rows = re.findall(
        r"^\| pattern (\d) \| (\d) \| (\d) \| ([−\d ]+) \|$", PAGE.read_text("utf-8"), re.M
    )
    told = [(*map(int, row[:3]), tuple(map(int, row[3].replace("−", "-").split()))) for row in rows]
    assert told == [
        (pattern, number, EXTRA_BITS[pattern][number], distances)
        for pattern in PATTERNS
        for number, distances in enumerate(classes(pattern))
    ]


def test_xc_element_formats():
    rows = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) B \| (\d) B \| (\d+) B \|$",
        PAGE.read_text("utf-8"),
        re.M,
    )
    assert [(name, *map(int, numbers)) for name, *numbers in rows] == [
        (
            elements.name,
            elements.bits,
            elements.exponent_bits,
            elements.mantissa_bits,
            elements.line_elements,
            elements.mask_bytes,
            elements.header_bytes,
            elements.worst_line_bytes,
        )
        for elements in ELEMENT_FORMATS
    ]


@pytest.mark.parametrize("name", ["lz4", "deflate"])
def test_block_of_zeros(name):
    stream = np.frombuffer(block(f"{name} zeros"), np.uint8)
    assert golden.codec(name).decompress(stream, 256).tobytes() == bytes(256)


@pytest.mark.parametrize("name", ["lz4", "deflate", "deflate-fast"])
def test_stored_block(name):
    assert golden.codec(name).compress(np.array([1, 2, 3], np.uint8)).tobytes() == block("stored")


def test_entry():
    metadata, kept = EntryCodec().encode(ARRAY)
    assert metadata.tolist() == [2]
    assert kept[0, :16].tobytes() == block("entry")


@pytest.mark.parametrize(("name", "first"), [("xc-entry", 0xBF80), ("sparse-xc-entry", 0)])
def test_entry_of_xc(name, first):
    elements = np.full(64, 0xBF80, "<u2")
    elements[0] = first
    entry = elements.view(np.uint8).reshape(1, 128)
    parameters = np.array([127])
    assert xc_entry.encode(entry, parameters)[0, :96].tobytes() == block(name)
    assert (
        xc_entry.decode(np.frombuffer(block(name), np.uint8).reshape(1, 96), parameters)[
            2
        ].tobytes()
        == entry.tobytes()
    )


def test_class_table():
    rows = re.findall(r"^\| (\d) \| (\d+) \| (\d) \|", PAGE.read_text("utf-8"), re.M)
    assert [tuple(map(int, row)) for row in rows] == list(
        zip(range(8), SIZES, SECTORS, strict=True)
    )


def test_target_table():
    rows = re.findall(
        r"^\| (\d) \| ([\d.]+)x \| (\d+) B \| (\d+ B|–) \| (\d+) \| (\d) \|",
        PAGE.read_text("utf-8"),
        re.M,
    )
    assert rows == [
        (
            str(target.value),
            f"{target.ratio:.3g}",
            str(device),
            f"{buddy} B" if buddy else "–",
            str(device // 8),
            str(buddy // 32),
        )
        for target, device, buddy in zip(Target, DEVICE_SLOT_BYTES, BUDDY_SLOT_BYTES, strict=True)
    ]


def test_sector_table():
    text = PAGE.read_text("utf-8")
    for target in Target:
        found = re.search(rf"^\| {target.ratio:.3g}x \| (\d \+ \d.*) \|$", text, re.M)
        assert found
        device, buddy = split_sectors(target, np.array([0, 1, 2, 4, 5, 7]))
        assert found[1].split(" | ") == [
            f"{first} + {second}" for first, second in zip(device, buddy, strict=True)
        ]
        for same in ((2, 3), (5, 6)):
            assert len(set(zip(*split_sectors(target, np.array(same)), strict=True))) == 1


def test_map_status_table():
    rows = re.findall(r"^\| (\d) ([A-Z_]+) \|", PAGE.read_text("utf-8"), re.M)
    assert {name: int(number) for number, name in rows} == {
        status.name: status.value for status in MapStatus
    }


def test_cz_file():
    assert container.pack(ARRAY, golden.codec("zvc")) == block("cz")


def test_status_table():
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE.read_text("utf-8"), re.M)
    assert {name: int(number) for number, name in rows} == {
        status.name: status.value for status in StreamStatus
    }
