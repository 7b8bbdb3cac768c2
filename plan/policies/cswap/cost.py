"""The swapping cost of a tensor, compressed and not (CSWAP+, §5.3, equations 3 to 7).

Each tensor has computation of its own to hide its copies behind, so neither contention for the link
nor memory is seen: this is what CSWAP+ decides by; the timeline judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cdma.plan.platform.codec_rates import ZFP_LEAST_BITS, ZFP_MOST_BITS, codec_model
from cdma.plan.policies.cswap.samples import lossy_ratio
from cdma.plan.timeline.placement import SWAP, Choice, Placement
from cdma.plan.timeline.scenario import Scenario

ZFP = "zfp"
"""The name of all `zfp-P` together, of which time models learn as of one codec."""


class TimePredictor(Protocol):
    """Seconds of compression and decompression; `cdma.plan.policies.cswap.time_model.TimeModel`."""

    def predict(
        self, nbytes: npt.ArrayLike, ratio: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]: ...


@dataclass(frozen=True)
class Window:
    """Computation behind which a tensor's copies can hide, in seconds: Hidden_f and Hidden_b."""

    forward_seconds: float
    backward_seconds: float

    def exposed_seconds(self, out_seconds: float, in_seconds: float) -> float:
        """Seconds of the copies that are exposed: equations 3, and 5 plus 6."""
        return max(out_seconds - self.forward_seconds, 0.0) + max(
            in_seconds - self.backward_seconds, 0.0
        )


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a tensor's swap to the training step, in seconds.

    Attributes
    ----------
    compress_seconds, decompress_seconds : float
        Time_c and Time_dc; 0 if there is no codec, or one that takes no time of the device.
    exposed_seconds : float
        O_f + O_b.
    """

    compress_seconds: float = 0.0
    decompress_seconds: float = 0.0
    exposed_seconds: float

    @property
    def codec_seconds(self) -> float:
        """Seconds of compression and decompression, which Algorithm 1 calls cost."""
        return self.compress_seconds + self.decompress_seconds

    @property
    def seconds(self) -> float:
        """T of equation 4, or T' of equation 3."""
        return self.codec_seconds + self.exposed_seconds


class CostModel:
    """Costs of the swaps of a scenario's tensors.

    Sizes are those of the codecs' models: equation 7 with ZVC's masks, which print leaves out, so
    S · (1 − s + 1/32), or S · P/128 of ZFP.

    Parameters
    ----------
    scenario : Scenario
    time_models : mapping of str to TimePredictor
        By codec, `zfp` for all P: the times of compression and decompression, or, of the engine's
        codec, of the copies out and in. A codec that is missing has its model's times.
    lookahead : int
        A prefetch can hide behind so many stages before the one that needs it; 1 as in vDNN.
    """

    def __init__(
        self,
        scenario: Scenario,
        time_models: Mapping[str, TimePredictor] | None = None,
        *,
        lookahead: int = 1,
    ) -> None:
        self.scenario = scenario
        self.time_models = dict(time_models or {})
        self.lookahead = lookahead
        self._windows: dict[int, Window] = {}
        self._copies: dict[tuple[int, float | None, Choice], tuple[float, float]] = {}

    def window(self, tensor: int) -> Window:
        """Forward: from the tensor's producer to its last reader. Backward: `lookahead` stages
        before its first reader."""
        if tensor not in self._windows:
            self._windows[tensor] = self._find_window(tensor)
        return self._windows[tensor]

    def plain(self, tensor: int) -> Cost:
        """T': as it is."""
        copies = self._copy_seconds(tensor, SWAP)
        return Cost(exposed_seconds=self.window(tensor).exposed_seconds(*copies))

    def compressed(self, tensor: int, codec: str) -> Cost:
        """T with a codec of `CODEC_MODELS`. ScheduleError if there is no such codec."""
        is_zfp = codec.startswith(f"{ZFP}-")
        learned = self.time_models.get(ZFP if is_zfp else codec)
        if learned is None:
            return self._cost(tensor, codec, None)
        found = self.scenario.graph.tensors[tensor]
        assert found.density is not None
        ratio = lossy_ratio(int(codec.removeprefix(f"{ZFP}-"))) if is_zfp else 1 - found.density
        first, second = learned.predict(found.nbytes, ratio)
        return self._cost(tensor, codec, (float(first), float(second)))

    def zfp(self, tensor: int) -> dict[int, Cost]:
        """T with every P that ZFP has."""
        legal = range(ZFP_LEAST_BITS, ZFP_MOST_BITS + 1)
        if ZFP not in self.time_models:
            return {bits: self.compressed(tensor, f"zfp-{bits}") for bits in legal}
        # One prediction for all of them: each call of a regression takes as long.
        nbytes = self.scenario.graph.tensors[tensor].nbytes
        times = self.time_models[ZFP].predict(nbytes, [lossy_ratio(bits) for bits in legal])
        return {
            bits: self._cost(tensor, f"zfp-{bits}", (float(first), float(second)))
            for bits, first, second in zip(legal, *times, strict=True)
        }

    def _cost(self, tensor: int, codec: str, learned: tuple[float, float] | None) -> Cost:
        choice = Choice(Placement.SWAP, codec)
        copies = self._copy_seconds(tensor, choice)
        if codec_model(codec).where == "inline":
            return Cost(exposed_seconds=self.window(tensor).exposed_seconds(*(learned or copies)))
        declared = self.scenario.codec_seconds(tensor, choice)
        compress, decompress = learned or (declared, declared)
        return Cost(
            compress_seconds=compress,
            decompress_seconds=decompress,
            exposed_seconds=self.window(tensor).exposed_seconds(*copies),
        )

    def _copy_seconds(self, tensor: int, choice: Choice) -> tuple[float, float]:
        """Networks have few sizes, and the engine's estimate takes its time for each."""
        found = self.scenario.graph.tensors[tensor]
        key = (found.nbytes, found.density, choice)
        if key not in self._copies:
            self._copies[key] = self.scenario.copy_seconds(tensor, choice, "none")
        return self._copies[key]

    def _find_window(self, tensor: int) -> Window:
        scenario = self.scenario
        made = scenario.stage_of[tensor]
        readers = [s for s, stage in enumerate(scenario.stages) if tensor in stage.inputs]
        savers = [s for s, stage in enumerate(scenario.stages) if tensor in stage.saved]
        last = max(readers, default=made)
        need = max(savers, default=made)
        return Window(
            float(scenario.forward_seconds[made + 1 : last + 1].sum()),
            float(scenario.backward_seconds[need + 1 : need + 1 + self.lookahead].sum()),
        )
