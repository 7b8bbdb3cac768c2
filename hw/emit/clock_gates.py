"""Gated clocks of a generated block: who has one, what its gate is, and how it is replaced."""

from collections.abc import Mapping

from amaranth.lib import wiring

from cdma.hw.lib.clocks.clock_gate import FREE_DOMAIN, ClockGate

_TEXT = """\
module @NAME@ (
  input wire clk,
  input wire enable,
  input wire test_enable,
  output wire gated_clk
);
  reg passes;
  /* verilator lint_off LATCH */  // it is one on purpose
  always @*
    if (!clk) passes = enable || test_enable;
  /* verilator lint_on LATCH */
  assign gated_clk = clk && passes;
endmodule"""


def gated_clocks(component: wiring.Component) -> Mapping[str, str]:
    """The names of a component's submodules whose clock is gated, each with that of its gate."""
    gated: Mapping[str, str] = getattr(component, "gated_clocks", {})
    return gated


def is_free(component: wiring.Component) -> bool:
    """True if a component's clock goes on while that of the module around it stops."""
    return FREE_DOMAIN in getattr(component, "local_domains", {})


def own_text(component: wiring.Component, name: str) -> str | None:
    """The module of a component that has Verilog of its own; None of all others."""
    return _TEXT.replace("@NAME@", name) if isinstance(component, ClockGate) else None


def clock_gates_of(component: wiring.Component, top: str) -> list[dict[str, str]]:
    """List a block's clock gates: the gated submodule, the gate and the gate's module."""
    return [
        {"gated": submodule, "instance": gate, "module": gate_module(top)}
        for submodule, gate in gated_clocks(component).items()
    ]


def gate_module(top: str) -> str:
    """Name the module of which all clock gates of a block are instances."""
    return f"{top}_clock_gate"


def own_clock_gates(top: str) -> str:
    """Name the macro that says that the user of the block has a clock gate of his own."""
    return f"{top.upper()}_OWN_CLOCK_GATES"
