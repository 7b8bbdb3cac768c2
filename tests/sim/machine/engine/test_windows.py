"""Windows of the engine: nothing outside of them is asked of a bus, and the next transfer runs."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status, WindowDetail
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import DriverError, Engine, FirstError, Windows
from cdma.sim.machine import BusFault, RegisterError
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import (
    DEVICE_BASE,
    HOST_BASE,
    RING_BYTES,
    RING_ENTRIES,
    TIMEOUT_CYCLES,
    EngineBench,
)
from tests.sim.machine.engine.cases import AREA_BYTES, AREAS, Ending, Job, Shape

ALL_BYTES = AREAS * AREA_BYTES
HOST_DATA = range(HOST_BASE + RING_BYTES, HOST_BASE + RING_BYTES + ALL_BYTES)
DEVICE_DATA = range(DEVICE_BASE, DEVICE_BASE + ALL_BYTES)
RING = range(HOST_BASE, HOST_BASE + RING_BYTES)
ENDS = {"device": 1 << 40, "host": (1 << 64) - 1}
"""Behind the last address for which the machine can be told of a fault."""

# All but the first and the last page of the areas.
INNER_HOST = range(HOST_DATA.start + PAGE_BYTES, HOST_DATA.stop - PAGE_BYTES)
INNER_DEVICE = range(DEVICE_DATA.start + PAGE_BYTES, DEVICE_DATA.stop - PAGE_BYTES)
INNER = Windows(descriptors=RING, records=RING, host=INNER_HOST, device=INNER_DEVICE)
OPCODES = (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN, Opcode.COPY_OUT, Opcode.COPY_IN)


class WindowBench(EngineBench):
    """An engine with windows, on whose buses every access outside of them would be an error."""

    def set(self, windows: Windows) -> None:
        """Give the engine another driver, with these windows."""
        self.engine.close()
        # Another driver's ring would begin where this one's is.
        self.engine = Engine(
            self.machine,
            ring_entries=RING_ENTRIES,
            timeout_cycles=TIMEOUT_CYCLES,
            windows=windows,
        )

    def guarded(self) -> None:
        """Faults at all addresses outside; each must stay undelivered."""
        device, host = self.engine.windows.device, self.engine.windows.host
        assert device is not None
        assert host is not None
        outside = {
            HOST: [(0, RING.start), (RING.stop, host.start), (host.stop, ENDS["host"])],
            **{
                port: [(0, device.start), (device.stop, ENDS["device"])]
                for port in range(self.config.units)
            },
        }
        self.machine.set_faults(
            [
                BusFault(port, channel, "slverr", addresses=addresses)
                for port, ranges in outside.items()
                for addresses in ranges
                for channel in ("r", "b")
            ]
        )

    def untouched(self) -> None:
        assert all(not fault.times for fault in self.machine.delivered_faults())
        self.machine.set_faults([])


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[WindowBench]:
    made = WindowBench(stalls=getattr(request, "param", 0.0), seed=1)
    yield made
    made.close()


def placed(bench: EngineBench, opcode: Opcode, src: int, dst: int, **shape: object) -> Job:
    return Job(Shape(opcode=opcode, length=300, seed=3, **shape), bench.config.units, src, dst)  # type: ignore[arg-type]


def edges(bench: EngineBench) -> Iterator[tuple[Job, int | None]]:
    """Transfers at both ends of their windows, or beyond by an element or a byte, and the detail
    of those that leave them."""
    for opcode in OPCODES:
        outward = opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        source, target = (INNER_DEVICE, INNER_HOST) if outward else (INNER_HOST, INNER_DEVICE)
        middle = placed(bench, opcode, source.start + 0x1F00, target.start + 0x1F00)
        read, written = middle.source.size, middle.capacity
        # Addresses are of whole elements, so the last bytes of a window are reached by lengths.
        last_src = (source.stop - read) // 4 * 4
        last_dst = (target.stop - written) // 4 * 4
        for src, dst, detail in (
            (source.start, target.start, None),
            (last_src, last_dst, None),
            (source.start - 4, target.start, WindowDetail.SOURCE),
            (last_src + 4, target.start, WindowDetail.SOURCE),
            (source.stop, target.start, WindowDetail.SOURCE),
            (source.start, target.start - 4, WindowDetail.DESTINATION),
            (source.start, last_dst + 4, WindowDetail.DESTINATION),
            (source.start, target.stop, WindowDetail.DESTINATION),
            (source.start - 4, target.start - 4, WindowDetail.SOURCE),
        ):
            yield placed(bench, opcode, src, dst), detail


def refused(detail: int) -> Ending:
    return Ending(status=Status.OUTSIDE_WINDOW, detail=detail, src_done=0, out_size=0)


@pytest.mark.parametrize("bench", [0.0, 0.4], indirect=True)
def test_no_byte_outside_of_the_windows_is_asked_for(bench):
    bench.set(INNER)
    for job, detail in edges(bench):
        ending = job.good() if detail is None else refused(detail)
        try:
            transfers = bench.submit([job])
            bench.guarded()
            bench.engine.doorbell()
            (record,) = bench.engine.wait_all()
            bench.settle()
            bench.untouched()
            bench.check_record(record, ending)
            if detail is None:
                bench.check_target(job, record)
                bench.check_memory([job], transfers)
            else:
                bench.check_memory([], [], transfers)
            bench.check_registers(transfers)
        except AssertionError as error:
            error.add_note(f"{job.shape}: {job.fields}")
            raise


def test_refused_transfers_lie_between_good_ones(bench):
    bench.set(INNER)
    flags = Flag.VERIFY
    good = [
        placed(bench, Opcode.COMPRESS_OUT, INNER_DEVICE.start, INNER_HOST.start, flags=flags),
        placed(bench, Opcode.COPY_IN, INNER_HOST.start + 0x4000, INNER_DEVICE.start + 0x4000),
        placed(bench, Opcode.DECOMPRESS_IN, INNER_HOST.start + 0x8000, INNER_DEVICE.start + 0x8004),
    ]
    bad = placed(bench, Opcode.COPY_OUT, DEVICE_DATA.start, INNER_HOST.start + 0xC000)
    jobs = [good[0], bad, good[1], bad, good[2]]
    endings = [refused(WindowDetail.SOURCE) if job is bad else job.good() for job in jobs]
    transfers = bench.submit(jobs)
    bench.engine.doorbell()
    records = bench.engine.wait_all()
    bench.settle()
    for job, record, ending in zip(jobs, records, endings, strict=True):
        bench.check_record(record, ending)
        if job is not bad:
            bench.check_target(job, record)
    bench.check_memory(
        good, [transfers[0], transfers[2], transfers[4]], [transfers[1], transfers[3]]
    )
    bench.check_registers(transfers)


def test_empty_windows_let_nothing_through_but_a_destination_of_no_bytes(bench):
    bench.set(Windows(host=range(0)))
    for opcode, capacity in product(OPCODES, (0, None)):
        outward = opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        device, host = DEVICE_DATA.start, HOST_DATA.start
        job = placed(
            bench, opcode, device if outward else host, host if outward else device,
            space_left=capacity,
        )  # fmt: skip
        ending = refused(WindowDetail.DESTINATION if outward else WindowDetail.SOURCE)
        if outward and capacity == 0:
            ending = job.good()
        bench.submit([job])
        bench.engine.doorbell()
        (record,) = bench.engine.wait_all()
        bench.check_record(record, ending)
        bench.engine.clear_error()


@pytest.mark.parametrize("records", [range(0), range(RING.stop, RING.stop + PAGE_BYTES)])
def test_record_outside_of_its_window_stops_the_ring(bench, records):
    """What came before it has its record; the ring goes on after a reset."""
    window = Windows(records=RING)
    bench.set(window)
    jobs = [
        placed(bench, Opcode.COPY_OUT, DEVICE_DATA.start + 0x4000 * k, HOST_DATA.start + 0x4000 * k)
        for k in range(4)
    ]
    nowhere = HOST_DATA.stop - ENTRY_BYTES
    jobs[2].fields["record"] = nowhere
    transfers = bench.submit(jobs)
    bench.engine.doorbell()
    bench.ring_fails(
        FirstError(
            status=Status.OUTSIDE_WINDOW,
            detail=WindowDetail.RECORD,
            tag=0,
            fault_address=nowhere,
        )
    )
    bench.settle()
    bench.engine.poll()
    assert bench.engine.registers.read("RING_DONE")["index"] == 2
    assert [transfer.record is not None for transfer in transfers] == [True, True, False, False]
    for job, transfer in zip(jobs[:2], transfers, strict=False):
        bench.check_record(transfer.result(), job.good())
        bench.check_target(job, transfer.result())
    bench.check_memory(jobs[:2], transfers[:2])
    bench.engine.clear_error()
    bench.engine.reset()
    record = bench.engine.wait(bench.engine.submit_raw({**jobs[3].fields}))
    bench.check_record(record, jobs[3].good())


@pytest.mark.parametrize("tail_first", [False, True])
def test_ring_outside_of_its_window_stops_before_it_is_read(bench, tail_first):
    """However soon after its registers were set the engine is enabled."""
    registers = bench.engine.registers
    base = registers.read_long("RING_BASE")
    registers.write("CONTROL", reset=1)
    bench.settle()
    registers.write("RING_SIZE", log2_entries=4)
    if tail_first:
        registers.write("RING_TAIL", index=1)
    registers.write_long("DESCRIPTOR_WINDOW_BASE", RING.stop)
    registers.write("CONTROL", enable=1)
    if not tail_first:
        registers.write("RING_TAIL", index=1)
    bench.ring_fails(
        FirstError(
            status=Status.OUTSIDE_WINDOW, detail=WindowDetail.RING, tag=0, fault_address=base
        )
    )
    bench.settle()
    assert registers.read("RING_HEAD")["index"] == 0


SETUP = ("RING_BASE_LO", "RING_BASE_HI", "RING_SIZE")


def test_setup_registers_refuse_writes_while_the_engine_is_enabled(bench):
    registers = bench.engine.registers
    windows = [name for name in registers.map if "_WINDOW_" in name]
    names = (*SETUP, *windows, "HOST_BUS", "DEVICE_BUS")
    assert len(names) == 3 + 16 + 2
    for name in names:
        register = registers.map[name]
        before = bench.machine.read_register(register.offset)
        with pytest.raises(RegisterError, match="SLVERR"):
            bench.machine.write_register(register.offset, ~before & 0xFFFF_FFFF)
        assert bench.machine.read_register(register.offset) == before
    bench.recovers()
    registers.write("CONTROL", enable=0)
    for name in names:
        register = registers.map[name]
        before = bench.machine.read_register(register.offset)
        bench.machine.write_register(register.offset, ~before & 0xFFFF_FFFF)
        assert bench.machine.read_register(register.offset) != before, name
        bench.machine.write_register(register.offset, before)


def test_ring_stays_where_it_is_until_the_last_transfer_has_ended(bench):
    """CONTROL.enable alone does not open the setup registers."""
    job = placed(bench, Opcode.COPY_OUT, DEVICE_DATA.start, HOST_DATA.start)
    registers = bench.engine.registers
    offset = registers.map["RING_SIZE"].offset
    for wait in range(12):
        bench.submit([job])
        bench.engine.doorbell()
        bench.machine.run(wait)
        registers.write("CONTROL", enable=0)
        started = not registers.read("STATUS")["idle"]
        if started:
            with pytest.raises(RegisterError, match="SLVERR"):
                bench.machine.write_register(offset, 1)
        registers.write("CONTROL", enable=1)
        bench.engine.wait_all()
        bench.settle()


def test_locked_windows_stay_until_the_block_is_reset(bench):
    bench.set(Windows(host=HOST_DATA, lock=True))
    bench.engine.reset()
    assert bench.engine.registers.read("WINDOW_LOCK")["lock"]
    bench.recovers()
    with pytest.raises(DriverError, match=r"windows.host must be .* which is locked"):
        bench.set(Windows(host=INNER_HOST))
    bench.set(Windows(host=HOST_DATA))
    bench.machine.reset()
    bench.engine.reset()
    assert not bench.engine.registers.read("WINDOW_LOCK")["lock"]
    bench.set(INNER)
    assert bench.engine.registers.read_long("HOST_WINDOW_BASE") == INNER_HOST.start


def test_reset_in_any_cycle_leaves_nothing_behind(bench):
    """A descriptor between two stages is not forgotten: its record is not counted afterwards."""
    job = placed(bench, Opcode.COPY_OUT, DEVICE_DATA.start, HOST_DATA.start)
    for wait in range(90):
        bench.submit([job])
        bench.engine.doorbell()
        bench.machine.run(wait)
        bench.engine.registers.write("CONTROL", reset=1)
        bench.machine.run(400)
        status = bench.engine.registers.read("STATUS")
        assert (status["idle"], status["resetting"]) == (1, 0)
        assert bench.engine.registers.read("RING_DONE")["index"] == 0, f"{wait} cycles"
        bench.engine.reset()
    np.testing.assert_equal(bench.engine.pending, 0)
