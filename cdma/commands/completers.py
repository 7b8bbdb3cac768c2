"""Completion of the values of options and arguments: functions for Typer's `autocompletion`.

A shell calls them by running `cdma` with the line as it stands (`cdma completion` prints the
script that does). A value that none of the names begins with is taken for a file, which shells
complete themselves.
"""

from collections.abc import Callable, Iterable

from cdma.names import NAME_KINDS

Completion = Callable[[str], list[str]]


def among(*values: object) -> Completion:
    """Complete one of these values."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(map(str, values), incomplete)

    return complete


def named(*kinds: str, also: Iterable[str] = ()) -> Completion:
    """Complete a name of these kinds, which `cdma list` lists, or another word."""

    def complete(incomplete: str) -> list[str]:
        return _beginning([*also, *_names(kinds)], incomplete)

    return complete


def several(*kinds: str, also: Iterable[str] = ()) -> Completion:
    """Complete the last of names with commas between, each of them once."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        words = [*([] if before else also), *_names(kinds)]
        found = _beginning((word for word in words if word not in given), last)
        return [f"{before}{comma}{word}" for word in found]

    return complete


def _names(kinds: Iterable[str]) -> list[str]:
    return [name for kind in kinds for name in NAME_KINDS[kind].names()]


def _beginning(words: Iterable[str], start: str) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(start)]
