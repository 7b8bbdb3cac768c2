"""A path's clock stops only when no edge of it would change anything.

For all time this follows from what each stage promises, which is too much for one proof. So here
are the first cycles behind a reset, in which jobs come and go: whatever they ask for, whatever the
buses answer, however long all outside takes, and with aborts at any time.
"""

from dataclasses import replace
from typing import Any

import pytest
from amaranth.hdl import Fragment, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import memory, wiring

import cdma.hw.dma.path_activity
from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.inbound.path import InPath
from cdma.hw.dma.outbound.path import OutPath
from cdma.hw.dma.path_activity import PathActivity
from cdma.hw.emit.clock_gates import is_free
from cdma.hw.lib.sleep import add_wake
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.lines import TINY
from tests.formal.smtbmc import check

CONFIG = EngineConfig(
    codec=replace(TINY, sector_bytes=8),
    units=1,
    host_bytes=8,
    buffer_bytes=16,
    write_bursts=2,
    read_buffer_bytes=256,
    split_lines=1,
    transfers=2,
    clock_gates=True,
)
MOST_ERROR = max(error.value for error in BusError)

LINGER_CYCLES = 3
"""Fewer than engines have: then clocks stop sooner, and a shorter proof sees them do so."""

DEPTHS: dict[type[wiring.Component], int] = {OutPath: 22, InPath: 24}
"""Cycles behind power-up that are looked at."""

COVER_DEPTH = 40
"""Cycles in which a line has been carried to its end, and the clock has stopped."""


@pytest.fixture(autouse=True)
def _clocks_stop_soon(monkeypatch):
    monkeypatch.setattr(cdma.hw.dma.path_activity, "LINGER_CYCLES", LINGER_CYCLES)


def exact_wake(fragment: Fragment) -> Signal:
    """The next edge of a component's clock would change something."""
    below = [
        exact_wake(subfragment)
        for subfragment, _name, _src_loc in fragment.subfragments
        if not isinstance((origin := subfragment.origins[0]), memory.Memory) and not is_free(origin)
    ]
    return add_wake(fragment, below, compared_bits=None)


def offered(bench: Bench, stream: Any, may: Value, error: bool = False) -> Value:
    """Let a stream be valid when it likes while it may, and return that it moves.

    Its payload is driven elsewhere; an error, if it has one, may be any.
    """
    m = bench.m
    valid, waits = Signal(name="valid_any"), Signal(name="waits")
    m.d.comb += [valid.eq(AnySeq(1)), stream.valid.eq(valid)]
    m.d.sync += waits.eq(valid & ~stream.ready)
    bench.assume(~valid | may, ~waits | valid | ResetSignal())
    if error:
        payload = stream.payload
        kind: Any = payload.error if hasattr(payload, "error") else payload
        before = Signal(len(Value.cast(kind)), name="error_before")
        m.d.comb += Value.cast(kind).eq(AnySeq(len(Value.cast(kind))))
        m.d.sync += before.eq(Value.cast(kind))
        bench.assume(~waits | (Value.cast(kind) == before), Value.cast(kind) <= MOST_ERROR)
    return valid & stream.ready


def fires(bench: Bench, stream: Any) -> Value:
    """Take from a stream at any time, and return that it moves."""
    ready = Signal(name="ready_any")
    bench.m.d.comb += [ready.eq(AnySeq(1)), stream.ready.eq(ready)]
    return stream.valid & ready


def stopping_bench(kind: type[wiring.Component], codec: int = 0) -> Bench:
    """A path, its activity, and buses that answer what they are asked for.

    Jobs are of a line of zeros, as what is in a line changes no more than how many cycles it takes.
    """
    bench = Bench()
    m = bench.m
    path: Any = kind(CONFIG)
    inside = bench.add(path, ignored=True)
    activity = PathActivity(CONFIG)
    bench.add(activity)
    # The dispatcher starts no more than may be without a record.
    jobs = Signal(range(2 * CONFIG.transfers + 1))
    job_fire = offered(bench, path.job, jobs != 2 * CONFIG.transfers)
    outcome_fire = fires(bench, path.outcome)
    length = CONFIG.codec.line_bytes
    m.d.sync += jobs.eq(jobs + job_fire - outcome_fire)
    m.d.comb += [
        path.abort.eq(AnySeq(1)),
        path.job.payload.length.eq(length),
        path.job.payload.capacity.eq(length),
        path.job.payload.codec.eq(codec),
    ]
    if kind is OutPath:
        reads = path.read_request[0], path.read_beats[0]
        writes = path.write_request, path.write_beats, path.write_response
    else:
        reads = path.read_request, path.read_beats
        writes = path.write_request[0], path.write_beats[0], path.write_response[0]
        m.d.comb += path.job.payload.src_length.eq(length)
    request, beats = reads
    asked = fires(bench, request)
    owed, pending = Signal(8, name="beats_owed"), Signal(4, name="responses_owed")
    taken = offered(bench, beats, owed != 0, error=True)
    m.d.sync += owed.eq(owed + Mux(asked, request.payload.beats + 1, 0) - taken)
    request, beats, response = writes
    asked = fires(bench, request)
    fires(bench, beats)
    taken = offered(bench, response, pending != 0, error=True)
    m.d.sync += pending.eq(pending + asked - taken)
    m.d.comb += [
        activity.offers.eq(reads[0].valid | writes[0].valid | writes[1].valid),
        activity.job_valid.eq(path.job.valid),
        activity.job_fire.eq(job_fire),
        activity.outcome_fire.eq(outcome_fire),
    ]
    wake = exact_wake(inside.fragment)
    bench.implies(~activity.enable, ~wake)
    written, answered = Signal(), Signal()
    with m.If(taken):
        m.d.sync += written.eq(1)
    with m.If(outcome_fire):
        m.d.sync += answered.eq(written)
    # A line has been carried to its end.
    bench.cover(answered & ~activity.enable)
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("kind", DEPTHS)
def test_nothing_changes_while_a_clock_stops(kind, tmp_path):
    depth = DEPTHS[kind]
    check(stopping_bench(kind), tmp_path, depth=depth, cover_depth=COVER_DEPTH, timeout_s=3000)


@pytest.mark.verify
def test_a_clock_that_stops_amid_a_job_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, PathActivity, "self.job_valid | (jobs != 0)", "self.job_valid")
    find_fault(stopping_bench(OutPath), tmp_path, depth=14)
