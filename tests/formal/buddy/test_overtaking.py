"""Reads overtake others, but never those of the same ID."""

from dataclasses import replace

import pytest
from amaranth.hdl import Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.buddy.read.spill_queues import SpillQueues
from cdma.hw.config import BUDDY_PRESETS
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate
from tests.formal.smtbmc import ProofError, check

CONFIG = replace(BUDDY_PRESETS["tiny"], reads=8, id_bits=2)
DEPTH = 9
"""Cycles in which an entry is set aside, gets its sectors, and leaves, and more."""


def order_proof() -> Bench:
    """Entries of an ID that the solver picks, or fetches, leave in the order in which they came.

    No entry of another ID leaves within a burst.
    """
    bench = Bench()
    m = bench.m
    queues = SpillQueues(CONFIG)
    bench.add(queues)
    entry = bench.drive(queues.i)
    given = entry.payload
    # What is in the sectors does not matter.
    for stream in (queues.device, queues.buddy):
        m.d.comb += stream.valid.eq(AnySeq(1))
    left = bench.watch(queues.o)
    sent = left.payload
    bench.assume(
        given.device <= given.fetched,
        given.device + given.buddy <= 4,
        given.fetched <= 4,
    )
    for stream in (queues.o_device, queues.o_buddy):
        m.d.comb += stream.ready.eq(1)

    watched = Signal(CONFIG.id_bits)
    fetches = Signal()
    m.d.comb += [watched.eq(AnyConst(CONFIG.id_bits)), fetches.eq(AnyConst(1))]

    def belongs(payload):
        return Mux(fetches, payload.fetch, ~payload.fetch & (payload.access.id == watched))

    # Each entry of the watched stream carries its number.
    came, went = Signal(8), Signal(8)
    bench.assume(~(entry.valid & belongs(given)) | (given.access.address[:8] == came))
    m.d.sync += [
        came.eq(came + (entry.moves & belongs(given))),
        went.eq(went + (left.moves & belongs(sent))),
    ]
    bench.implies(left.valid & belongs(sent), sent.access.address[:8] == went)

    # The entries of a burst come one after the other, but for fetches, and leave so.
    outside = []
    for name, port, access in (("came", entry, given), ("left", left, sent)):
        burst = Signal(name=f"burst_{name}")
        burst_id = Signal(CONFIG.id_bits, name=f"burst_id_{name}")
        with m.If(port.moves & ~access.fetch):
            m.d.sync += [burst.eq(~access.access.last), burst_id.eq(access.access.id)]
        outside.append(port.valid & ~access.fetch & burst & (access.access.id != burst_id))
    bench.assume(~outside[0])
    bench.require(~outside[1])
    bench.cover((went == 2) & (came != went))
    return bench


@pytest.mark.verify
def test_entries_of_an_id_leave_in_the_order_in_which_they_came(tmp_path):
    check(order_proof(), tmp_path, depth=DEPTH, cover_depth=12)


FAULTS = {
    "overtakes its own ID": ("(order.occupied & is_queue).any()", "Const(0)"),
    "lets others into a burst": ("burst.eq(~entry.access.last)", "burst.eq(0)"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_queues_with_a_fault_are_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, SpillQueues, *FAULTS[fault])
    with pytest.raises(ProofError, match=r"(?s)FAIL.*Assert failed in top"):
        check(order_proof(), tmp_path, depth=DEPTH, planted=True)
