"""Faults planted in the driver and in the RTL: the random machine finds each of them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from amaranth.hdl import Const

from cdma.hw.config import EngineConfig
from cdma.hw.dma.control import checker, completion
from cdma.hw.dma.control.descriptor import Status
from cdma.hw.dma.outbound import drain
from cdma.hw.emit.verilog import generate
from cdma.hw.lib.clocks.async_fifo import AsyncFifo
from cdma.sim.driver.memory.allocator import Allocator
from cdma.sim.driver.memory.buffers import Memory
from cdma.sim.driver.memory.ranges import Ranges
from cdma.sim.driver.ring.record import CompletionRecord
from tests.formal.broken import break_elaborate
from tests.sim.driver.random_machine import player, setups
from tests.sim.driver.random_machine.program import Failure, draw_steps, play, shortened
from tests.sim.machine.engine.cases import SMALL

TRIES = 60
"""Seeds within which a fault must be found."""


def found(config: EngineConfig = SMALL, tries: int = TRIES) -> Failure:
    """The first failure, shortened."""
    for seed in range(tries):
        setup = setups.draw_setup(seed, config)
        failure = play(setup, draw_steps(seed))
        if failure is not None:
            return shortened(setup, failure, tries=40)
    raise AssertionError(f"{tries} programs find nothing")


def free_of_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers can be freed under a transfer."""
    free = Memory.free

    def careless(self, buffer):
        users = getattr(buffer, "users", 0)
        if users:
            buffer.users = 0
        free(self, buffer)
        if users:
            buffer.users = users

    monkeypatch.setattr(Memory, "free", careless)


def overlap_by_one_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges in flight count as a byte shorter."""
    meets = Ranges.meets
    monkeypatch.setattr(Ranges, "meets", lambda self, start, end: meets(self, start + 1, end))


def allocation_of_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that is cut off stays free where it begins."""

    def cut(self, start, end, address, nbytes):
        place = self._free.index((start, end))
        right = [(address + nbytes - 64, end)] if address + nbytes - 64 < end else []
        self._free[place : place + 1] = right

    monkeypatch.setattr(Allocator, "_cut", cut)


def record_of_another_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compressed size comes from another field."""
    parsed = CompletionRecord.parsed.__func__  # type: ignore[attr-defined]

    def wrong(cls, entry):
        entry = entry.copy()
        entry["out_size"] = entry["src_done"]
        return parsed(cls, entry)

    monkeypatch.setattr(CompletionRecord, "parsed", classmethod(wrong))


@pytest.mark.parametrize(
    "plant",
    [
        free_of_what_is_used,
        overlap_by_one_byte,
        allocation_of_what_is_used,
        record_of_another_size,
    ],
)
def test_fault_in_the_driver_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert len(found().steps) <= 12


def bus_errors_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record says OK where a bus has said SLVERR or DECERR."""
    monkeypatch.setattr(completion, "_bus_status", lambda error, refused: Const(Status.OK, 8))


def windows_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """No source and no destination is outside of its window."""
    monkeypatch.setattr(checker, "range_outside", lambda *_: Const(0, 1))


def lines_of_one_unit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drain takes all lines from one unit, instead of going round."""
    monkeypatch.setattr(drain, "_following", lambda unit, units: unit)


def queues_to_the_host_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue between the clocks takes what it has no room for."""
    break_elaborate(monkeypatch, AsyncFifo, "~full & i_sees_output", "i_sees_output")


TWO_CLOCKS = replace(SMALL, host_clock=True)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("plant", "config"),
    [
        (bus_errors_are_no_errors, SMALL),
        (windows_are_open, SMALL),
        (lines_of_one_unit_only, SMALL),
        (queues_to_the_host_overflow, TWO_CLOCKS),
    ],
)
def test_fault_in_the_rtl_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    config: EngineConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        plant(patch)
        broken = generate("engine", config, assertions=True, sleep=True)
    monkeypatch.setattr(player, "rtl", lambda config: broken)
    assert len(found(config).steps) <= 12
