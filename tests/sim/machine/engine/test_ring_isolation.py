"""Whatever one ring does or has done to it, the others' data and records are exact."""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status, WindowDetail
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import FirstError
from cdma.sim.machine import BusFault
from cdma.sim.machine.bus.bus import HOST
from tests.lib.shares import names
from tests.sim.machine.engine.bench import ring_fails
from tests.sim.machine.engine.cases import Shape
from tests.sim.machine.engine.rings import Owner, RingsBench, windows_of

TIMEOUT_CYCLES = 400
LARGE = Shape(opcode=Opcode.COMPRESS_OUT, length=6000, density=0.8)
OUT = Shape(opcode=Opcode.COPY_OUT, length=600)
SHORT = Shape(opcode=Opcode.COPY_OUT, length=4)
IN = Shape(opcode=Opcode.COPY_IN, length=600)
EXPANDS = Shape(opcode=Opcode.DECOMPRESS_IN, length=700)

Happening = Callable[[RingsBench, Owner], None]


@pytest.fixture(
    params=[(2, 0, 0.0), (2, 1, 0.3), (4, 2, 0.0), (4, 0, 0.4)],
    ids=lambda param: f"{param[0]} rings, ring {param[1]}, stalls {param[2]}",
)
def bench(request) -> Iterator[tuple[RingsBench, Owner]]:
    """An engine of several rings, and the one of them to which something happens."""
    rings, victim, stalls = request.param
    made = RingsBench(rings, stalls=stalls, seed=rings + victim)
    yield made, made.owners[victim]
    made.close()


def refused(status: Status, detail: int = 0, *, shape: Shape = OUT, **fields: int) -> Happening:
    """A descriptor whose record says why nothing was done for it; the next one runs."""

    def happen(bench: RingsBench, owner: Owner) -> None:
        job = owner.job(shape)
        job.fields |= fields
        bad = bench.submit(owner, [job])
        good = [owner.job(IN, 1)]
        behind = bench.submit(owner, good, doorbell=True)
        record = owner.engine.wait(bad[0])
        assert (record.status, record.detail) == (status, detail)
        assert (record.src_done, record.out_size) == (0, 0)
        # The record is in memory before its answer has come back.
        bench.settle(owner)
        error = owner.engine.first_error()
        assert error is not None
        assert (error.status, error.tag) == (status, job.fields["tag"])
        owner.engine.clear_error()
        bench.check(owner, good, behind)

    return happen


def of_another(which: str) -> Happening:
    """A descriptor that names memory of the ring's neighbor."""

    def happen(bench: RingsBench, owner: Owner) -> None:
        other = windows_of((owner.ring + 1) % len(bench.owners))
        window: range = getattr(other, "device" if which == "src" else "host")
        detail = WindowDetail.SOURCE if which == "src" else WindowDetail.DESTINATION
        refused(Status.OUTSIDE_WINDOW, detail, **{which: window.start})(bench, owner)

    return happen


def stops(bench: RingsBench, owner: Owner, first: FirstError) -> None:
    """The ring stops, and after a reset it goes on as if nothing had been."""
    ring_fails(owner.engine, first)
    bench.settle(owner)
    owner.engine.reset()
    bench.check(owner, *bench.load(owner, 4))


def record_of_another(bench: RingsBench, owner: Owner) -> None:
    place = windows_of((owner.ring + 1) % len(bench.owners)).records.start
    job = owner.job(OUT)
    job.fields["record"] = place
    bench.submit_raw(owner, job.fields)
    owner.engine.doorbell()
    stops(
        bench,
        owner,
        FirstError(
            status=Status.OUTSIDE_WINDOW, detail=WindowDetail.RECORD, tag=0, fault_address=place
        ),
    )


def ring_of_another(bench: RingsBench, owner: Owner) -> None:
    registers, engine = owner.engine.registers, owner.engine
    place = windows_of((owner.ring + 1) % len(bench.owners)).descriptors.start
    registers.write("CONTROL", enable=0)
    bench.settle(owner)
    registers.write_long("RING_BASE", place)
    registers.write("CONTROL", enable=1)
    bench.submit_raw(owner, owner.job(OUT).fields)
    engine.doorbell()
    stops(
        bench,
        owner,
        FirstError(
            status=Status.OUTSIDE_WINDOW, detail=WindowDetail.RING, tag=0, fault_address=place
        ),
    )


def ring_too_full(bench: RingsBench, owner: Owner) -> None:
    """A doorbell for more records than the ring has room for."""
    done = owner.engine.registers.read("RING_DONE")["index"]
    owner.engine.registers.write("RING_TAIL", index=done + owner.entries + 1)
    stops(
        bench,
        owner,
        FirstError(status=Status.BAD_LENGTH, detail=0, tag=0, fault_address=owner.host_base),
    )


def descriptor_unreadable(bench: RingsBench, owner: Owner) -> None:
    base = owner.host_base
    bench.machine.set_faults(
        [BusFault(HOST, "r", "slverr", addresses=(base, base + ENTRY_BYTES * owner.entries))]
    )
    (transfer,) = bench.submit(owner, [owner.job(OUT)], doorbell=True)
    address = base + ENTRY_BYTES * (transfer.index % owner.entries)
    first = FirstError(
        status=Status.READ_ERROR, detail=BusError.SLVERR.value, tag=0, fault_address=address
    )
    ring_fails(owner.engine, first)
    bench.machine.set_faults([])
    stops(bench, owner, first)


def record_unwritable(bench: RingsBench, owner: Owner) -> None:
    records = windows_of(owner.ring).records
    bench.machine.set_faults(
        [BusFault(HOST, "b", "decerr", addresses=(records.start, records.stop))]
    )
    (transfer,) = bench.submit(owner, [owner.job(OUT)], doorbell=True)
    first = FirstError(
        status=Status.WRITE_ERROR,
        detail=BusError.DECERR.value,
        tag=0,
        fault_address=transfer.fields["record"],
    )
    ring_fails(owner.engine, first)
    bench.machine.set_faults([])
    stops(bench, owner, first)


def records_unwritable_and_writable(bench: RingsBench, owner: Owner) -> None:
    """The first of two errors is told, and no record behind it counts as done."""
    jobs = [owner.job(SHORT, slot) for slot in range(4)]
    transfers = bench.submit(owner, jobs)
    faults = [
        BusFault(HOST, "b", kind, addresses=(place, place + 1))
        for kind, place in zip(
            ("decerr", "slverr"), (each.fields["record"] for each in transfers), strict=False
        )
    ]
    bench.machine.set_faults(faults)
    done = owner.engine.registers.read("RING_DONE")["index"]
    owner.engine.doorbell()
    first = FirstError(
        status=Status.WRITE_ERROR,
        detail=BusError.DECERR.value,
        tag=0,
        fault_address=transfers[0].fields["record"],
    )
    ring_fails(owner.engine, first)
    bench.settle(owner)
    assert owner.engine.registers.read("RING_DONE")["index"] == done
    bench.machine.set_faults([])
    stops(bench, owner, first)


def data_fault(shape: Shape, channel: str, status: Status) -> Happening:
    """A bus that refuses all of the ring's data in host memory."""

    def happen(bench: RingsBench, owner: Owner) -> None:
        window = windows_of(owner.ring).host
        bench.machine.set_faults(
            [BusFault(HOST, channel, "slverr", addresses=(window.start, window.stop))]
        )
        (transfer,) = bench.submit(owner, [owner.job(shape)], doorbell=True)
        record = owner.engine.wait(transfer)
        assert (record.status, record.detail) == (status, BusError.SLVERR.value)
        bench.machine.set_faults([])
        bench.settle(owner)
        owner.engine.clear_error()

    return happen


def broken_stream(bench: RingsBench, owner: Owner) -> None:
    job = owner.job(EXPANDS)
    job.source = job.source.copy()
    job.source[-8:] ^= 0xFF
    job.fields["src_length"] -= 4
    (transfer,) = bench.submit(owner, [job], doorbell=True)
    assert owner.engine.wait(transfer).status is Status.STREAM_TRUNCATED
    bench.settle(owner)
    owner.engine.clear_error()


def disabled(bench: RingsBench, owner: Owner) -> None:
    """CONTROL.enable is taken back with much to do: what was fetched ends, the rest waits."""
    jobs = [owner.job(LARGE, slot) for slot in range(8)]
    transfers = bench.submit(owner, jobs, doorbell=True)
    bench.machine.run(60)
    owner.engine.registers.write("CONTROL", enable=0)
    bench.settle(owner)
    assert owner.engine.registers.read("RING_HEAD")["index"] > 0
    done = owner.engine.registers.read("RING_DONE")["index"]
    assert done == owner.engine.registers.read("RING_HEAD")["index"]
    owner.engine.registers.write("CONTROL", enable=1)
    bench.check(owner, jobs, transfers)


def ended(verb: str, cycles: int) -> Happening:
    """An abort or a reset in the middle of transfers, so many cycles after their doorbell."""

    def happen(bench: RingsBench, owner: Owner) -> None:
        jobs = [owner.job(LARGE, 0), owner.job(EXPANDS, 1), owner.job(LARGE, 2), owner.job(IN, 3)]
        transfers = bench.submit(owner, jobs, doorbell=True)
        bench.machine.run(cycles)
        getattr(owner.engine, verb)()
        for transfer in transfers:
            if not transfer.dropped:
                record = owner.engine.wait(transfer)
                assert record.status in (Status.OK, Status.OK_EXPANDED, Status.ABORTED)
        owner.engine.clear_error()
        bench.check(owner, *bench.load(owner, 4))

    return happen


def aborted_at_a_fence(bench: RingsBench, owner: Owner) -> None:
    """A fence that waits for its ring ends with it."""
    (transfer,) = bench.submit(owner, [owner.job(LARGE)])
    fence = bench.submit_raw(owner, {"opcode": int(Opcode.FENCE)})
    owner.engine.doorbell()
    bench.machine.run(100)
    owner.engine.abort()
    assert owner.engine.wait(fence).status in (Status.OK, Status.ABORTED)
    assert owner.engine.wait(transfer).status in (Status.OK, Status.OK_EXPANDED, Status.ABORTED)
    owner.engine.clear_error()


HAPPENINGS: dict[str, Happening] = {
    "bad opcode": refused(Status.BAD_OPCODE, opcode=9),
    "bad flag": refused(Status.BAD_FLAG, flags=0x80),
    "misaligned": refused(Status.MISALIGNED, dst=windows_of(0).host.start + 2),
    "no length": refused(Status.BAD_LENGTH, length=0),
    "source of another": of_another("src"),
    "destination of another": of_another("dst"),
    "record of another": record_of_another,
    "ring of another": ring_of_another,
    "ring too full": ring_too_full,
    "descriptor unreadable": descriptor_unreadable,
    "record unwritable": record_unwritable,
    "records unwritable and writable": records_unwritable_and_writable,
    "data unreadable": data_fault(IN, "r", Status.READ_ERROR),
    "data unwritable": data_fault(LARGE, "b", Status.WRITE_ERROR),
    "broken stream": broken_stream,
    "disabled": disabled,
    "aborted at once": ended("abort", 0),
    "aborted early": ended("abort", 90),
    "aborted late": ended("abort", 400),
    "reset at once": ended("reset", 0),
    "reset early": ended("reset", 90),
    "reset late": ended("reset", 400),
    "aborted at a fence": aborted_at_a_fence,
}


@pytest.mark.parametrize("happening", HAPPENINGS.values(), ids=list(HAPPENINGS))
def test_others_run_as_if_nothing_happened(bench, happening) -> None:
    made, owner = bench
    others = [other for other in made.owners if other is not owner]
    for _ in range(2):
        with made.others_run(*others):
            happening(made, owner)
        made.check_memory()
    for each in made.owners:
        made.check(each, *made.load(each, 3))


def test_each_of_four_rings_tells_the_first_of_its_records_errors() -> None:
    bench = RingsBench(4, stalls=0.1, seed=7)
    try:
        for owner in bench.owners:
            records_unwritable_and_writable(bench, owner)
        bench.check_memory()
    finally:
        bench.close()


@pytest.mark.parametrize(("channel", "nth"), [("r", 8), ("b", 0)], ids=["read", "record"])
@pytest.mark.parametrize("rings", [2, 4], ids=["two", "four"])
def test_a_silent_bus_ends_all_and_then_all_go_on(rings: int, channel: str, nth: int) -> None:
    """Rings share the buses, so a time-out is everyone's; none is idle before the bus is."""
    bench = RingsBench(rings, timeout_cycles=TIMEOUT_CYCLES)
    try:
        loads = []
        bench.machine.set_faults([BusFault(HOST, channel, "hang", nth=nth)])
        for owner in bench.owners:
            jobs = [owner.job(IN, slot) for slot in range(3)]
            loads.append((owner, bench.submit(owner, jobs, doorbell=True)))
        bench.machine.run(20 * TIMEOUT_CYCLES)
        for owner in bench.owners:
            status = owner.engine.registers.read("STATUS")
            assert not status["idle"], "the bus owes answers still"
        bench.machine.set_faults([])
        statuses = set()
        for owner, transfers in loads:
            owner.engine.registers.write("CONTROL", abort=1, enable=1)
            bench.settle(owner)
            owner.engine.reset()
            statuses |= {t.record.status for t in transfers if t.record is not None}
            owner.engine.clear_error()
        assert statuses <= {Status.OK, Status.TIMEOUT, Status.ABORTED}
        bench.check_memory()
        for owner in bench.owners:
            bench.check(owner, *bench.load(owner))
    finally:
        bench.close()


def test_verification_of_one_ring_delays_another_and_harms_it_not() -> None:
    """The inbound path reads back what one ring wrote, between the transfers of another."""
    bench = RingsBench(2, stalls=0.2, seed=5)
    try:
        verifying, other = bench.owners
        verified = Shape(opcode=Opcode.COMPRESS_OUT, length=900, flags=Flag.VERIFY)
        jobs = [verifying.job(verified, slot) for slot in range(6)]
        inward = [other.job(EXPANDS, slot) for slot in range(6)]
        for _ in range(3):
            first = bench.submit(verifying, jobs, doorbell=True)
            second = bench.submit(other, inward, doorbell=True)
            bench.check(other, inward, second)
            bench.check(verifying, jobs, first)
        bench.check_memory()
    finally:
        bench.close()


@pytest.mark.parametrize("seed", names(map(str, range(12)), quick=("0", "1", "2")))
def test_anything_may_happen_to_any_ring_at_any_time(seed) -> None:
    """One thing after the other, each to another ring, while some of the others run."""
    rng = Random(int(seed))
    bench = RingsBench(4, stalls=rng.choice((0.0, 0.2, 0.5)), seed=int(seed))
    try:
        for _ in range(20):
            victim, *others = rng.sample(bench.owners, 4)
            with bench.others_run(*others[: rng.randint(0, 3)], rounds=0):
                rng.choice(list(HAPPENINGS.values()))(bench, victim)
            bench.check_memory()
    finally:
        bench.close()
