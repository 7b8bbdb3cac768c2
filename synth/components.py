"""Everything that can be synthesized, by name: blocks, wholes, and parts of the DMA engine."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from cdma.hw.components import BUDDY, CODEC, COMPONENTS, ENGINE, ENTRY, Component
from cdma.hw.config import BUDDY_PRESETS, PRESETS
from cdma.hw.emit.netlist import ModuleText, to_verilog
from cdma.synth.errors import SynthError
from cdma.synth.gates.asic import Synthesis, synthesize, synthesize_parts
from cdma.synth.gates.library import Library
from cdma.synth.parts import Part, parts_of

CODEC_PRESET, ENTRY_PRESET = CODEC.default, ENTRY.default
"""Configurations if none is given: the codecs' and the engine's, and the entries' and Buddy's."""

FAMILIES = (CODEC, ENGINE, ENTRY, BUDDY)
"""In the order in which reports list their components."""


@dataclass(frozen=True)
class ComponentBlock:
    """A component with its configuration.

    Attributes
    ----------
    name : str
    config : str
        The named configuration.
    parameters : dict
        The configuration's fields that the component uses.
    make : callable
        Makes the component, which can be converted only once.
    """

    name: str
    config: str
    parameters: dict[str, Any]
    make: Callable[[], wiring.Component] = dataclasses.field(repr=False)

    @property
    def top(self) -> str:
        """Name of the top module."""
        return self.name.replace("-", "_")

    @property
    def is_whole(self) -> bool:
        """True if it is mapped in parts."""
        return COMPONENTS[self.name].is_whole

    def verilog(self) -> str:
        """Its Verilog with all below it."""
        return "".join(f"{module.text}\n\n" for module in self._modules())

    def parts(self) -> list[Part]:
        """Itself, or the parts of a whole, its top first."""
        if not self.is_whole:
            return [Part(self.top, self.verilog())]
        containers = [f"{self.top}_{name}" for name in COMPONENTS[self.name].containers]
        return parts_of(self._modules(), containers)

    @property
    def is_gated(self) -> bool:
        """True if it is mapped with gated clocks, too."""
        return COMPONENTS[self.name].is_gated

    def synthesize(
        self,
        library: Library,
        folder: Path,
        corners: Sequence[Library] = (),
        *,
        clock_gating: bool = False,
    ) -> Synthesis:
        """Map it to a library's cells; see `cdma.synth.gates.asic`."""
        if self.is_whole:
            return synthesize_parts(
                self.parts(), library, folder, clock_gating=clock_gating, corners=corners
            )
        return synthesize(
            self.verilog(), self.top, library, folder, clock_gating=clock_gating, corners=corners
        )

    def _modules(self) -> list[ModuleText]:
        return to_verilog(self.make(), self.top, assertions=False)


def block_names(config: str | None = None) -> list[str]:
    """Names of all components, or of those that have a configuration of the given name.

    Raises
    ------
    SynthError
        If nothing has a configuration of that name.
    """
    if config is not None and config not in PRESETS and config not in BUDDY_PRESETS:
        known = ", ".join(dict.fromkeys([*PRESETS, *BUDDY_PRESETS]))
        raise SynthError(f"unknown configuration {config!r}; choose one of {known}")
    return [
        component.name
        for family in FAMILIES
        for component in COMPONENTS.values()
        if component.family is family and (config is None or config in family.presets)
    ]


def block(name: str, config: str | None = None, shape: Any = None) -> ComponentBlock:
    """Find a component.

    Parameters
    ----------
    name : str
    config : str, optional
        A named configuration; the usual one of the component's family if not given.
    shape : object, optional
        Instead of the named configuration, one of the class of the component's family, whose name
        `config` then is.

    Raises
    ------
    SynthError
        If there is none of that name, or it has two clocks or gated ones.
    ConfigError
        If it has no such configuration; the message lists those that it has.
    """
    if name not in block_names():
        raise SynthError(f"unknown component {name!r}; choose one of {', '.join(block_names())}")
    component = COMPONENTS[name]
    chosen = config or component.family.default
    shape = component.config(chosen if shape is None else shape)
    if component.is_whole and getattr(shape, "host_clock", False):
        raise SynthError(
            f"{name} with host_clock has two clocks, and synthesis times one; leave host_clock "
            "away: all but the crossing is the same"
        )
    if component.is_whole and getattr(shape, "clock_gates", False):
        raise SynthError(
            f"{name} with clock_gates has clocks that stop, and synthesis has one that does not; "
            "leave clock_gates away: all but the gates and what enables them is the same"
        )
    return ComponentBlock(
        name, chosen, _parameters(component, shape), lambda: component.make(shape)
    )


def _parameters(component: Component, shape: Any) -> dict[str, Any]:
    """The fields of the part of the configuration that the component is made from."""
    if component.takes == ("cache",):
        return dataclasses.asdict(shape.cache)
    parameters = component.parameters(shape)
    return {name: value for name, value in parameters.items() if not name.startswith("cache_")}
