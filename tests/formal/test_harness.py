"""The proofs can fail: on components broken on purpose, and wherever something is left open."""

import pytest
from amaranth.hdl import Cat, Const, Module, Signal

from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.lib import lanes
from cdma.hw.lib.count import count_ones_of_word
from cdma.hw.lib.pipeline import SkidBuffer
from tests.formal import sby
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate
from tests.formal.codec.test_pack import unpacker_proof
from tests.formal.codec.test_zvc import compressor_proof, decompressor_proof
from tests.formal.lines import TINY
from tests.formal.sby import ProofError, UndecidedError, check, prove

IN_PROOF = r"(?s)bmc to depth 8: FAIL.*Assert failed in top: .*tests/formal/[\w/]+\.py:\d+"
"""The message names the line of the property."""


class OneEntryBuffer(SkidBuffer):
    """Takes more than it can hold."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.i.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


def test_buffer_that_changes_what_it_offers_is_found(tmp_path):
    bench = Bench()
    buffer = OneEntryBuffer(8)
    bench.add(buffer)
    bench.drive(buffer.i)
    bench.watch(buffer.o)
    with pytest.raises(ProofError, match=IN_PROOF):
        check(bench, tmp_path, depth=8)


@pytest.mark.verify
def test_compressor_that_remembers_across_a_reset_is_found(tmp_path, monkeypatch):
    freed = "free = Signal(sectors, init=-1"
    break_elaborate(monkeypatch, ZvcCompressor, freed, f"{freed}, reset_less=True")
    with pytest.raises(ProofError, match=IN_PROOF):
        check(compressor_proof(TINY, ZvcCompressor(TINY)), tmp_path, depth=8, planted=True)


@pytest.mark.verify
def test_decompressor_that_mixes_lanes_up_is_found(tmp_path, monkeypatch):
    def scatter(m, elements, levels, **options):
        return lanes.scatter(m, elements, [*levels[:-1], Signal.like(levels[-1])], **options)

    monkeypatch.setattr("cdma.hw.codec.zvc.decompressor.scatter", scatter)
    with pytest.raises(ProofError, match=IN_PROOF):
        check(decompressor_proof(TINY, ZvcDecompressor(TINY)), tmp_path, depth=8, planted=True)


@pytest.mark.verify
def test_unpacker_that_miscounts_full_masks_is_found(tmp_path, monkeypatch):
    def without_high_bit(word):
        count = count_ones_of_word(word)
        return Cat(count[:-1], Const(0, 1))

    monkeypatch.setattr("cdma.hw.codec.stream.slots.count_ones_of_word", without_high_bit)
    with pytest.raises(ProofError, match=IN_PROOF):
        check(unpacker_proof(TINY, Unpacker(TINY)), tmp_path, depth=8, planted=True)


def counter_bench() -> tuple[Bench, Signal]:
    """Counts 0 … 9 and again."""
    bench = Bench()
    count = Signal(4)
    bench.m.d.sync += count.eq(count + 1)
    with bench.m.If(count == 9):
        bench.m.d.sync += count.eq(0)
    return bench, count


def test_what_is_only_true_so_far_is_no_proof(tmp_path):
    bench, count = counter_bench()
    bench.require(count != 12)
    with pytest.raises(ProofError, match="prove to depth 2: UNKNOWN"):
        prove(bench, tmp_path, depth=2)


def test_cover_out_of_reach_fails(tmp_path):
    bench, count = counter_bench()
    bench.require(count <= 9)
    bench.cover(count == 10)
    with pytest.raises(ProofError, match=r"Unreached cover statement at .*test_harness\.py"):
        prove(bench, tmp_path, depth=2)


@pytest.mark.always
def test_solvers_end_with_the_time_that_there_is(tmp_path):
    program = tmp_path / "sby"
    program.write_text(
        "#!/bin/sh\ntrap 'touch ended; exit 1' TERM\ntouch begun\nsleep 60 &\nwait\n"
    )
    program.chmod(0o755)
    tools = {**sby.find_tools(), "SBY": str(program)}
    with pytest.raises(UndecidedError, match="not decided in 1 s"):
        # It has five minutes more for Yosys.
        sby._decide(tools, tmp_path, {"prove": 1}, 1 - 300)
    assert (tmp_path / "begun").exists()
    assert (tmp_path / "ended").exists()


def test_missing_solver_is_no_reason_to_skip(tmp_path, monkeypatch):
    monkeypatch.setitem(sby.TOOLS, "YICES", "no-such-solver")
    with pytest.raises(ProofError, match=r"no-such-solver is missing; install it with: pip"):
        sby.find_tools()
