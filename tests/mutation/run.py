"""Tests run on mutants, in a copy of the checkout, and what becomes of each."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cdma.builds.cache import cache_directory, digest
from tests.lib.closure import Checkout
from tests.mutation.mutants import Mutant, stages
from tests.mutation.witness import NOTE

STAGE_S = 900
"""A stage that takes longer decides nothing."""


@dataclass(frozen=True)
class Verdict:
    """A mutant's end.

    Attributes
    ----------
    outcome : str
        `killed` by a test; `unbuilt`, as no design or module can be made of it; `same netlist`, as
        every component is built as before; `survived`; or `undecided`, as its tests take too long
        or fail without it, too.
    test, error : str
        What has found it, and with which words.
    """

    outcome: str
    test: str = ""
    error: str = ""


class Workshop:
    """A copy of the checkout that mutants are made in.

    Parameters
    ----------
    checkout : Checkout
    folder : Path
        Made, or made anew.
    """

    def __init__(self, checkout: Checkout, folder: Path) -> None:
        self.checkout = checkout
        self.folder = folder
        self._healthy: dict[str, bool] = {}
        self._built: dict[str, tuple[str, list[str]]] = {}
        if folder.exists():
            shutil.rmtree(folder)
        for file in checkout.files:
            copy = folder / file.relative_to(checkout.root)
            # The rooms are links in the package, and files of both names are listed.
            if file.parent.resolve() == file.parent:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)
        for link in (checkout.root / "cdma").iterdir():
            if link.is_symlink():
                (folder / "cdma" / link.name).symlink_to(link.readlink())

    def judge(self, mutant: Mutant) -> Verdict:
        """Run the tests that depend on the file, until one fails; whole engines if need be."""
        *near, whole = stages(self.checkout, mutant.path)
        for stage in near:
            with self._fault(mutant):
                found = self._failure(stage)
            if found is not None:
                return self._verdict(mutant, found)
        if mutant.path.startswith("hw/") and self._has_same_netlists(mutant):
            return Verdict("same netlist")
        with self._fault(mutant):
            found = self._failure(whole) if whole else None
        return Verdict("survived") if found is None else self._verdict(mutant, found)

    @contextmanager
    def _fault(self, mutant: Mutant) -> Iterator[None]:
        file = self.folder / mutant.path
        healthy = file.read_text("utf-8")
        file.write_text(mutant.fault.text, "utf-8")
        try:
            yield
        finally:
            file.write_text(healthy, "utf-8")

    def _verdict(self, mutant: Mutant, found: dict[str, str]) -> Verdict:
        test, error = found["test"], found["error"]
        if not test or not self._is_healthy(test):
            return Verdict("undecided", test, error)
        is_built = bool(found["is_check"]) or not mutant.path.startswith("hw/")
        return Verdict("killed" if is_built else "unbuilt", test, error)

    def _is_healthy(self, test: str) -> bool:
        """Return True if a test passes without any fault."""
        if test not in self._healthy:
            self._healthy[test] = self._failure([test]) is None
        return self._healthy[test]

    def _failure(self, tests: Sequence[str]) -> dict[str, str] | None:
        """The witness' note of the first test that fails; None if all pass."""
        note = self.folder / "build" / "note.json"
        note.parent.mkdir(exist_ok=True)
        note.unlink(missing_ok=True)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutation.witness"]
        command = [sys.executable, "-m", "pytest", *options, "-m", "not verify and not torch"]
        try:
            done = self._run([*command, *tests])
        except subprocess.TimeoutExpired:
            return {"test": "", "error": f"its tests take more than {STAGE_S} s"}
        if done.returncode in (0, 5):
            return None
        if note.exists():
            return dict(json.loads(note.read_text()))
        return {"test": "", "error": f"pytest ended with status {done.returncode}"}

    def _has_same_netlists(self, mutant: Mutant) -> bool:
        """Return True if every component is built as without the fault."""
        self._built = self._built or self._healthy_netlists()
        # What has no line in any, as a configuration, may concern all of them.
        own = [shape for shape, (_, files) in self._built.items() if mutant.path in files]
        with self._fault(mutant):
            found = self._netlists(own)
        return bool(self._built) and all(
            self._built[shape][0] == found.get(shape, [""])[0] for shape in own or self._built
        )

    def _healthy_netlists(self) -> dict[str, tuple[str, list[str]]]:
        """Those of all components, from the cache if the sources are the same."""
        names = [name for name in self.checkout.modules if name.startswith("cdma.")]
        key = digest("netlists", self.checkout.sources(names))
        kept = cache_directory() / "mutants" / f"{key}.json"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(self._netlists([])))
        return dict(json.loads(kept.read_text()))

    def _netlists(self, shapes: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
        """The hashes of components' netlists, and the files that they come from; all if none."""
        done = self._run([sys.executable, "-m", "tests.mutation.netlists", *shapes])
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(self.folder),
                # Simulators of mutants are of no use to anybody else.
                "CDMA_CACHE": str(self.folder.parent / "cache"),
                "PYTHONDONTWRITEBYTECODE": "1",
                NOTE: str(self.folder / "build" / "note.json"),
            },
            capture_output=True,
            text=True,
            timeout=STAGE_S,
            check=False,
        )


def judged(workshop: Workshop, mutant: Mutant) -> Verdict:
    """The verdict of a mutant, from the cache if its file and its tests are the same."""
    checkout = workshop.checkout
    tests = [test for stage in stages(checkout, mutant.path) for test in stage]
    names = [checkout.name_of(checkout.root / test) for test in tests]
    key = digest(mutant.path, mutant.fault.text, checkout.sources(checkout.closure(names)))
    kept = cache_directory() / "mutants" / f"{key}.json"
    if kept.exists():
        return Verdict(**json.loads(kept.read_text()))
    verdict = workshop.judge(mutant)
    if verdict.outcome != "undecided":
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(verdict)))
        partial.replace(kept)
    return verdict
