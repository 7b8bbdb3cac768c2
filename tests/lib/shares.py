"""The cases of a test that `make test` runs, and those that are left to `make verify`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest


def configs(choice: Mapping[str, Any], *, quick: Collection[str]) -> list[Any]:
    """Parameters of a test; all but the quick ones are left to `make verify`.

    Parameters
    ----------
    choice : mapping of str
        What each case's id stands for.
    quick : collection of str
        Ids, all of them of `choice`.
    """
    assert set(quick) <= set(choice)
    return [
        pytest.param(config, id=name, marks=() if name in quick else pytest.mark.verify)
        for name, config in choice.items()
    ]


def names(choice: Iterable[str], *, quick: Collection[str]) -> list[Any]:
    """The same for cases that their ids are all of."""
    return configs({name: name for name in choice}, quick=quick)


def widths(*choice: int, quick: Sequence[int]) -> list[Any]:
    """The same for numbers."""
    return configs({str(number): number for number in choice}, quick=[str(n) for n in quick])
