"""The RTL as silicon: what a component costs, and how fast it clocks.

`synthesize` maps a component to the gates of a Liberty library, `map_to` to the cells of an FPGA,
and `place_and_route` routes it there; `report` compares with the committed baselines; `sram` and
`conversion` put the whole beside the papers.
"""

from cdma.synth.components import ComponentBlock, block, block_names
from cdma.synth.errors import SynthError
from cdma.synth.fpga.ecp5 import place_and_route
from cdma.synth.fpga.resources import map_to, resources
from cdma.synth.gates.asic import Synthesis, synthesize
from cdma.synth.gates.liberty import LibertyError
from cdma.synth.gates.library import UNIT_GATES, Library

__all__ = [
    "UNIT_GATES",
    "ComponentBlock",
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
