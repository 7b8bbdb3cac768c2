"""The proof that written Verilog does what Amaranth's RTLIL says, module by module.

Each module is taken alone: instances below become ports of it, and registers and other wires of the
same name are taken to be the same, which `equiv_simple` then proves for one cycle, and
`equiv_induct` where one is not enough. Memories are cells of the same name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cdma.hw.emit.netlist import WrittenModule
from cdma.synth.errors import SynthError
from cdma.synth.tools.yosys import run_yosys

INDUCTION = 4
"""Cycles that `equiv_induct` looks at."""


@dataclass(frozen=True)
class Equivalence:
    """Yosys' findings for a module.

    Attributes
    ----------
    module : str
    proven, found : int
        `$equiv` cells, one for each bit that both texts name.
    has_outputs : bool
        A module without any has nothing to prove.
    log : str
        The status, with the bits that are not proven.
    """

    module: str
    proven: int
    found: int
    has_outputs: bool
    log: str

    @property
    def holds(self) -> bool:
        return self.proven == self.found and (self.found > 0 or not self.has_outputs)


def _stub(module: WrittenModule) -> str:
    """A module of ports only, in RTLIL."""
    lines = ["attribute \\blackbox 1", f"module \\{module.name}"]
    for place, (name, direction, width) in enumerate(module.ports):
        lines.append(f"  wire width {width} {direction} {place + 1} \\{name}")
    return "\n".join([*lines, "end", ""])


def _renamed(module: WrittenModule) -> str:
    """RTLIL with everything named as in the Verilog."""
    text = module.rtlil
    for old, new in module.signals.items():
        # A pin of an instance keeps its name.
        text = re.sub(rf"(?<!    connect )\\{re.escape(old)}(?=\s)", rf"\\{new}", text)
    for old, new in module.instances.items():
        if old != new:
            pattern = rf"^(  cell \S+|  memory.*) \\{re.escape(old)}$"
            text = re.sub(pattern, rf"\1 \\{new}", text, flags=re.M)
            text = text.replace(f'\\MEMID "\\\\{old}"', f'\\MEMID "\\\\{new}"')
    return text


def _wrong_starts(module: WrittenModule) -> list[str]:
    """Registers whose initial value in the Verilog, which Yosys does not compare, is another.

    A register that the RTLIL calls otherwise, as one that is also a part of an output, is not
    looked at.
    """
    pattern = r"\\init (\S+)\n(?:  attribute .*\n)*  wire width (\d+) .*?\\(\S+)$"
    golden = {}
    for value, width, name in re.findall(pattern, _renamed(module), re.M):
        _, quote, bits = value.partition("'")
        golden[name] = int(bits, 2) if quote else int(value) % (1 << int(width))
    registers = r"\breg (?:\[[^]]*\] )?(\w+) = ([^;,\n]+)"
    return [
        name
        for name, value in re.findall(registers, module.text)
        if golden.get(name, _number(value)) != _number(value)
    ]


def _wrong_clocks(module: WrittenModule) -> list[str]:
    """Edges of other clocks than the only one that the RTLIL has, which Yosys takes for alike."""
    clocks = set(re.findall(r"^    connect \\CLK (.*)$", module.rtlil, re.M)) - {"1'0"}
    assert clocks <= {"\\clk [0]"}, f"{module.name} has other clocks: {clocks}"
    assert not re.search(r"CLK_POLARITY (0|1'0)$", module.rtlil, re.M)
    edges = re.findall(r"@\(\s*([^*)]*?)\s*\)", module.text)
    return [edge for edge in edges if edge != "posedge clk"]


def _number(literal: str) -> int:
    """A constant of Verilog."""
    ones = re.fullmatch(r"\{(\d+)\{1'b1\}\}", literal)
    if ones:
        return (1 << int(ones[1])) - 1
    base, digits = re.fullmatch(r"\d+'([bdh])(\w+)", literal).groups()  # type: ignore[union-attr]
    return int(digits, {"b": 2, "d": 10, "h": 16}[base])


def check_module(
    module: WrittenModule,
    others: Iterable[WrittenModule],
    folder: Path,
    parameters: Mapping[str, int] | None = None,
) -> Equivalence:
    """Compare a module's Verilog with its RTLIL.

    Parameters
    ----------
    others
        All modules of the design; those that this one has instances of are found among them.
    folder
        For what Yosys reads and writes. Yosys does not see /tmp.
    parameters
        Of the module's text, if it has some. Initial values are then not compared.

    Raises
    ------
    SynthError
        Yosys failed, as with a text that it does not understand.
    """
    types = set(re.findall(r"^  cell \\(\S+) ", module.rtlil, re.M))
    stubs = [other for other in others if other.name in types]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gold.il").write_text("".join(map(_stub, stubs)) + _renamed(module), encoding="utf-8")
    (folder / "gate.v").write_text(module.text, encoding="utf-8")
    (folder / "stubs.il").write_text("".join(map(_stub, stubs)), encoding="utf-8")
    wrong = [*([] if parameters else _wrong_starts(module)), *_wrong_clocks(module)]
    if wrong:
        log = f"other initial values or clocks: {wrong}"
        return Equivalence(module.name, 0, len(wrong), _has_outputs(module), log)
    settings = "".join(f" -set {name} {value}" for name, value in (parameters or {}).items())
    chosen = [f"chparam{settings} {module.name}"] if settings else []
    try:
        cells = ["memory_dff", "opt_clean", "memory_collect"]
        run_yosys(_script(module.name, stubs, chosen, cells), folder)
    except SynthError as error:
        if "memids_pool" not in str(error):
            raise
        # Both texts have the memory, with ports that Yosys does not take for the same.
        run_yosys(_script(module.name, stubs, chosen, ["memory -nordff"]), folder)
    status = (folder / "status.txt").read_text(encoding="utf-8")
    found = re.search(r"Of those cells (\d+) are proven and (\d+) are unproven", status)
    if found is None:
        return Equivalence(module.name, 0, 0, _has_outputs(module), status)
    proven, unproven = int(found[1]), int(found[2])
    return Equivalence(module.name, proven, proven + unproven, _has_outputs(module), status)


def _has_outputs(module: WrittenModule) -> bool:
    return any(direction == "output" for _, direction, _ in module.ports)


def _script(
    name: str, stubs: list[WrittenModule], chosen: list[str], memories: list[str]
) -> list[str]:
    """Yosys' commands: with its passes for memories, and with what chooses parameters."""
    evert = [f"expose -evert {name}/t:{stub.name}" for stub in stubs]
    common = [
        "proc -norom",
        "opt_expr -mux_undef",
        "opt_clean",
        "opt_dff",
        "opt_clean",
        *memories,
        "dffunmap",
        "opt_clean",
        *evert,
    ]
    return [
        "read_rtlil gold.il",
        "delete t:$check t:$meminit_v2",
        f"hierarchy -top {name}",
        *common,
        "setattr -unset src -unset keep */c:*",
        "design -stash gold",
        "read_rtlil stubs.il",
        # A module without logic is no black box.
        "read_verilog -noblackbox gate.v",
        *chosen,
        f"hierarchy -top {name}",
        *common,
        "setattr -unset src -unset keep */c:*",
        # A register's bits that nothing writes are what they were at first.
        "setundef -undriven -zero",
        "design -stash gate",
        f"design -copy-from gold -as gold {name}",
        f"design -copy-from gate -as gate {name}",
        "equiv_make gold gate equiv",
        "select -module equiv",
        "equiv_simple -ignore-unknown-cells",
        f"equiv_induct -ignore-unknown-cells -seq {INDUCTION}",
        "tee -o status.txt equiv_status",
    ]
