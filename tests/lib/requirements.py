"""Tools that not every machine has, and tests that need them.

`make test` installs them where it may: from Debian what PyPI does not have. Where it may not, the
tests are skipped, and say in one line what is missing, how to install it and what is left
unchecked. CI may install them, so there a missing one is a failure.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import pytest
from find_libpython import find_libpython


@dataclass(frozen=True)
class Requirement:
    """Something that must be installed.

    Attributes
    ----------
    name : str
    packages : str
        As `installer` calls them.
    unchecked : str
        What no test says without it.
    present : callable
        Whether it is there.
    installer : str
        The command that installs the packages.
    """

    name: str
    packages: str
    unchecked: str
    present: Callable[[], bool]
    installer: str = "apt-get install"


def _has_fst_headers() -> bool:
    compiler = shutil.which("g++")
    if compiler is None:
        return False
    command = [compiler, "-fsyntax-only", "-x", "c++", "-"]
    source = "#include <lz4.h>\n#include <zlib.h>\n"
    return subprocess.run(command, input=source, text=True, capture_output=True).returncode == 0


ICARUS = Requirement(
    "Icarus Verilog",
    "iverilog",
    "the RTL on a second simulator, with registers unknown at first",
    lambda: shutil.which("iverilog") is not None,
)
LIBPYTHON = Requirement(
    "Python as a shared library",
    f"libpython{sys.version_info.major}.{sys.version_info.minor}",
    "the blocks, the engine and the buddy controller in cocotb's benches",
    lambda: find_libpython() is not None,
)
FST_HEADERS = Requirement(
    "the headers of lz4 and zlib",
    "liblz4-dev zlib1g-dev",
    "waves as FST",
    _has_fst_headers,
)

CHROMIUM = Requirement(
    "Chromium",
    "chromium",
    "pages of cdma report in a browser: no error, and bars that answer to zoom and pointer",
    lambda: shutil.which("chromium") is not None,
)
PLAYWRIGHT = Requirement(
    "Playwright",
    "playwright",
    "pages of cdma report in a browser: no error, and bars that answer to zoom and pointer",
    lambda: find_spec("playwright") is not None,
    installer="pip install",
)

NBCLIENT = Requirement(
    "nbclient or ipykernel",
    "nbclient ipykernel",
    "the notebooks of docs/notebooks",
    lambda: find_spec("nbclient") is not None and find_spec("ipykernel") is not None,
    installer="pip install",
)

MKDOCS = Requirement(
    "MkDocs",
    "mkdocs-material mkdocstrings-python",
    "the site of make site: its links, and that it loads nothing from elsewhere",
    lambda: find_spec("material") is not None and find_spec("mkdocstrings") is not None,
    installer="pip install",
)

DASK = Requirement(
    "Dask",
    "distributed",
    "sweeps on a cluster, with a worker that is killed",
    lambda: find_spec("distributed") is not None,
    installer="pip install",
)


def require(requirement: Requirement) -> None:
    """Go on if it is there. Else skip the test; on CI, fail it."""
    if requirement.present():
        return
    message = (
        f"{requirement.name} missing: {requirement.installer} {requirement.packages}; "
        f"left unchecked: {requirement.unchecked}"
    )
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
