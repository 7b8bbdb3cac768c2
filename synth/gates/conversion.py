"""Conversion of gate equivalents to silicon, every factor in sight, beside the paper's units."""

from dataclasses import dataclass

UM2_PER_GATE = {45: 0.798, 28: 0.367}
"""Area of NAND2, in µm², by process in nm. 45: the open 45 nm libraries on FreePDK45. 28: that by
the paper's 0.46 (cDMA, §V-C)."""

SCALING_45_TO_28 = 0.46
UTILIZATION = 0.5
UNITS = 6
PAPER_UNITS_MM2 = 0.31
"""cDMA, §V-C: six (de)compression units, FreePDK45 scaled to 28 nm, half of the area cells."""


@dataclass(frozen=True)
class UnitsArea:
    """Area of six pairs of a compressor and a decompressor by the paper's conversion.

    Attributes
    ----------
    pair_um2 : float
        Of one pair, cells alone, at 45 nm.
    """

    pair_um2: float

    @property
    def mm2(self) -> float:
        """At 28 nm, with the room for wires."""
        return self.pair_um2 * UNITS * SCALING_45_TO_28 / UTILIZATION * 1e-6


@dataclass(frozen=True)
class EngineArea:
    """Area of an engine of six units by the paper's conversion, memories beside it.

    Attributes
    ----------
    kge : float
        Of all its logic.
    macro_bits : int
        Of all memories.
    """

    kge: float
    macro_bits: int

    @property
    def logic_mm2(self) -> float:
        """At 28 nm, with the room for wires."""
        return um2_of(self.kge, 28) / UTILIZATION * 1e-6


def um2_of(kge: float, process_nm: int) -> float:
    """Area of so many thousand gate equivalents."""
    return kge * 1000 * UM2_PER_GATE[process_nm]
