"""Several rings: transfers of several owners at once, each with its records and interrupts."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from cdma.hw.dma.control.descriptor import Flag, Opcode, Status
from cdma.hw.dma.control.registers import register_map
from cdma.hw.dma.engine import DmaEngine
from cdma.hw.emit.verilog import Verilog
from cdma.sim.machine import HangError, RegisterError
from cdma.sim.machine.build.rtl import generated_engine
from tests.bench.engine.rig import NEAR as AT_ONCE
from tests.bench.engine.rig import Rig
from tests.sim.machine.engine.cases import Shape
from tests.sim.machine.engine.rings import ENTRIES, SLOTS, RingsBench, rings_config

PAGE = 0x1000
TRANSFERS = rings_config(2).transfers
FENCE = {"opcode": int(Opcode.FENCE)}
FENCES = 2080


@pytest.fixture
def bench(request) -> Iterator[RingsBench]:
    """An engine of so many rings, without or with stalls."""
    rings, stalls = request.param
    made = RingsBench(rings, stalls=stalls, seed=rings)
    yield made
    made.close()


two = pytest.mark.parametrize("bench", [(2, 0.0)], indirect=True)
both = pytest.mark.parametrize("bench", [(2, 0.0), (2, 0.4)], indirect=True)
several = pytest.mark.parametrize(
    "bench", [(2, 0.3), (4, 0.0), (4, 0.4)], indirect=True, ids=["two", "four", "four stalled"]
)


@several
def test_interleaved_transfers_are_those_of_numpy(bench) -> None:
    """Descriptors come to all rings in any order, a few at a time, and records as they come."""
    rng = Random(7)
    for _ in range(6):
        loads = [(owner, *bench.load(owner, rng.randint(1, SLOTS))) for owner in bench.owners]
        rng.shuffle(loads)
        for load in loads:
            bench.check(*load)
        bench.check_memory()


@several
def test_rings_take_turns(bench) -> None:
    """While all rings have transfers of the same size, none gets ahead of another by more."""
    shape = Shape(opcode=Opcode.COPY_OUT, length=4000)
    loads = []
    for owner in bench.owners:
        jobs = [owner.job(shape, slot) for slot in range(SLOTS)]
        loads.append((owner, jobs, bench.submit(owner, jobs)))
    for owner in bench.owners:
        owner.engine.doorbell()
    leads: list[list[int]] = []
    for _ in range(4000):
        done = [owner.engine.registers.read("RING_DONE")["index"] for owner in bench.owners]
        if min(done) and max(done) < SLOTS:
            leads.append([count - done[0] for count in done])
        if min(done) == SLOTS:
            break
        bench.machine.run(5)
    for load in loads:
        bench.check(*load)
    assert len(leads) > 4 * len(bench.owners)
    # A register is read a while after another one, in which a transfer may have ended.
    changes = [max(lead) - min(lead) for lead in zip(*leads, strict=True)]
    assert max(changes) <= 2, f"leads over ring 0 change by {changes}"


@both
def test_a_late_ring_waits_for_no_more_than_what_has_started(bench) -> None:
    """However much another one has, that is at most twice the transfers, and a few on their way."""
    busy, late = bench.owners
    shape = Shape(opcode=Opcode.COMPRESS_OUT, length=1400)
    jobs = [busy.job(shape, slot) for slot in range(SLOTS)] * (ENTRIES // SLOTS)
    own = [late.job(Shape(opcode=Opcode.COPY_OUT, length=64))]
    for turn in range(4):
        load = (busy, jobs, bench.submit(busy, jobs, doorbell=True))
        bench.machine.run(100 * turn)
        transfers = bench.submit(late, own, doorbell=True)
        while late.engine.registers.read("RING_HEAD")["index"] <= turn:
            bench.machine.run(1)
        before = busy.engine.registers.read("RING_DONE")["index"]
        bench.check(late, own, transfers)
        waited = busy.engine.registers.read("RING_DONE")["index"] - before
        assert waited <= 2 * TRANSFERS + 4, f"{waited} transfers came before"
        assert busy.engine.pending > waited
        bench.check(*load)


@two
def test_a_fence_waits_for_its_own_ring_alone(bench) -> None:
    """Behind a long transfer and a fence of one ring, another one's goes through."""
    fencing, other = bench.owners
    long = [fencing.job(Shape(opcode=Opcode.COMPRESS_OUT, length=16000, density=1.0))]
    transfers = bench.submit(fencing, long)
    fence = bench.submit_raw(fencing, FENCE)
    behind = [fencing.job(Shape(opcode=Opcode.COPY_OUT, length=64), 4)]
    after = bench.submit(fencing, behind, doorbell=True)
    short = [other.job(Shape(opcode=Opcode.COPY_IN, length=64), slot) for slot in range(4)]
    bench.check(other, short, bench.submit(other, short, doorbell=True))
    # Records come in the order in which descriptors started: that of the fence is not among them.
    assert not fencing.engine.poll() or not fence.done
    bench.check(fencing, long, transfers)
    fencing.engine.wait(fence).check()
    bench.check(fencing, behind, after)


@two
def test_interrupts_are_their_rings(bench) -> None:
    machine = bench.machine
    for owner in bench.owners:
        owner.engine.registers.write("IRQ_ENABLE", done=1)
    for owner in (*bench.owners, bench.owners[0]):
        job = owner.job(Shape(opcode=Opcode.COPY_OUT, length=200, flags=Flag.INTERRUPT))
        (transfer,) = bench.submit(owner, [job], doorbell=True)
        machine.run_until_irq(4000, line=owner.ring)
        assert machine.irq_lines == 1 << owner.ring
        assert owner.engine.wait(transfer).ok
        for each in bench.owners:
            assert each.engine.registers.read("IRQ_STATUS")["done"] == (each is owner)
        owner.engine.registers.write("IRQ_STATUS", done=1)
        machine.run(4)
        assert not machine.irq
    with suppress(HangError):
        machine.run_until_irq(200, line=0)
        pytest.fail("an interrupt of nothing")


def test_drivers_sleep_until_their_own_interrupts() -> None:
    bench = RingsBench(4, seed=3, interrupts=True)
    try:
        loads = [(owner, *bench.load(owner)) for owner in bench.owners]
        for load in reversed(loads):
            bench.check(*load)
    finally:
        bench.close()


@pytest.mark.parametrize("bench", [(4, 0.0)], indirect=True)
def test_pages_have_what_is_the_rings_and_nothing_more(bench) -> None:
    """The first page alone has the registers that all rings share."""
    registers = register_map(rings_config(4))
    own = {r.offset % PAGE for r in registers.values() if r.page}
    shared = {r.offset for r in registers.values() if not r.page} - own
    assert {registers[name].offset for name in ("TIMEOUT_CYCLES", "PERF_CONTROL")} <= shared
    for ring in range(1, 4):
        for offset in range(0, 0x400, 4):
            address = ring * PAGE + offset
            if offset in own:
                bench.machine.read_register(address)
                continue
            for access in (
                lambda address=address: bench.machine.read_register(address),
                lambda address=address: bench.machine.write_register(address, 0),
            ):
                with pytest.raises(RegisterError, match="SLVERR"):
                    access()
        assert bench.machine.read_register(ring * PAGE) == registers["ID"].fields["id"].reset
    with pytest.raises(ValueError, match="a multiple of 4 below 16384"):
        bench.machine.read_register(4 * PAGE)


def test_a_page_without_a_ring_is_refused() -> None:
    """Three rings have addresses for four pages."""
    bench = RingsBench(3)
    try:
        with pytest.raises(RegisterError, match="SLVERR"):
            bench.machine.read_register(3 * PAGE)
        for owner in bench.owners:
            bench.check(owner, *bench.load(owner, 3))
    finally:
        bench.close()


@both
def test_setup_of_one_ring_closes_by_itself(bench) -> None:
    """A ring's windows may change while it rests, whatever the others do; its lock is its own."""
    running, resting = bench.owners
    resting.engine.registers.write("CONTROL", enable=0)
    with bench.others_run(running):
        bench.settle(resting)
        assert not running.engine.registers.read("STATUS")["idle"]
        registers = resting.engine.registers
        before = registers.read_long("HOST_WINDOW_BASE")
        registers.write_long("HOST_WINDOW_BASE", before + PAGE)
        registers.write_long("HOST_WINDOW_BASE", before)
        registers.write("HOST_BUS", prot=1, arcache=3, awcache=2)
        with pytest.raises(RegisterError, match="SLVERR"):
            running.engine.registers.write("HOST_BUS", prot=1)
        registers.write("WINDOW_LOCK", lock=1)
        with pytest.raises(RegisterError, match="SLVERR"):
            registers.write("HOST_BUS", prot=2)
    assert not running.engine.registers.read("WINDOW_LOCK")["lock"]
    bench.settle(running)
    running.engine.registers.write("CONTROL", enable=0)
    running.engine.registers.write("HOST_BUS", prot=1, arcache=2, awcache=2)
    for owner in bench.owners:
        owner.engine.registers.write("CONTROL", enable=1)
        bench.check(owner, *bench.load(owner))


@several
def test_all_rings_are_reset_together(bench) -> None:
    """No ring fetches before all have ended what they had."""
    for turn in range(5):
        loads = [(owner, *bench.load(owner)) for owner in bench.owners]
        bench.machine.run(60 * turn)
        registers = bench.owners[0].engine.registers
        registers.write("ALL_RINGS", reset=1)
        for _ in range(400):
            state = registers.read("ALL_RINGS")
            if not state["resetting"] and not state["busy"]:
                break
            bench.machine.run(10)
        else:
            pytest.fail(f"a reset does not end: {state}")
        for owner, _, transfers in loads:
            assert not owner.engine.registers.read("CONTROL")["enable"]
            assert not owner.engine.registers.read("RING_DONE")["index"]
            owner.engine.reset()
            assert all(transfer.done for transfer in transfers)
            owner.engine.clear_error()
        for owner in bench.owners:
            bench.check(owner, *bench.load(owner))
        bench.check_memory()


def test_four_rings_count_thousands_of_fences() -> None:
    """Rings of 16 and 32 entries go round and round, and numbers of descriptors go on."""
    bench = RingsBench(4, seed=7)
    try:
        for owner in bench.owners:
            for number in range(FENCES // owner.entries):
                fences = [
                    owner.engine.submit_raw(FENCE, doorbell=False) for _ in range(owner.entries)
                ]
                owner.engine.doorbell()
                assert owner.engine.wait(fences[-1]).index == (number + 1) * owner.entries - 1
                assert all(owner.engine.wait(fence).ok for fence in fences)
            for name in ("RING_HEAD", "RING_DONE"):
                assert owner.engine.registers.read(name)["index"] == FENCES
            owner.engine.reset()
            assert not owner.engine.registers.read("RING_DONE")["index"]
    finally:
        bench.close()


def test_choices_cost_a_cycle_for_the_fetch_and_one_for_the_start() -> None:
    """Counted to the descriptor's read, to that of its data, and to the record."""
    data = np.random.default_rng(1).integers(1, 256, 512, np.uint8)
    cycles = []
    for rings in (1, 2):
        with Rig(rings_config(rings), replace(AT_ONCE, channels=2)) as rig:
            round_trip = rig.out(data, codec=None)
            cycles.append((round_trip.fetch_cycles, round_trip.read_cycles, round_trip.cycles))
    one, two = cycles
    assert one[0] == DmaEngine.descriptor_read_latency
    assert [after - before for before, after in zip(one, two, strict=True)] == [1, 2, 2]


SPOILT = 0x0DEFACED
"""A word whose beats come out of the engine's memory with two bits turned over."""


def spoiling(verilog: Verilog) -> Verilog:
    """The engine, whose buffer of streams has lost beats that begin with that word."""
    found = r"(module \w+_receiver_queue_decoder \(.*?assign uncorrectable = )"
    text, count = re.subn(
        found, rf"\g<1>(i[31:0] == 32'h{SPOILT:08x}) | ", verilog.text, flags=re.S
    )
    assert count == 1
    return replace(verilog, text=text)


def test_memory_errors_are_everyones_until_all_rings_are_reset() -> None:
    """The reset of one ring would leave the remains of the others' transfers in the paths."""
    config = replace(rings_config(2), ecc=True)
    bench = RingsBench(2, verilog=spoiling(generated_engine(config)))
    try:
        one, other = bench.owners
        bench.check(one, *bench.load(one))
        inward = one.job(Shape(opcode=Opcode.COPY_IN, length=256))
        data = inward.data.copy()
        data[:4] = np.frombuffer(SPOILT.to_bytes(4, "little"), np.uint8)
        lost = bench.submit(one, [inward.with_data(data)], doorbell=True)
        assert one.engine.wait(lost[0]).status is Status.MEMORY_ERROR
        count = register_map(config)["ECC_UNCORRECTABLE_LO"].offset
        assert bench.machine.read_register(count) == 1
        good = Shape(opcode=Opcode.COPY_OUT, length=256)
        for reset in (False, True):
            for owner in bench.owners:
                if reset:
                    owner.engine.reset()
                transfer = bench.submit(owner, [owner.job(good)], doorbell=True)
                assert owner.engine.wait(transfer[0]).status is Status.MEMORY_ERROR
        other.engine.registers.write("ALL_RINGS", reset=1)
        for owner in bench.owners:
            bench.settle(owner)
            owner.engine.reset()
            owner.engine.clear_error()
            bench.check(owner, *bench.load(owner))
    finally:
        bench.close()
