"""Accesses to the same entry never meet; runs of sectors become bursts that a bus takes."""

import pytest
from amaranth.hdl import Cat, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.buddy.address.sector_runs import PAGE_SECTORS, RunSplitter
from cdma.hw.buddy.frontend.scoreboard import OutstandingEntries, Scoreboard
from cdma.hw.buddy.payloads import ENTRY_NUMBER_BITS, SECTOR_OFFSET_BITS
from cdma.hw.lib.count import count_ones
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate
from tests.formal.smtbmc import ProofError, check, prove
from tests.lib.shares import configs

ADDRESS_BITS = 16
DEPTHS = {"2+1": (2, 1), "3+2": (3, 2)}
"""Reads and writes that may be outstanding."""


def scoreboard_proof(reads: int, writes: int) -> Bench:
    bench = Bench()
    m = bench.m
    scoreboard = Scoreboard(reads, writes)
    inside = bench.add(scoreboard)
    m.d.comb += [
        scoreboard.entry.eq(AnySeq(ENTRY_NUMBER_BITS)),
        scoreboard.write.eq(AnySeq(1)),
        scoreboard.issue.eq(AnySeq(1)),
        scoreboard.read_done.eq(AnySeq(1)),
        scoreboard.write_done.eq(AnySeq(1)),
    ]
    bench.assume(~scoreboard.issue | scoreboard.grant)
    watched = Signal(ENTRY_NUMBER_BITS)
    m.d.comb += watched.eq(AnyConst(ENTRY_NUMBER_BITS))

    # What is outstanding, told by what has begun and ended alone: for one entry, and in all.
    rings = []
    for name, depth, kind in (("read", reads, 0), ("write", writes, 1)):
        ends = getattr(scoreboard, f"{name}_done")
        begins = Signal(name=f"{name}_begins")
        m.d.comb += begins.eq(scoreboard.issue & (scoreboard.write == kind))
        # Newest last: whether each is of the watched entry.
        queue = Signal(depth, name=f"{name}_queue")
        count = Signal(range(depth + 1), name=f"{name}_count")
        left = Signal(range(depth + 1), name=f"{name}_left")
        bench.assume(~ends | (count != 0))
        shifted = Signal(depth + 1, name=f"{name}_shifted")
        m.d.comb += [left.eq(count - ends), shifted.eq(Mux(ends, queue >> 1, queue))]
        m.d.sync += count.eq(left + begins)
        m.d.sync += queue.eq(shifted | Mux(begins & (scoreboard.entry == watched), 1 << left, 0))
        ring = f"{name}s."
        active, oldest, newest = (inside[ring + n] for n in ("active", "oldest", "newest"))
        place = Signal(range(2 * depth), name=f"{name}_place")
        m.d.comb += place.eq(oldest + count)
        bench.require(
            inside[ring + "outstanding"] == count,
            count <= depth,
            oldest < depth,
            newest == Mux(place >= depth, place - depth, place),
            count_ones(active) == count,
        )
        for k in range(depth):
            at = Signal(range(2 * depth), name=f"{name}_at_{k}")
            slot = Signal(range(depth), name=f"{name}_slot_{k}")
            m.d.comb += [at.eq(oldest + k), slot.eq(Mux(at >= depth, at - depth, at))]
            entries = Cat(inside[f"{ring}slot_{j}"] == watched for j in range(depth))
            bench.implies(
                count > k,
                active.bit_select(slot, 1),
                queue[k] == entries.bit_select(slot, 1),
            )
            bench.implies(count <= k, ~queue[k])
        rings.append((queue, count))

    (read_queue, read_count), (write_queue, write_count) = rings
    begins = Signal()
    m.d.comb += begins.eq(scoreboard.issue & (scoreboard.entry == watched))
    bench.implies(begins, ~write_queue.any())
    bench.implies(begins & scoreboard.write, ~read_queue.any())
    bench.require(count_ones(write_queue) <= 1, ~(write_queue.any() & read_queue.any()))
    # Nothing else is kept waiting.
    bench.implies(
        ~write_queue.any()
        & ~read_queue.any()
        & (scoreboard.entry == watched)
        & Mux(scoreboard.write, write_count != writes, read_count != reads),
        scoreboard.grant,
    )
    bench.cover(
        count_ones(read_queue) == 2,
        write_queue.any(),
        (read_count == reads) & (write_count == writes),
    )
    return bench


@pytest.mark.parametrize("depths", configs(DEPTHS, quick=()))
def test_accesses_of_an_entry_do_not_meet(depths, tmp_path):
    prove(scoreboard_proof(*depths), tmp_path, depth=2, cover_depth=16)


FAULTS = {
    "forgets reads": (Scoreboard, "& ~(self.write & reads.match)", ""),
    "forgets writes": (Scoreboard, "& ~writes.match", ""),
    "takes one too many": (Scoreboard, "~full & ", ""),
    "frees the wrong one": (
        OutstandingEntries,
        "self.retire & (oldest == k)",
        "self.retire & (newest == k)",
    ),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_scoreboard_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, *fault)
    with pytest.raises(ProofError, match=r"(?s)FAIL.*Assert failed in top"):
        check(scoreboard_proof(3, 2), tmp_path, depth=10, planted=True)


def splitter_proof() -> Bench:
    bench = Bench()
    m = bench.m
    splitter = RunSplitter(ADDRESS_BITS)
    inside = bench.add(splitter)
    run = bench.drive(splitter.i)
    sectors = run.payload.sectors
    start = Signal(ADDRESS_BITS + 1)
    m.d.comb += start.eq(run.payload.address >> SECTOR_OFFSET_BITS << SECTOR_OFFSET_BITS)
    bench.assume(sectors <= 4, start + (sectors << SECTOR_OFFSET_BITS) <= 1 << ADDRESS_BITS)
    burst = bench.watch(splitter.o)
    beats = Signal(9)
    in_page = Signal(ADDRESS_BITS)
    asked = Signal(range(5))
    after = Signal(range(9))
    m.d.comb += [
        beats.eq(burst.payload.beats + 1),
        in_page.eq(burst.payload.address[SECTOR_OFFSET_BITS:12]),
        after.eq(asked + Mux(burst.moves, beats, 0)),
    ]
    with m.If(run.moves):
        m.d.sync += asked.eq(0)
    with m.Else():
        m.d.sync += asked.eq(after)
    # In reset, a run may go away before it is done.
    lives = ~ResetSignal()
    bench.implies(
        lives & burst.valid,
        run.valid,
        in_page + beats <= PAGE_SECTORS,
        burst.payload.address == start + (asked << SECTOR_OFFSET_BITS),
        after <= sectors,
    )
    bench.implies(lives & run.moves, after == sectors)
    bench.implies(lives & (asked != 0), run.valid, asked < sectors)
    bench.require(inside["second"] == (asked != 0))
    room = Signal(range(PAGE_SECTORS + 1))
    m.d.comb += room.eq(PAGE_SECTORS - start[SECTOR_OFFSET_BITS:12])
    bench.implies(lives & (asked != 0), asked == room)
    bench.implies(run.valid & burst.ready, run.ready | burst.valid)
    bench.cover(run.moves & (asked != 0), run.moves & (sectors == 0), run.moves & (sectors == 4))
    return bench


@pytest.mark.verify
def test_runs_become_bursts_within_pages(tmp_path):
    prove(splitter_proof(), tmp_path, depth=2)


@pytest.mark.verify
def test_splitter_with_a_fault_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RunSplitter, "end > PAGE_SECTORS", "end >= PAGE_SECTORS")
    with pytest.raises(ProofError, match=r"(?s)FAIL.*Assert failed in top"):
        check(splitter_proof(), tmp_path, depth=4, planted=True)
