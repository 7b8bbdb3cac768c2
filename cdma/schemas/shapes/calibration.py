"""The document of a calibration."""

from typing import Annotated, TypedDict

from cdma.schemas.shapes.common import Bytes, BytesPerSecond, Configuration, Seconds, Share


class FittedEfficiency(TypedDict):
    """The part of both peaks that layers of a kind get."""

    kind: str
    efficiency: Share
    error: Annotated[float, "the part of their time by which timings are off"]
    spread: Annotated[float, "median over shortest time, less 1, at most"]
    timings: int


class FittedRate(TypedDict):
    """Bytes per second of copies or of a codec."""

    kind: str
    bytes_per_s: BytesPerSecond
    error: Annotated[float, "the part of their time by which timings are off"]
    spread: Annotated[float, "median over shortest time, less 1, at most"]
    timings: int


class CheckedNetwork(TypedDict):
    """A step that nothing was fitted to."""

    name: str
    precision: Annotated[str, "`fp32`, or `autocast` to bfloat16"]
    seconds: Seconds
    planned_seconds: Seconds
    error: Annotated[float, "how much longer than planned, as a part of it"]
    saved_bytes: Annotated[Bytes, "that autograd saved, without parameters"]
    planned_saved_bytes: Bytes


class TimedWork(TypedDict):
    """An operation's times."""

    kind: str
    name: str
    seconds: list[Seconds]
    flops: float
    bytes: float
    narrow: bool


class Calibrated(TypedDict):
    """A device as it was timed."""

    on: Annotated[str, "as PyTorch names it"]
    source: str
    configuration: Configuration
    layers: list[FittedEfficiency]
    narrow_layers: Annotated[list[FittedEfficiency], "of products of bfloat16 values"]
    copies: Annotated[list[FittedRate], "out and in"]
    codecs: list[FittedRate]
    codecs_left_out: list[str]
    networks: list[CheckedNetwork]
    timings: list[TimedWork]
