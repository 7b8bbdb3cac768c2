"""Through the codec alone: a compressor and a decompressor, as fast as they go."""

from collections.abc import Sequence
from pathlib import Path

import golden
from golden.stream import ByteArray
from sim.machine import Batch, Pipeline
from sim.swap.road import Array, Carried, Progress, result_faults


class PipelineRoad:
    """A compressor and a decompressor for each element size that comes up.

    Parameters
    ----------
    sector_bytes : int
        Width of both: 32, 64 or 128.
    stalls : float
        Probability of a stall per cycle, on every handshake.
    seed : int
        Of the stalls.
    waves : path, optional
        Write the waves of both there, `-compressor` and `-decompressor` added to the name. Only
        with arrays of one element size.

    Raises
    ------
    sim.machine.MachineError
        If the simulator cannot be built; later, if the RTL hangs or breaks a rule.
    """

    def __init__(
        self,
        *,
        sector_bytes: int = 32,
        stalls: float = 0.0,
        seed: int = 0,
        waves: Path | None = None,
    ) -> None:
        self.sector_bytes = sector_bytes
        self.stalls = stalls
        self.seed = seed
        self.waves = waves
        self._pipelines: dict[tuple[str, int], Pipeline] = {}

    def close(self) -> None:
        for pipeline in self._pipelines.values():
            pipeline.close()

    def carry(self, pieces: Sequence[Array], element_bytes: int, progress: Progress) -> Carried:
        streams: list[ByteArray] = []
        returned: list[ByteArray] = []
        faults: set[str] = set()
        cycles_out = cycles_in = 0
        for piece in pieces:
            out = self._pipeline("zvc-compressor", element_bytes).run(
                [piece], stalls=self.stalls, seed=self.seed
            )
            stream = out.packet(0)
            faults |= _faults("compressor", out, piece, stream.size)
            progress(piece.size)
            back = self._pipeline("zvc-decompressor", element_bytes).run(
                [stream],
                lengths=[piece.size],
                crc32=[int(out.records["crc32"][0])],
                stalls=self.stalls,
                seed=self.seed + 1,
            )
            faults |= _faults("decompressor", back, piece, piece.size)
            progress(piece.size)
            streams.append(stream)
            returned.append(back.packet(0))
            cycles_out += out.cycles
            cycles_in += back.cycles
        return Carried(
            streams=streams,
            returned=returned,
            cycles_out=cycles_out,
            cycles_in=cycles_in,
            faults=faults,
        )

    def _pipeline(self, component: str, element_bytes: int) -> Pipeline:
        key = (component, element_bytes)
        if key not in self._pipelines:
            waves = None
            if self.waves is not None:
                suffix = component.removeprefix("zvc-")
                waves = self.waves.with_name(f"{self.waves.stem}-{suffix}{self.waves.suffix}")
            self._pipelines[key] = Pipeline(
                component,
                element_bytes=element_bytes,
                sector_bytes=self.sector_bytes,
                waves=waves,
            )
        return self._pipelines[key]


def _faults(block: str, batch: Batch, piece: Array, size: int) -> set[str]:
    record = batch.records[0]
    status = golden.StreamStatus(int(record["status"]))
    name = None if status is golden.StreamStatus.OK else status.name
    return result_faults(block, name, int(record["crc32"]), int(record["out_size"]), piece, size)
