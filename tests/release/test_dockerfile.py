"""The Dockerfile: it installs from Debian what the Makefile would, and leaves nothing out."""

import re
import subprocess
from fnmatch import fnmatch

from tests.lib.paths import ROOT


def packages() -> set[str]:
    """Debian packages that the Dockerfile installs."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    (listed,) = re.findall(r"apt-get install -y --no-install-recommends ([^&\n]+)", text)
    return set(listed.split())


def test_packages_are_those_of_the_makefile_and_of_the_readme():
    printed = subprocess.run(
        ["make", "--no-print-directory", "--eval", "named:\n\t@echo $(DEBIAN)", "named"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.split()
    # The base image has no Python and no git; cocotb needs Python as a shared library.
    python = {"python3", "python3-venv", "libpython3.11"}
    others = {"ca-certificates", "git"}
    assert packages() == {*printed.stdout.split(), "g++", "make"} | python | others


def test_each_target_that_it_names_is_in_the_makefile():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    named = set(re.findall(r"(?:RUN |cdma |`)make ([\w./-]+)", text))
    assert named == {"run", "test", ".venv/.dev"}
    for target in named:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


def test_nothing_that_git_has_is_left_out():
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    # Tests ask git for the files of the checkout.
    assert ".git" not in ignored
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = listed.stdout.split()
    assert "Dockerfile" in files
    for pattern in ignored:
        anywhere = pattern.startswith("**/")
        for file in files:
            parts = file.split("/") if anywhere else file.split("/")[:1]
            assert not any(fnmatch(part, pattern.removeprefix("**/")) for part in parts), file
