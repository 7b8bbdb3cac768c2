"""A generated block as a folder that other flows take in.

NAME/NAME.core               what is where, for FuseSoC (CAPI 2); targets lint and sim
NAME/NAME.xml                the same for IP-XACT (IEEE 1685-2014), with buses, ports and registers
NAME/Makefile                lint, and the bench
NAME/rtl/NAME.v              the block
NAME/rtl/NAME.json           its ports, parameters and latencies
NAME/template/NAME.vh        an instance of it, to copy from
NAME/constraints/NAME.sdc    its clocks, and the part of a cycle that its ports may take
NAME/lint/NAME.vlt           Verilator's rules that it breaks on purpose
NAME/bench/                  of blocks with golden vectors: a bench that checks itself
NAME/uvm/NAME_ral_pkg.sv     of blocks with registers: their model for UVM
NAME/include/*.h             of blocks with registers: for drivers
NAME/doc/                    of blocks with registers: their pages
"""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from cdma.hw.emit.bench.files import Bench
from cdma.hw.emit.ip.component import FileSet, component
from cdma.hw.emit.ip.constraints import constraints
from cdma.hw.emit.ip.makefile import makefile
from cdma.hw.emit.ip.template import template
from cdma.hw.emit.verilog import LINT_WAIVERS, Verilog
from cdma.hw.registers.map import RegisterSource
from cdma.hw.registers.uvm import uvm_package, uvm_package_name

VENDOR, LIBRARY = "cdma", "ip"

_CORE_TYPES = {
    "verilogSource": "verilogSource-2005",
    **dict.fromkeys(("cHeader", "hex", "verilogTemplate"), "user"),
}
"""Names that FuseSoC has for file types, where they are others."""


def ip_files(
    verilog: Verilog,
    *,
    clock_mhz: float,
    other_clocks_mhz: float | None = None,
    headers: Mapping[str, str] | None = None,
    registers: RegisterSource | None = None,
    bench: Bench | None = None,
) -> dict[str, str]:
    """Return the texts of the folder, by path in it.

    Parameters
    ----------
    verilog
        Without assertions: those are SystemVerilog.
    clock_mhz
        The frequency that the constraints ask for.
    other_clocks_mhz
        That of clocks beside `clk`; the same if not given.
    headers
        C headers, by name.
    registers
        The block's registers, if it has any.
    bench
        The block's bench, if there is one.

    Raises
    ------
    ConfigError
        If there is no such clock.
    """
    name = verilog.name
    sidecar = {**verilog.sidecar, "file": f"{name}.v"}
    groups = [
        FileSet("rtl", "verilogSource", [f"rtl/{name}.v"]),
        FileSet("waivers", "vlt", [f"lint/{name}.vlt"]),
        FileSet("constraints", "SDC", [f"constraints/{name}.sdc"]),
        FileSet("template", "verilogTemplate", [f"template/{name}.vh"]),
    ]
    texts = {
        f"rtl/{name}.v": verilog.text,
        f"rtl/{name}.json": json.dumps(sidecar, indent=2) + "\n",
        f"lint/{name}.vlt": _waivers(name),
        f"constraints/{name}.sdc": constraints(sidecar, clock_mhz, other_clocks_mhz),
        f"template/{name}.vh": template(sidecar),
        "Makefile": makefile(name, bench),
    }
    if bench is not None:
        sources = {f"bench/{path}": text for path, text in bench.sources.items()}
        vectors = {f"bench/{path}": text for path, text in bench.vectors.items()}
        groups.append(FileSet("bench", "systemVerilogSource", list(sources)))
        groups.append(FileSet("vectors", "hex", list(vectors)))
        texts |= sources | vectors
    if registers is not None:
        model = f"uvm/{uvm_package_name(registers)}.sv"
        groups.append(FileSet("uvm", "systemVerilogSource", [model]))
        texts[model] = uvm_package(registers)
    if headers:
        listed = {f"include/{path}": text for path, text in headers.items()}
        groups.append(FileSet("headers", "cHeader", list(listed)))
        texts |= listed
    texts[f"{name}.core"] = _core(verilog, groups, bench)
    texts[f"{name}.xml"] = component(
        sidecar,
        vendor=VENDOR,
        library=LIBRARY,
        version=version("cdma-rtl"),
        files=groups,
        registers=registers,
    )
    return texts


def _core(verilog: Verilog, groups: Sequence[FileSet], bench: Bench | None) -> str:
    name = verilog.name
    lines = [
        "CAPI=2:",
        "",
        f"name: {VENDOR}:{LIBRARY}:{name}:{version('cdma-rtl')}",
        # A JSON string is a YAML string.
        f"description: {json.dumps(verilog.sidecar['description'], ensure_ascii=False)}",
        "",
        "filesets:",
    ]
    for group in groups:
        lines.append(f"  {group.name}:")
        if group.name == "vectors":
            # Simulators read them below the folder in which they run.
            lines.append("    files:")
            lines += [f"      - {path}: {{copyto: {path}}}" for path in group.paths]
        else:
            lines.append(f"    files: [{', '.join(group.paths)}]")
        lines.append(f"    file_type: {_CORE_TYPES.get(group.kind, group.kind)}")
    chosen = [group.name for group in groups if group.name in ("rtl", "constraints", "headers")]
    lines += [
        "",
        "targets:",
        "  default:",
        f"    filesets: [{', '.join(chosen)}, tool_verilator? (waivers)]",
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
    if bench is not None:
        lines += [
            "  sim:",
            "    description: the bench, on Icarus",
            "    flow: sim",
            "    flow_options:",
            "      tool: icarus",
            "      iverilog_options: [-g2012]",
            "    filesets: [rtl, bench, vectors]",
            f"    toplevel: {bench.top}",
        ]
    return "\n".join([*lines, ""])


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
