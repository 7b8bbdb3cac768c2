"""Components as Verilog for coverage: only ports have names, and branches are told by an output."""

import re
from dataclasses import asdict
from typing import Any

from cdma.hw.components import Config, find_component
from cdma.hw.emit.netlist import WrittenModule, ports_of, verilog_of, written_modules
from cdma.hw.emit.verilog import Verilog
from tests.coverage.constants import ModuleConstants, constants
from tests.coverage.instrument import Instrumented, instrumented, numbered

CLOCKING = ("clk", "rst")


def covered_rtl(name: str, config: Config | str | None = None) -> Verilog:
    """A component of the registry, with what there is to cover in its sidecar."""
    component = find_component(name)
    return covered(component.make(component.config(config)), component.top)


def covered(component: Any, top: str) -> Verilog:
    """A component that was not elaborated before, with what there is to cover in its sidecar."""
    modules = written_modules(component, top, assertions=True)
    found = constants({module.name: module.circuit.netlist for module in modules}, top)
    # Before the netlists get another output.
    ports = {module.name: _ports(module, found[module.name]) for module in modules}
    parts = {m.name: instrumented(m.circuit.netlist, m.name, found[m.name]) for m in modules}
    design = "\n".join(part.rtlil for part in parts.values())
    # The tests find out whether assertions hold; a decision of theirs is a branch all the same.
    text = verilog_of(design, ["delete t:$check"])
    # As the machines look for clocks.
    text = re.sub(r"^  input (\w+_clk);\n  wire \1;$", r"  input wire \1;", text, flags=re.M)
    described = {
        module.name: _described(module, ports[module.name], parts[module.name])
        for module in modules
    }
    return Verilog(top, text, {"coverage": described})


def _described(module: WrittenModule, ports: Any, part: Instrumented) -> dict[str, Any]:
    kind = type(module.component)
    return {
        "component": f"{kind.__module__.removeprefix('cdma.')}.{kind.__qualname__}",
        "ports": ports,
        "branches": [asdict(branch) for branch in numbered(part.branches)],
        "statements": [asdict(statement) for statement in part.statements],
    }


def _ports(module: WrittenModule, constant: ModuleConstants) -> dict[str, list[str]]:
    """For each port, a bit's name by its number; empty of a bit that is constant."""
    fields = {port.name: port.fields for port in ports_of(module.component, is_packed=True)}
    found = {}
    for name, _, width in module.ports:
        if name in CLOCKING or name.endswith(("_clk", "_rst")):
            continue
        bits = constant.inputs[name] if name in constant.inputs else constant.outputs[name]
        names = [f"{name}[{bit}]" if width > 1 else name for bit in range(width)]
        for field, low, size in fields.get(name, ()):
            if name.endswith("payload") and len(names) >= low + size:
                stem = name.removesuffix("_payload")
                for bit in range(size):
                    names[low + bit] = f"{stem}.{field}" + (f"[{bit}]" if size > 1 else "")
        found[name] = [
            "" if bit in (0, 1) else bit_name for bit, bit_name in zip(bits, names, strict=True)
        ]
    return found
