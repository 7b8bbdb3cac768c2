"""The engine in a machine whose every byte is looked at after every transfer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import Flag, Opcode
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import CompletionRecord, Engine, FirstError, Transfer
from cdma.sim.driver.ring.record import GOOD
from cdma.sim.machine import BusFault, Machine, MachineConfig
from cdma.sim.machine.build.rtl import generated_engine
from tests.sim.machine.engine.cases import AREA_BYTES, AREAS, SMALL, Ending, Job, Shape

RING_ENTRIES = 16
TIMEOUT_CYCLES = 400
"""More than the buses are ever silent without a fault."""

NEAR = MachineConfig(
    dram_bytes_per_s=1e12,
    dram_latency_ns=20,
    link_out_bytes_per_s=32e9,
    link_in_bytes_per_s=32e9,
    link_latency_ns=10,
)
"""Environment so close that a small transfer takes a hundred cycles."""

STALLS = (0.0, 0.4)
"""Probabilities of stalls: each half of the cells runs with one of them."""

DEVICE_BASE = 0x12_3456_8000
HOST_BASE = 0x89AB_CDEF_0000_0000
OTHER_DEVICE_BASE = ~DEVICE_BASE & 0xFF_FFFF_F000
OTHER_HOST_BASE = ~HOST_BASE & 0xFFFF_FFFF_FFFF_F000
"""Every bit above a page is another one."""
RING_BYTES = 4096

# After each fault: both ways, at odd places.
RECOVERY = (
    Shape(opcode=Opcode.COMPRESS_OUT, length=420, src=0xFB4, dst=0xFDC, density=0.4, seed=1),
    Shape(opcode=Opcode.DECOMPRESS_IN, length=388, src=0x3C, dst=0xF44, density=0.6, seed=2),
    Shape(opcode=Opcode.COPY_OUT, length=133, src=0x7C, dst=0xFE4, seed=3),
    Shape(opcode=Opcode.COPY_IN, length=301, src=0xF04, dst=0x14, seed=4),
)


def in_parts(count: int) -> pytest.MarkDecorator:
    """Parametrizes a test with a bench and the number of one of `count` parts."""
    return pytest.mark.parametrize(
        ("bench", "part"),
        [(STALLS[part % len(STALLS)], part) for part in range(count)],
        indirect=["bench"],
    )


def ring_fails(engine: Engine, first: FirstError) -> None:
    """Run an engine until its ring has stopped, because of that."""
    for _ in range(400):
        status = engine.registers.read("STATUS")
        if status["ring_error"]:
            break
        engine.machine.run(20)
    assert status["ring_error"], f"the ring goes on: {status}; {engine.machine.outstanding()}"
    assert engine.registers.read("IRQ_STATUS")["ring_error"]
    got = engine.first_error()
    assert got == first, f"{got} instead of {first}"


def settle(engine: Engine, *, polls: int = 100, cycles: int = 50) -> None:
    """Run until an engine is idle, or its ring of several; looked at so often, so far apart."""
    for _ in range(polls):
        status = engine.registers.read("STATUS")
        if status["idle"]:
            return
        engine.machine.run(cycles)
    raise AssertionError(
        f"ring {engine.ring} is not idle: {status}; {engine.machine.outstanding()}"
    )


class EngineBench:
    """Carries out transfers, and finds whatever is not as it should be.

    Parameters
    ----------
    config : EngineConfig
    environment : MachineConfig
        But for the number of channels.
    device_base, host_base, stalls, seed, sleep, host_clock_hz
        As of `Machine`.
    """

    def __init__(
        self,
        config: EngineConfig = SMALL,
        environment: MachineConfig = NEAR,
        *,
        device_base: int = DEVICE_BASE,
        host_base: int = HOST_BASE,
        stalls: float = 0.0,
        seed: int = 0,
        sleep: bool = True,
        host_clock_hz: float | None = None,
    ) -> None:
        self.config = config
        self.machine = Machine(
            generated_engine(config),
            replace(environment, channels=config.units),
            device_bytes=AREAS * AREA_BYTES,
            host_bytes=RING_BYTES + AREAS * AREA_BYTES,
            device_base=device_base,
            host_base=host_base,
            stalls=stalls,
            seed=seed,
            sleep=sleep,
            host_clock_hz=host_clock_hz,
        )
        rng = np.random.default_rng(seed)
        for memory in (self.machine.device, self.machine.host):
            memory[:] = rng.integers(0, 256, memory.size, np.uint8)
        self.engine = Engine(self.machine, ring_entries=RING_ENTRIES, timeout_cycles=TIMEOUT_CYCLES)
        self._recovery = [
            self.job(shape, AREAS - len(RECOVERY) + area) for area, shape in enumerate(RECOVERY)
        ]

    def close(self) -> None:
        self.machine.close()

    # Memory

    def job(self, shape: Shape, area: int = 0) -> Job:
        """A transfer in an area."""
        device = self.machine.device_base + area * AREA_BYTES
        host = self.machine.host_base + RING_BYTES + area * AREA_BYTES
        outward = shape.opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        source, destination = (device, host) if outward else (host, device)
        return Job(shape, self.config.units, source + shape.src, destination + shape.dst)

    def source(self, job: Job) -> ByteArray:
        return self._at(job.src, job.source.size, device=job.outward)

    def target(self, job: Job) -> ByteArray:
        """All of the destination's capacity."""
        return self._at(job.dst, job.capacity, device=not job.outward)

    def _at(self, address: int, nbytes: int, *, device: bool) -> ByteArray:
        memory = self.engine.device if device else self.engine.host
        return memory.at(address, nbytes)

    # Cells

    @contextmanager
    def cell(self, name: str) -> Iterator[None]:
        """Whatever goes wrong inside has that name; afterwards, good transfers must succeed."""
        try:
            yield
            self.recovers()
        except Exception as error:
            error.add_note(f"cell: {name}")
            raise

    def submit(self, jobs: Sequence[Job]) -> list[Transfer]:
        """Put data and descriptors into memory, without a doorbell. No target is right as it is."""
        for job in jobs:
            self.source(job)[:] = job.source
            target = self.target(job)
            right = job.wanted[: target.size]
            target[: right.size] = ~right
        transfers = [self.engine.submit_raw(job.fields, doorbell=False) for job in jobs]
        self.remember()
        return transfers

    def remember(self) -> None:
        """Keep the memories' content before the engine begins."""
        self._before = self.machine.device.copy(), self.machine.host.copy()

    def carry_out(
        self, jobs: Sequence[Job], endings: Sequence[Ending], faults: Sequence[BusFault] = ()
    ) -> list[CompletionRecord]:
        """Let transfers run while there are these faults, all of which must happen."""
        transfers = self.submit(jobs)
        if faults:
            self.machine.set_faults(faults)
        self.engine.doorbell()
        records = self.engine.wait_all()
        if faults:
            for fault, delivered in zip(faults, self.machine.delivered_faults(), strict=True):
                assert delivered.times == 1, f"{fault} happened {delivered.times} times"
            if any(fault.kind == "hang" for fault in faults):
                assert not self.engine.registers.read("STATUS")["idle"]
            self.machine.set_faults([])
        self.settle()
        for job, record, ending in zip(jobs, records, endings, strict=True):
            self.check_record(record, ending)
            self.check_target(job, record)
        self.check_memory(jobs, transfers)
        self.check_registers(transfers)
        return records

    def settle(self) -> None:
        """Until the engine is idle, as it must be soon after it has told of its last record."""
        settle(self.engine)

    def ring_fails(self, first: FirstError) -> None:
        ring_fails(self.engine, first)

    def recovers(self) -> None:
        """Good transfers succeed, both ways."""
        jobs = self._recovery
        self.carry_out(jobs, [job.good() for job in jobs])

    # Checks

    def check_record(self, record: CompletionRecord, ending: Ending) -> None:
        assert ending.agrees(record), f"\n{record} instead of\n{ending}"

    def check_target(self, job: Job, record: CompletionRecord) -> None:
        """Assert that the bytes that the record calls right are."""
        assert record.out_size <= job.capacity
        got, right = self.target(job)[: record.out_size], job.wanted[: record.out_size]
        if not np.array_equal(got, right):
            at = int(np.flatnonzero(got != right)[0])
            raise AssertionError(
                f"{job.shape}: byte {at} of {record.out_size} is {got[at]:#x}, not {right[at]:#x}"
            )

    def check_memory(
        self,
        jobs: Sequence[Job],
        transfers: Sequence[Transfer],
        others: Sequence[Transfer] = (),
        *,
        record_places: Sequence[Transfer] = (),
    ) -> None:
        """Nothing but records and targets has changed, of good transfers no byte too many.

        `others` have no target, and of `record_places` there may be a record or not.
        """
        device, host = (memory.copy() for memory in self._before)
        places = []
        for job, transfer in zip_longest(jobs, transfers):
            record = transfer.record if transfer else None
            size = record.out_size if record and record.status in GOOD else job.capacity
            places.append((job.dst, size, not job.outward))
        for transfer in (*transfers, *others, *record_places):
            if transfer.record is not None or transfer in record_places:
                record_address = transfer.fields["record"] // ENTRY_BYTES * ENTRY_BYTES
                places.append((record_address, ENTRY_BYTES, False))
        for address, size, in_device in places:
            before = device if in_device else host
            start = address - (self.machine.device_base if in_device else self.machine.host_base)
            now = self.machine.device if in_device else self.machine.host
            before[start : start + size] = now[start : start + size]
        for name, before, now in (
            ("device", device, self.machine.device),
            ("host", host, self.machine.host),
        ):
            if not np.array_equal(before, now):
                changed = np.flatnonzero(before != now)
                raise AssertionError(
                    f"{changed.size} bytes of {name} memory have changed, the first and last at "
                    f"offsets {changed[0]:#x} and {changed[-1]:#x}; targets at "
                    + ", ".join(f"{job.dst:#x} for {job.capacity}" for job in jobs)
                )

    def check_registers(self, transfers: Sequence[Transfer]) -> None:
        """The first error is captured, and interrupts tell of records that asked for one."""
        records = [transfer.result() for transfer in transfers]
        failed = next((record for record in records if record.status not in GOOD), None)
        first = None
        if failed is not None:
            first = FirstError(
                status=failed.status,
                detail=failed.detail,
                tag=failed.tag,
                fault_address=failed.fault_address,
            )
        got = self.engine.first_error()
        assert got == first, f"{got} instead of {first}"
        events = self.engine.registers.read("IRQ_STATUS")
        asked = any(transfer.fields.get("flags", 0) & Flag.INTERRUPT for transfer in transfers)
        assert events["done"] == asked
        assert not events["ring_error"]
        if first or asked:
            self.engine.registers.write("IRQ_STATUS", done=1, error=1)
