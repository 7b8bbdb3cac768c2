"""The clock that the RTL reaches in cells, beside the one that simulations and estimates assume."""

from dataclasses import dataclass

from cdma.synth.baseline import read_baseline


@dataclass(frozen=True)
class ReachedClock:
    """Clock that something reaches once it is mapped.

    Attributes
    ----------
    what : str
        What was mapped, for a sentence.
    component : str
        Its name in `cdma synth`.
    """

    what: str
    component: str

    @property
    def mhz(self) -> float:
        """Clock in the committed baseline: in unit gates, without wires."""
        found = [
            row["fmax_mhz"] for (name, _), row in read_baseline().items() if name == self.component
        ]
        return float(found[0])


ENGINE = ReachedClock("the engine as a whole", "engine")
CODEC = ReachedClock("the decompressor with its AXI4-Stream ports", "zvc-decompressor")
BUDDY = ReachedClock("the controller as a whole", "buddy")


WIRES_LEAVE = 0.70
"""What NanGate45, typical, with its wire load `5K_hvratio_1_1` leaves of the engine's clock in unit
gates: 761 of 1,088 MHz (docs/guide/silicon/synth.md)."""


def clock_note(clock_hz: float, reached: ReachedClock) -> str:
    """Sentence on the clock that a report's times are at; empty if the RTL clocks that fast.

    What it reaches without wires only is not yet reached.
    """
    if clock_hz <= WIRES_LEAVE * reached.mhz * 1e6:
        return ""
    subject = "The RTL" if clock_hz > reached.mhz * 1e6 else "With wires, the RTL"
    return (
        f"{subject} does not clock at {clock_hz / 1e9:g} GHz yet: {reached.what} reaches "
        f"{reached.mhz:.0f} MHz in unit gates (no wires)."
    )
