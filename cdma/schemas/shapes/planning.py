"""Documents about plans: schedule, its largest batches, its timelines, and value."""

from typing import Annotated, Any, NotRequired, TypedDict

from cdma.schemas.shapes.common import (
    Bytes,
    BytesPerSecond,
    Configuration,
    Cycles,
    Density,
    Seconds,
)


class PlannedTensor(TypedDict):
    """A tensor that plans decide about."""

    name: str
    bytes: Bytes
    density: float | None


class PlannedDevice(TypedDict):
    """The GPU."""

    name: str
    peak_flops: float
    dram_bytes_per_s: BytesPerSecond
    source: str


class PlannedLink(TypedDict):
    """The link."""

    name: str
    bytes_per_s: BytesPerSecond
    in_bytes_per_s: BytesPerSecond
    payload_efficiency: float
    duplex: bool
    source: str


class PlannedEngine(TypedDict):
    """The engine in the device."""

    name: str
    clock_hz: float
    units_bytes_per_s: BytesPerSecond
    port_bytes_per_s: BytesPerSecond


class PlannedCodec(TypedDict):
    """A codec that a plan uses; rates are of those that run on the device's processors."""

    name: str
    where: str
    lossless: bool
    raw_bytes_per_s: float | None
    stream_bytes_per_s: float | None


class ScheduleAssumptions(TypedDict):
    """All that the times depend on."""

    network: str
    dataset: str
    activation: str
    precision: str
    optimizer: str
    batch: int
    passes: int
    parameter_bytes: Bytes
    parameter_copies: float
    tensors: list[PlannedTensor]
    memory_bytes: Bytes
    device: PlannedDevice
    efficiency: Annotated[dict[str, float] | None, "by kind of layer; null if several were asked"]
    narrow_efficiency: Annotated[
        dict[str, float | None] | None,
        "by kind of layer that multiplies bfloat16 values, null for one that has `efficiency`; "
        "null if the device tells none apart",
    ]
    efficiency_error: Annotated[
        dict[str, float | None] | None,
        "by kind of layer, null for one that nobody has timed; null if the device's are declared",
    ]
    efficiencies: list[float]
    link: PlannedLink
    engine: PlannedEngine | None
    mode: str
    density: Density
    codecs: list[PlannedCodec]
    policies: Annotated[dict[str, str], "where each is from"]
    speedup_over: str
    seed: int


class LowerBound(TypedDict):
    """A time that no plan is below."""

    lossless: bool
    seconds: float | None
    tight: bool


class Bounds(TypedDict):
    """Bounds of an efficiency."""

    efficiency: float | None
    oracle_seconds: Seconds
    lower_bounds: list[LowerBound]


EngineWorth = TypedDict(
    "EngineWorth",
    {"efficiency": float | None, "without": str | None, "with": str | None, "gain": float | None},
)
"""The best policies without the engine and with it."""


class PlannedPolicy(TypedDict):
    """A policy's plan, run on the timeline; what only a plan that runs has is null else."""

    policy: str
    efficiency: float | None
    mode: str
    throttle: str | None
    lossless: bool
    feasible: bool
    seconds: float | None
    speedup_over_vdnn: float | None
    over_oracle: float | None
    over_bound: float | None
    peak_bytes: int | None
    least_bytes: int | None
    host_bytes: int | None
    link_bytes: float | None
    link_out_bytes: float | None
    link_in_bytes: float | None
    stall_seconds: float | None
    stall_seconds_by_reason: dict[str, float] | None
    codec_seconds: float | None
    recompute_seconds: float | None
    copy_limits: Annotated[dict[str, int], "copies by what limits them"]
    solver: Annotated[dict[str, Any] | None, "what a search tells of itself"]
    busy_seconds: dict[str, float] | None
    choices: Annotated[dict[str, str], "by tensor"]


class RunCopy(TypedDict):
    """A copy by the RTL, beside the timeline's."""

    tensor: str
    way: str
    bytes: Bytes
    stream_bytes: Bytes
    start_cycle: float
    end_cycle: float
    timeline_start_cycle: float
    timeline_end_cycle: float


class CarriedTensor(TypedDict):
    """A share of a tensor that went out and back by itself."""

    tensor: str
    bytes: Bytes
    stream_bytes: Bytes


class RunContent(TypedDict):
    """A share of a plan's tensors, whose streams were the golden model's."""

    bytes: Bytes
    stream_bytes: Bytes
    share: float
    tensors: list[CarriedTensor]


class RunPlan(TypedDict):
    """A plan that the RTL has carried out, made small by a factor."""

    policy: str
    factor: float
    clock_hz: float
    cycles: Cycles
    timeline_cycles: float
    error: float | None
    out_error: float | None
    in_error: float | None
    compute_cycles: float
    timeline_compute_cycles: float
    compute_error: float
    peak_bytes: Bytes
    timeline_peak_bytes: Bytes
    memory_bytes: Bytes
    link_out_cycles: float
    link_in_cycles: float
    copies: list[RunCopy]
    content: RunContent


class Runs(TypedDict):
    """Plans carried out, and why others were not."""

    plans: list[RunPlan]
    left_out: dict[str, str]


class Schedule(TypedDict):
    """Every policy's plan of a training step."""

    assumptions: ScheduleAssumptions
    configuration: Configuration
    bounds: list[Bounds]
    engine_worth: list[EngineWorth]
    policies: list[PlannedPolicy]
    runs: NotRequired[Annotated[Runs, "with --run"]]


class LargestBatch(TypedDict):
    """The largest minibatch of a policy; 0 if there is no room for one."""

    policy: str
    batch: int
    seconds: float | None
    per_second: float | None


class Largest(TypedDict):
    """The largest minibatch of each policy."""

    memory_bytes: Bytes
    mode: str
    density: str
    seed: int
    configuration: Configuration
    largest_batches: list[LargestBatch]


class TraceEvent(TypedDict):
    """An event of the trace event format."""

    ph: Annotated[str, "X: an interval; C: a counter; M: a name"]
    name: str
    pid: int
    args: dict[str, Any]
    tid: NotRequired[int]
    cat: NotRequired[str]
    ts: NotRequired[Annotated[float, "microseconds"]]
    dur: NotRequired[Annotated[float, "microseconds"]]


class Trace(TypedDict):
    """Timelines in the trace event format, which ui.perfetto.dev opens."""

    traceEvents: list[TraceEvent]
    displayTimeUnit: str
    otherData: ScheduleAssumptions


class ValuePoint(TypedDict):
    """A step, and how it is searched for plans."""

    network: str
    dataset: str
    batch: int
    precision: str
    device: str
    link: str
    codec: str
    room: float
    density: str
    epoch: int
    epochs: int
    evaluations: int
    seed: int
    own: Annotated[
        dict[str, dict[str, Any]],
        "fields of `device` and `link` that are not those of a name",
    ]


class ValueTimes(TypedDict):
    """A point's times without the engine and with it."""

    point: ValuePoint
    engine: str | None
    memory_bytes: Bytes
    fits: bool
    saved_bytes: Bytes
    mean_density: float
    link_bytes_per_s: BytesPerSecond
    oracle_seconds: Seconds
    without_seconds: Seconds
    with_seconds: Seconds
    gain: float | None


class ValueRow(TypedDict):
    """A step over links, and between which rates the engine is worth it."""

    network: str
    dataset: str
    batch: int
    precision: str
    device: str
    room: float
    codec: str
    gains: Annotated[dict[str, float | None], "by link"]
    worth_it: bool
    from_bytes_per_s: float | None
    to_bytes_per_s: float | None


class ValueMap(TypedDict):
    """The engine's gain over the best plans without it."""

    points: int
    computed: int
    break_even_gain: float
    values: list[ValueTimes]
    rows: list[ValueRow]
