"""Through the whole engine: descriptors out, records back, over a modeled memory and link.

Arrays are queued across each other, so that the link does not wait between two of them: the engine
reads the next array while the records of the one before are written. The queue of an element size
has the pieces of all its arrays, and goes out and back window by window (`cdma.sim.swap.window`).
Where engines are side by side, each has a part of every piece, a queue of its own, and its share of
memory and link, whatever the others do; so they are simulated one after another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cdma.builds.progress import Tally
from cdma.golden.formats.sample import sample
from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.interface import CodecParameterError
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig, ConfigError, EngineConfig
from cdma.sim.driver import Engine, Throttle
from cdma.sim.machine import Machine, MachineConfig
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap.backend import IN, OUT, ArrayResult, EngineFigures, Payload, QueueFigures
from cdma.sim.swap.encoding import (
    AUTO,
    Encoding,
    auto_encoding,
    engine_encoding,
    require_elements,
    require_length,
    shared_granule_bytes,
    suitable_codecs,
)
from cdma.sim.swap.side_by_side import dealt, together
from cdma.sim.swap.window import Piece, fill_window, transfer_window

MEMORY_BYTES = 64 << 20
"""Size of each memory of the machine; what does not fit into it goes in several windows."""

RING_ENTRIES = 1024
"""Most transfers in a window, which costs the link some 1,500 cycles: before its first byte and
behind its last."""

_EMPTY = ArrayResult(
    streams=[np.zeros(0, np.uint8)],
    returned=[np.zeros(0, np.uint8)],
    cycles_out=0,
    cycles_in=0,
    faults=set(),
    engine=EngineFigures(),
)


class EngineBackend:
    """A machine with an engine and its driver for each element size that comes up; or several.

    Parameters
    ----------
    config : EngineConfig
        The engine; the element size in it does not matter.
    environment : MachineConfig
        Its memory and its link, and how many such engines are side by side.
    throttle : Throttle
        How fast an engine may read device memory.
    stalls : float
        Probability, per cycle and bus channel, that a slave is not ready.
    seed : int
        Of the stalls.
    waves : path, optional
        Write the waves there. Only of one engine, with arrays of one element size.
    memory_bytes : int
        Size of each engine's device memory, and of its host memory; a multiple of 4096.
    ring_entries : int
        Most transfers in flight: a power of two.
    codec : str, optional
        One of the engine's; its first one if not given. `AUTO` is, for each array, the lossless one
        that a sample of its lines is smallest in.
    parameters : mapping of str to int, optional
        The codec's, by name, the same for all arrays; if not given, those that suit each array.

    Raises
    ------
    ConfigError
        If the machine has another number of memory channels than the engine, the engine has no such
        codec, the codec has other parameters, or there are waves of several engines.
    cdma.sim.machine.MachineError
        If the simulator cannot be built; later, if the RTL hangs or breaks a rule.
    """

    def __init__(
        self,
        config: EngineConfig,
        environment: MachineConfig,
        *,
        throttle: Throttle,
        stalls: float = 0.0,
        seed: int = 0,
        waves: Path | None = None,
        memory_bytes: int = MEMORY_BYTES,
        ring_entries: int = RING_ENTRIES,
        codec: str | None = None,
        parameters: Mapping[str, int] | None = None,
    ) -> None:
        # Before any RTL is made.
        if config.units != environment.channels:
            raise ConfigError(
                f"channels must be {config.units}, the engine's units, not {environment.channels}"
            )
        if waves is not None and environment.engines > 1:
            raise ConfigError(
                f"engines must be 1 for waves, which are those of one engine, not "
                f"{environment.engines}"
            )
        self.codec = config.codecs[0] if codec is None else codec
        if self.codec not in (AUTO, *config.codecs):
            raise ConfigError(
                f"codec must be one that the engine has, {', '.join(config.codecs)}, "
                f"or {AUTO!r}, not {self.codec!r}"
            )
        if self.codec == AUTO and parameters is not None:
            raise ConfigError(
                f"parameters must be left out with {AUTO!r}, which has those that suit each array, "
                f"not {dict(parameters)}"
            )
        try:
            self.parameters = (
                None if parameters is None else line_codec(self.codec).all_parameters(parameters)
            )
        except CodecParameterError as error:
            raise ConfigError(f"parameters: {error}") from error
        self.config = config
        self.environment = environment
        self.throttle = throttle
        self.stalls = stalls
        self.seed = seed
        self.waves = waves
        self.memory_bytes = memory_bytes
        self.ring_entries = ring_entries
        self._engines: dict[int, tuple[Engine, ...]] = {}
        self._counted: list[QueueFigures] = []

    def close(self) -> None:
        for engines in self._engines.values():
            for engine in engines:
                engine.machine.close()

    def encoding(self, data: ByteArray, element_bytes: int) -> Encoding:
        codecs = suitable_codecs(self.config.codecs, element_bytes)
        if self.codec != AUTO:
            require_elements(self.codec, element_bytes)
            require_length(self.codec, data.size)
        granule = shared_granule_bytes(codecs, element_bytes)
        lines = sample(data)
        if self.codec == AUTO:
            return auto_encoding(codecs, lines, element_bytes, granule)
        return engine_encoding(self.codec, lines, granule, self.parameters)

    def transfer(self, payloads: Sequence[Payload]) -> Iterator[tuple[int, ArrayResult]]:
        # One queue per element size, since each of them has an engine of its own. The engine has no
        # transfers of nothing; the stream of nothing is empty.
        queues: dict[int, list[Piece]] = {}
        for index, payload in enumerate(payloads):
            full = [piece for piece in payload.pieces if piece.size]
            if not full:
                yield index, _EMPTY
            for piece in full:
                last = piece is full[-1]
                queues.setdefault(payload.element_bytes, []).append(
                    Piece(index, piece, payload.encoding, last)
                )
        if not queues:
            return
        # Engines that have to be built are built before anything waits for them.
        engines = {size: self._engines_of(size) for size in queues}
        dealings = {size: dealt(queue, len(engines[size])) for size, queue in queues.items()}
        transfers = sum(len(own) for parts in dealings.values() for own in parts)
        progress = {phase: Tally(phase, transfers) for phase in (OUT, IN)}
        for size, queue in queues.items():
            drains = [
                self._drain(engine, own, progress)
                for engine, own in zip(engines[size], dealings[size], strict=True)
            ]
            if len(drains) == 1:
                yield from drains[0]
            else:
                yield from together(queue, [dict(drain) for drain in drains])

    def queue_figures(self) -> QueueFigures:
        return QueueFigures.joined(self._counted)

    def _drain(
        self, engine: Engine, queue: Sequence[Piece], progress: Mapping[str, Tally]
    ) -> Iterator[tuple[int, ArrayResult]]:
        """Take a queue out and back, window by window, and yield the arrays that are complete."""
        # The parts, so far, of an array that does not end in its window.
        begun: list[ArrayResult] = []
        sent = 0
        while sent < len(queue):
            window = fill_window(engine, queue[sent : sent + self.ring_entries])
            sent += len(window)
            parts, figures = transfer_window(engine, window, progress)
            self._counted.append(figures)
            for index, part, complete in parts:
                begun.append(part)
                if complete:
                    yield index, ArrayResult.joined(begun)
                    begun = []

    def _engines_of(self, element_bytes: int) -> tuple[Engine, ...]:
        if element_bytes not in self._engines:
            codec = self._codec_config(element_bytes)
            self._engines[element_bytes] = tuple(
                self._engine(codec, self.seed + number)
                for number in range(self.environment.engines)
            )
        return self._engines[element_bytes]

    def _engine(self, codec: CodecConfig, seed: int) -> Engine:
        machine = Machine(
            generated_engine(replace(self.config, codec=codec)),
            self.environment,
            device_bytes=self.memory_bytes,
            host_bytes=self.memory_bytes,
            stalls=self.stalls,
            seed=seed,
            waves=self.waves,
        )
        return Engine(
            machine,
            ring_entries=self.ring_entries,
            throttles=(self.throttle, self.throttle),
            codecs=codec.codecs,
        )

    def _codec_config(self, element_bytes: int) -> CodecConfig:
        """The engine's codecs for arrays of such elements."""
        codecs = suitable_codecs(self.config.codecs, element_bytes)
        return replace(
            self.config.codec,
            codecs=codecs,
            element_bytes=shared_granule_bytes(codecs, element_bytes),
        )
