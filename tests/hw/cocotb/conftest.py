"""Builds of the tops that all benches, and all of pytest's workers, share."""

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hw.config import CodecConfig, EngineConfig
from hw.dma.registers import Registers
from hw.netlist import to_verilog
from hw.verilog import Verilog, generate
from sim.machine.cache import digest
from sim.machine.rtl import Rtl, generated, generated_buddy, generated_engine
from tests.hw.cocotb.simulate import RUNTIME, Build, build_icarus, build_verilator

Builds = Callable[..., Build]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def without_initial_values(verilog: Verilog) -> Verilog:
    """Registers as in an ASIC: unknown until reset or written."""
    text, count = re.subn(
        r"(?m)^( *(?:output )?reg [^=;,\n]*) = [^;,\n]*(?=[;,]?$)", r"\1", verilog.text
    )
    assert count > 20, "the registers' declarations look other than expected"
    return replace(verilog, text=text)


def as_verilog_2005(rtl: Rtl) -> Verilog:
    """The text with assertions for Icarus, which a failing one ends."""
    failure = r'if (!(\1)) begin $display("%m: an assertion has failed"); $finish; end'
    text, count = re.subn(r"\bassert \((\w+|\\\S+ )\);", failure, rtl.text)
    assert count > 10, "assertions look other than expected"
    return Verilog(rtl.name, text, {})


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all of pytest's workers see."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    folder = folder / "cocotb-builds"
    folder.mkdir(exist_ok=True)
    return folder


def runtime(shared: Path, verilog: Verilog | Rtl) -> Path:
    """Verilator's runtime, compiled once: it takes longer than a top."""
    folder = shared / "runtime"
    with locked(shared / "runtime.lock"):
        if not folder.exists():
            built = build_verilator(verilog, shared / "runtime-build")
            partial = shared / "runtime-partial"
            partial.mkdir(exist_ok=True)
            for compiled in built.folder.glob(RUNTIME):
                shutil.copy(compiled, partial / compiled.name)
            partial.rename(folder)
    return folder


@pytest.fixture(scope="session")
def register_builds(shared: Path) -> Builds:
    """Gives the register block for a simulator, built by whichever test needs it first."""

    def build(simulator: str) -> Build:
        folder = shared / f"{simulator}-registers"
        with locked(shared / f"{folder.name}.lock"):
            if (folder / "done").exists():
                return Build(simulator, "registers", folder)
            modules = to_verilog(Registers(EngineConfig()), "registers", assertions=False)
            verilog = Verilog("registers", "\n\n".join(m.text for m in modules) + "\n", {})
            if simulator == "icarus":
                built = build_icarus(verilog, folder)
            else:
                built = build_verilator(verilog, folder, runtime=runtime(shared, verilog))
            (folder / "done").touch()
            return built

    return build


def block_builds(shared: Path, name: str, generated_block: Callable[[Any], Rtl]) -> Builds:
    """Gives a whole block for a simulator, built by whichever test needs it first."""

    def build(simulator: str, config: Any, *, initial_values: bool = True) -> Build:
        key = digest(repr(config))
        folder = shared / f"{simulator}-{name}-{key}{'' if initial_values else '-unknown'}"
        with locked(shared / f"{folder.name}.lock"):
            if (folder / "done").exists():
                return Build(simulator, name, folder)
            # One text for all simulators, that of the library: making it takes long.
            rtl = generated_block(config)
            if simulator == "verilator":
                built = build_verilator(rtl, folder, runtime=runtime(shared, rtl))
            else:
                verilog = as_verilog_2005(rtl)
                built = build_icarus(
                    verilog if initial_values else without_initial_values(verilog), folder
                )
            (folder / "done").touch()
            return built

    return build


@pytest.fixture(scope="session")
def engine_builds(shared: Path) -> Builds:
    """The engine of an `EngineConfig`."""
    return block_builds(shared, "cdma_engine", generated_engine)


@pytest.fixture(scope="session")
def buddy_builds(shared: Path) -> Builds:
    """The buddy controller of a `BuddyConfig`."""
    return block_builds(shared, "cdma_buddy", generated_buddy)


@pytest.fixture(scope="session")
def builds(shared: Path) -> Builds:
    """Gives a top for a simulator, built by whichever test needs it first."""

    def build(
        simulator: str, component: str, config: CodecConfig, *, initial_values: bool = True
    ) -> Build:
        name = f"{simulator}-{component}-{config.element_bytes}-{config.sector_bytes}"
        folder = shared / (name if initial_values else f"{name}-unknown")
        done = folder / "done"
        with locked(shared / f"{folder.name}.lock"):
            if done.exists():
                return Build(simulator, component.replace("-", "_"), folder)
            sizes = {"element_bytes": config.element_bytes, "sector_bytes": config.sector_bytes}
            if simulator == "verilator":
                # The same text as the library's, with assertions; it may be in its cache.
                rtl = generated(component, **sizes)
                built = build_verilator(rtl, folder, runtime=runtime(shared, rtl))
            else:
                verilog = generate(component, **sizes)
                if not initial_values:
                    verilog = without_initial_values(verilog)
                built = build_icarus(verilog, folder)
            done.touch()
            return built

    return build
