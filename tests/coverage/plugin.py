"""A plugin of pytest: whatever a test simulates by Verilator counts its coverage.

`pytest -p tests.coverage.plugin` with the environment variable `CDMA_COVERAGE` naming a folder. The
RTL is that of `tests.coverage.rtl`, in which nothing sleeps.
"""

import ctypes
import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cdma.builds.cache import digest
from cdma.hw.components import find_component
from cdma.hw.emit.verilog import Verilog
from cdma.sim.machine.build import build, rtl
from cdma.sim.machine.bus import library as bus_library
from cdma.sim.machine.pipeline import library as pipeline_library
from tests.coverage.rtl import covered, covered_rtl
from tests.hw.cocotb import builds, simulate
from tests.hw.codec import line_blocks

FOLDER = Path(__file__).parent
RTL_SOURCES = ("constants", "instrument", "rtl")
VERILATOR_FLAGS = ("--coverage-toggle", "--coverage-max-width 65536")


class Collector:
    """The simulators of a session, and the models whose counts are not written yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points: dict[Path, Any] = {}
        # A model of each library stays open, since counts are written by way of one.
        self.held: dict[Path, tuple[ctypes.CDLL, Callable[[int], None], int]] = {}
        self.runs = 0

    def install(self) -> None:
        """Let everything that has been imported, and will be, build for coverage."""
        # The RTL's own assertions are left out, and those of Yosys' cases are for settled values.
        flags = [flag for flag in build.VERILATOR_FLAGS if flag != "--assert"]
        build.VERILATOR_FLAGS = (*flags, "--no-assert", *VERILATOR_FLAGS)
        build.RUNTIME = (*build.RUNTIME, "verilated_cov.cpp")
        build.COMPILER_FLAGS = tuple(
            "-DVM_COVERAGE=1" if flag == "-DVM_COVERAGE=0" else flag
            for flag in build.COMPILER_FLAGS
        )
        folders = build._shim_folders
        build._shim_folders = lambda shim: {*folders(shim), FOLDER / "shim"}
        _replace(rtl.generated, self._generated)
        _replace(line_blocks.block_rtl, _block_rtl)
        _replace(build.build_library, self._building(build.build_library))
        for library, close in (
            (bus_library, "cdma_bus_close"),
            (pipeline_library, "cdma_close"),
        ):
            library.load = self._loading(library.load, close)
        self._install_cocotb()

    def _install_cocotb(self) -> None:
        """Let builds for cocotb's benches count; each run of one writes its counts at its end."""
        arguments = [each for each in simulate.VERILATOR_ARGS if each != "--assert"]
        flags = " ".join(VERILATOR_FLAGS).split()
        simulate.VERILATOR_ARGS = (*arguments, "--no-assert", *flags)
        tools = builds._tools
        builds._tools = lambda simulator: (*tools(simulator), *flags)
        _replace(builds.built, self._built(builds.built))
        _replace(simulate.run, self._run(simulate.run))

    def finish(self) -> None:
        """Write the counts of all libraries."""
        gc.collect()
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, (library, close, handle) in self.held.items():
            name = f"{path.parent.name}-{os.getpid()}"
            library.cdma_write_coverage(handle, str(self.folder / f"{name}.dat").encode())
            (self.folder / f"{name}.json").write_text(json.dumps(self.points[path]))
            close(handle)
        self.held.clear()

    def _generated(self, name: str, config: Any = None, **_options: Any) -> Verilog:
        component = find_component(name)
        chosen = component.config(config)
        sources = digest(*((FOLDER / f"{source}.py").read_text() for source in RTL_SOURCES))
        return rtl.kept(
            component.module,
            f"coverage {sources} {name} {chosen}",
            lambda: covered_rtl(name, chosen),
            also=rtl._codec_modules(chosen),
        )

    def _building(self, original: Callable[..., Path]) -> Callable[..., Path]:
        def build_library(verilog: Any, **options: Any) -> Path:
            path = original(verilog, **options)
            points = getattr(verilog, "sidecar", {}).get("coverage")
            if points is not None:
                self.points[path] = points
            return path

        return build_library

    def _built(self, original: Callable[..., simulate.Build]) -> Callable[..., simulate.Build]:
        def built(simulator: str, verilog: Verilog) -> simulate.Build:
            build = original(simulator, verilog)
            points = verilog.sidecar.get("coverage")
            if points is not None:
                self.points[build.folder] = points
            return build

        return built

    def _run(self, original: Callable[..., Path]) -> Callable[..., Path]:
        def run(build: simulate.Build, *arguments: Any, **options: Any) -> Path:
            folder = original(build, *arguments, **options)
            if build.folder in self.points:
                self.runs += 1
                name = f"{build.folder.name}-{os.getpid()}-{self.runs}"
                self.folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / "coverage.dat", self.folder / f"{name}.dat")
                text = json.dumps(self.points[build.folder])
                (self.folder / f"{name}.json").write_text(text)
            return folder

        return run

    def _loading(self, original: Callable[..., Any], close: str) -> Callable[..., Any]:
        def load(path: Path, *arguments: Any) -> Any:
            library = original(path, *arguments)
            really_close = getattr(library, close)
            library.cdma_add_coverage.argtypes = [ctypes.c_void_p]
            library.cdma_write_coverage.argtypes = [ctypes.c_void_p, ctypes.c_char_p]

            def hold(handle: int) -> None:
                library.cdma_add_coverage(handle)
                if path in self.held:
                    _, _, other = self.held[path]
                    really_close(other)
                self.held[path] = library, really_close, handle

            if path in self.points:
                setattr(library, close, hold)
            return library

        return load


def _block_rtl(block: Any, name: str) -> Verilog:
    """A block that tests make around a codec: only what is of `hw` is to be covered."""
    verilog = covered(block, name)
    described = verilog.sidecar["coverage"].items()
    points = {module: told for module, told in described if told["component"].startswith("hw.")}
    return Verilog(verilog.name, verilog.text, {"coverage": points})


def _replace(original: Any, replacement: Any) -> None:
    """Put a function in another's place, in all modules that have imported it."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is original:
                setattr(module, name, replacement)


_collector: Collector | None = None


def pytest_configure() -> None:
    """Begin before any test is imported."""
    global _collector
    _collector = Collector(Path(os.environ["CDMA_COVERAGE"]))
    _collector.install()


def pytest_sessionfinish() -> None:
    """Write what has been counted."""
    if _collector is not None:
        _collector.finish()
