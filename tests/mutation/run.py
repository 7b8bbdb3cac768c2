"""Tests run on mutants, in a copy of the checkout, and what becomes of each."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import pytest

from cdma.builds.cache import cache_directory, digest
from cdma.hw.components import find_component
from tests.lib.closure import Checkout
from tests.mutation.ledger import Record, Verdict, from_json, to_json
from tests.mutation.mutants import BUILDER, ELSEWHERE, Mutant, stages
from tests.mutation.server import Server
from tests.mutation.witness import NOTE, PARTS

STAGE_S = 900
"""A stage that takes longer decides nothing."""

FINDERS = 2
"""So many tests that have found other faults are asked by themselves, before whole files."""


class Workshop:
    """A copy of the checkout that mutants are made in.

    Parameters
    ----------
    checkout : Checkout
    folder : Path, optional
        Made, or made anew. Without one there are only verdicts of earlier runs.
    ledger : Mapping[str, Record]
        Verdicts of earlier runs, by the mutants' names.
    """

    # Of all workshops: what one has built, the others find in the cache.
    _building = Lock()

    def __init__(
        self,
        checkout: Checkout,
        folder: Path | None = None,
        ledger: Mapping[str, Record] | None = None,
    ) -> None:
        self.checkout = checkout
        self.ledger = ledger or {}
        self._server: Server | None = None
        self._faults = 0
        self._healthy: dict[str, bool] = {}
        self._built: dict[str, tuple[str, list[str]]] = {}
        self._stages: dict[str, list[list[str]]] = {}
        self._finders: dict[str, Counter[str]] = defaultdict(Counter)
        self._parts: dict[str, frozenset[str]] = {}
        self._kept_parts: dict[str, Path] = {}
        if folder is not None:
            self.folder = folder
            self._copy()

    def _copy(self) -> None:
        checkout, folder = self.checkout, self.folder
        if folder.exists():
            shutil.rmtree(folder)
        for file in checkout.files:
            copy = folder / file.relative_to(checkout.root)
            # The rooms are links in the package, and files of both names are listed.
            if file.parent.resolve() == file.parent:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)
            # Verdicts are kept under what is copied, whatever is edited meanwhile.
            checkout.hash(file)
        for link in (checkout.root / "cdma").iterdir():
            if link.is_symlink():
                (folder / "cdma" / link.name).symlink_to(link.readlink())

    def judge(
        self, mutant: Mutant, *, whole: bool = True, earlier: Verdict | None = None
    ) -> Verdict:
        """Run the tests that depend on the file, until one fails; `open` if none is whole.

        Whatever has decided an `earlier` verdict, of other sources, is asked first.
        """
        *near, last = self.stages(mutant.path)
        known = earlier or Verdict("open")
        if known.outcome == "same netlist" and self._has_same_netlists(mutant):
            return known
        finders = [known.test] if known.outcome in ("killed", "unbuilt") else []
        for test in dict.fromkeys([*finders, *self._finders_of(mutant.path)]):
            with self._fault(mutant):
                found = self._failure([test])
            # One of an earlier checkout may be gone, which is a failure of no test.
            if found is not None and found["test"] == test:
                return self._verdict(mutant, found)
        likely = self._likely_first(mutant, near)
        found = self._first_failure(mutant, likely[:1])
        # All others may take minutes, for nothing if no test can tell.
        if found is None and mutant.path.startswith("hw/") and self._has_same_netlists(mutant):
            return Verdict("same netlist")
        found = found or self._first_failure(mutant, likely[1:])
        if found is not None:
            return self._verdict(mutant, found)
        elsewhere = self.judge_elsewhere(mutant)
        if elsewhere.outcome != "open":
            return elsewhere
        if not last:
            return Verdict("survived")
        return self.judge_whole(mutant) if whole else Verdict("open")

    def judge_elsewhere(self, mutant: Mutant) -> Verdict:
        """Run a few files of tests elsewhere that are known by now to build what has the fault."""
        *near, _ = self.stages(mutant.path)
        found = self._first_failure(mutant, self._others(mutant, near))
        return Verdict("open") if found is None else self._verdict(mutant, found)

    def judge_whole(self, mutant: Mutant) -> Verdict:
        """Run the tests of whole engines, after all others."""
        *_, last = self.stages(mutant.path)
        found = self._first_failure(mutant, [last])
        return Verdict("survived") if found is None else self._verdict(mutant, found)

    def _first_failure(self, mutant: Mutant, stages: list[list[str]]) -> dict[str, str] | None:
        for stage in stages:
            with self._fault(mutant):
                found = self._failure(stage)
            if found is not None:
                return found
        return None

    def stages(self, path: str) -> list[list[str]]:
        """`mutants.stages` of the checkout."""
        if path not in self._stages:
            self._stages[path] = stages(self.checkout, path)
        return self._stages[path]

    def note(self, path: str, verdict: Verdict) -> None:
        """Remember which test finds faults of a file."""
        if verdict.outcome in ("killed", "unbuilt"):
            for test in (verdict.test, verdict.test.split("::")[0]):
                self._finders[path][test] += 1
                self._finders[str(Path(path).parent)][test] += 1

    def _finders_of(self, path: str) -> list[str]:
        """The single tests that have found most of this file, and most of its folder."""
        found = []
        for place in (path, str(Path(path).parent)):
            counts = self._finders[place]
            tests = [(count, test) for test, count in counts.items() if "::" in test]
            found += [test for _, test in sorted(tests, reverse=True)[:FINDERS]]
        return list(dict.fromkeys(found))

    def _likely_first(self, mutant: Mutant, near: list[list[str]]) -> list[list[str]]:
        """The stages, those first that have found most of this file, then most of its folder.

        Those that do not build the class that the fault is in are left out, if others do.
        """
        own, beside = self._finders[mutant.path], self._finders[str(Path(mutant.path).parent)]
        order = sorted(near, key=lambda stage: (-own[stage[0]], -beside[stage[0]]))
        part = self._part(mutant)
        parts = {stage[0]: self._parts_in(stage[0]) for stage in near}
        if not any(part in known for known in parts.values() if known):
            return order
        asked = {test for test, known in parts.items() if known is None or part in known}
        return [stage for stage in order if stage[0] in asked]

    def _others(self, mutant: Mutant, near: list[list[str]]) -> list[list[str]]:
        """A few files of tests elsewhere that are known to build the class that the fault is in."""
        part = self._part(mutant)
        asked = {stage[0] for stage in near}
        tests = (file.relative_to(self.checkout.root) for file in self.checkout.modules.values())
        others = sorted(str(test) for test in tests if test.name.startswith("test_"))
        found = [t for t in others if t not in asked and part in (self._parts_in(t) or ())]
        return [[test] for test in found[:ELSEWHERE]]

    def _part(self, mutant: Mutant) -> str:
        return mutant.part((self.folder / mutant.path).read_text("utf-8"))

    def _parts_in(self, test: str) -> frozenset[str] | None:
        """The classes of components that a file of tests builds; None as long as nobody knows."""
        kept = self._parts_file(test)
        if test not in self._parts and kept.exists():
            self._parts[test] = frozenset(json.loads(kept.read_text()))
        return self._parts.get(test)

    def _parts_file(self, test: str) -> Path:
        if test not in self._kept_parts:
            key = digest("parts", test, self.checkout.sources(self._closure(test)))
            self._kept_parts[test] = cache_directory() / "mutants" / "parts" / f"{key}.json"
        return self._kept_parts[test]

    def _closure(self, test: str) -> frozenset[str]:
        return self.checkout.closure([self.checkout.name_of(self.checkout.root / test)])

    def _keep_parts(self, test: str) -> None:
        """Keep what a run of a file of tests in which none failed has built, in this process."""
        kept = self._parts_file(test)
        if not kept.exists() and BUILDER not in self._closure(test):
            kept.parent.mkdir(parents=True, exist_ok=True)
            partial = kept.with_suffix(f".{os.getpid()}")
            partial.write_text((self.folder / "build" / PARTS).read_text())
            partial.replace(kept)

    def close(self) -> None:
        """Stop the process that runs tests."""
        if self._server is not None:
            self._server.close()
            self._server = None

    @contextmanager
    def _fault(self, mutant: Mutant) -> Iterator[None]:
        file = self.folder / mutant.path
        healthy = file.read_text("utf-8")
        time = file.stat().st_mtime_ns
        file.write_text(mutant.fault.text, "utf-8")
        # Python keeps bytecode by time and length of the source.
        self._faults += 1
        os.utime(file, (self._faults, self._faults))
        try:
            yield
        finally:
            file.write_text(healthy, "utf-8")
            os.utime(file, ns=(time, time))

    def _verdict(self, mutant: Mutant, found: dict[str, str]) -> Verdict:
        test, error = found["test"], found["error"]
        if not test or not self._is_healthy(test):
            return Verdict("undecided", test, error)
        is_built = bool(found["is_check"]) or not mutant.path.startswith("hw/")
        return Verdict("killed" if is_built else "unbuilt", test, error)

    def _is_healthy(self, test: str) -> bool:
        """Return True if a test passes without any fault."""
        if test not in self._healthy:
            sources = self.checkout.sources(self._closure(test.split("::")[0]))
            kept = cache_directory() / "mutants" / f"{digest('healthy', test, sources)}.json"
            self._healthy[test] = kept.exists() or self._failure([test]) is None
            if self._healthy[test]:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.touch()
        return self._healthy[test]

    def _failure(self, tests: Sequence[str]) -> dict[str, str] | None:
        """The witness' note of the first test that fails; None if all pass."""
        note = self.folder / "build" / "note.json"
        note.parent.mkdir(exist_ok=True)
        note.unlink(missing_ok=True)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutation.witness"]
        options += ["-m", "not verify and not torch"]
        self._server = self._server or Server(self.folder, self._environment)
        status = self._server.run([*options, *tests], STAGE_S)
        if status is None:
            return {"test": "", "error": f"its tests take more than {STAGE_S} s"}
        if status in (0, 5):
            if len(tests) == 1 and "::" not in tests[0]:
                self._keep_parts(tests[0])
            return None
        if note.exists():
            return dict(json.loads(note.read_text()))
        # What is loaded before any test is at fault, then: it raises, or never ends. A single test
        # may be gone.
        is_early = status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)
        test = tests[0] if is_early and "::" not in tests[0] else ""
        return {"test": test, "error": f"pytest ended with status {status}", "is_check": ""}

    def _has_same_netlists(self, mutant: Mutant) -> bool:
        """Return True if the file is a part of components, and all are built as without the fault.

        What is a part of none, such as the writer of Verilog, has no netlist that could tell.
        """
        if not self._built:
            with self._building:
                self._built = self._healthy_netlists()
        own = [shape for shape, (_, files) in self._built.items() if mutant.path in files]
        # What has no line in any, as a configuration, may concern all that import it.
        own = own or [shape for shape in self._built if self._imports(shape, mutant.path)]
        if not own:
            return False
        asked = sorted(own, key=lambda shape: len(self._built[shape][1]))
        with self._fault(mutant):
            found = self._netlists(asked, until_other=True)
        return all(self._built[shape][0] == found.get(shape, [""])[0] for shape in asked)

    def _imports(self, shape: str, path: str) -> bool:
        component = find_component(shape.partition(":")[0])
        closure = self.checkout.closure([component.module])
        return self.checkout.covers(self.checkout.root / path, closure)

    def _healthy_netlists(self) -> dict[str, tuple[str, list[str]]]:
        """Those of all components, from the cache if the sources are the same."""
        modules = self.checkout.modules
        names = [name for name in modules if name.startswith("cdma.hw.")]
        names.append("tests.mutation.netlists")
        key = digest("netlists", self.checkout.sources(name for name in names if name in modules))
        kept = cache_directory() / "mutants" / f"{key}.json"
        if not kept.exists():
            found = self._netlists([])
            if not found:
                return found
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
        return dict(json.loads(kept.read_text()))

    def _netlists(
        self, shapes: Sequence[str], *, until_other: bool = False
    ) -> dict[str, tuple[str, list[str]]]:
        """The hashes of components' netlists, and the files that they come from; all if none.

        Nothing, if one cannot be built, or it takes too long.
        Components after the first that is not as without a fault may be left out.
        """
        asked = [f"{shape}:{self._built[shape][0]}" for shape in shapes] if until_other else shapes
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.mutation.netlists", *asked],
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=STAGE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {}
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            # Simulators of mutants are of no use to anybody else.
            "CDMA_CACHE": str(self.folder.parent / "cache"),
            NOTE: str(self.folder / "build" / "note.json"),
        }


def judged(workshop: Workshop, mutant: Mutant, *, whole: bool = True) -> Verdict:
    """The verdict of a mutant, from the cache if its file and its tests are the same.

    What a test has found stays found while that test is the same, whatever others do.
    """
    verdict = kept_verdict(workshop, mutant)
    if verdict is None:
        earlier = next((record.verdict for record in records(workshop, mutant)), None)
        verdict = workshop.judge(mutant, whole=whole, earlier=earlier)
    elif verdict.outcome == "open":
        verdict = workshop.judge_whole(mutant) if whole else workshop.judge_elsewhere(mutant)
    else:
        return verdict
    workshop.note(mutant.path, verdict)
    if verdict.outcome != "undecided":
        kept = _kept(mutant)
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(to_json(Record(verdict, _sources(workshop, mutant, verdict))))
        partial.replace(kept)
    return verdict


def kept_verdict(workshop: Workshop, mutant: Mutant) -> Verdict | None:
    """The verdict in the cache or the ledger; None if neither has one of these sources."""
    for record in records(workshop, mutant):
        if is_current(workshop, mutant, record):
            workshop.note(mutant.path, record.verdict)
            return record.verdict
    return None


def records(workshop: Workshop, mutant: Mutant) -> list[Record]:
    """The verdicts of earlier runs, whatever has changed since: the cache's, then the ledger's."""
    kept = _kept(mutant)
    found = [from_json(kept.read_text())] if kept.exists() else []
    if mutant.name in workshop.ledger:
        found.append(workshop.ledger[mutant.name])
    return found


def is_current(workshop: Workshop, mutant: Mutant, record: Record) -> bool:
    """Return True if the tests behind a verdict, and all that they depend on, are the same."""
    return record.sources == _sources(workshop, mutant, record.verdict)


def _kept(mutant: Mutant) -> Path:
    """The file that has a mutant's verdict."""
    key = digest(mutant.path, mutant.fault.text)
    return cache_directory() / "mutants" / f"{key}.json"


def _sources(workshop: Workshop, mutant: Mutant, verdict: Verdict) -> str:
    """A hash of what a verdict depends on: the test that has found the mutant, or all that ran."""
    checkout = workshop.checkout
    *near, last = workshop.stages(mutant.path)
    if verdict.outcome in ("killed", "unbuilt"):
        tests = [verdict.test.split("::")[0]]
    else:
        tests = [test for stage in near for test in stage]
        tests += last if verdict.outcome == "survived" else []
    names = {checkout.name_of(checkout.root / test) for test in tests} & checkout.modules.keys()
    return checkout.sources(checkout.closure(names))
