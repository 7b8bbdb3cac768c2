"""Documents about arrays that are compressed and moved: inspect, swap, estimate, train."""

from typing import Annotated, Literal, TypedDict

from cdma.schemas.shapes.common import (
    Bytes,
    BytesPerSecond,
    Configuration,
    Count,
    Cycles,
    Density,
    Seconds,
    Share,
)


class Inspect(TypedDict):
    """The header of a .cz file."""

    file: str
    codec: str
    element_bytes: int
    parameters: Annotated[dict[str, float], "the codec's; empty for most lossless ones"]
    dtype: Annotated[str, "as in .npy files"]
    shape: list[int]
    order: Annotated[str, "C or F"]
    bytes: Bytes
    compressed_bytes: Annotated[int, "the stream alone"]
    file_bytes: Bytes
    ratio: Annotated[float | None, "bytes / compressed_bytes; null for an empty array"]
    crc32: Annotated[int, "of the array's bytes in memory order"]


class SwapLink(TypedDict):
    """The link, with its rate out."""

    name: str
    bytes_per_s: BytesPerSecond


class SwapFigures(TypedDict):
    """Figures of an array, or of all of them; what only an engine has is null without one."""

    bytes: Bytes
    density: float | None
    compressed_bytes: Bytes
    ratio: float | None
    cycles_out: Cycles
    cycles_in: Cycles
    bytes_per_cycle_out: float | None
    bytes_per_cycle_in: float | None
    bit_exact: Annotated[bool, "of a lossy codec: bit for bit the golden model's values"]
    largest_error: Annotated[float | None, "of a value that came back; null if lossless"]
    exact_values: Annotated[int | None, "in lines that a lossy codec kept bit for bit"]
    not_finite_values: Annotated[int | None, "NaN or infinite, among these"]
    baseline_ratios: Annotated[dict[str, float | None], "of other codecs, by name"]
    link_seconds_raw: Seconds
    link_seconds_compressed: Seconds
    swap_out_seconds: Seconds
    swap_in_seconds: Seconds
    link_utilization_out: float | None
    link_utilization_in: float | None
    dram_read_bytes_per_s: float | None
    buffer_high_water_bytes: int | None
    stall_cycles: Annotated[dict[str, int] | None, "by what was waited for"]
    status: Annotated[str | None, "the worst of the completion records"]


class SwapArray(SwapFigures):
    """An array's round trip."""

    name: str
    dtype: str
    shape: list[int]
    element_bytes: int
    codec: Annotated[str, "what it was compressed with"]
    parameters: Annotated[dict[str, int], "the codec's in the descriptor, by name"]
    latency_cycles_out: int | None
    latency_cycles_in: int | None
    crc32: int | None
    faults: Annotated[list[str], "what differs; empty if nothing does"]


class Swap(TypedDict):
    """Arrays out through the RTL and back."""

    engine: Literal["dma", "codec"]
    machine: str | None
    throttle: str | None
    codec: str
    bound: Annotated[float | None, "the largest error that a value may have; null if lossless"]
    round_to: str | None
    sector_bytes: int
    stalls: Annotated[float, "probability of a stall, per cycle and handshake"]
    seed: int
    layout: str | None
    link: SwapLink
    clock_hz: float
    configuration: Configuration
    arrays: list[SwapArray]
    total: SwapFigures


class EstimateEngine(TypedDict):
    """The engine's shape."""

    units: int
    sector_bytes: int
    element_bytes: int
    buffer_bytes: int
    write_bursts: int
    read_buffer_bytes: int
    split_lines: int
    drain_beats: int
    split_beats: int
    transfers: int


class EstimateMachine(TypedDict):
    """The engine's surroundings."""

    clock_hz: float
    engines: int
    channels: int
    dram_bytes_per_s: BytesPerSecond
    dram_latency_ns: float
    link: Annotated[str | None, "its name; null for the machine's own"]
    link_out_bytes_per_s: BytesPerSecond
    link_in_bytes_per_s: BytesPerSecond
    link_efficiency: float
    link_overhead_bytes: int
    link_latency_ns: float


class EstimateThrottle(TypedDict):
    """The limit of the engine's reads; 0 B/s is none."""

    name: str
    bytes_per_s: BytesPerSecond


class EstimateAssumptions(TypedDict):
    """All that the times depend on."""

    network: str
    dataset: str
    batch: int
    density: Density
    config: str
    codec: str
    bound: Annotated[float | None, "the largest error that a value may have; null if lossless"]
    engine: EstimateEngine
    machine: EstimateMachine
    throttle: EstimateThrottle


class EstimateWays(TypedDict):
    """Times out (offload) and back (prefetch), and those of uncompressed transfers (raw)."""

    offload_seconds: Seconds
    offload_cycles: float
    offload_bytes_per_s: BytesPerSecond
    raw_offload_seconds: Seconds
    offload_speedup: float
    prefetch_seconds: Seconds
    prefetch_cycles: float
    prefetch_bytes_per_s: BytesPerSecond
    raw_prefetch_seconds: Seconds
    prefetch_speedup: float


class EstimateTensor(EstimateWays):
    """A tensor's transfers, with what limits each."""

    name: str
    density: Share
    raw_bytes: Bytes
    stream_bytes: float
    ratio: float
    measured_on: Annotated[
        str | None,
        "arrays that a lossy codec's lines are of: tensor, kind, or worst case; null if lossless",
    ]
    offload_limit: str
    prefetch_limit: str


class EstimateTotal(EstimateWays):
    """All tensors, one after another, with seconds by what limits them."""

    raw_bytes: Bytes
    stream_bytes: float
    ratio: float
    offload_limits: dict[str, float]
    prefetch_limits: dict[str, float]


class EstimateRow(EstimateTotal):
    """The totals with a value of the swept parameter."""

    value: float | int | str


class EstimateSweep(TypedDict):
    """A parameter over several values."""

    parameter: str
    rows: list[EstimateRow]


class Estimate(TypedDict):
    """A network's tensors to the host and back."""

    assumptions: EstimateAssumptions
    configuration: Configuration
    tensors: list[EstimateTensor]
    total: EstimateTotal
    sweep: EstimateSweep | None


class TrainPlain(TypedDict):
    """The step without a plan."""

    allocator_bytes: Bytes
    seconds: Seconds


class TrainCheckpoint(TrainPlain):
    """The step with PyTorch's checkpoint around blocks."""

    blocks: list[str]


class TrainWay(TypedDict):
    """What the engine moved in a direction."""

    values: Count
    bytes: Bytes
    stream_bytes: Bytes
    cycles: Cycles


class TrainValue(TypedDict):
    """A saved value, and what the plan does with it."""

    name: str
    bytes: Bytes
    choice: str


class Train(TypedDict):
    """A PyTorch module's step within a memory."""

    subject: str
    policy: str
    device: str
    link: str
    machine: str
    seed: int
    configuration: Configuration
    memory_bytes: Bytes
    timeline_bytes: Bytes
    planned_bytes: Bytes
    counted_bytes: Bytes
    allocator_bytes: Bytes
    seconds: Seconds
    plain: TrainPlain
    checkpoint: TrainCheckpoint | None
    out: TrainWay
    back: TrainWay
    prefetches: Count
    replays: Count
    replayed_bytes: Bytes
    choices: dict[str, int]
    values: list[TrainValue]
    compared: Count
    differing: list[str]
