"""Samples of how long codecs take, to fit the time model by (CSWAP+, §5.4).

Three kinds, none invented: what the RTL engine takes, in cycles; what the golden codecs take on the
processor that ran them; and what a codec model of the scheduler says. The first two are in
`samples.json`, as `cdma.sim.execute.codec_samples` has written it.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cdma.plan.platform.codec_rates import ZFP_LEAST_BITS, ZFP_MOST_BITS, codec_model
from cdma.plan.timeline.errors import ScheduleError

SHIPPED = Path(__file__).with_name("samples.json")

SPARSE_RATIOS = (0.2, 0.9)
"""The share of zeros of the paper's samples (§6.3)."""
MODEL_BYTES = (20_000_000, 2_000_000_000)
"""The sizes of the paper's samples (§6.3)."""


@dataclass(frozen=True)
class Sample:
    """A tensor, and how long it took.

    Attributes
    ----------
    nbytes : int
        Uncompressed.
    ratio : float
        As the paper counts it: the share of zeros; of lossy codecs, 1 − P/128.
    compress_seconds, decompress_seconds : float
        Of the engine: the way out and the way in, from the driver's call to its return.
    """

    nbytes: int
    ratio: float
    compress_seconds: float
    decompress_seconds: float


def sample_names() -> tuple[str, ...]:
    """Names that `shipped_samples` takes: `engine`, and the golden codecs that were timed."""
    return ("engine", *_shipped()["host"]["codecs"])


def shipped_samples(name: str) -> tuple[Sample, ...]:
    """The measured samples of the engine, or of a golden codec on the host.

    Raises
    ------
    ScheduleError
        There are none of that name; the message lists those that there are.
    """
    if name not in sample_names():
        raise ScheduleError(f"unknown samples {name!r}; choose from {', '.join(sample_names())}")
    measured = _shipped()
    if name == "engine":
        unit = 1 / measured["engine"]["clock_hz"]
        rows = measured["engine"]["rows"]
    else:
        unit = 1e-9
        rows = measured["host"]["codecs"][name]
    return tuple(Sample(n, ratio, out * unit, back * unit) for n, ratio, _, out, back in rows)


def shipped_conditions() -> dict[str, Any]:
    """Origin of the samples: the engine's preset and clock, the host's processor, the command."""
    measured = _shipped()
    return {
        "command": measured["command"],
        "engine": {k: v for k, v in measured["engine"].items() if k != "rows"},
        "host": {k: v for k, v in measured["host"].items() if k != "codecs"},
    }


def model_samples(
    name: str, count: int = 3000, *, dram_bytes_per_s: float, seed: int = 0
) -> tuple[Sample, ...]:
    """Samples that a codec's model gives for tensors of the paper's sizes and ratios (§6.3).

    Parameters
    ----------
    name : str
        Of `cdma.plan.platform.codec_rates.CODEC_MODELS`; or "zfp": each P as often as the others
        (§5.4).
    count : int
    dram_bytes_per_s : float
        The device's: models of codecs on its multiprocessors are as fast as its memory.
    seed : int
        Of sizes and ratios.

    Raises
    ------
    ScheduleError
        There is no such codec.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(*MODEL_BYTES, count).astype(np.int64) // 128 * 128
    if name == "zfp":
        legal = range(ZFP_LEAST_BITS, ZFP_MOST_BITS + 1)
        bits = [legal[i % len(legal)] for i in range(count)]
        codecs = [codec_model(f"zfp-{p}") for p in bits]
        ratios = [lossy_ratio(p) for p in bits]
    else:
        codecs = [codec_model(name)] * count
        ratios = rng.uniform(*SPARSE_RATIOS, count).tolist()
    samples = []
    for codec, n, ratio in zip(codecs, sizes.tolist(), ratios, strict=True):
        seconds = codec.seconds(n, 1 - ratio, dram_bytes_per_s)
        samples.append(Sample(n, ratio, seconds, seconds))
    return tuple(samples)


def lossy_ratio(bits: int) -> float:
    """A lossy codec's compression ratio in the paper's sense: 1 − P/MAX (§5.4)."""
    return 1 - bits / ZFP_MOST_BITS


@cache
def _shipped() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(SHIPPED.read_text())
    return measured
