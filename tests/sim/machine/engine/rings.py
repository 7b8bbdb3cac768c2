"""An engine with several rings, each with a driver, windows and memory of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from cdma.golden.formats.stream import ByteArray
from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import Flag, Opcode
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import Engine, Transfer, Windows
from cdma.sim.machine import Machine, VerilogText
from cdma.sim.machine.build.rtl import generated_engine
from tests.sim.machine.engine.bench import DEVICE_BASE, HOST_BASE, NEAR, settle
from tests.sim.machine.engine.cases import AREA_BYTES, SMALL, Job, Shape

ENTRIES = 32
SLOTS = 8
"""Areas of each ring, in which transfers are kept apart."""
SHARE_BYTES = 2 * PAGE_BYTES + SLOTS * AREA_BYTES
"""What each ring has of host memory: a page of descriptors, one of records, and its areas."""
OPCODES = (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN, Opcode.COPY_OUT, Opcode.COPY_IN)


def rings_config(rings: int, **fields: int) -> EngineConfig:
    return replace(SMALL, rings=rings, **fields)


@dataclass(frozen=True)
class Owner:
    """A ring's driver, and where its memory is."""

    ring: int
    engine: Engine

    @property
    def entries(self) -> int:
        """Size of the ring."""
        return entries_of(self.ring)

    @property
    def device_base(self) -> int:
        return self.engine.machine.device_base + self.ring * SLOTS * AREA_BYTES

    @property
    def host_base(self) -> int:
        return self.engine.machine.host_base + self.ring * SHARE_BYTES

    def job(self, shape: Shape, slot: int = 0) -> Job:
        """A transfer in one of the ring's areas."""
        device = self.device_base + slot * AREA_BYTES
        host = self.host_base + 2 * PAGE_BYTES + slot * AREA_BYTES
        outward = shape.opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        source, destination = (device, host) if outward else (host, device)
        machine = self.engine.machine
        return Job(
            shape,
            machine.units,
            source + shape.src,
            destination + shape.dst,
            machine.link_port_bytes,
        )


def entries_of(ring: int) -> int:
    """Neighbors have rings of other sizes, so that their records turn phases at other times."""
    return ENTRIES >> ring % 2


def windows_of(ring: int, *, device_base: int = DEVICE_BASE, host_base: int = HOST_BASE) -> Windows:
    """Windows around a ring's own memory, and no byte more."""
    host = host_base + ring * SHARE_BYTES
    device = device_base + ring * SLOTS * AREA_BYTES
    return Windows(
        descriptors=range(host, host + PAGE_BYTES),
        records=range(host + PAGE_BYTES, host + 2 * PAGE_BYTES),
        host=range(host + 2 * PAGE_BYTES, host + SHARE_BYTES),
        device=range(device, device + SLOTS * AREA_BYTES),
    )


def draw_shape(rng: Random, *, most_bytes: int = 1500) -> Shape:
    opcode = rng.choice(OPCODES)
    verified = opcode is Opcode.COMPRESS_OUT and rng.random() < 0.2
    return Shape(
        opcode=opcode,
        length=4 * rng.randint(1, most_bytes // 4),
        src=4 * rng.randrange(1024),
        dst=4 * rng.randrange(1024),
        density=rng.choice((0.0, 0.2, 0.5, 1.0)),
        flags=Flag.VERIFY if verified else Flag(0),
        seed=rng.randrange(1 << 16),
    )


def rings_machine(
    config: EngineConfig,
    verilog: VerilogText | None = None,
    *,
    device_base: int = DEVICE_BASE,
    host_base: int = HOST_BASE,
    **options: Any,
) -> Machine:
    """A machine with a share of both memories for each ring."""
    return Machine(
        verilog or generated_engine(config),
        replace(NEAR, channels=config.units),
        device_bytes=config.rings * SLOTS * AREA_BYTES,
        host_bytes=config.rings * SHARE_BYTES,
        device_base=device_base,
        host_base=host_base,
        **options,
    )


class RingsBench:
    """Carries out transfers of several owners, and finds whatever is not as it should be.

    Parameters
    ----------
    rings : int
    device_base, host_base, stalls, seed, waves
        As of `Machine`.
    timeout_cycles : int, optional
        For all rings; the driver's if not given.
    interrupts : bool
        As of `Engine`.
    config : EngineConfig, optional
        `rings_config` if not given.
    verilog : VerilogText, optional
        Another RTL than that of the configuration.
    """

    def __init__(
        self,
        rings: int,
        *,
        device_base: int = DEVICE_BASE,
        host_base: int = HOST_BASE,
        stalls: float = 0.0,
        seed: int = 0,
        timeout_cycles: int | None = None,
        interrupts: bool = False,
        config: EngineConfig | None = None,
        verilog: VerilogText | None = None,
        waves: Path | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.machine = rings_machine(
            config or rings_config(rings),
            verilog,
            device_base=device_base,
            host_base=host_base,
            stalls=stalls,
            seed=seed,
            waves=waves,
        )
        noise = np.random.default_rng(seed)
        for memory in (self.machine.device, self.machine.host):
            memory[:] = noise.integers(0, 256, memory.size, np.uint8)
        timeouts = {} if timeout_cycles is None else {"timeout_cycles": timeout_cycles}
        self.owners = [
            Owner(
                ring,
                Engine(
                    self.machine,
                    ring=ring,
                    ring_entries=entries_of(ring),
                    windows=windows_of(ring, device_base=device_base, host_base=host_base),
                    interrupts=interrupts,
                    **({} if ring else timeouts),
                ),
            )
            for ring in range(rings)
        ]
        self.remember()

    def close(self) -> None:
        self.machine.close()

    def remember(self) -> None:
        """Keep the memories' content, with which it is compared later."""
        self._before = self.machine.device.copy(), self.machine.host.copy()
        # Address, bytes, and whether that is in device memory.
        self._targets: list[tuple[int, int, bool]] = []

    def put(self, job: Job) -> None:
        """Put a transfer's data into memory. No byte of the target is right as it is."""
        target = ~job.wanted[: job.capacity]
        for memories in (self._now, self._before):
            self._at(memories, job.src, job.source.size, device=job.outward)[:] = job.source
            self._at(memories, job.dst, target.size, device=not job.outward)[:] = target

    def submit(
        self, owner: Owner, jobs: Sequence[Job], *, doorbell: bool = False
    ) -> list[Transfer]:
        """Put descriptors into a ring, and let records and targets change from now on."""
        for job in jobs:
            self.put(job)
            self._targets.append((job.dst, job.capacity, not job.outward))
        transfers = [self.submit_raw(owner, job.fields) for job in jobs]
        if doorbell:
            owner.engine.doorbell()
        return transfers

    def submit_raw(self, owner: Owner, fields: dict[str, int]) -> Transfer:
        """Put a descriptor into a ring, and let its record change, if that is the ring's."""
        host = self.machine.host.copy()
        transfer = owner.engine.submit_raw(fields, doorbell=False)
        if "record" in fields:
            # The driver, which prepares the place of the record, is not what is tested here.
            record = slice(fields["record"] - HOST_BASE, fields["record"] - HOST_BASE + ENTRY_BYTES)
            self.machine.host[record] = host[record]
        slot = owner.host_base + ENTRY_BYTES * (transfer.index % owner.entries)
        now, before = (
            self._at(memories, slot, ENTRY_BYTES, device=False)
            for memories in ((self.machine.device, self.machine.host), self._before)
        )
        before[:] = now
        if "record" not in fields:
            self._targets.append((transfer.fields["record"], ENTRY_BYTES, False))
        return transfer

    def load(self, owner: Owner, count: int = SLOTS) -> tuple[list[Job], list[Transfer]]:
        """Random good transfers of a ring, one in each area, submitted."""
        jobs = [owner.job(draw_shape(self.rng), slot) for slot in range(count)]
        return jobs, self.submit(owner, jobs, doorbell=True)

    @contextmanager
    def others_run(self, *owners: Owner, rounds: int = 1) -> Iterator[None]:
        """While something happens to other rings, good transfers of these are all exact."""
        loads = [(owner, self.load(owner)) for owner in owners]
        yield
        for owner, (jobs, transfers) in loads:
            self.check(owner, jobs, transfers)
        for _ in range(rounds):
            for owner in owners:
                self.check(owner, *self.load(owner))

    def check(self, owner: Owner, jobs: Sequence[Job], transfers: Sequence[Transfer]) -> None:
        """Wait for good transfers, whose records and targets must be exact."""
        for job, transfer in zip(jobs, transfers, strict=True):
            record, ending = owner.engine.wait(transfer), job.good()
            assert ending.agrees(record), f"ring {owner.ring}:\n{record} instead of\n{ending}"
            target = self._at(self._now, job.dst, job.wanted.size, device=not job.outward)
            assert np.array_equal(target, job.wanted), f"ring {owner.ring}: {job.shape}"
        assert owner.engine.first_error() is None

    def check_memory(self) -> None:
        """Assert that nothing but targets and records has changed since they were submitted."""
        kept = [memory.copy() for memory in self._before]
        for address, nbytes, in_device in self._targets:
            now = self._at(self._now, address, nbytes, device=in_device)
            self._at(kept, address, nbytes, device=in_device)[:] = now
        for name, before, now in zip(
            ("device", "host"), kept, (self.machine.device, self.machine.host), strict=True
        ):
            changed = np.flatnonzero(before != now)
            assert not changed.size, (
                f"{changed.size} bytes of {name} memory have changed, from {changed[0]:#x} on"
            )

    def settle(self, owner: Owner) -> None:
        """Run until a ring is idle, whatever the others do."""
        settle(owner.engine, polls=200, cycles=20)

    @property
    def _now(self) -> tuple[ByteArray, ByteArray]:
        return self.machine.device, self.machine.host

    def _at(
        self, memories: Sequence[ByteArray], address: int, nbytes: int, *, device: bool
    ) -> ByteArray:
        base = self.machine.device_base if device else self.machine.host_base
        return memories[not device][address - base :][:nbytes]
