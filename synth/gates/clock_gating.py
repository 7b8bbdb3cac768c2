"""Clock gating: registers that keep their value get no clock.

Yosys' `clockgate` gives each set of flip-flops with the same enable a clock gate of the library.
That takes the place of the multiplexers that would give them their own value back. What has no
enable in the RTL, or fewer flip-flops than `SMALLEST_GROUP`, is left alone.
"""

from itertools import product

from cdma.synth.errors import SynthError
from cdma.synth.gates.library import Library
from cdma.synth.gates.timing import gating_ps

SMALLEST_GROUP = 4
"""A clock gate's own clock pin and latch take about as much as a flip-flop's
(`docs/guide/silicon/energy.md`), so that three flip-flops less pay for it if they rest half of the
time."""

LONGEST_PS = 80
"""From a clock gate's clock to those of its flip-flops: about as in two buffers of a clock tree.
Larger groups take a larger gate."""

_MOST_FLIP_FLOPS = 1 << 16


def gating_steps(library: Library, enables: str) -> list[str]:
    """The steps of the Yosys script, between `synth` and the mapping of the flip-flops.

    Parameters
    ----------
    library
    enables
        The file that has `enables_map`, in the folder in which Yosys runs.

    Raises
    ------
    SynthError
        If the library has no clock gate.
    """
    if not library.clock_gates:
        raise SynthError(
            f"{library.path} has no clock gate (clock_gating_integrated_cell : latch_posedge); "
            "give a library with one, or leave clock gating away"
        )
    steps = []
    smallest = SMALLEST_GROUP
    for kind in library.clock_gates:
        gate = kind.gate
        most = _most_flip_flops(library, kind.name)
        if gate is None or (most < smallest and kind is not library.clock_gates[-1]):
            continue
        pins = f"{gate.enable}:{gate.clock}:{gate.output}"
        steps.append(f"clockgate -pos {kind.name} {pins} -min_net_size {smallest}")
        smallest = most + 1
    # The largest first: what it leaves is for the next.
    return [
        f"techmap -map {enables}",
        "simplemap",
        "opt_merge",
        "opt_clean",
        *reversed(steps),
        "opt_clean",
    ]


def _most_flip_flops(library: Library, name: str) -> int:
    """Most flip-flops that a gate clocks within `LONGEST_PS`."""
    flip_flop = library.flip_flop
    pin_ff = flip_flop.inputs[flip_flop.clock]
    low, high = 0, _MOST_FLIP_FLOPS
    while low < high:
        middle = (low + high + 1) // 2
        if gating_ps(library.cells[name], middle * pin_ff) <= LONGEST_PS:
            low = middle
        else:
            high = middle - 1
    return low


def enables_map() -> str:
    """Verilog for `techmap`: a reset that goes before the enable becomes part of it.

    `clockgate` leaves such flip-flops alone: the clock would not reach them while they are reset.
    """
    modules = []
    for reset, value, enable in product("PN", "01", "PN"):
        resets = "R" if reset == "P" else "~R"
        enables = "E" if enable == "P" else "~E"
        modules.append(
            f"module \\$_SDFFE_P{reset}{value}{enable}_ (input D, C, R, E, output Q);\n"
            f"  wire reset = {resets};\n"
            f"  \\$_DFFE_PP_ _TECHMAP_REPLACE_ (.D(reset ? 1'b{value} : D), .C(C), "
            f".E(reset | {enables}), .Q(Q));\n"
            "endmodule\n"
        )
    return "\n".join(modules)
