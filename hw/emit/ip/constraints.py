"""A block's constraints as SDC: its clock, its ports, and the largest fan-out."""

import textwrap
from collections.abc import Sequence
from typing import Any

from cdma.hw.config import ConfigError

OUTSIDE = 0.3
"""The part of a cycle that belongs to the logic at the ports."""
UNCERTAINTY = 0.05
"""The part of a cycle that jitter, skew and margin may take."""
MAX_FANOUT = 32
"""Pins that a net may drive before a tool has to buffer it."""

_WIDTH = 96


def constraints(sidecar: dict[str, Any], clock_mhz: float) -> str:
    """Return the constraints of a block, with times in ns.

    There is one clock and reset is synchronous, so every path is timed: there are no false paths
    and no multicycle paths. Values at the ports hold at least until the clock's edge, hence minimum
    delays of 0.

    Parameters
    ----------
    sidecar
        The block's description, as `cdma.hw.emit.verilog.generate` gives it.
    clock_mhz
        The frequency that they ask for.

    Raises
    ------
    ConfigError
        If there is no such clock.
    """
    if not 0 < clock_mhz <= 10_000:
        raise ConfigError(f"clock_mhz must be above 0 and at most 10000, not {clock_mhz:g}")
    clock = sidecar["clock"]
    period_ns = 1000 / clock_mhz
    ports = [port for interface in sidecar["interfaces"] for port in interface["ports"]]
    inputs = [port["name"] for port in ports if port["direction"] == "input"]
    outputs = [port["name"] for port in ports if port["direction"] == "output"]
    lines = [
        f"# {sidecar['module']} at {clock_mhz:g} MHz, times in ns.",
        f"# {OUTSIDE:.0%} of a cycle is outside the ports, {UNCERTAINTY:.0%} is jitter, skew and "
        "margin.",
        f"# No path is false or takes several cycles: one clock, and {_reset(sidecar)}.",
        f"create_clock -name {clock} -period {period_ns:.3f} [get_ports {clock}]",
        f"set_clock_uncertainty {UNCERTAINTY * period_ns:.3f} [get_clocks {clock}]",
        f"set_max_fanout {MAX_FANOUT} [current_design]",
    ]
    inputs = [sidecar["reset"]["port"], *inputs]
    for way, names in (("input", inputs), ("output", outputs)):
        for bound, delay_ns in (("max", OUTSIDE * period_ns), ("min", 0.0)):
            lines.append(f"set_{way}_delay -{bound} {delay_ns:.3f} -clock {clock} {_ports(names)}")
    return "\n".join([*lines, ""])


def _reset(sidecar: dict[str, Any]) -> str:
    """The reset and the clock, in words: an asynchronous beginning is no path."""
    if sidecar["reset"]["synchronous"]:
        return "reset is synchronous to it"
    return "reset ends synchronously to it"


def _ports(names: Sequence[str]) -> str:
    listed = textwrap.fill(
        " ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  "
    ).replace("\n", " \\\n")
    return f"[get_ports {{ \\\n{listed} \\\n}}]"
