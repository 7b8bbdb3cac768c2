"""Through the whole engine: descriptors out, records back, over a modeled memory and link."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hw.config import EngineConfig
from sim.driver import Buffer, CompletionRecord, CopyKind, Engine, Throttle, Transfer
from sim.machine import Machine, MachineConfig
from sim.machine.machine import PAGE_BYTES
from sim.machine.rtl import generated_engine
from sim.swap.road import (
    TRANSFER_BYTES,
    Array,
    Carried,
    EngineFigures,
    Progress,
    result_faults,
)

WINDOW = 8
"""So many transfers are under way at once; both memories have room for them."""

RING_BYTES = 64 << 10
"""Room in host memory for ring and records."""

STALLS = "stall_"
"""What the names of the registers begin with that count stalls."""

POISON = 0xA5
"""What device memory is filled with, so that what comes back has come back."""


class EngineRoad:
    """A machine with an engine and its driver for each element size that comes up.

    Parameters
    ----------
    config : EngineConfig
        The engine; the element size in it does not matter.
    surroundings : MachineConfig
        Its memory and its link.
    throttle : Throttle
        How fast device memory may be read.
    stalls : float
        Probability, per cycle and bus channel, that a slave is not ready.
    seed : int
        Of the stalls.
    waves : path, optional
        Write the waves there. Only with arrays of one element size.

    Raises
    ------
    sim.machine.MachineError
        If the simulator cannot be built; later, if the RTL hangs or breaks a rule.
    """

    def __init__(
        self,
        config: EngineConfig,
        surroundings: MachineConfig,
        *,
        throttle: Throttle,
        stalls: float = 0.0,
        seed: int = 0,
        waves: Path | None = None,
    ) -> None:
        self.config = config
        self.surroundings = surroundings
        self.throttle = throttle
        self.stalls = stalls
        self.seed = seed
        self.waves = waves
        self._engines: dict[int, Engine] = {}

    def close(self) -> None:
        for engine in self._engines.values():
            engine.machine.close()

    def carry(self, pieces: Sequence[Array], element_bytes: int, progress: Progress) -> Carried:
        engine = self._engine(element_bytes)
        # The engine has no transfers of nothing; the stream of nothing is empty.
        full = [piece for piece in pieces if piece.size]
        windows = [
            _carry_window(engine, full[start : start + WINDOW], progress)
            for start in range(0, len(full), WINDOW)
        ]
        empty = [np.zeros(0, np.uint8) for piece in pieces if not piece.size]
        return Carried(
            streams=[stream for window in windows for stream in window.streams] + empty,
            returned=[back for window in windows for back in window.returned] + empty,
            cycles_out=sum(window.cycles_out for window in windows),
            cycles_in=sum(window.cycles_in for window in windows),
            faults={fault for window in windows for fault in window.faults},
            engine=EngineFigures.joined([w.engine for w in windows if w.engine is not None]),
        )

    def _engine(self, element_bytes: int) -> Engine:
        if element_bytes not in self._engines:
            codec = replace(self.config.codec, element_bytes=element_bytes)
            room = WINDOW * (TRANSFER_BYTES + TRANSFER_BYTES // 8 + PAGE_BYTES) + RING_BYTES
            machine = Machine(
                generated_engine(replace(self.config, codec=codec)),
                self.surroundings,
                device_bytes=room,
                host_bytes=room,
                stalls=self.stalls,
                seed=self.seed,
                waves=self.waves,
            )
            throttles = (self.throttle, self.throttle)
            self._engines[element_bytes] = Engine(machine, throttles=throttles)
        return self._engines[element_bytes]


def _carry_window(engine: Engine, pieces: Sequence[Array], progress: Progress) -> Carried:
    """Pieces that are under way together, first out, then back."""
    devices = [engine.device.alloc(piece.size) for piece in pieces]
    hosts = [engine.host.alloc(engine.shape.worst_stream_bytes(p.size)) for p in pieces]
    for device, piece in zip(devices, pieces, strict=True):
        device.array[:] = piece

    _start(engine)
    out = _finish(
        engine,
        [
            engine.submit(host, device, device.nbytes, CopyKind.DEVICE_TO_HOST, doorbell=False)
            for host, device in zip(hosts, devices, strict=True)
        ],
        progress,
    )
    for device in devices:
        device.array[:] = POISON
    _start(engine)
    sizes = [max(1, min(r.out_size, h.nbytes)) for r, h in zip(out.records, hosts, strict=True)]
    back = _finish(
        engine,
        [
            engine.submit(
                device,
                host,
                device.nbytes,
                CopyKind.HOST_TO_DEVICE,
                stream_bytes=size,
                crc=record.crc32,
                doorbell=False,
            )
            for device, host, size, record in zip(devices, hosts, sizes, out.records, strict=True)
        ],
        progress,
    )
    streams = [host.array[:size].copy() for host, size in zip(hosts, sizes, strict=True)]
    returned = [device.array.copy() for device in devices]
    _free(engine, devices, hosts)
    faults = set()
    for piece, stream, leaving, coming in zip(
        pieces, streams, out.records, back.records, strict=True
    ):
        faults |= _faults("way out", leaving, piece, stream.size)
        faults |= _faults("way in", coming, piece, piece.size)
    return Carried(
        streams=streams,
        returned=returned,
        cycles_out=out.cycles,
        cycles_in=back.cycles,
        faults=faults,
        engine=EngineFigures(
            link_out_busy_cycles=out.figures.link_out_busy_cycles,
            link_in_busy_cycles=back.figures.link_in_busy_cycles,
            dram_read_bytes=out.figures.dram_read_bytes,
            buffer_high_water_bytes=out.figures.buffer_high_water_bytes,
            stall_cycles=EngineFigures.joined([out.figures, back.figures]).stall_cycles,
            statuses=out.figures.statuses + back.figures.statuses,
        ),
    )


class _Way(NamedTuple):
    """What came of one way of a window."""

    records: list[CompletionRecord]
    cycles: int
    figures: EngineFigures


def _start(engine: Engine) -> None:
    engine.clear_counters()
    engine.machine.clear_counters()


def _finish(engine: Engine, transfers: Sequence[Transfer], progress: Progress) -> _Way:
    """Ring once for all of them, and take what counters say when the last one has its record."""
    started = engine.doorbell()
    records = []
    for transfer in transfers:
        records.append(engine.wait(transfer))
        progress(transfer.fields["length"])
    cycles = engine.machine.cycles - started
    around = engine.machine.counters()
    counted = engine.counters()
    return _Way(
        records,
        cycles,
        EngineFigures(
            link_out_busy_cycles=around.link_out_busy_cycles,
            link_in_busy_cycles=around.link_in_busy_cycles,
            dram_read_bytes=int(around.dram_read_bytes.sum()),
            buffer_high_water_bytes=counted["reservation_high_water"],
            stall_cycles={
                name.removeprefix(STALLS): value
                for name, value in counted.items()
                if name.startswith(STALLS)
            },
            statuses=tuple(record.status for record in records),
        ),
    )


def _free(engine: Engine, devices: Sequence[Buffer], hosts: Sequence[Buffer]) -> None:
    for device in devices:
        engine.device.free(device)
    for host in hosts:
        engine.host.free(host)


def _faults(way: str, record: CompletionRecord, piece: Array, size: int) -> set[str]:
    name = None if record.ok else record.status.name
    return result_faults(way, name, record.crc32, record.out_size, piece, size)
