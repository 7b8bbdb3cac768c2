"""Inductions in parts: each shows of some of the assertions that they hold a cycle after all do.

Asserted together, the solver looks for a state behind which any of them fails. In parts it has to
look for fewer at a time, and knows as much.
"""

from collections.abc import Callable
from pathlib import Path

from amaranth.hdl import Assert, Cat, Module, Signal, Value

from tests.formal.bench import Bench
from tests.formal.smtbmc import prove


class PartBench(Bench):
    """A bench that asserts a part of its conditions, of cycles behind one in which all have held.

    If that is proven of all parts, all conditions hold at all times: each part has to hold in the
    first cycle, and so all have held before every other one. Only the first part has the covers.
    """

    def __init__(self, part: int, parts: int) -> None:
        super().__init__()
        self._part, self._parts = part, parts
        self._conditions: list[Value] = []

    def claim(self, *conditions: Value) -> None:
        """Assert that they always hold, some of them here."""
        self._conditions += conditions

    def reach(self, *conditions: Value) -> None:
        """Demand it of the first part."""
        if self._part == 0:
            super().reach(*conditions)

    def elaborate(self, platform) -> Module:
        # The first cycle has none before it; a reset is no reason to forget.
        all_held = Signal(init=1, reset_less=True)
        self.m.d.sync += all_held.eq(Cat(map(_holds, self._conditions)).all())
        for condition in self._conditions[self._part :: self._parts]:
            statement = Assert(~all_held | _holds(condition))
            statement.src_loc = condition.src_loc
            self.m.d.comb += statement
        return self.m


def _holds(condition: Value) -> Value:
    return Value.cast(condition).bool()


def prove_part(
    proof: Callable[[Bench], None], folder: Path, part: int, *, parts: int, timeout_s: int = 600
) -> None:
    """Prove a part of the assertions by induction over one cycle; the first reaches each cover.

    Parameters
    ----------
    proof
        Builds a bench, the same one for each part.
    part
        Which one of `parts`, from 0 on. All of them are the proof.
    """
    bench = PartBench(part, parts)
    proof(bench)
    prove(bench, folder, depth=1, timeout_s=timeout_s)
