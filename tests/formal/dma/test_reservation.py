"""The DMA buffer never overflows: no line is issued without room for its worst case."""

import pytest
from amaranth.hdl import Cat, Const, Signal
from amaranth.hdl._ast import AnySeq

from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.issue import LineIssuer
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.dma.any_faults import AnyFaults
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

ISSUE_CYCLES = 2
"""In which nothing need move though all outside are willing: a job or a beat is being taken in, or
what became free is being counted."""


@pytest.fixture(autouse=True)
def _any_faults(monkeypatch):
    monkeypatch.setattr("cdma.hw.dma.outbound.issue.JobFaultFilter", AnyFaults)


def shape(units: int, sectors: int, unit_beats: int) -> EngineConfig:
    """Lines of so many sectors, and so many beats of buffer for each unit."""
    codec = CodecConfig(element_bytes=1, sector_bytes=8 // sectors, line_bytes=8)
    return EngineConfig(
        codec=codec,
        units=units,
        buffer_bytes=units * unit_beats * codec.sector_bytes,
    )


SHAPES = {
    f"{units}x{sectors}-{beats}": shape(units, sectors, beats)
    for units, sectors, beats in (
        *((1, 1, 2), (1, 2, 4), (1, 4, 8)),
        *((2, 1, 2), (2, 2, 4), (2, 2, 8), (2, 4, 9)),
        *((3, 1, 3), (3, 2, 5), (3, 4, 8)),
    )
}
"""Units x sectors of a line - beats of buffer for each unit."""


def reservation_proof(config: EngineConfig) -> Bench:
    """Between issuer and buffer are units that give back lines in order, each of any number of
    beats up to its sectors, whenever they like."""
    bench = Bench()
    m = bench.m
    sectors = config.codec.sectors
    issuer = LineIssuer(config)
    inside = bench.add(issuer)
    job = bench.drive(issuer.i)
    bench.assume(job.payload.first_unit < config.units, job.payload.length != 0)
    ends = bench.watch(issuer.ends)
    m.d.comb += [
        issuer.permits.eq(AnySeq(2)),
        issuer.abort.eq(AnySeq(1)),
        issuer.stop.eq(AnySeq(1)),
    ]
    bench.implies(inside["active"], inside["unit"] < config.units)

    moves = [job.moves, ends.moves]
    willing = [job.valid, ends.ready, issuer.permits != 0]
    reserved = []
    for k in range(config.units):
        buffer = UnitBuffer(config)
        within = bench.add(buffer)
        m.d.comb += issuer.freed[k].eq(buffer.freed)
        issued = bench.watch(issuer.o[k])
        comes = bench.drive(buffer.i)
        drained = bench.watch(buffer.o)

        slot = [inside[f"slot_{k}.{entry}_valid"] for entry in ("front", "spare")]

        # Lines that a unit has and has not given to their end, and beats of the one that it gives.
        lines = Signal(range(config.unit_beats + 2), name=f"lines_{k}")
        given = Signal(range(sectors + 1), name=f"given_{k}")
        ended = comes.moves & comes.payload.eol
        m.d.sync += lines.eq(lines + issued.moves - ended)
        with m.If(comes.moves):
            m.d.sync += given.eq(given + 1)
        with m.If(ended):
            m.d.sync += given.eq(0)
        bench.assume(
            ~comes.valid | (lines != 0),
            ~comes.valid | comes.payload.eol | (given != sectors - 1),
        )
        # Whatever comes is taken at once.
        bench.require(~comes.valid | comes.ready)

        held = Signal(range(config.unit_beats + 2), name=f"held_{k}")
        m.d.sync += held.eq(held + comes.moves - drained.moves)
        own = Signal(16, name=f"reserved_{k}")
        m.d.comb += own.eq(sectors * (lines + sum(slot, Const(0))) - given + held)
        # What became free in the cycle before has not been counted yet.
        reserved.append(own + buffer.freed)
        bench.require(
            own + buffer.freed <= config.unit_beats,
            inside[f"credit_{k}"] + own + buffer.freed == config.unit_beats,
        )
        bench.implies(slot[1], slot[0])
        bench.require(held == within["queue.stored"] + within["queue.holds"])
        bench.require(given == within["beats_before"], given < sectors)
        bench.implies(lines == 0, given == 0)
        moves += [issued.moves, comes.moves, drained.moves]
        willing += [issued.ready, comes.valid | (lines == 0), drained.ready]
        bench.cover(own == config.unit_beats, held == config.unit_beats)
        bench.cover(ended & drained.moves & (given == 0))
    bench.require(issuer.reserved == sum(reserved, Const(0)))
    bench.progress(Cat(willing).all(), Cat(moves).any(), cycles=ISSUE_CYCLES)
    bench.cover(issuer.no_credit, issuer.throttled)
    if config.units > 1:
        bench.cover(issuer.issued == 2)
    return bench


@pytest.mark.parametrize("config", configs(SHAPES, quick=()))
def test_buffer_has_room_for_whatever_comes(config, tmp_path):
    prove(reservation_proof(config), tmp_path, depth=4)


FAULTS = {
    "issues without room for a whole line": (LineIssuer, "credit >= sectors", "credit != 0"),
    "reserves for one line of two": (
        LineIssuer,
        "Mux(slot.i.valid, sectors, 0)",
        "Mux(first & (unit == k), sectors, 0)",
    ),
    "frees what a line did need": (UnitBuffer, "sectors - 1 - beats_before", "sectors - 1"),
    "keeps what a line did not need": (UnitBuffer, "unused + o_fire", "o_fire"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_reservation_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    component, right, wrong = fault
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(reservation_proof(SHAPES["2x2-4"]), tmp_path, depth=14)
