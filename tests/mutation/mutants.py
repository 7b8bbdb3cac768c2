"""Mutants in the order in which they are drawn, and the tests that are asked about each."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.lib.closure import Checkout
from tests.mutation.operators import Mutation, mutations

WHOLE = (
    "tests/sim/machine/engine",
    "tests/sim/driver/test_rtl.py",
    "tests/sim/driver/test_random_machine.py",
    "tests/sim/machine/buddy",
    "tests/sim/buddy",
)
"""Tests of whole engines and controllers against the golden models."""


@dataclass(frozen=True)
class Mutant:
    """A file of the checkout with a fault.

    Attributes
    ----------
    path : str
        From the top of the checkout.
    place : int
        Of alike faults in the file, which one.
    fault : Mutation
    """

    path: str
    place: int
    fault: Mutation

    @property
    def name(self) -> str:
        """A name that an edit elsewhere in the file leaves as it is."""
        told = f"{self.path} {self.fault.kind} {self.fault.before} {self.fault.after} {self.place}"
        return hashlib.sha256(told.encode()).hexdigest()[:12]


def mutants(root: Path, rooms: Iterable[str]) -> list[Mutant]:
    """All mutants of some folders, or files, in the order in which they are drawn.

    That is the order of their names, which are hashes: as good as any other, and the same again
    after an edit, but for what was edited.
    """
    found = []
    for room in rooms:
        start = root / room
        for path in sorted(start.rglob("*.py")) if start.is_dir() else [start]:
            counts: dict[tuple[str, str, str], int] = {}
            for fault in mutations(path.read_text("utf-8")):
                alike = fault.kind, fault.before, fault.after
                place = counts[alike] = counts.get(alike, -1) + 1
                found.append(Mutant(str(path.relative_to(root)), place, fault))
    return sorted(found, key=lambda mutant: mutant.name)


def stages(checkout: Checkout, path: str) -> list[list[str]]:
    """Files of tests that are asked about a file's mutants, one stage after the other.

    They depend on it: that of its name, those beside it in the mirror, what depends on least first,
    and last, maybe none, those of whole engines and controllers, which build a simulator of the RTL
    first.

    Tests that read sources and pages as texts are not asked, nor are those of generated text,
    unless it is the generator that is at fault.
    """
    module = f"cdma.{'.'.join(Path(path).with_suffix('').parts)}".removesuffix(".__init__")
    folder = Path("tests", path).parent
    while len(folder.parts) > 2 and not any((checkout.root / folder).rglob("test_*.py")):
        folder = folder.parent
    near: dict[str, int] = {}
    whole: list[str] = []
    for name, file in sorted(checkout.modules.items()):
        test = file.relative_to(checkout.root)
        is_near = test.is_relative_to(folder)
        is_whole = any(test.is_relative_to(each) for each in WHOLE)
        if not file.name.startswith("test_") or not (is_near or is_whole):
            continue
        closure = checkout.closure([name])
        if module in closure and is_whole:
            whole.append(str(test))
        elif module in closure:
            near[str(test)] = len(closure)
    mirrored = str(Path("tests", path).parent / f"test_{Path(path).name}")
    order = sorted(near, key=lambda test: (test != mirrored, near[test], test))
    return [*(stage for stage in (order[:1], order[1:]) if stage), whole]
