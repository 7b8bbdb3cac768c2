"""Faults among outstanding items: each is told to the job that asked for it, or to none."""

import pytest
from amaranth.hdl import Signal
from amaranth.hdl._ast import AnySeq

from cdma.hw.dma.job_faults import JobFaultFilter
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

SHAPES = {"lines": (93, 1), "bursts": (22, 1), "beats": (64, 16), "few": (3, 2)}
"""Items that may be outstanding, and those that may be asked for in a cycle."""


def filter_proof(items: int, most: int) -> Bench:
    """Any jobs, and items that end and fail when they like, in their order.

    One item is watched, whichever it is: how many are before it, and whether another job has begun
    since it was asked for.
    """
    bench = Bench()
    m = bench.m
    faults = JobFaultFilter(items, most)
    inside = bench.add(faults)
    begins, ended, failed = faults.begins, faults.ended, faults.failed
    asked = Signal(range(most + 1), name="asks")
    m.d.comb += [
        begins.eq(AnySeq(1)),
        asked.eq(AnySeq(len(asked))),
        faults.asked.eq(asked),
        ended.eq(AnySeq(1)),
        failed.eq(AnySeq(1)),
    ]
    outstanding = Signal(range(items + 1), name="items")
    m.d.sync += outstanding.eq(outstanding + asked - ended)
    # An item ends, or fails, in a cycle behind that in which it was asked for.
    bench.assume(
        asked <= most,
        outstanding + asked - ended <= items,
        ~(ended | failed) | (outstanding != 0),
    )

    watches, is_former = Signal(name="watches"), Signal(name="is_former")
    ahead, place = Signal(range(items + 1), name="ahead"), Signal(range(most), name="place")
    starts = Signal(name="starts")
    m.d.comb += [starts.eq(AnySeq(1)), place.eq(AnySeq(len(place)))]
    bench.assume(~starts | (~watches & (place < asked)))
    now = watches & (ahead == 0)
    with m.If(starts):
        m.d.sync += [
            watches.eq(1),
            ahead.eq(outstanding - ended + place),
            is_former.eq(begins),
        ]
    with m.Elif(watches):
        m.d.sync += [
            watches.eq(~(now & ended)),
            ahead.eq(ahead - (ended & (ahead != 0))),
            is_former.eq(is_former | begins),
        ]

    # The filter is a cycle behind.
    late = [Signal(name=f"late_{name}") for name in ("now", "failed", "begins", "former")]
    late_now, late_failed, late_begins, late_former = late
    m.d.sync += [
        late_now.eq(now),
        late_failed.eq(failed),
        late_begins.eq(begins),
        late_former.eq(is_former),
    ]
    bench.implies(late_now & late_failed, faults.own == (~late_former & ~late_begins))
    bench.implies(~late_failed, ~faults.own)

    # What makes that hold in every state that can be reached.
    kept, former = inside["outstanding"], inside["former"]
    behind = inside["asked"], inside["ended"]
    for name, value in (("begins", late_begins), ("failed", late_failed)):
        bench.require(inside[name] == value)
    bench.require(kept + behind[0] == outstanding + behind[1], former <= kept)
    late_watches, late_ahead = Signal(name="late_watches"), Signal.like(ahead, name="late_ahead")
    m.d.sync += [late_watches.eq(watches), late_ahead.eq(ahead)]
    bench.require(late_now == (late_watches & (late_ahead == 0)))
    bench.implies(late_watches, late_ahead < kept)
    bench.implies(late_watches, late_former == (late_ahead < former))
    bench.implies(
        late_watches,
        watches == ~(late_now & behind[1]),
        (~watches) | (ahead == late_ahead - (behind[1] & (late_ahead != 0))),
        (~watches) | (is_former == (late_former | late_begins)),
    )
    bench.implies(watches & ~late_watches, is_former == late_begins)
    bench.implies(watches & ~late_watches, ahead + behind[1] >= kept, ahead < outstanding)
    bench.cover(
        faults.own & late_now & (former == 0),
        late_now & late_failed & late_former,
        late_now & late_failed & late_begins & ~late_former,
        kept == min(items, 4),
    )
    return bench


@pytest.mark.parametrize("shape", configs(SHAPES, quick=["few"]))
def test_a_fault_is_told_to_its_own_job(shape, tmp_path):
    items, most = shape
    prove(filter_proof(items, most), tmp_path, depth=3, cover_depth=12)


FAULTS = {
    "tells of former jobs": ("failed & (former == 0) & ~begins", "failed & ~begins"),
    "tells of the job that is over": ("failed & (former == 0) & ~begins", "failed & (former == 0)"),
    "forgets what is outstanding": ("former.eq(now)", "former.eq(asked)"),
    "does not see former ones end": ("former.eq(former - ended)", "former.eq(former)"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_filter_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, JobFaultFilter, *fault)
    find_fault(filter_proof(*SHAPES["few"]), tmp_path, depth=10)
