"""Plans are made without RTL: nothing that `plan` imports needs Amaranth."""

import pkgutil
import subprocess
import sys

import cdma.plan

PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
assert "amaranth" not in sys.modules
"""


def test_plan_loads_without_amaranth() -> None:
    modules = [
        found.name
        for found in pkgutil.walk_packages(cdma.plan.__path__, "cdma.plan.")
        if not found.name.endswith("__main__")
    ]
    assert "cdma.plan.timeline.kernel" in modules
    done = subprocess.run([sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
