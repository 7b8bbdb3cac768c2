"""A block's constraints as SDC: its clocks, its ports, and the largest fan-out."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from cdma.hw.config import ConfigError

OUTSIDE = 0.3
"""The part of a cycle that belongs to the logic at the ports."""
UNCERTAINTY = 0.05
"""The part of a cycle that jitter, skew and margin may take."""
MAX_FANOUT = 32
"""Pins that a net may drive before a tool has to buffer it."""

_WIDTH = 96


def constraints(
    sidecar: dict[str, Any], clock_mhz: float, other_clocks_mhz: float | None = None
) -> str:
    """Return the constraints of a block, with times in ns.

    All paths are timed: there are no false paths for setup, and no multicycle paths. Values at the
    ports hold at least until their clock's edge, hence minimum delays of 0. Between two clocks a
    path takes no longer than a period of the faster one: so Gray-coded pointers, whose bits may
    arrive apart, are never seen more than one change old. Clock groups, or false paths, would lose
    that bound.

    A gated clock is no clock of its own: `clk` goes through the gate with its period and its edges,
    and tools balance what is behind it with all else. So none is generated there. That enables are
    in time is checked at the gate, by the cell's own constraints or by the tool's inference.

    Parameters
    ----------
    sidecar
        The block's description, as `cdma.hw.emit.verilog.generate` gives it.
    clock_mhz
        The frequency that they ask for.
    other_clocks_mhz
        That of clocks beside `clk`, if there are any; the same if not given.

    Raises
    ------
    ConfigError
        If there is no such clock.
    """
    clocks = _clocks(sidecar, clock_mhz, other_clocks_mhz)
    lines = [
        f"# {sidecar['module']} at {clock_mhz:g} MHz, times in ns.",
        f"# {OUTSIDE:.0%} of a cycle is outside the ports, {UNCERTAINTY:.0%} is jitter, skew and "
        "margin.",
    ]
    if len(clocks) == 1:
        lines.append(
            f"# No path is false or takes several cycles: one clock, and {_reset(sidecar)}."
        )
    else:
        lines.append(f"# Of each clock {_reset(sidecar)}, and no path takes several cycles.")
    for clock in clocks:
        lines += [
            f"create_clock -name {clock.name} -period {clock.period_ns:.3f} "
            f"[get_ports {clock.name}]",
            f"set_clock_uncertainty {UNCERTAINTY * clock.period_ns:.3f} [get_clocks {clock.name}]",
        ]
    lines += _between(clocks)
    if sidecar["clock_gates"]:
        lines += [
            f"# clk goes on through the instances of {sidecar['clock_gates'][0]['module']}, and no "
            "clock is generated",
            "# there. These are the constraints of the engine at work, not of a scan test.",
            "set_case_analysis 0 [get_ports test_enable]",
        ]
    lines.append(f"set_max_fanout {MAX_FANOUT} [current_design]")
    for clock in clocks:
        for way, names in (("input", clock.inputs), ("output", clock.outputs)):
            for bound, delay_ns in (("max", OUTSIDE * clock.period_ns), ("min", 0.0)):
                lines.append(
                    f"set_{way}_delay -{bound} {delay_ns:.3f} -clock {clock.name} {_ports(names)}"
                )
    return "\n".join([*lines, ""])


@dataclass(frozen=True)
class _Clock:
    """A clock with the ports that belong to it, its reset among them."""

    name: str
    period_ns: float
    inputs: Sequence[str]
    outputs: Sequence[str]


def _clocks(
    sidecar: dict[str, Any], clock_mhz: float, other_clocks_mhz: float | None
) -> list[_Clock]:
    """All clocks of a block, `clk` first."""
    others = sidecar["other_clocks"]
    if other_clocks_mhz is not None and not others:
        raise ConfigError("other_clocks_mhz must not be given: the block has one clock")
    elsewhere = {name for other in others for name in other["interfaces"]}
    own = [one["name"] for one in sidecar["interfaces"] if one["name"] not in elsewhere]
    found = []
    asked = clock_mhz if other_clocks_mhz is None else other_clocks_mhz
    for name, reset, interfaces, mhz in (
        (sidecar["clock"], sidecar["reset"]["port"], own, clock_mhz),
        *((other["clock"], other["reset"], other["interfaces"], asked) for other in others),
    ):
        if not 0 < mhz <= 10_000:
            field = f"{name.removesuffix('clk')}clock_mhz"
            raise ConfigError(f"{field} must be above 0 and at most 10000, not {mhz:g}")
        members = [one for one in sidecar["interfaces"] if one["name"] in interfaces]
        ports = [port for one in members for port in one["ports"]]
        inputs = [port["name"] for port in ports if port["direction"] == "input"]
        outputs = [port["name"] for port in ports if port["direction"] == "output"]
        found.append(_Clock(name, 1000 / mhz, [reset, *inputs], outputs))
    return found


def _between(clocks: Sequence[_Clock]) -> list[str]:
    """Bounds of the paths from each clock to each other one."""
    if len(clocks) == 1:
        return []
    bound_ns = min(clock.period_ns for clock in clocks)
    lines = [
        "# Between the clocks, of any ratio and phase, paths end in synchronizers, or begin in",
        "# memories whose words are there long before they are read. Bits of a pointer may arrive",
        "# apart by a cycle of the faster clock, no more: clock groups would take that bound away.",
        "# In Vivado add -datapath_only to set_max_delay; it then needs no set_false_path -hold.",
    ]
    for first, second in permutations(clocks, 2):
        ends = f"-from [get_clocks {first.name}] -to [get_clocks {second.name}]"
        lines += [f"set_max_delay {bound_ns:.3f} {ends}", f"set_false_path -hold {ends}"]
    return lines


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
