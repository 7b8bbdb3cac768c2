"""The RTL as silicon: what a component costs, and how fast it clocks.

`synthesize` maps a component to the gates of a Liberty library, `map_to` to the cells of an FPGA,
and `place_and_route` routes it there; `report` compares with the committed baselines; `sram` and
`conversion` put the whole beside the papers.
"""

from synth.asic import Synthesis, synthesize
from synth.components import Block, block, block_names
from synth.ecp5 import place_and_route
from synth.errors import SynthError
from synth.fpga import map_to, resources
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
    "map_to",
    "place_and_route",
    "resources",
    "synthesize",
]
