"""Padding before a line: the packet that goes to the writer is one of whole beats, too."""

import pytest
from amaranth.hdl import ResetSignal
from amaranth.lib import data

from cdma.hw.config import CodecConfig
from cdma.hw.dma.inbound.expansion import PacketShifter
from cdma.hw.lib.beat import Beat
from tests.formal.bench import Bench, Condition, Port
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.engines import codec_of
from tests.formal.lines import TINY
from tests.formal.rules import ALWAYS, beat_sizes
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

CODECS = {
    "tiny": TINY,
    **{str(width): codec_of(width) for width in (32, 64, 128)},
    "bytes": CodecConfig(element_bytes=1, sector_bytes=32, line_bytes=128),
}


def shifter_proof(config: CodecConfig) -> Bench:
    """Any packets of whole beats, and any padding that leaves room in a beat."""
    bench = Bench()
    shifter = PacketShifter(config)
    inside = bench.add(shifter)
    width = config.sector_bytes

    def lead_rules(_bench: Bench, port: Port) -> list[Condition]:
        return [(ALWAYS, port.payload < config.lanes)]

    lead = bench.drive(shifter.lead, lead_rules)
    i = bench.drive(shifter.i, beat_sizes(width))
    o = bench.watch(shifter.o, beat_sizes(width))
    flushes, rest = inside["flushes"], inside["rest"]
    bench.implies(flushes, rest <= width, rest != 0)
    # In reset, a packet's padding may go away before it is done.
    bench.implies(flushes & ~ResetSignal(), lead.valid)
    held = data.View(Beat(width), inside["beats.held"])
    bench.hold(inside["beats.held_valid"], held, beat_sizes(width))

    beat = inside.component("beats").i
    ends = beat.valid & beat.ready & beat.payload.last
    bench.cover(
        ends & flushes & (rest == config.element_bytes),
        ends & ~flushes & (lead.payload == config.lanes - 1),
        ends & (lead.payload == 0) & (i.payload.size == width),
        o.waiting & o.payload.last,
    )
    return bench


@pytest.mark.parametrize("config", configs(CODECS, quick=()))
def test_padded_lines_are_of_whole_beats(config, tmp_path):
    prove(shifter_proof(config), tmp_path, depth=2)


def contract_benches(_monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    return [shifter_proof(CODECS["32"])]


FAULTS = {
    "ends with what spills": ("flushes | (beat.last & ~spills)", "beat.last"),
    "counts the padding twice": ("rest.eq(end - width)", "rest.eq(end)"),
    "gives more than a beat": ("Mux(spills, width, end)", "end"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_shifter_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, PacketShifter, *fault)
    find_fault(shifter_proof(CODECS["32"]), tmp_path, depth=8)
