"""The proof that written Verilog does what Amaranth's RTLIL says, module by module.

Each module is taken alone: instances below become ports of it, and registers and other wires of the
same name are taken to be the same, which is then proven. Memories are cells of the same name. Most
bits follow from structure: as gates, both texts have the same ones, which Yosys merges into one.
The rest is left to a solver: `equiv_simple` for one cycle, first no further back than to what both
texts share, and `equiv_induct` where one is not enough.

A proof is found once: it is kept under a hash of all that Yosys reads, in which modules are called
alike whatever the design calls them. So components that have the same part share its proof.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cdma.builds.cache import cache_directory, cached, digest
from cdma.hw.emit.netlist import WrittenModule, shared_modules
from cdma.synth.errors import SynthError, TooSlowError
from cdma.synth.tools.yosys import YOSYS, run_yosys
from tests.formal.smtbmc import PROOF_RESULTS, ProofResult, UndecidedError

INDUCTION = 4
"""Cycles that `equiv_induct` looks at."""

MERGING = [
    # An `$equiv` cell whose bit nothing reads is to be proven, too.
    "setattr -set keep 1 t:$equiv",
    # Bits that are not defined are zeros, as for the solver, before a pass chooses their values.
    "setundef -zero",
    "opt_expr",
    # Whole words first: what is one already is made of gates once.
    "opt_merge",
    "techmap",
    "setundef -zero",
    "opt_expr",
    "opt_merge",
    "opt_clean",
]
"""Yosys' commands that make one gate of those of both texts that have the same inputs.

An `$equiv` cell has then the same bit twice, which Yosys counts as proven.
"""

BEYOND = r"""
(* techmap_celltype = "$shiftx" *)
module ones_beyond (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  wire [Y_WIDTH-1:0] inverse;
  \$shift #(
    .A_SIGNED(0), .B_SIGNED(B_SIGNED), .A_WIDTH(A_WIDTH), .B_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH)
  ) shift (.A(~A), .B(B), .Y(inverse));
  assign Y = ~inverse;
endmodule
"""
"""Verilog's part of a word at a place that varies, for `techmap`: of ones beyond the word's end.

In Verilog those bits are not defined, and in Amaranth they are zeros. So both texts are equivalent
only if such a place does not occur or does not matter.
"""

CHECKED = "checked"
"""The name of the module that is compared, in what Yosys reads."""

INSTANCE = re.compile(r"^  (\w+) (?:#\((.*)\) )?(\w+) \($", re.M)
"""An instance's type, parameters and name in written Verilog."""


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
    is_known : bool
        It was found before, of the same texts.
    """

    module: str
    proven: int
    found: int
    has_outputs: bool
    log: str
    is_known: bool = False

    @property
    def holds(self) -> bool:
        return self.proven == self.found and (self.found > 0 or not self.has_outputs)


class _NotEquivalentError(Exception):
    """A finding that is not to be kept."""


def _stub(module: WrittenModule, name: str) -> str:
    """A module of ports only, in RTLIL."""
    lines = ["attribute \\blackbox 1", f"module \\{name}"]
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


def _wrong_starts(module: WrittenModule, parameters: Mapping[str, int]) -> list[str]:
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
    starts = {
        name: _number(value, parameters) for name, value in re.findall(registers, module.text)
    }
    return [name for name, value in starts.items() if golden.get(name, value) != value]


def _wrong_clocks(module: WrittenModule) -> list[str]:
    """Blocks at other edges than the RTLIL has for their registers, which Yosys takes for alike.

    A clock's reset is called as the clock, with another ending. In the RTLIL all registers are
    reset in one way. In the text, blocks that begin with the reset must be so, too.
    """
    rtlil = _renamed(module)
    pins = {
        pin: set(re.findall(rf"^    connect \\{pin} (.*)$", rtlil, re.M)) - {"1'0"}
        for pin in ("CLK", "ARST")
    }
    clocks = {_pin(found, "clk") for found in pins["CLK"]}
    resets = {_pin(found, "rst") for found in pins["ARST"]}
    assert {_reset_of(clock) for clock in clocks} >= resets, f"{module.name}: {resets}"
    for polarity in ("CLK_POLARITY", "ARST_POLARITY"):
        assert not re.search(rf"{polarity} (0|1'0)$", rtlil, re.M)
    clock_of = _clocks_of_registers(rtlil)
    wrong = []
    for edges, body in re.findall(BLOCK, module.text):
        clock = edges.removeprefix("posedge ").partition(" ")[0]
        test = re.match(r"(?:begin\s+)?if \((\w*rst)\)", body)
        is_at_once = test is not None and bool(resets)
        right = f"posedge {clock}" + (f" or posedge {_reset_of(clock)}" if is_at_once else "")
        names = {*re.findall(r"(?<!\()\b(\w+)(?:\[[^;<]*\])? <= ", body)}
        if edges != right or clock not in clocks or (test and test[1] != _reset_of(clock)):
            wrong.append(edges)
        wrong += [f"{edges}: {name}" for name in names if clock_of.get(name, clock) != clock]
    return wrong


BLOCK = re.compile(r"always @\(\s*([^*)]*?)\s*\)\s*(.*?)(?=\n\n|\Z)", re.S)
"""A clocked block of written Verilog: its edges and its statements, up to an empty line."""


def _pin(connected: str, ending: str) -> str:
    """The name of a clock's or a reset's port in RTLIL."""
    port = re.fullmatch(rf"\\(\w*{ending}) \[0\]", connected)
    assert port is not None, f"{connected} is no port that ends with {ending}"
    return port[1]


def _reset_of(clock: str) -> str:
    return f"{clock.removesuffix('clk')}rst"


def _clocks_of_registers(rtlil: str) -> dict[str, str]:
    """The clocks of registers, of memories' write ports by the memory, and of registered reads."""
    found = {}
    for cell in re.findall(r"(?ms)^  cell \$(?:a?dff|memwr_v2|memrd_v2) .*?^  end$", rtlil):
        clock = re.search(r"connect \\CLK \\(\w+) \[0\]$", cell, re.M)
        kind = "MEMID" if "$memwr" in cell else "DATA" if "$memrd" in cell else "Q"
        name = re.search(rf' \\{kind} "?\\+(\w+)"?$', cell, re.M)
        if clock and name:
            found[name[1]] = clock[1]
    # A register that is also an instance's pin may have that name only.
    for name, other in re.findall(r"^(?:  )?connect \\(\w+) \\(\w+)(?: \[\S+\])?$", rtlil, re.M):
        if other in found:
            found.setdefault(name, found[other])
    return found


def _number(literal: str, parameters: Mapping[str, int]) -> int:
    """A constant of Verilog."""
    repeated = re.fullmatch(r"\{(.+)\{1'b([01])\}\}", literal)
    if repeated:
        return ((1 << _size(repeated[1], parameters)) - 1) * int(repeated[2])
    base, digits = re.fullmatch(r"\d+'([bdh])(\w+)", literal).groups()  # type: ignore[union-attr]
    return int(digits, {"b": 2, "d": 10, "h": 16}[base])


def _size(expression: str, parameters: Mapping[str, int]) -> int:
    """A width that may follow from a parameter, in one of the forms that shared modules have."""
    form = re.fullmatch(r"(\$clog2\()?(\w+)(\+1)?\)?(-1)?", expression)
    assert form is not None, f"{expression} is no width"
    size = int(form[2]) if form[2].isdigit() else parameters[form[2]]
    if form[1]:
        size = (size - 1 + bool(form[3])).bit_length()
    return size - bool(form[4])


def parts_of_shared(modules: Sequence[WrittenModule]) -> list[tuple[WrittenModule, dict[str, int]]]:
    """Modules that one with parameters stands for, with its text under their name and the sizes."""
    found: dict[str, tuple[WrittenModule, dict[str, int]]] = {}
    texts = {module.name: module.text for module in shared_modules(modules)}
    by_name = {module.name: module for module in modules}

    def look_into(parent: WrittenModule, text: str, sizes: Mapping[str, int]) -> str:
        """The text with the instances that the parent had before anything was shared."""
        olds = iter(INSTANCE.findall(parent.text))

        def restored(now: re.Match[str]) -> str:
            old, _, name = next(olds)
            assert now[3] == name
            if now[2] and old not in found:
                pairs = re.findall(r"\.(\w+)\((.+?)\)(?=, |$)", now[2])
                given = {key: _size(size, sizes) for key, size in pairs}
                found[old] = by_name[old], given
                body = texts[now[1]].replace(f"module {now[1]} ", f"module {old} ", 1)
                body = look_into(by_name[old], body, given)
                found[old] = replace(by_name[old], text=body), given
            return f"  {old} {name} ("

        return INSTANCE.sub(restored, text)

    for parent in modules:
        if parent.name in texts:
            look_into(parent, texts[parent.name], {})
    return list(found.values())


def _as_written(modules: Sequence[WrittenModule]) -> list[tuple[WrittenModule, dict[str, int]]]:
    """Modules with the texts that `generate` writes, and the parameters that those have."""
    shared = {module.name: (module, sizes) for module, sizes in parts_of_shared(modules)}
    return [shared.get(module.name, (module, {})) for module in modules]


def prove_design(modules: Sequence[WrittenModule], folder: Path, *, timeout_s: float) -> None:
    """Prove every module of a design, those with parameters for each that they stand for.

    Parameters
    ----------
    modules
        What `written_modules` returned.
    folder
        For what Yosys reads and writes.
    timeout_s
        Of each run of Yosys.

    Raises
    ------
    AssertionError
        A module does not what its RTLIL says.
    UndecidedError
        Yosys did not end in its time for some; all others are proven.
    """
    started = time.monotonic()
    late = []
    findings = []
    for module, sizes in _as_written(modules):
        try:
            found = check_module(module, modules, folder / module.name, sizes, timeout_s=timeout_s)
        except TooSlowError:
            late.append(f"{module.name} {sizes or ''}".strip())
            continue
        assert found.holds, f"{module.name}: {found.log}"
        findings.append(found)
    if late:
        raise UndecidedError(f"not decided in {timeout_s} s each: {', '.join(late)}")
    is_known = all(found.is_known for found in findings)
    depths = {"equivalent": len(findings)}
    PROOF_RESULTS.append(ProofResult(depths, is_known, time.monotonic() - started))


def check_module(
    module: WrittenModule,
    others: Iterable[WrittenModule],
    folder: Path,
    parameters: Mapping[str, int] | None = None,
    *,
    timeout_s: float | None = None,
) -> Equivalence:
    """Compare a module's Verilog with its RTLIL.

    Parameters
    ----------
    module
    others
        All modules of the design; those that this one has instances of are found among them.
    folder
        For what Yosys reads and writes. Yosys does not see /tmp.
    parameters
        Of the module's text, if it has some.
    timeout_s
        Of each run of Yosys.

    Raises
    ------
    SynthError
        Yosys failed, as with a text that it does not understand.
    TooSlowError
        It did not end in its time.
    """
    sizes = parameters or {}
    wrong = [*_wrong_starts(module, sizes), *_wrong_clocks(module)]
    if wrong:
        log = f"other initial values or clocks: {wrong}"
        return Equivalence(module.name, 0, len(wrong), _has_outputs(module), log)
    files, names = _files(module, others)
    settings = "".join(f" -set {name} {value}" for name, value in sizes.items())
    chosen = [f"chparam{settings} {CHECKED}"] if settings else []
    scripts = [
        _script(names, chosen, ["memory_dff", "opt_clean", "memory_collect"]),
        # Both texts may have a memory with ports that Yosys does not take for the same.
        _script(names, chosen, ["memory -nordff"]),
    ]
    key = digest(*files.values(), *map("\n".join, scripts), YOSYS.version())
    is_known = (cache_directory() / f"equivalence-{key}").is_dir()

    def decide(into: Path) -> None:
        found = _decide(module, files, scripts, folder, timeout_s)
        if not found.holds:
            raise _NotEquivalentError(found)
        (into / KEPT).write_text(json.dumps(asdict(found)), encoding="utf-8")

    try:
        kept = cached(f"equivalence-{key}", decide)
    except _NotEquivalentError as error:
        found: Equivalence = error.args[0]
        return found
    known = json.loads((kept / KEPT).read_text(encoding="utf-8"))
    return Equivalence(**{**known, "module": module.name, "is_known": is_known})


KEPT = "equivalence.json"
"""The file in the folder of a proof that is kept."""


def _files(
    module: WrittenModule, others: Iterable[WrittenModule]
) -> tuple[dict[str, str], list[str]]:
    """What Yosys reads of a module, and the names in it of those that it has instances of.

    Names of modules follow from their order, so that two that differ in these only are the same.
    Registers that are reset at once, which `_wrong_clocks` has looked at, are reset by the clock in
    both texts: `equiv_induct` takes steps of the clock.
    """
    by_name = {other.name: other for other in others}
    types = dict.fromkeys(re.findall(r"^  cell \\(\S+) ", module.rtlil, re.M))
    called = {name: f"below_{place}" for place, name in enumerate(types)}
    stubs = "".join(_stub(by_name[name], new) for name, new in called.items())
    gold = re.sub(
        r"(?m)^(  cell \\)(\S+)(?= )", lambda m: m[1] + called[m[2]], _renamed(module)
    ).replace(f"module \\{module.name}\n", f"module \\{CHECKED}\n", 1)
    gold = re.sub(r"(?ms)^  cell \$adff .*?^  end$", _by_clock, gold)
    gate = INSTANCE.sub(
        lambda m: m[0].replace(m[1], called.get(m[1], m[1]), 1),
        re.sub(r"\n\s*(?=\n)", "", re.sub(r"//.*", "", module.text)),
    ).replace(f"module {module.name} ", f"module {CHECKED} ", 1)
    gate = re.sub(r"@\(posedge (\w+) or posedge \w+\)", r"@(posedge \1)", gate)
    texts = {"gold.il": stubs + gold, "gate.v": gate, "stubs.il": stubs, "beyond.v": BEYOND}
    return texts, list(called.values())


def _by_clock(register: re.Match[str]) -> str:
    """The register, reset by the clock."""
    return register[0].replace("$adff", "$sdff", 1).replace("\\ARST", "\\SRST")


def _decide(
    module: WrittenModule,
    files: Mapping[str, str],
    scripts: Sequence[list[str]],
    folder: Path,
    timeout_s: float | None,
) -> Equivalence:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    try:
        run_yosys(scripts[0], folder, timeout_s=timeout_s)
    except SynthError as error:
        if "memids_pool" not in str(error):
            raise
        run_yosys(scripts[1], folder, timeout_s=timeout_s)
    status = (folder / "status.txt").read_text(encoding="utf-8")
    made = re.search(r"(\d+) objects", (folder / "made.txt").read_text(encoding="utf-8"))
    proven = re.search(r"Of those cells (\d+) are proven", status)
    # Of those that there were at first: a cell that is lost is not proven.
    return Equivalence(
        module.name,
        int(proven[1]) if proven else 0,
        int(made[1]) if made else 0,
        _has_outputs(module),
        status,
    )


def _has_outputs(module: WrittenModule) -> bool:
    return any(direction == "output" for _, direction, _ in module.ports)


def _script(stubs: Sequence[str], chosen: list[str], memories: list[str]) -> list[str]:
    """Yosys' commands: with its passes for memories, and with what chooses parameters."""
    evert = [f"expose -evert {CHECKED}/t:{stub}" for stub in stubs]
    common = [
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
        f"hierarchy -top {CHECKED}",
        "proc -norom",
        *common,
        "setattr -unset src -unset keep */c:*",
        "design -stash gold",
        "read_rtlil stubs.il",
        # A module without logic is no black box.
        "read_verilog -noblackbox gate.v",
        *chosen,
        f"hierarchy -top {CHECKED}",
        "proc -norom",
        "techmap -map beyond.v",
        *common,
        "setattr -unset src -unset keep */c:*",
        # A register's bits that nothing writes are what they were at first.
        "setundef -undriven -zero",
        "design -stash gate",
        f"design -copy-from gold -as gold {CHECKED}",
        f"design -copy-from gate -as gate {CHECKED}",
        "equiv_make gold gate equiv",
        "select -module equiv",
        "tee -o made.txt select -count t:$equiv",
        *MERGING,
        "equiv_simple -short -ignore-unknown-cells",
        "equiv_simple -ignore-unknown-cells",
        f"equiv_induct -ignore-unknown-cells -seq {INDUCTION}",
        "tee -o status.txt equiv_status",
    ]
