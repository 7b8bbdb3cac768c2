"""Packages that only some users install: imported where they are needed, missed in one sentence."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from re import match

from cdma.builds.errors import BuildError

DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""Names under which pip knows packages, where these differ."""


class MissingPackageError(BuildError):
    """A package of an extra is not installed: "cause; mend"."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports within it are of packages that an extra of `pyproject.toml` brings.

    Parameters
    ----------
    name : str
        The extra.

    Raises
    ------
    MissingPackageError
        One of them is not installed. The message has the command that installs it, and the extra
        that would have.

    Examples
    --------
    >>> with extra("plan"):
    ...     from scipy.optimize import milp
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise MissingPackageError(
            f"{package} is not installed; pip install {shlex.quote(requirement(package))}, or the "
            f"extra {name!r}: in a checkout, pip install -e '.[{name}]'"
        ) from error


def requirement(package: str) -> str:
    """The distribution of a package, with the versions that the project takes."""
    distribution = DISTRIBUTIONS.get(package, package)
    try:
        listed = requires("cdma-rtl") or []
    except PackageNotFoundError:
        return distribution
    for line in listed:
        wanted = line.partition(";")[0].strip()
        found = match(r"[\w.-]+", wanted)
        if found and found[0].lower() == distribution:
            return wanted
    return distribution
