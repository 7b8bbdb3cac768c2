"""The kinds that `cdma config` is asked about."""

from typing import Any

from cdma.config import KINDS, Kind
from cdma.config.values import meant
from cdma.errors import UserError


def kinds_of(name: str | None) -> list[Kind[Any]]:
    """The kind of that name, or all.

    Raises
    ------
    UserError
        There is none so named.
    """
    if name is None:
        return list(KINDS.values())
    if name not in KINDS:
        raise UserError(
            f"there is no kind {name!r}; {meant(name, KINDS)}kinds are {', '.join(KINDS)}"
        )
    return [KINDS[name]]


def kinds_with(text: str, kind: str | None) -> list[Kind[Any]]:
    """The kinds of which there is a configuration of that name.

    Raises
    ------
    UserError
        There is none, or no such kind.
    """
    chosen = [one for one in kinds_of(kind) if text.partition("/")[0] in one.presets]
    if not chosen:
        names = [name for one in kinds_of(kind) for name in one.presets]
        raise UserError(
            f"there is nothing named {text!r}; {meant(text, names)}cdma list prints all "
            "names; or give FILE.toml, FILE.json, or module:function with --kind"
        )
    return chosen
