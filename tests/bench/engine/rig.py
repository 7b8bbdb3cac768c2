"""An engine in its machine, and one transfer after the other, measured in cycles of the RTL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import PRESETS, EngineConfig
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import THROTTLES, CompletionRecord, CopyKind, Engine, Throttle, Transfer
from cdma.sim.machine import MACHINES, Counters, Machine, MachineConfig
from cdma.sim.machine.build.rtl import generated_engine

MAX_BYTES = 8 << 20
"""The largest transfer."""

BURST_BYTES = 16 * 128
"""No burst on the link is longer."""

NEAR = MachineConfig(
    dram_latency_ns=1,
    link_latency_ns=1,
    dram_bytes_per_s=192e9,
    link_out_bytes_per_s=32e9,
    link_in_bytes_per_s=32e9,
)
"""Memories that answer in the next cycle, as fast as the ports: the rest is the engine's own."""


@dataclass(frozen=True, kw_only=True)
class RoundTrip:
    """One transfer.

    Attributes
    ----------
    record : CompletionRecord
    nbytes : int
        Uncompressed.
    link_bytes : int
        Of these, what the link carried: the stream, or all.
    cycles : int
        From the doorbell to the record in host memory.
    link_cycles : float
        From the first to the last byte of the transfer on the link.
    fetch_cycles, read_cycles : int
        From the doorbell to the address of the descriptor's read, and to the data's first one.
    most_read_bytes : int
        The most that all DRAM channels were read in any 10 µs.
    link_rate : float
        Bytes per cycle.
    stalls : dict
        Cycles by cause, as the engine's counters have them.
    """

    record: CompletionRecord
    nbytes: int
    link_bytes: int
    cycles: int
    link_cycles: float
    fetch_cycles: int
    read_cycles: int
    most_read_bytes: int
    link_rate: float
    stalls: dict[str, int]

    @property
    def utilization(self) -> float:
        """Utilization of the link, from the first to the last byte on it."""
        return self.link_bytes / self.link_rate / self.link_cycles

    @property
    def overall_utilization(self) -> float:
        """Utilization of the link, from the doorbell to the record."""
        return self.link_bytes / self.link_rate / self.cycles


@dataclass(frozen=True, kw_only=True)
class Queued:
    """Many transfers at once.

    Attributes
    ----------
    utilization, data_utilization : float
        Of the link, from the first to the last byte on it, with records and without.
    cycles : int
        From the doorbell to the last record in host memory.
    """

    utilization: float
    data_utilization: float
    cycles: int


class Rig:
    """A machine with a driver and three buffers that hold any transfer of up to `MAX_BYTES`.

    Parameters
    ----------
    engine : EngineConfig
    environment : MachineConfig
    throttle : Throttle
        Of transfers with `throttled`.
    sleep : bool
        As of `generated_engine`.
    """

    def __init__(
        self,
        engine: EngineConfig,
        environment: MachineConfig,
        throttle: Throttle = THROTTLES["none"],
        sleep: bool = True,
    ) -> None:
        size = 4 * MAX_BYTES
        self.engine = engine
        self.machine = Machine(
            generated_engine(engine, sleep=sleep),
            environment,
            device_bytes=size,
            host_bytes=size,
        )
        self.driver = Engine(
            self.machine,
            throttles=(THROTTLES["none"], throttle),
            codecs=engine.codec.codecs,
        )
        self.source = self.driver.device.alloc(MAX_BYTES)
        self.back = self.driver.device.alloc(MAX_BYTES)
        self.stream = self.driver.host.alloc(MAX_BYTES + MAX_BYTES // 16)

    @classmethod
    def of_preset(
        cls,
        name: str,
        *,
        throttle: Throttle = THROTTLES["none"],
        clock_hz: float | None = None,
        sleep: bool = True,
        **engine_fields: Any,
    ) -> Self:
        """The preset's engine and environment, with other fields if so."""
        engine = replace(PRESETS[name], **engine_fields)
        environment = MACHINES[name]
        environment = replace(
            environment, channels=engine.units, clock_hz=clock_hz or environment.clock_hz
        )
        return cls(engine, environment, throttle, sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.machine.close()

    def out(
        self,
        array: ByteArray,
        *,
        codec: str | None = "zvc",
        parameters: Mapping[str, int] | None = None,
        verify: bool = False,
        throttled: bool = False,
    ) -> RoundTrip:
        """To the host; what arrives stays there for `into`."""
        self.source.array[: array.size] = array
        return self._measure(
            lambda: self.driver.submit(
                self.stream,
                self.source.span(0, array.size),
                array.size,
                CopyKind.DEVICE_TO_HOST,
                codec,
                parameters=parameters,
                verify=verify,
                throttle_class=int(throttled),
                doorbell=False,
            ),
            array.size,
            self._link_bytes(array, codec, parameters),
            outward=True,
        )

    def into(
        self,
        round_trip: RoundTrip,
        *,
        codec: str | None = "zvc",
        parameters: Mapping[str, int] | None = None,
    ) -> RoundTrip:
        """Back to the device, what `round_trip` has left at the host."""
        nbytes = round_trip.nbytes
        back = self._measure(
            lambda: self.driver.submit(
                self.back,
                self.stream.span(0, round_trip.link_bytes),
                nbytes,
                CopyKind.HOST_TO_DEVICE,
                codec,
                parameters=parameters,
                crc=round_trip.record.crc32 if codec is not None else None,
                doorbell=False,
            ),
            nbytes,
            round_trip.link_bytes,
            outward=False,
        )
        np.testing.assert_array_equal(self.back.array[:nbytes], self.source.array[:nbytes])
        return back

    def queued_into(self, round_trip: RoundTrip, count: int) -> int:
        """Cycles in which so many copies of a stream get back to the device, with one doorbell."""
        nbytes = round_trip.nbytes
        for k in range(count):
            self.driver.submit(
                self.back.span(k * nbytes, nbytes),
                self.stream.span(0, round_trip.link_bytes),
                nbytes,
                CopyKind.HOST_TO_DEVICE,
                "zvc",
                crc=round_trip.record.crc32,
                doorbell=False,
            )
        self.machine.run_until_idle(10_000)
        begin = self.machine.cycles
        self.driver.doorbell()
        for record in self.driver.wait_all():
            record.check()
        cycles = self.machine.cycles - begin
        restored = self.back.array[: count * nbytes].reshape(count, nbytes)
        np.testing.assert_array_equal(restored, np.tile(self.source.array[:nbytes], (count, 1)))
        return cycles

    def queued(
        self,
        array: ByteArray,
        count: int,
        *,
        codec: str | None = "zvc",
        verify: bool = False,
    ) -> Queued:
        """So many equal transfers to the host, with one doorbell."""
        nbytes = array.size
        self.source.array[: count * nbytes] = np.tile(array, count)
        slice_bytes = self.stream.nbytes // count // ENTRY_BYTES * ENTRY_BYTES
        for k in range(count):
            self.driver.submit(
                self.stream.span(k * slice_bytes, slice_bytes),
                self.source.span(k * nbytes, nbytes),
                nbytes,
                CopyKind.DEVICE_TO_HOST,
                codec,
                verify=verify,
                doorbell=False,
            )
        self.machine.run_until_idle(10_000)
        self.machine.clear_counters()
        doorbell = self.driver.doorbell()
        link_bytes = count * self._link_bytes(array, codec)
        rate = self.machine.config.link_out_bytes_per_cycle
        # Records are among the data.
        cycles = self._span(
            lambda counted: counted.link_out_bytes, 0, link_bytes + count * ENTRY_BYTES, rate
        )
        for record in self.driver.wait_all():
            record.check()
        return Queued(
            data_utilization=link_bytes / rate / cycles,
            utilization=(link_bytes + count * ENTRY_BYTES) / rate / cycles,
            cycles=self.machine.cycles - doorbell,
        )

    def _measure(
        self, submit: Callable[[], Transfer], nbytes: int, link_bytes: int, *, outward: bool
    ) -> RoundTrip:
        machine, driver = self.machine, self.driver
        transfer = submit()
        machine.run_until_idle(10_000)
        driver.clear_counters()
        machine.clear_counters()
        doorbell = driver.doorbell()
        if outward:
            rate = machine.config.link_out_bytes_per_cycle
            link_cycles = self._span(lambda counted: counted.link_out_bytes, 0, link_bytes, rate)
        else:
            rate = machine.config.link_in_bytes_per_cycle
            # The descriptor comes before the stream, in one beat or two.
            while not (descriptor := machine.counters().link_in_bytes):
                machine.run(1)
            link_cycles = self._span(
                lambda counted: counted.link_in_bytes, descriptor, link_bytes, rate
            )
        record = driver.wait(transfer).check()
        cycles = machine.cycles - doorbell
        counted = machine.counters()
        assert not outward or record.out_size == link_bytes
        reads = counted.first_read_cycle
        return RoundTrip(
            record=record,
            nbytes=nbytes,
            link_bytes=link_bytes,
            cycles=cycles,
            link_cycles=link_cycles,
            fetch_cycles=int(reads[-1]) - doorbell,
            read_cycles=int(reads[:-1][reads[:-1] >= 0].min()) - doorbell if outward else -1,
            most_read_bytes=counted.window_dram_read_bytes,
            link_rate=rate,
            stalls={
                name.removeprefix("stall_"): count
                for name, count in driver.counters().items()
                if name.startswith("stall_")
            },
        )

    def _link_bytes(
        self, array: ByteArray, codec: str | None, parameters: Mapping[str, int] | None = None
    ) -> int:
        if codec is None:
            return int(array.size)
        entry = line_codec(codec)
        model = entry.model(
            entry.array_element_bytes(self.engine.codec.element_bytes),
            entry.all_parameters(parameters or {}),
        )
        return int(model.line_sizes(array).sum())

    def _span(
        self, moved: Callable[[Counters], int], before: int, nbytes: int, rate: float
    ) -> float:
        """Cycles from the first to the last of `nbytes` on the link, which come after `before`.

        Steps by single cycles where it matters.
        """
        machine = self.machine
        there = before
        first = -1
        while True:
            left = before + nbytes - there
            # No link is faster than its rate.
            machine.run(1 if first < 0 else max(1, int((left - BURST_BYTES) / rate)))
            now = moved(machine.counters())
            # A burst counts as moved when it starts.
            if now > before and first < 0:
                first = machine.cycles
            if now >= before + nbytes:
                # The first one starts when it is told, or is told a cycle late: the later ones say.
                return max(nbytes / rate, machine.cycles - first + left / rate)
            there = now
