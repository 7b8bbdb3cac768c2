"""Documents about hardware: the sidecar of generated Verilog, synth, energy, board."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from cdma.schemas.shapes.common import Bytes, Configuration, Count, Share


class SidecarPort(TypedDict):
    """A port of the module."""

    name: str
    direction: Literal["input", "output"]
    width: int
    description: str


class SidecarInterface(TypedDict):
    """Ports that belong together."""

    name: str
    kind: str
    role: Literal["sink", "source"]
    description: str
    ports: list[SidecarPort]


class SidecarReset(TypedDict):
    """The reset."""

    port: str
    active: Literal["high", "low"]
    synchronous: bool


class SidecarClock(TypedDict):
    """A clock beside the block's own; its reset is as the block's."""

    clock: str
    reset: str
    interfaces: Annotated[list[str], "those that belong to it"]


class SidecarMemory(TypedDict):
    """Memories of the same sizes, each with a port that writes and one that reads."""

    words: Count
    bits: Count
    instances: Count
    clocks: Annotated[Count, "2 if the ports have a clock each"]


class SidecarClockGate(TypedDict):
    """A gate of the block's clock."""

    gated: Annotated[str, "the submodule whose clock it gates"]
    instance: str
    module: Annotated[str, "the same for all, for a cell of the library to take its place"]


class Sidecar(TypedDict):
    """A generated block: its ports, parameters and latencies."""

    generator: str
    component: str
    module: str
    description: str
    parameters: dict[str, Any]
    latency_cycles: dict[str, Any]
    clock: str
    reset: SidecarReset
    other_clocks: list[SidecarClock]
    clock_gates: list[SidecarClockGate]
    interfaces: list[SidecarInterface]
    memories: list[SidecarMemory]
    configuration: Configuration
    file: Annotated[str, "the Verilog beside it"]


class SynthPart(TypedDict):
    """A part of a whole, all of them together."""

    name: str
    count: Count
    kge: float
    flip_flops: int
    macro_bits: int


class SynthCorner(TypedDict):
    """The same netlist in another library."""

    library: str
    fmax_mhz: float
    fmax_wire_load_mhz: float | None


class SynthGated(TypedDict):
    """The same component with gated clocks."""

    kge: float
    fmax_mhz: float
    depth: int
    slowest_path: list[str]
    clock_gates: Count
    gated_flip_flops: Count


class SynthOpinion(TypedDict):
    """Periods from register to register, by OpenSTA and here."""

    period_ps: float
    own_period_ps: float


class SynthRow(TypedDict):
    """A component; null where its target has no such figure."""

    name: str
    config: str
    parameters: dict[str, Any]
    cells: int
    flip_flops: int
    depth: int
    fmax_mhz: float | None
    slowest_path: list[str] | None
    macro_bits: int | None
    kge: float | None
    area_um2: float | None
    area_um2_28nm: float | None
    delay_ps: float | None
    fmax_wire_load_mhz: float | None
    overloaded_nets: int | None
    steep_nets: int | None
    parts: list[SynthPart] | None
    corners: list[SynthCorner] | None
    gated: NotRequired[SynthGated | None]
    opensta: SynthOpinion | None
    no_fmax: Annotated[str | None, "why there is no fmax_mhz"]
    luts: int | None
    carries: int | None
    block_rams: int | None
    dsps: int | None


class Synth(TypedDict):
    """Components as gates or on an FPGA."""

    target: str
    configuration: Configuration
    components: list[SynthRow]
    library: NotRequired[Annotated[str, "of gates"]]
    um2_per_gate: NotRequired[Annotated[dict[str, float], "of gates"]]
    units: NotRequired[Annotated[dict[str, Any] | None, "of gates: the paper's conversion"]]
    buffer: NotRequired[Annotated[dict[str, Any], "of gates: the paper's buffer"]]
    engine: NotRequired[Annotated[dict[str, Any] | None, "of gates: the whole engine"]]
    device: NotRequired[Annotated[str | None, "of FPGAs: null without place and route"]]
    package: NotRequired[Annotated[str | None, "of FPGAs"]]
    speed: NotRequired[Annotated[int | None, "of FPGAs"]]
    seed: NotRequired[Annotated[int | None, "of FPGAs"]]


class EnergyRegister(TypedDict):
    """A register, by the energy of its clock."""

    name: str
    bits: int
    gated: bool
    clocked: Share
    changed: Share
    clock_pj: float


class EnergyMeasurement(TypedDict):
    """A load's power."""

    load: str
    density: Share
    state: str
    bytes_per_cycle: float
    pj_per_byte: float | None
    power_mw: float
    parts_mw: dict[str, float]
    registers: list[EnergyRegister]


class EnergyNetlist(TypedDict):
    """A component, mapped and measured."""

    name: str
    config: str
    clock_gating: bool
    cells: int
    flip_flops: int
    gated_flip_flops: int
    clock_gates: int
    kge: float
    fmax_mhz: float
    measurements: list[EnergyMeasurement]


class EnergyGain(TypedDict):
    """What clock gating saves of a load."""

    name: str
    load: str
    density: Share
    state: str
    power_mw: Annotated[list[float], "without and with it"]
    gain: float


class Energy(TypedDict):
    """Energy per byte."""

    library: str
    volts: float | None
    clock_mhz: float
    configuration: Configuration
    netlists: list[EnergyNetlist]
    gains: list[EnergyGain]


class BoardPort(TypedDict):
    """The serial port."""

    baud: int
    format: str
    where: str
    read: str


class Board(TypedDict):
    """A bitstream, and how to load it and read what it says."""

    board: str
    config: str
    configuration: Configuration
    parameters: dict[str, Any]
    lines: int
    bitstream: str
    bitstream_bytes: Bytes
    luts: int
    flip_flops: int
    block_rams: int
    capacity: dict[str, int]
    clock_mhz: float
    fmax_mhz: float
    program: str
    uart: BoardPort
    lamps: str
    faults: str
