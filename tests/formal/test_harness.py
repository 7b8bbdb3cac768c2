"""The proofs can fail: on components broken on purpose, and wherever something is left open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Cat, Const, Module, Signal

from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.lib import lanes
from cdma.hw.lib.count import count_ones_of_word
from cdma.hw.lib.pipeline import SkidBuffer
from tests.formal import smtbmc
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate
from tests.formal.codec.test_pack import unpacker_proof
from tests.formal.codec.test_zvc import compressor_proof, decompressor_proof
from tests.formal.lines import TINY
from tests.formal.smtbmc import ProofError, RefutedError, UndecidedError, check, prove
from tests.lib.paths import ROOT
from tests.lib.processes import is_alive, until

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


def tools_that(folder: Path, **scripts: str) -> dict[str, str]:
    """The tools, but for some that are scripts of the shell."""
    tools = smtbmc.find_tools()
    for name, script in scripts.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        tools[name] = str(program)
    return tools


@pytest.mark.always
def test_solvers_end_with_the_time_that_there_is(tmp_path):
    tools = tools_that(tmp_path, YOSYS="true", SMTBMC="sleep 600 & echo $! > solver; wait")
    with pytest.raises(UndecidedError, match="prove to depth 1: TIMEOUT\nnot decided in 3 s"):
        smtbmc._decide(tools, tmp_path, {"prove": 1}, 3)
    solver = (tmp_path / "solver").read_text()
    until(lambda: not is_alive(solver.strip()), "the solver goes on")


RUN = """
from pathlib import Path
from tests.formal.smtbmc import _ended

def test_it():
    _ended(["sh", "-c", "sleep 600 & echo $! > solver; wait"], Path.cwd(), {}, 600)
"""


@pytest.mark.always
def test_solvers_end_with_a_run_of_tests_that_is_told_to_end(tmp_path):
    (tmp_path / "test_it.py").write_text(RUN)
    command = [sys.executable, "-m", "pytest", "-p", "tests.lib.interruption", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    solver = tmp_path / "solver"
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=said, stderr=said)
        until(lambda: solver.exists() and solver.read_text().strip(), "no solver is started")
        run.terminate()
        run.wait()
    assert "KeyboardInterrupt" in (tmp_path / "said").read_text()
    until(lambda: not is_alive(solver.read_text().strip()), "the solver goes on")


FAILURES = {
    "yosys": ("YOSYS", "echo ERROR: no such module; exit 1", "Yosys: ERROR\nERROR: no such module"),
    "smtbmc": ("SMTBMC", "echo Traceback of its own; exit 1", "ERROR\nTraceback of its own"),
    "nothing is said": ("SMTBMC", "true", "prove to depth 1: ERROR"),
    "ends with an error": (
        "SMTBMC",
        "echo '##   0:00:00  Status: PASSED'; exit 1",
        "prove to depth 1: ERROR",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_tool_that_fails_proves_nothing(failure, tmp_path):
    tool, said, told = FAILURES[failure]
    tools = tools_that(tmp_path, **{"YOSYS": "true", tool: said})
    with pytest.raises(ProofError, match=told) as raised:
        smtbmc._decide(tools, tmp_path, {"prove": 1}, 60)
    assert not isinstance(raised.value, RefutedError | UndecidedError)


def test_assumptions_that_exclude_each_other_prove_nothing(tmp_path):
    bench, count = counter_bench()
    bench.require(count == 11)
    bench.assume(count == 11)
    with pytest.raises(ProofError, match="ERROR\nAssumptions are unsatisfiable!") as raised:
        check(bench, tmp_path, depth=4)
    assert not isinstance(raised.value, RefutedError | UndecidedError)


def test_missing_solver_is_no_reason_to_skip(tmp_path, monkeypatch):
    monkeypatch.setitem(smtbmc.TOOLS, "YICES", "no-such-solver")
    with pytest.raises(ProofError, match=r"no-such-solver is missing; install it with: pip"):
        smtbmc.find_tools()
