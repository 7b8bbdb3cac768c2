"""Fields of a JSON object, named by the keys that lead to them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.errors import UserError

NAMES = ("name", "policy")
"""Keys whose value names an object in a list."""

MOST_NAMED = 30

Scalar = str | int | float | bool | None


def fields_of(content: Any) -> dict[str, Scalar]:
    """All values that are no objects and no lists, by their paths.

    A path is the keys with dots between. Elements of a list go by number, from 0 on; an object that
    has a name also goes by that, as in "policies.vdnn.seconds".
    """
    return dict(_leaves("", content))


def _leaves(path: str, content: Any) -> Iterator[tuple[str, Scalar]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), value)
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _leaves(f"{path}.{number}", value)
            if isinstance(value, Mapping):
                names = [str(value[key]) for key in NAMES if key in value]
                yield from (leaf for name in names for leaf in _leaves(f"{path}.{name}", value))
    else:
        yield path, content


def require_fields(names: Sequence[str], found: Sequence[Mapping[str, Scalar]]) -> None:
    """Raise `UserError` for a field that no point has, if there are points."""
    known = list(dict.fromkeys(name for each in found for name in each))
    for name in names:
        if known and name not in known:
            last = name.rpartition(".")[2]
            near = [each for each in known if each.rpartition(".")[2] == last] or known
            more = ", …" if len(near) > MOST_NAMED else ""
            raise UserError(
                f"no point has a field {name!r}; choose from {', '.join(near[:MOST_NAMED])}{more}"
            )
