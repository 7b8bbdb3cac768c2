"""A network on a device behind a link: all that plans and policies may know."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cdma.hw.codec.registry import line_codec
from cdma.plan.engine_cost.transfer import WAYS, TransferCost, transfer_cost
from cdma.plan.platform.codec_rates import CodecModel, codec_model
from cdma.plan.platform.device import Device
from cdma.plan.platform.environment import MachineConfig
from cdma.plan.platform.link import Link
from cdma.plan.platform.placed_engine import PlacedEngine
from cdma.plan.platform.throttles import throttle as throttle_of
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import Choice, Placement
from cdma.plan.timeline.stages import Stage, stages_of
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer

Seconds = npt.NDArray[np.float64]

FAST_ENGINE = "v100_nvlink2"
"""For links that are faster than a device's own engine."""

LINK_TURN_BYTES = 1 << 20
"""Enough that the latency is that of any longer copy."""

LONG_COPY_BYTES = 1 << 40
"""Enough that nothing but bandwidth counts."""

FITS = 1 + 1e-3
"""An engine fits a link if its plain copies take no more than this times the link's own."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A training step to be planned.

    Parameters
    ----------
    graph : Graph
        All tensors that plans decide about have densities (`cdma.plan.workload.density.density`).
    device : Device
    link : Link
    memory_bytes : int
        What the step may use of the device's memory.
    epoch, epochs : int
        Which epoch of how many, for policies that change over a training.
    measured_streams : mapping of (int, str) to int, optional
        Bytes of streams that were measured, by the tensor and the codec's name, instead of those
        that the codecs' models declare.
    own_engine : PlacedEngine, optional
        The engine that the device is imagined with, instead of the device's own and, for faster
        links, of `FAST_ENGINE`.

    Raises
    ------
    ScheduleError
        A density is missing, the device has no efficiency for a kind of layer, the memory is not
        positive, or an epoch is not 0 … epochs - 1.
    """

    graph: Graph
    device: Device
    link: Link
    memory_bytes: int
    epoch: int = 0
    epochs: int = 90
    own_engine: PlacedEngine | None = None
    measured_streams: Mapping[tuple[int, str], int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for t in self.graph.managed:
            if self.graph.tensors[t].density is None:
                raise ScheduleError(
                    f"tensor {self.graph.tensors[t].name} of {self.graph.name} has no density; "
                    "give a capture, a file or a curve"
                )
        for layer in self.graph.layers:
            if layer.kind not in self.device.efficiency:
                raise ScheduleError(
                    f"layer {layer.name} is of kind {layer.kind!r}, for which device "
                    f"{self.device.name} declares no efficiency; it has "
                    f"{', '.join(self.device.efficiency)}"
                )
        if self.memory_bytes <= 0:
            raise ScheduleError(f"memory must be more than 0 bytes, not {self.memory_bytes}")
        if not 0 <= self.epoch < self.epochs:
            raise ScheduleError(f"epoch must be 0 to {self.epochs - 1}, not {self.epoch}")

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return stages_of(self.graph)

    @cached_property
    def stage_of(self) -> dict[int, int]:
        """The stage that makes a tensor, by the tensor."""
        return {stage.output: s for s, stage in enumerate(self.stages)}

    def layer_seconds(self, layer: Layer, *, backward: bool) -> tuple[float, float]:
        """Seconds of arithmetic, and of memory alone, of which a layer takes the longer one."""
        return self.device.layer_seconds(layer, backward=backward)

    @cached_property
    def forward_seconds(self) -> Seconds:
        """Seconds of each stage's forward pass alone on the device, float64 (stages,)."""
        return self._stage_seconds(backward=False)

    @cached_property
    def backward_seconds(self) -> Seconds:
        """Seconds of each stage's backward pass alone on the device, float64 (stages,)."""
        return self._stage_seconds(backward=True)

    @property
    def compute_seconds(self) -> float:
        """Seconds of the step if nothing ever waits: the oracle's."""
        return float(self.forward_seconds.sum() + self.backward_seconds.sum())

    @cached_property
    def placed_engine(self) -> PlacedEngine | None:
        """The engine that the device is imagined with: `own_engine`; or else the device's, or for a
        faster link `FAST_ENGINE`. None if none of them is as fast as the link in copies that it
        does not compress; then the device copies as it does without an engine, and nothing is
        compressed on the way."""
        return next((engine for engine in self._engines if self._fits(engine)), None)

    @property
    def engine(self) -> str | None:
        """The name of that engine."""
        return None if self.placed_engine is None else self.placed_engine.name

    @cached_property
    def machine(self) -> MachineConfig:
        """The environment of that engine."""
        return self._machine(self.placed_engine or self._engines[0])

    @cached_property
    def _engines(self) -> tuple[PlacedEngine, ...]:
        """The engines that come into question, the device's own first."""
        if self.own_engine is not None:
            return (self.own_engine,)
        return PlacedEngine.named(self.device.engine), PlacedEngine.named(FAST_ENGINE)

    def _machine(self, engine: PlacedEngine) -> MachineConfig:
        return replace(
            engine.machine,
            dram_bytes_per_s=self.device.dram_bytes_per_s,
            link_out_bytes_per_s=self.link.bytes_per_s,
            link_in_bytes_per_s=self.link.in_bytes_per_s,
            link_efficiency=self.link.efficiency,
        )

    def codec(self, choice: Choice) -> CodecModel | None:
        """The codec model of a choice. `ScheduleError` if there is no such codec, or if it is to
        keep a tensor on the device but works on the way out of it."""
        if choice.codec is None:
            return None
        model = codec_model(choice.codec)
        if choice.placement is Placement.COMPRESS and model.where != "sm":
            raise ScheduleError(
                f"{model.name} compresses what leaves the device, not what stays on it; "
                "choose a codec on the multiprocessors, as zvc-sm"
            )
        return model

    def stream_bytes(self, tensor: int, choice: Choice) -> float:
        """Bytes of a tensor under a choice, on the link or on the device."""
        model = self.codec(choice)
        if model is None or model.where == "host":
            return float(self.graph.tensors[tensor].nbytes)
        return self._stream_bytes(tensor, model)

    def host_bytes(self, tensor: int, choice: Choice) -> float:
        """Bytes of host memory that a choice takes."""
        if choice.placement is not Placement.SWAP:
            return 0.0
        model = self.codec(choice)
        if model is None:
            return float(self.graph.tensors[tensor].nbytes)
        return self._stream_bytes(tensor, model)

    def _stream_bytes(self, tensor: int, model: CodecModel) -> float:
        """Bytes of a tensor's stream, as measured or else by the codec's model."""
        if (tensor, model.name) in self.measured_streams:
            return float(self.measured_streams[tensor, model.name])
        nbytes, density, element_bytes = self._size(tensor)
        if model.where == "inline" and self.placed_engine is not None:
            granule = self.placed_engine.config.codec.element_bytes
            if granule == 1:
                # Beside a codec of bytes, the others work on such, too.
                element_bytes = line_codec(model.name).array_element_bytes(granule)
        return model.stream_bytes(nbytes, density, element_bytes)

    def codec_seconds(self, tensor: int, choice: Choice) -> float:
        """Seconds to compress the tensor on the device; to decompress takes as long."""
        model = self.codec(choice)
        if model is None:
            return 0.0
        nbytes, density, element_bytes = self._size(tensor)
        return model.seconds(
            nbytes,
            density,
            self.device.dram_bytes_per_s,
            element_bytes,
            self.device.codec_bytes_per_s,
        )

    def offers(self, choice: Choice) -> bool:
        """Return True if the scenario has what a choice needs: an engine with its codec, if it
        compresses on the way.
        """
        if not self._is_inline(choice):
            return True
        return self.placed_engine is not None and choice.codec in self.placed_engine.config.codecs

    def copy_seconds(self, tensor: int, choice: Choice, throttle: str) -> tuple[float, float]:
        """Seconds that the tensor's copies occupy the engine and its link, out and in.

        Raises
        ------
        ScheduleError
            The choice compresses on the way, and no engine is as fast as the link, or the engine
            has not got the codec.
        """
        throttle_of(throttle)
        self._require_engine(choice)
        if self.engine is None:
            stream = self.stream_bytes(tensor, choice)
            out_rate, in_rate = self._plain_bytes_per_s
            return stream / out_rate, stream / in_rate
        out, back = self._copy_costs(tensor, choice, throttle)
        return out.queued_cycles / out.clock_hz, back.queued_cycles / back.clock_hz

    def copy_limits(self, tensor: int, choice: Choice, throttle: str) -> tuple[str, str]:
        """The narrowest place of the tensor's copies, out and in: `link`, or one of the engine's or
        the device's (`cdma.plan.engine_cost.transfer.TransferCost`)."""
        self._require_engine(choice)
        if self.engine is None:
            return "link", "link"
        out, back = self._copy_costs(tensor, choice, throttle)
        return out.limit, back.limit

    @cached_property
    def copy_latency(self) -> tuple[float, float]:
        """Seconds, out and in, from a copy's turn to its completion record, beside what it occupies
        the link for. The next copy does not wait for it."""
        out, back = self._plain_costs(self.placed_engine or self._engines[0], LINK_TURN_BYTES)
        return out.latency_cycles / out.clock_hz, back.latency_cycles / back.clock_hz

    def _fits(self, engine: PlacedEngine) -> bool:
        """True if an engine's plain copies are as fast as the link and the device's memory."""
        costs = self._plain_costs(engine, LONG_COPY_BYTES)
        return all(
            cost.flow_cycles / cost.clock_hz <= LONG_COPY_BYTES / rate * FITS
            for cost, rate in zip(costs, self._plain_bytes_per_s, strict=True)
        )

    @cached_property
    def _plain_bytes_per_s(self) -> tuple[float, float]:
        """Bytes per second of copies out and in that no engine has a part in."""
        out, back = (
            min(rate * self.link.efficiency, self.device.dram_bytes_per_s)
            for rate in (self.link.bytes_per_s, self.link.in_bytes_per_s)
        )
        return out, back

    def _plain_costs(self, engine: PlacedEngine, nbytes: int) -> tuple[TransferCost, TransferCost]:
        out, back = (
            transfer_cost(
                nbytes,
                nbytes,
                way=way,
                engine=engine.config,
                machine=self._machine(engine),
                compressed=False,
            )
            for way in WAYS
        )
        return out, back

    def _copy_costs(
        self, tensor: int, choice: Choice, throttle: str
    ) -> tuple[TransferCost, TransferCost]:
        assert self.placed_engine is not None
        nbytes = self.graph.tensors[tensor].nbytes
        stream = self.stream_bytes(tensor, choice)
        inline = self._is_inline(choice)
        engine = self.placed_engine.config
        if inline:
            # Lines are those of the engine's first codec.
            codecs = dict.fromkeys((str(choice.codec), *engine.codecs))
            engine = replace(engine, codec=replace(engine.codec, codecs=tuple(codecs)))
        # What the multiprocessors have compressed is copied as it is.
        raw = float(nbytes) if inline else stream
        out, back = (
            transfer_cost(
                raw,
                stream,
                way=way,
                throttle=throttle_of(throttle),
                compressed=inline,
                engine=engine,
                machine=self.machine,
            )
            for way in WAYS
        )
        return out, back

    def _is_inline(self, choice: Choice) -> bool:
        model = self.codec(choice)
        return model is not None and model.where == "inline"

    def _require_engine(self, choice: Choice) -> None:
        if self.offers(choice):
            return
        if self.placed_engine is None:
            raise ScheduleError(self.no_engine)
        raise ScheduleError(
            f"the engine {self.engine} has not got codec {choice.codec!r}; it has "
            f"{', '.join(self.placed_engine.config.codecs)}: choose one of these, or an engine "
            "with it"
        )

    @property
    def no_engine(self) -> str:
        """Explain why there is no engine, and what to do about it."""
        wanted = max(self._plain_bytes_per_s)
        fastest = self._engines[-1]
        if self.own_engine is None:
            port = fastest.config.stream_bytes_per_cycle * fastest.machine.clock_hz
            passes = f"{fastest.name}, the fastest, passes {port / 1e9:.4g}"
        else:
            slowest = max(
                self._plain_costs(fastest, LONG_COPY_BYTES), key=lambda cost: cost.flow_cycles
            )
            rate = LONG_COPY_BYTES * slowest.clock_hz / slowest.flow_cycles
            passes = f"{fastest.name} passes {rate / 1e9:.4g}, by its limit {slowest.limit!r}"
        return (
            f"no engine passes the {wanted / 1e9:.4g} GB/s that copies get of {self.link.name}; "
            f"{passes}. Choose another link, engines side by side as c2c has, or policies "
            "that compress nothing on the way."
        )

    def _size(self, tensor: int) -> tuple[int, float, int]:
        """Bytes, density and bytes of an element."""
        found = self.graph.tensors[tensor]
        assert found.density is not None
        return found.nbytes, found.density, found.element_bytes

    def _stage_seconds(self, *, backward: bool) -> Seconds:
        return np.array(
            [
                sum(
                    max(self.layer_seconds(self.graph.layers[i], backward=backward))
                    for i in stage.layers
                )
                for stage in self.stages
            ]
        )
