"""Through the codec alone: a compressor and a decompressor, as fast as they go."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cdma import golden
from cdma.builds.progress import Tally
from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import DEFAULT_CODECS
from cdma.sim.machine import Batch, Pipeline
from cdma.sim.swap.backend import IN, OUT, Array, ArrayResult, Payload, QueueFigures, result_faults
from cdma.sim.swap.encoding import Encoding, encoding_with

CODEC = DEFAULT_CODECS[0]
"""The codec whose pipelines have ports of their own."""

COMPRESSOR, DECOMPRESSOR = COMPONENTS = (f"{CODEC}-compressor", f"{CODEC}-decompressor")


class PipelineBackend:
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
    cdma.sim.machine.MachineError
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

    def encoding(self, data: ByteArray, element_bytes: int) -> Encoding:
        return encoding_with(CODEC, data, element_bytes)

    def transfer(self, payloads: Sequence[Payload]) -> Iterator[tuple[int, ArrayResult]]:
        for size in {payload.element_bytes for payload in payloads}:
            # What has to be built is built before anything waits for it.
            for component in COMPONENTS:
                self._pipeline(component, size)
        total = sum(len(payload.pieces) for payload in payloads)
        done_out, done_in = Tally(OUT, total), Tally(IN, total)
        for index, payload in enumerate(payloads):
            parts = []
            for piece in payload.pieces:
                out = self._compress(piece, payload.element_bytes)
                done_out.step()
                parts.append(self._decompress(out, piece, payload.element_bytes))
                done_in.step()
            yield index, ArrayResult.joined(parts)

    def queue_figures(self) -> QueueFigures | None:
        return None

    def _compress(self, piece: Array, element_bytes: int) -> Batch:
        return self._pipeline(COMPRESSOR, element_bytes).run(
            [piece], stalls=self.stalls, seed=self.seed
        )

    def _decompress(self, out: Batch, piece: Array, element_bytes: int) -> ArrayResult:
        """Result of a piece after its way back."""
        stream = out.packet(0)
        back = self._pipeline(DECOMPRESSOR, element_bytes).run(
            [stream],
            lengths=[piece.size],
            crc32=[int(out.records["crc32"][0])],
            stalls=self.stalls,
            seed=self.seed + 1,
        )
        return ArrayResult(
            streams=[stream],
            returned=[back.packet(0)],
            cycles_out=out.cycles,
            cycles_in=back.cycles,
            faults=_faults("compressor", out, piece, stream.size)
            | _faults("decompressor", back, piece, piece.size),
        )

    def _pipeline(self, component: str, element_bytes: int) -> Pipeline:
        key = (component, element_bytes)
        if key not in self._pipelines:
            waves = None if self.waves is None else pipeline_waves(self.waves, component)
            self._pipelines[key] = Pipeline(
                component,
                element_bytes=element_bytes,
                sector_bytes=self.sector_bytes,
                waves=waves,
            )
        return self._pipelines[key]


def pipeline_waves(waves: Path, component: str) -> Path:
    """Path of a component's waves, if `waves` is the path of all."""
    return waves.with_name(f"{waves.stem}-{component.removeprefix(f'{CODEC}-')}{waves.suffix}")


def _faults(block: str, batch: Batch, piece: Array, size: int) -> set[str]:
    record = batch.records[0]
    status = golden.StreamStatus(int(record["status"]))
    name = None if status is golden.StreamStatus.OK else status.name
    return result_faults(block, name, int(record["crc32"]), int(record["out_size"]), piece, size)
