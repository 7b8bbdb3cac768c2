"""Mutants in the order in which they are drawn, and the tests that are asked about each."""

import ast
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

SIMULATED = ("tests/hw/dma/test_engine.py", "tests/hw/buddy/test_controller.py")
"""The same in Amaranth's simulator, without a build: asked about all files of their folders."""

ELSEWHERE = 4
"""So many tests of other components that use a part are asked about it, before whole engines."""

OF_TEXT = ("tests/hw/emit", "tests/hw/cocotb")
"""Tests of generated text, and of what other simulators make of it."""

OF_NAMES = "tests/hw/codec/test_no_other_file_names_a_codec.py"
"""Reads sources, and finds no fault."""

CATALOGUE = "cdma.hw.components"
"""A test that depends on it depends on every component, and tells little of most."""

BUILDER = "cdma.sim.machine.build.build"
"""A test that depends on it may build a simulator for each mutant."""


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

    def part(self, source: str) -> str:
        """The class that the fault is in, as "module:name"; empty if it is in none.

        Parameters
        ----------
        source : str
            The file's, without the fault.
        """
        for node in ast.parse(source).body:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if isinstance(node, ast.ClassDef) and self.fault.line in lines:
                return f"{module_of(self.path)}:{node.name}"
        return ""


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


def module_of(path: str) -> str:
    """The module in a file of a room."""
    return f"cdma.{'.'.join(Path(path).with_suffix('').parts)}".removesuffix(".__init__")


def stages(checkout: Checkout, path: str) -> list[list[str]]:
    """Files of tests that are asked about a file's mutants, one stage after the other.

    They depend on it: that of its name, those beside it in the mirror and `SIMULATED`, a few of the
    components that it is a part of, in each case what depends on least first; and last, maybe none,
    those of whole engines and controllers, which build a simulator of the RTL first, and others
    beside it that do so, unless there are no quicker ones.

    Tests that read sources and pages as texts are not asked, nor are those of generated text,
    unless it is the generator that is at fault.
    """
    module = module_of(path)
    folder = Path("tests", path).parent
    while len(folder.parts) > 2 and not any((checkout.root / folder).rglob("test_*.py")):
        folder = folder.parent
    mirrored = str(Path("tests", path).parent / f"test_{Path(path).name}")
    near: dict[str, int] = {}
    builders: dict[str, int] = {}
    elsewhere: dict[str, int] = {}
    whole: list[str] = []
    for name, file in sorted(checkout.modules.items()):
        test = file.relative_to(checkout.root)
        if not file.name.startswith("test_") or test.parts[1] not in ("golden", "hw", "sim"):
            continue
        is_near = test.is_relative_to(folder) or (
            str(test) in SIMULATED and folder.is_relative_to(test.parent)
        )
        if not is_near and any(test.is_relative_to(each) for each in OF_TEXT):
            continue
        closure = checkout.closure([name])
        if module not in closure or str(test) == OF_NAMES:
            continue
        if any(test.is_relative_to(each) for each in WHOLE):
            whole.append(str(test))
        elif is_near:
            is_builder = BUILDER in closure and str(test) != mirrored
            (builders if is_builder else near)[str(test)] = len(closure)
        elif CATALOGUE not in closure or module == CATALOGUE:
            elsewhere[str(test)] = len(closure)
    if near:
        whole += builders
    near = near or builders
    order = sorted(near, key=lambda test: (test != mirrored, near[test], test))
    order += sorted(elsewhere, key=lambda test: (elsewhere[test], test))[:ELSEWHERE]
    return [*([test] for test in order), whole]
