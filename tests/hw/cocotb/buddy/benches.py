"""Benches inside the simulator: accesses to the buddy controller, and all that can go wrong.

`tests.hw.cocotb.simulate` starts these; the environment carries a `BuddyScenario`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBurstType, AxiLockType, AxiResp

from cdma.golden.buddy.address_map import PageFields, Target
from cdma.hw.buddy.payloads import AccessStatus
from tests.hw.cocotb.buddy.bench import Bench


@cocotb.test()
async def random_accesses(dut: Any) -> None:
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        await bench.accesses(run)
        await bench.finish()
        assert (await bench.read("IRQ_STATUS"))["error"] == 0
        assert (await bench.read("STATUS"))["lost"] == 0


@dataclass(frozen=True)
class Expected:
    """An access that fails."""

    address: int
    status: AccessStatus
    write: bool = False


class Faults:
    """One fault after the other, each followed by accesses that succeed."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.golden = bench.golden
        self.size = bench.golden.map.page_bytes

    def page(self, target: Target | None) -> int:
        """The logical address of a page of this target, or of one that is not compressed."""
        for address in self.bench.pages:
            where = self.golden.translate(np.array([address]))
            compressed = bool(where.compressed[0])
            if compressed == (target is not None) and (not compressed or where.target[0] == target):
                return address
        raise LookupError(target)

    async def fails(self, expected: Expected, **more: Any) -> None:
        """The access is answered with SLVERR, and the registers tell why."""
        bench = self.bench
        await bench.write("IRQ_STATUS", error=1)
        if expected.write:
            data = more.pop("data", bytes(range(128)))
            answer = await bench.store(expected.address, data, **more)
        else:
            answer = await bench.load(expected.address, more.pop("length", 128), **more)
        assert answer.resp == AxiResp.SLVERR, f"{expected}: {answer.resp}"
        status = await bench.read("ERROR_STATUS")
        assert status["status"] == expected.status.value, f"{expected}: {status}"
        assert status["write"] == expected.write, f"{expected}: {status}"
        low, high = await bench.read("ERROR_ADDR_LO"), await bench.read("ERROR_ADDR_HI")
        address = low["address"] | high["address"] << 32
        assert address == expected.address, f"{expected}: {address:#x}"
        assert (await bench.read("IRQ_STATUS"))["error"] == 1

    async def stored(self, address: int, data: bytes) -> None:
        answer = await self.bench.store(address, data)
        assert answer.resp == AxiResp.OKAY, f"write at {address:#x}"
        self.golden.write(address, np.frombuffer(data, np.uint8))

    async def loaded(self, address: int, length: int = 128) -> None:
        answer = await self.bench.load(address, length)
        assert answer.resp == AxiResp.OKAY, f"read at {address:#x}"
        assert answer.data == self.golden.read(address, length).tobytes(), f"read at {address:#x}"

    async def works(self) -> None:
        """Pages of all kinds are read and written."""
        for target in (*Target, None):
            address = self.page(target) + 128 * self.bench.draw.randrange(16)
            await self.stored(address, self.bench.entry_data())
            await self.stored(address + 40, bytes(self.bench.draw.randrange(1, 60)))
            await self.loaded(address)


INCOMPRESSIBLE = np.random.default_rng(5).integers(0, 256, 128).astype(np.uint8).tobytes()


@cocotb.test()
async def refused_accesses(dut: Any) -> None:
    """Accesses that the map, the port or software refuses."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        size, pages = faults.size, bench.config.pages
        unmapped = size * (pages - 1)
        beyond = size * pages + 0x80
        for address in (unmapped + 0x100, beyond, 2**40 - 128):
            for write in (False, True):
                await faults.fails(Expected(address, AccessStatus.OUT_OF_REGION, write))
        await faults.works()
        spare = unmapped // size
        for bits, frame, status in (
            (PageFields(compressed=True, target=5), 0, AccessStatus.BAD_TARGET),
            (PageFields(compressed=True, target=7), 0, AccessStatus.BAD_TARGET),
            (
                PageFields(compressed=True, target=Target.X4, buddy_page=2**20 - 1),
                0,
                AccessStatus.CARVE_OUT_OVERFLOW,
            ),
            (PageFields(compressed=False), 2**28 - 1, AccessStatus.OUT_OF_REGION),
        ):
            await bench.map_page(spare, bits.pack(), frame)
            for write in (False, True):
                await faults.fails(Expected(unmapped, status, write))
        await faults.works()
        for burst in (AxiBurstType.FIXED, AxiBurstType.WRAP):
            for write in (False, True):
                expected = Expected(faults.page(None), AccessStatus.UNSUPPORTED_BURST, write)
                await faults.fails(expected, burst=burst)
        await faults.works()
        # There is no monitor, so an exclusive access is one like all others: not EXOKAY.
        exclusive = faults.page(Target.X2)
        for access in (
            bench.store(exclusive, bytes(range(128)), lock=AxiLockType.EXCLUSIVE),
            bench.load(exclusive, 128, lock=AxiLockType.EXCLUSIVE),
        ):
            assert (await access).resp == AxiResp.OKAY
        bench.golden.write(exclusive, np.arange(128, dtype=np.uint8))
        await faults.works()
        await bench.write("CONTROL", enable=0)
        for write in (False, True):
            await faults.fails(Expected(faults.page(Target.X2), AccessStatus.DISABLED, write))
        await bench.write("CONTROL", enable=1)
        await faults.works()
        await bench.finish()


@cocotb.test()
async def memory_errors(dut: Any) -> None:
    """Memories that refuse, and entries that are damaged."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        address = faults.page(Target.X2) + 128 * 3
        where = bench.golden.translate(np.array([address]))
        device, buddy = int(where.device_address[0]), int(where.buddy_address[0])
        for memory, start, reads, writes in (
            (bench.device, device, AccessStatus.DEVICE_READ, AccessStatus.DEVICE_WRITE),
            (bench.buddy, buddy, AccessStatus.BUDDY_READ, AccessStatus.BUDDY_WRITE),
        ):
            await faults.stored(address, INCOMPRESSIBLE)
            memory.refused = [(start, start + 64, "read")]
            await faults.fails(Expected(address, reads))
            # A write of a part reads the entry before: nothing is written then.
            await faults.fails(Expected(address + 5, reads, True), data=b"1234")
            memory.refused = []
            await faults.loaded(address)
            memory.refused = [(start, start + 64, "write")]
            await faults.fails(Expected(address, writes, True), data=INCOMPRESSIBLE[::-1])
            memory.refused = []
            # What is there now is no entry, until it is written whole.
            await faults.fails(Expected(address, AccessStatus.CORRUPT_ENTRY))
            corrupt = Expected(address + 7, AccessStatus.CORRUPT_ENTRY, True)
            await faults.fails(corrupt, data=b"12345")
            await faults.loaded(address + 128)
            await faults.stored(address, bytes(range(128)))
            await faults.loaded(address)
            await faults.works()

        # An entry's own bytes are damaged in memory.
        ramp = np.arange(7, 39, dtype=np.uint32).tobytes()
        await faults.stored(address, ramp)
        kept = bench.device.data[device : device + 32].copy()
        bench.device.data[device : device + 32] = 0xFF
        await faults.fails(Expected(address, AccessStatus.CORRUPT_ENTRY))
        bench.device.data[device : device + 32] = kept
        await faults.loaded(address)

        # A page that is not compressed has no metadata to tell.
        plain = faults.page(None)
        start = int(bench.golden.translate(np.array([plain])).device_address[0])
        bench.device.refused = [(start, start + 32, "write")]
        await faults.fails(Expected(plain, AccessStatus.DEVICE_WRITE, True), data=bytes(32))
        bench.device.refused = [(start, start + 32, "read")]
        await faults.fails(Expected(plain, AccessStatus.DEVICE_READ), length=32)
        bench.device.refused = []
        await faults.stored(plain, bytes(range(64)))
        await faults.works()
        # The refused writes have left something behind the entry, which is nobody's.
        await faults.stored(address, INCOMPRESSIBLE)
        await bench.finish()


@cocotb.test()
async def metadata_errors(dut: Any) -> None:
    """Lines of metadata that cannot be read."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        address = faults.page(Target.X2)
        base = bench.golden.map.metadata_base
        await bench.write("CONTROL", enable=1, invalidate=1)
        await bench.until(lambda: bench._is("STATUS", "flushing", 0))
        bench.device.refused = [(base, base + bench.golden.map.metadata_bytes, "read")]
        await faults.fails(Expected(address, AccessStatus.METADATA_READ))
        await faults.fails(Expected(address, AccessStatus.METADATA_READ, True))
        await faults.fails(Expected(address + 1, AccessStatus.METADATA_READ, True), data=b"1")
        await faults.loaded(faults.page(None))
        bench.device.refused = []
        await faults.loaded(address)
        await faults.works()
        await bench.finish()


@cocotb.test()
async def dead_memories(dut: Any) -> None:
    """Memories that stop to answer, for longer than TIMEOUT_CYCLES."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        await bench.write_word("TIMEOUT_CYCLES", 60)
        address = faults.page(Target.X2) + 256
        for port in (bench.device_port, bench.buddy_port):
            for channel, write in (
                (port.read_if.ar_channel, False),
                (port.read_if.r_channel, False),
                (port.write_if.aw_channel, True),
                (port.write_if.w_channel, True),
                (port.write_if.b_channel, True),
            ):
                await faults.stored(address, INCOMPRESSIBLE)
                channel.pause = True
                expected = Expected(address, AccessStatus.TIMEOUT, write)
                await faults.fails(expected, **({"data": INCOMPRESSIBLE[::-1]} if write else {}))
                channel.pause = False
                await bench.until(lambda: bench._is("STATUS", "idle", 1))
                if write:
                    await faults.fails(Expected(address, AccessStatus.CORRUPT_ENTRY))
                else:
                    await faults.loaded(address)
                await faults.stored(address, INCOMPRESSIBLE)
                await faults.works()
        await bench.finish()


@cocotb.test()
async def flush_under_traffic(dut: Any) -> None:
    """Metadata are written back again and again while entries are read and written."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        flushes = 0

        async def flush(bench: Bench = bench) -> None:
            nonlocal flushes
            while True:
                order = bench.draw.choice(("flush", "invalidate"))
                await bench.write("CONTROL", enable=1, **{order: 1})
                await bench.until(lambda: bench._is("STATUS", "flushing", 0))
                flushes += 1
                for _ in range(50):
                    await RisingEdge(dut.clk)

        flushing = cocotb.start_soon(flush())
        await bench.accesses(run)
        flushing.cancel()
        await bench.until(lambda: bench._is("STATUS", "flushing", 0))
        assert flushes > 5
        await bench.finish()


@cocotb.test()
async def manager_that_takes_nothing(dut: Any) -> None:
    """Beats that a manager leaves standing stop no writes, and responses no reads."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(dataclasses.replace(run, stall=0.0))
        faults = Faults(bench)
        address = faults.page(Target.X2)
        await faults.stored(address, INCOMPRESSIBLE)
        reads = bench.manager.read_if.r_channel
        reads.pause = True
        waiting = [
            cocotb.start_soon(bench.load(faults.page(None) + 2048, 1024, k)) for k in range(4)
        ]
        for _ in range(200):
            await RisingEdge(dut.clk)
        await faults.stored(address, INCOMPRESSIBLE[::-1])
        # This one fetches its entry before.
        await faults.stored(address + 3, b"12345")
        reads.pause = False
        for read in waiting:
            assert (await read).resp == AxiResp.OKAY
        responses = bench.manager.write_if.b_channel
        responses.pause = True
        data = bytes(128)
        waiting = [cocotb.start_soon(bench.store(address + 1024, data, k)) for k in range(8)]
        bench.golden.write(address + 1024, np.frombuffer(data, np.uint8))
        for _ in range(200):
            await RisingEdge(dut.clk)
        await faults.loaded(address)
        responses.pause = False
        for write in waiting:
            assert (await write).resp == AxiResp.OKAY
        await faults.works()
        await bench.finish()
