"""Files of the checkout, and commands that must succeed."""

import os
import subprocess
from pathlib import Path

from tests.lib.paths import ROOT

ROOMS = ("golden", "hw", "plan", "reproduce", "sim", "synth")


def tracked() -> list[str]:
    """Files of the working tree that git has, or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name}
    return sorted(name for name in names if os.path.lexists(ROOT / name))


def ok(*command: str | Path, **options) -> str:
    """Its output; an error with what it says if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
