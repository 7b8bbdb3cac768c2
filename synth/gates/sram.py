"""Area of a memory array: the DMA buffer's, beside the paper's.

    A = bits · 146 F² · p / 0.725

146 F² is the bit of a 6T SRAM cell, 0.725 the part of the macro that is cells; p is 1 for one
port that reads or writes, and 2.04 for one of each. Fitted to CACTI 7, which says 0.0905 and
0.184 mm² of 70 KB at 28 nm: small arrays have more around their cells, and this does not know it.
"""

CELL_F2 = 146
EFFICIENCY = 0.725
PORT_FACTORS = {"1RW": 1.0, "1R1W": 2.04}
"""By the ports: one that reads or writes; one of each."""

FEATURE_NM = 28
PAPER_BUFFER_BYTES = 70 * 1024
PAPER_BUFFER_MM2 = 0.21
"""cDMA, §V-C: the buffer of the bandwidth-delay product, at 28 nm, by CACTI 5.3."""


def array_mm2(bits: int, *, ports: str = "1R1W", feature_nm: float = FEATURE_NM) -> float:
    """Area of an array of `bits`, in mm²; `ports` is one of `PORT_FACTORS`."""
    feature_mm = feature_nm * 1e-6
    return bits * CELL_F2 * feature_mm**2 * PORT_FACTORS[ports] / EFFICIENCY
