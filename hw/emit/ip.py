"""A generated block as a folder that other flows take in: FuseSoC's, and those that read SDC.

NAME/NAME.core               what is where (CAPI 2), with a target that lints
NAME/rtl/NAME.v              the block
NAME/rtl/NAME.json           its ports, parameters and latencies
NAME/constraints/NAME.sdc    its clock, and what of a cycle its ports may take
NAME/lint/NAME.vlt           Verilator's rules that it breaks on purpose
NAME/include/*.h             of blocks with registers: for drivers
NAME/doc/                    of blocks with registers: their pages
"""

import json
import textwrap
from collections.abc import Sequence
from importlib.metadata import version

from cdma.hw.config import ConfigError
from cdma.hw.emit.verilog import LINT_WAIVERS, Verilog

VENDOR, LIBRARY = "cdma", "ip"
OUTSIDE = 0.3
"""The part of a cycle that belongs to what is at the ports."""

_WIDTH = 96


def ip_files(verilog: Verilog, *, clock_mhz: float, headers: Sequence[str] = ()) -> dict[str, str]:
    """The texts of the folder, by path in it.

    Parameters
    ----------
    verilog
        Without assertions: those are SystemVerilog.
    clock_mhz
        What the constraints ask for.
    headers
        Names of the C headers that will be in `include`.

    Raises
    ------
    ConfigError
        If there is no such clock.
    """
    if not 0 < clock_mhz <= 10_000:
        raise ConfigError(f"clock_mhz must be above 0 and at most 10000, not {clock_mhz:g}")
    name = verilog.name
    sidecar = {**verilog.sidecar, "file": f"{name}.v"}
    return {
        f"{name}.core": _core(verilog, headers),
        f"rtl/{name}.v": verilog.text,
        f"rtl/{name}.json": json.dumps(sidecar, indent=2) + "\n",
        f"constraints/{name}.sdc": _constraints(verilog, clock_mhz),
        f"lint/{name}.vlt": _waivers(name),
    }


def _core(verilog: Verilog, headers: Sequence[str]) -> str:
    name = verilog.name
    lines = [
        "CAPI=2:",
        "",
        f"name: {VENDOR}:{LIBRARY}:{name}:{version('cdma-rtl')}",
        # A JSON string is a YAML string.
        f"description: {json.dumps(verilog.sidecar['description'], ensure_ascii=False)}",
        "",
        "filesets:",
        "  rtl:",
        f"    files: [rtl/{name}.v]",
        "    file_type: verilogSource-2005",
        "  waivers:",
        f"    files: [lint/{name}.vlt]",
        "    file_type: vlt",
        "  constraints:",
        f"    files: [constraints/{name}.sdc]",
        "    file_type: SDC",
    ]
    if headers:
        lines += [
            "  headers:",
            f"    files: [{', '.join(f'include/{header}' for header in headers)}]",
            "    file_type: user",
        ]
    filesets = ["rtl", "constraints", *(["headers"] if headers else [])]
    lines += [
        "",
        "targets:",
        "  default:",
        f"    filesets: [{', '.join(filesets)}, tool_verilator? (waivers)]",
        f"    toplevel: {name}",
        "  lint:",
        "    description: verilator --lint-only -Wall",
        "    flow: lint",
        "    flow_options:",
        "      tool: verilator",
        "      verilator_options: [-Wall]",
        # Verilator's configuration comes first.
        "    filesets: [waivers, rtl]",
        f"    toplevel: {name}",
    ]
    return "\n".join([*lines, ""])


def _constraints(verilog: Verilog, clock_mhz: float) -> str:
    clock = verilog.sidecar["clock"]
    period_ns = 1000 / clock_mhz
    ports = [port for interface in verilog.sidecar["interfaces"] for port in interface["ports"]]
    inputs = [port["name"] for port in ports if port["direction"] == "input"]
    outputs = [port["name"] for port in ports if port["direction"] == "output"]
    reset = verilog.sidecar["reset"]["port"]
    return "\n".join(
        [
            f"# {clock_mhz:g} MHz, times in ns; {OUTSIDE:.0%} of a cycle is outside the ports.",
            f"create_clock -name {clock} -period {period_ns:.3f} [get_ports {clock}]",
            f"set_input_delay {OUTSIDE * period_ns:.3f} -clock {clock} {_ports([reset, *inputs])}",
            f"set_output_delay {OUTSIDE * period_ns:.3f} -clock {clock} {_ports(outputs)}",
            "",
        ]
    )


def _ports(names: Sequence[str]) -> str:
    listed = textwrap.fill(
        " ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  "
    ).replace("\n", " \\\n")
    return f"[get_ports {{ \\\n{listed} \\\n}}]"


def _waivers(name: str) -> str:
    return "\n".join(
        [
            "`verilator_config",
            *(
                f'lint_off -rule {rule} -file "*rtl/{name}.v"  // {why}'
                for rule, why in LINT_WAIVERS.items()
            ),
            "",
        ]
    )
