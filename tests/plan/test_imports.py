"""Plans are made without RTL: nothing that `plan` imports needs Amaranth."""

import pkgutil
import re
import subprocess
import sys

import cdma.plan
from tests.lib.paths import ROOT

ALLOWED = {
    "cdma.hw.config",
    "cdma.hw.codec.interface",
    "cdma.hw.codec.registry",
    "cdma.hw.dma.limits",
}
"""Modules of `hw` without RTL: configurations, the codecs' own figures, and named constants."""

PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
assert "amaranth" not in sys.modules
"""


def test_plan_reads_configurations_codecs_and_limits_of_hw_only() -> None:
    read = {
        module
        for source in (ROOT / "plan").rglob("*.py")
        for module in re.findall(r"^\s*(?:from|import) (cdma\.hw\S*)", source.read_text(), re.M)
    }
    assert read == ALLOWED


def test_plan_loads_without_amaranth() -> None:
    modules = [
        found.name
        for found in pkgutil.walk_packages(cdma.plan.__path__, "cdma.plan.")
        if not found.name.endswith("__main__")
    ]
    assert "cdma.plan.timeline.kernel" in modules
    done = subprocess.run([sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
