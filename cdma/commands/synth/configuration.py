"""Components of `cdma synth` in a configuration of the user's: a name, a file or a hook."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdma.commands.config_options import paths_of
from cdma.config import BUDDY, ENGINE, Found, Kind, find, tables_of
from cdma.config.files import read_tables
from cdma.config.resolve import is_own
from cdma.errors import UserError
from cdma.hooks import is_hook
from cdma.hw import components as registry
from cdma.hw.components import COMPONENTS, Component
from cdma.synth import ComponentBlock, block, block_names

Configuration = Mapping[str, Any]
"""Tables by kind, for JSON."""


def names_with(config: str | None) -> list[str]:
    """The components that have a configuration.

    Raises
    ------
    SynthError, UserError
        There is no such configuration, or it is of no component.
    """
    if config is None or not is_own(config):
        return block_names(config)
    if is_hook(config):
        raise UserError(f"--all takes a name or a file, not the hook {config}; name components")
    tables = read_tables(config)
    found = [name for name in block_names() if _kind_of(COMPONENTS[name]).name in tables]
    if not found:
        raise UserError(f"{config} has no [engine] and no [buddy]; give a file with one of them")
    return found


def configured(
    names: Sequence[str], config: str | None
) -> tuple[list[ComponentBlock], Configuration, list[Path]]:
    """The components in their configuration, with its tables and the files that were read.

    Raises
    ------
    SynthError, ConfigError, UserError
        There is no such component or configuration, or a file is wrong.
    """
    blocks = []
    found: dict[str, Found[Any]] = {}
    for name in names:
        if name not in COMPONENTS:
            # Which tells the names that there are.
            block(name)
        component = COMPONENTS[name]
        kind = _kind_of(component)
        if kind.name not in found:
            found[kind.name] = find(kind, config or component.family.default)
        one = found[kind.name]
        blocks.append(block(name, one.label, _part(component, one.value)))
    tables = tables_of(*(one.value for one in found.values()))
    return blocks, tables, paths_of(*found.values())


def _kind_of(component: Component) -> Kind[Any]:
    return ENGINE if component.family in (registry.ENGINE, registry.CODEC) else BUDDY


def _part(component: Component, whole: Any) -> Any:
    """The part of an engine's or a controller's configuration that a component has."""
    if component.family is registry.CODEC:
        return whole.codec
    return whole.entry if component.family is registry.ENTRY else whole
