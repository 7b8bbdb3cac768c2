"""The sources and packages that results depend on, as a hash."""

import re
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import cdma
from cdma.builds.cache import digest

ROOMS = ("",)
"""The whole package."""

OF_RESULTS = ("", "sim", "plan", "formats", "synth")
"""Extras whose packages may change a result; those of the others serve developers and transport."""

_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def sources(rooms: Sequence[str] = ROOMS) -> str:
    """Compute a hash of folders of the package, of all files in them, and of `versions`.

    Everything is read anew with each call.

    Parameters
    ----------
    rooms : sequence of str
        Folders in `cdma`, as "plan"; "" is the whole package.
    """
    package = Path(cdma.__file__).parent
    parts = [*versions()]
    for room in rooms:
        for path in _files(package / room):
            parts += [str(path.relative_to(package)), sha256(path.read_bytes()).hexdigest()]
    return digest(*parts)


def versions() -> list[str]:
    """Versions of Python, of cdma and of the packages that results come from."""
    found = [sys.version.split()[0], f"cdma-rtl {_version('cdma-rtl')}"]
    try:
        lines = requires("cdma-rtl") or []
    except PackageNotFoundError:
        lines = []
    names = set()
    for line in lines:
        wanted, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        name = re.match(r"[\w.-]+", wanted.strip())
        if name and (extra[1] if extra else "") in OF_RESULTS:
            names.add(name[0])
    return [*found, *(f"{name} {_version(name)}" for name in sorted(names))]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _files(folder: Path) -> list[Path]:
    """All files but those that Python writes; rooms are links in a checkout, so these are followed.

    `Path.rglob` follows none below the folder it begins with.
    """
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__pycache__")):
            continue
        if entry.is_dir():
            found += _files(entry)
        elif entry.suffix != ".pyc":
            found.append(entry)
    return found
