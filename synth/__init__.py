"""The RTL as silicon: what a component costs, and how fast it clocks.

`synthesize` maps a component to the gates of a Liberty library; `report` compares with the
committed baseline; `sram` and `paper` put the whole beside the papers.
"""

from synth.asic import Synthesis, synthesize
from synth.components import Block, block, block_names
from synth.errors import SynthError
from synth.liberty import LibertyError
from synth.library import UNIT_GATES, Library

__all__ = [
    "UNIT_GATES",
    "Block",
    "LibertyError",
    "Library",
    "SynthError",
    "Synthesis",
    "block",
    "block_names",
    "synthesize",
]
