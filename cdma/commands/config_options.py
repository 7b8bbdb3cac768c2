"""Options that take a name, and so a file or a hook of the user's own."""

from pathlib import Path
from typing import Any, TypeVar

from cdma.config import DEVICE, ENGINE, LINK, MACHINE, NETWORK, THROTTLE, Found, Kind, find
from cdma.config.files import read_tables
from cdma.config.resolve import is_file
from cdma.errors import UserError

T = TypeVar("T")

METAVAR = "NAME|FILE|HOOK"
"""What the options of all kinds take; docs/guide/config.md describes files and hooks."""

OWN = "or a file or hook of your own"


def names_of(kind: Kind[Any]) -> str:
    """The names of a kind, for the help of an option."""
    return f"{', '.join(kind.presets)}; {OWN}"


LINK_NAMES = f"{', '.join(LINK.presets)}, /4 behind it: shared by 4; {OWN}"
ENGINE_NAMES = names_of(ENGINE)
DEVICE_NAMES = names_of(DEVICE)
MACHINE_NAMES = names_of(MACHINE)
NETWORK_NAMES = names_of(NETWORK)
THROTTLE_NAMES = names_of(THROTTLE)


def chosen(kind: Kind[T], text: str | None, config: str | None) -> Found[T] | None:
    """The configuration of an option; or else of its table in the file that `--config` names.

    Parameters
    ----------
    kind : Kind
    text : str or None
        What the option is given.
    config : str or None
        What `--config` is given.

    Returns
    -------
    Found or None
        None if neither says anything.
    """
    if text is not None:
        return find(kind, text)
    if config is not None and is_file(config) and kind.name in read_tables(config):
        return find(kind, config)
    return None


def chosen_or(kind: Kind[T], text: str | None, config: str | None, default: str) -> Found[T]:
    """The configuration that `chosen` finds, or else the preset of that name."""
    return chosen(kind, text, config) or find(kind, default)


def required(kind: Kind[T], text: str | None, config: str | None) -> Found[T]:
    """The configuration that `chosen` finds.

    Raises
    ------
    UserError
        It finds none.
    """
    found = chosen(kind, text, config)
    if found is None:
        raise UserError(f"no {kind.name} given; name one with {kind.options[0]}: {names_of(kind)}")
    return found


def paths_of(*found: Found[Any] | None) -> list[Path]:
    """The files that were read."""
    return [one.path for one in found if one is not None and one.path is not None]
