"""A tensor as the engine moves it, for the codec that a plan has chosen."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cdma import golden
from cdma.golden.formats.interface import Array, as_bytes
from cdma.golden.formats.lossy.power_of_two import SMALLEST_K, bound_of, rounded_down
from cdma.golden.formats.rounding import rounded_to
from cdma.golden.formats.sample import sample
from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import EngineConfig
from cdma.plan.platform.codec_rates import CodecModel
from cdma.sim.swap.encoding import engine_encoding

BOUND_SHARE = 0.01
"""The bound of lossy codecs, by the root mean square of a tensor, before it is rounded down to a
power of two."""

BF16_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class CarriedTensor:
    """A tensor's bytes where they are, and what comes of them.

    Attributes
    ----------
    raw : uint8 array
        As device memory holds it when the engine begins: the tensor or, where multiprocessors
        compress, their stream.
    restored : uint8 array
        What must be there when it is back: `raw`, unless the engine's codec is lossy.
    stream : uint8 array
        What the golden model makes of it: what host memory must hold then.
    codec : str or None
        The engine's; None copies.
    parameters : mapping of str to int
        The engine's codec's, by name.
    """

    raw: ByteArray
    restored: ByteArray
    stream: ByteArray
    codec: str | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)

    @property
    def stream_bytes(self) -> int:
        """Bytes of the stream."""
        return self.stream.size

    def memory_bytes(self, config: EngineConfig) -> int:
        """The most bytes of host memory that the stream takes."""
        if self.codec is None:
            return self.raw.size
        return line_codec(self.codec).worst_stream_bytes(self.raw.size, config.codec)


def carried(
    values: Array, nbytes: int, model: CodecModel | None, config: EngineConfig
) -> CarriedTensor:
    """A tensor with these values over and over, in the form that its codec takes.

    A codec of bf16 or fp16 gets them rounded to it, and lossy ones work with `BOUND_SHARE`.

    Parameters
    ----------
    values : array
        float32.
    nbytes : int
        Of the tensor; whole values.
    model : CodecModel or None
        The planner's; None swaps the tensor as it is.
    config : EngineConfig
        Has the codec, if it is one of an engine's.
    """
    data = np.resize(as_bytes(values), nbytes)
    if model is None or model.where == "host":
        return CarriedTensor(raw=data, restored=data, stream=data)
    bound = _bound(values)
    if model.where == "sm":
        codec = _golden_codec(model, bound)
        raw = codec.compress(data if codec.lossless else data.view("<f4"))
        return CarriedTensor(raw=raw, restored=raw, stream=raw)
    entry = line_codec(model.name)
    if entry.array_element_bytes(config.codec.element_bytes) == BF16_BYTES:
        rounded = rounded_to(entry.element_format or "bf16", values)
        data = np.resize(as_bytes(rounded), nbytes)
    encoding = engine_encoding(
        model.name,
        sample(data),
        config.codec.element_bytes,
        None if entry.lossless else entry.bounded_parameters(bound),
    )
    return CarriedTensor(
        raw=data,
        restored=encoding.returned(data),
        stream=encoding.stream(data),
        codec=model.name,
        parameters=encoding.parameters,
    )


def _golden_codec(model: CodecModel, bound: float) -> golden.Codec:
    """The format of a codec on the multiprocessors: `zfp-32`, or as `zvc-sm`."""
    name, _, suffix = model.name.rpartition("-")
    if suffix != model.where:
        return golden.codec(name, rate=int(suffix))
    return golden.codec(name) if model.lossless else golden.codec(name, bound=bound)


def _bound(values: Array) -> float:
    finite = values[np.isfinite(values)].astype(np.float64)
    rms = math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0
    return rounded_down(max(BOUND_SHARE * rms, bound_of(SMALLEST_K)))
