"""Components that can be synthesized, by name: generated blocks and parts of the DMA engine."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring

from cdma.hw.components import BUDDY, CODEC, COMPONENTS, ENGINE, ENTRY, Component
from cdma.hw.config import BUDDY_PRESETS, PRESETS
from cdma.hw.emit.netlist import ModuleText, to_verilog
from cdma.synth.errors import SynthError

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
    def black_boxes(self) -> tuple[str, ...]:
        """Names of the modules below the top that have ports and no content (black boxes)."""
        return tuple(f"{self.top}_{name}" for name in COMPONENTS[self.name].black_boxes)

    def verilog(self) -> str:
        """Convert the component and all below it, except black boxes' content, to Verilog."""
        modules = to_verilog(self.make(), self.top, assertions=False)
        inside = tuple(f"{name}_" for name in self.black_boxes)
        return "".join(
            f"{_black_box(module) if module.name in self.black_boxes else module.text}\n\n"
            for module in modules
            if not module.name.startswith(inside)
        )


def _black_box(module: ModuleText) -> str:
    header = module.text.partition(");\n")[0]
    # Without the registers' initial values, which are of what is inside.
    ports = re.sub(
        r"\boutput reg\b(.*?)(?: = [^,\n]*)?(,?)$", r"output wire\1\2", header, flags=re.M
    )
    return f"(* blackbox *)\n{ports});\nendmodule"


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
        if component.family is family
        and not component.is_whole
        and (config is None or config in family.presets)
    ]


def block(name: str, config: str | None = None) -> ComponentBlock:
    """Find a component.

    Raises
    ------
    SynthError
        If there is none of that name.
    ConfigError
        If it has no such configuration; the message lists those that it has.
    """
    if name not in block_names():
        cause = (
            f"{name} takes too long as a whole; choose parts of it, "
            if name in COMPONENTS
            else f"unknown component {name!r}; choose one "
        )
        raise SynthError(f"{cause}of {', '.join(block_names())}")
    component = COMPONENTS[name]
    chosen = config or component.family.default
    shape = component.config(chosen)
    return ComponentBlock(
        name, chosen, _parameters(component, shape), lambda: component.make(shape)
    )


def _parameters(component: Component, shape: Any) -> dict[str, Any]:
    """The fields of the part of the configuration that the component is made from."""
    if component.takes == ("cache",):
        return dataclasses.asdict(shape.cache)
    parameters = component.parameters(shape)
    return {name: value for name, value in parameters.items() if not name.startswith("cache_")}
