"""The clock that the RTL reaches in cells, beside the one that simulations and estimates assume."""

from dataclasses import dataclass

NANGATE45 = "NanGate45 (typical, no wires)"
UNIT_GATES = "unit gates (no wires)"
"""What `cdma synth` was given with `--liberty`, or has itself."""


@dataclass(frozen=True)
class ReachedClock:
    """How fast something clocks once it is mapped.

    Attributes
    ----------
    what : str
        What was mapped, for a sentence.
    component : str
        Its name in `cdma synth`.
    library : str
    mhz : int
        Without wires.
    wire_load_mhz : int or None
        With the library's wire load, if it has one.
    """

    what: str
    component: str
    library: str
    mhz: int
    wire_load_mhz: int | None


ENGINE = ReachedClock(
    what="the engine, less its units and memory ports,",
    component="engine-without-units",
    library=NANGATE45,
    mhz=481,
    wire_load_mhz=433,
)
CODEC = ReachedClock(
    what="the decompressor with its AXI4-Stream ports",
    component="zvc-decompressor",
    library=NANGATE45,
    mhz=657,
    wire_load_mhz=598,
)
BUDDY = ReachedClock(
    what="the entry decompressor",
    component="entry-decompressor",
    library=UNIT_GATES,
    mhz=530,
    wire_load_mhz=None,
)


def clock_note(clock_hz: float, reached: ReachedClock) -> str:
    """What a report of times at a clock has to say of it; empty if the RTL clocks that fast."""
    if clock_hz <= reached.mhz * 1e6:
        return ""
    return (
        f"The RTL does not clock at {clock_hz / 1e9:g} GHz yet: {reached.what} reaches "
        f"{reached.mhz} MHz in {reached.library}."
    )
