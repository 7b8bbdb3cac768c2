"""Waves as a picture: values cycle by cycle from a VCD file, and errors that say what to do."""

import re
import xml.etree.ElementTree as ET

import pytest
from vcd import VCDWriter

from cdma.errors import UserError
from cdma.pages.waves import Wave, drawing, main, read

VALID = [0, 1, 1, 0, 1]
DATA = [None, 0x1F, 0x1F, 0x20, 0x3]


@pytest.fixture
def trace(tmp_path):
    """A clock of five cycles; each signal changes just after the edge that begins a cycle."""
    path = tmp_path / "x.vcd"
    with path.open("w") as file, VCDWriter(file, timescale="1 ns") as writer:
        clock = writer.register_var("bench.top", "clk", "wire", size=1, init=0)
        valid = writer.register_var("bench.top", "valid", "wire", size=1, init=VALID[0])
        data = writer.register_var("bench.top", "data", "wire", size=16, init="x")
        for cycle, (bit, value) in enumerate(zip(VALID, DATA, strict=True)):
            if cycle:
                writer.change(valid, 10 * cycle + 1, bit)
                writer.change(data, 10 * cycle + 1, value)
            writer.change(clock, 10 * cycle + 5, 0)
            writer.change(clock, 10 * cycle + 10, 1)
    return path


def test_values_are_those_before_the_edge_that_ends_each_cycle(trace):
    names = ["bench.top.valid", "bench.top.data"]
    assert read(trace, names, "bench.top.clk") == [
        Wave("valid", 1, VALID),
        Wave("data", 16, DATA),
    ]


def test_lines_and_boxes_stand_where_the_values_are():
    waves = [Wave("valid", 1, VALID), Wave("data", 16, DATA)]
    picture = ET.fromstring(drawing(waves, 0, 5))
    space = "{http://www.w3.org/2000/svg}"
    texts = [one.text for one in picture.iter(f"{space}text") if one.get("class") == "value"]
    # An unknown value, two cycles of one value, and two others.
    assert texts == ["x", "1f", "20", "3"]
    (line,) = [one for one in picture.iter(f"{space}path") if one.get("class") == "line"]
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", str(line.get("d")))]
    assert [y == min(heights) for y in heights] == [False, True, False, True]


def test_a_value_without_room_is_cut_to_its_upper_digits():
    picture = drawing([Wave("data", 64, [0x123456789ABCDEF0] * 2)], 0, 2)
    assert re.findall(r'class="value"[^>]*>([^<]*)<', picture) == ["12345…"]


def test_the_command_prints_the_named_cycles(trace, capsys):
    options = ["--scope", "bench.top", "--clock", "clk", "--cycles", "1:4"]
    main([str(trace), *options, "valid", "data"])
    printed = capsys.readouterr().out
    assert re.findall(r'class="number"[^>]*>(\d+)<', printed) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("cycles", "signal", "told"),
    [("0:5", "no", "has no signal bench.top.no; name one of bench.top.clk"), ("0:6", "data", "5")],
)
def test_what_is_not_there_is_named(trace, cycles, signal, told):
    options = ["--scope", "bench.top", "--clock", "clk", "--cycles", cycles]
    with pytest.raises(UserError, match=told):
        main([str(trace), *options, signal])


def test_a_file_that_is_no_trace_is_told(tmp_path):
    (tmp_path / "x.vcd").write_text("$no trace")
    with pytest.raises(UserError, match="is no VCD file; give what a simulator has dumped"):
        read(tmp_path / "x.vcd", ["a"], "clk")
    with pytest.raises(UserError, match=r"cannot read .*nowhere"):
        read(tmp_path / "nowhere", ["a"], "clk")
