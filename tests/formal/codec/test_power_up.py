"""Stream blocks and their parts after any power-up: what they say does not depend on it."""

from collections.abc import Callable
from typing import Any

import pytest

from cdma.hw.codec.stream.checker import StreamChecker
from cdma.hw.codec.stream.frame import LinePadder, PacketTrimmer
from cdma.hw.codec.stream.pack import ElementPacker, Packer
from cdma.hw.codec.stream.packet import PacketStates
from cdma.hw.codec.stream.slots import ElementSlots
from cdma.hw.codec.stream.status import ByteMeter
from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.components import COMPONENTS
from tests.formal.broken import break_elaborate
from tests.formal.lines import TINY
from tests.formal.power_up import prove_power_up
from tests.formal.power_up_search import search_power_up
from tests.formal.smtbmc import RefutedError
from tests.lib.shares import configs

PARTS: dict[str, Callable[[], Any]] = {
    "trimmer": lambda: PacketTrimmer(TINY.sector_bytes),
    "padder": lambda: LinePadder(TINY),
    "meter": lambda: ByteMeter(TINY.sector_bytes),
    "packer": lambda: Packer(TINY),
    "checker": lambda: StreamChecker(TINY),
    "states of a packet": PacketStates,
}
# Whether it takes what is there, which is all that its source may look at.
TAKES = {"i.ready": lambda part: part.i.valid}
CARES = dict.fromkeys((PacketTrimmer, ByteMeter, Packer), TAKES)


@pytest.mark.verify
@pytest.mark.parametrize("make", configs(PARTS, quick=()))
def test_nothing_depends_on_what_was_held(make, tmp_path):
    component = make()
    prove_power_up(component, tmp_path, cares=CARES.get(type(component)))


@pytest.mark.verify
def test_count_without_a_reset_is_found(tmp_path, monkeypatch):
    fill = "fill = Signal(range(capacity + 1)"
    break_elaborate(monkeypatch, ElementPacker, f"{fill})", f"{fill}, reset_less=True)")
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        prove_power_up(Packer(TINY), tmp_path, cares=TAKES)


BLOCKS: dict[str, Callable[[], Any]] = {
    "compressor": lambda: ZvcCompressorAxis(TINY),
    "decompressor": lambda: ZvcDecompressorAxis(TINY),
    **{
        name: lambda name=name: COMPONENTS[name].make("tiny")
        for name in ("entry-compressor", "entry-decompressor", "bpc-compressor", "bpc-decompressor")
    },
}
CYCLES = 8
"""Behind the reset."""


@pytest.mark.verify
@pytest.mark.parametrize("block", configs(BLOCKS, quick=()))
def test_no_pin_of_a_block_depends_on_what_was_held_at_first(block, tmp_path):
    search_power_up(block(), tmp_path, cycles=CYCLES)


FAULTS = {
    "room for a line": (
        ZvcCompressorAxis,
        ZvcCompressor,
        "free = Signal(sectors, init=-1)",
        "free = Signal(sectors, init=-1, reset_less=True)",
    ),
    "elements that wait": (
        ZvcDecompressorAxis,
        ElementSlots,
        "held_count = Signal(range(slots + 1))",
        "held_count = Signal(range(slots + 1), reset_less=True)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_control_of_a_block_without_a_reset_is_found(fault, tmp_path, monkeypatch):
    block, broken, right, wrong = fault
    break_elaborate(monkeypatch, broken, right, wrong)
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        search_power_up(block(TINY), tmp_path, cycles=CYCLES)
