"""Inductions in parts: each shows of some of the assertions that they hold a cycle after all do.

Asserted together, the solver looks for a state behind which any of them fails. In parts it has to
look for fewer at a time, and knows as much.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from amaranth.hdl import Assert, Cat, Module, Signal, Value

from tests.formal.bench import Bench
from tests.formal.smtbmc import prove


class PartBench(Bench):
    """A bench that asserts a part of its conditions, of cycles behind one in which all have held.

    If that is proven of all parts, all conditions hold at all times: each part has to hold in the
    first cycle, and so all have held before every other one. Only the first part has the covers.

    A part that is too much for a solver is in pieces. There the steps towards a condition are
    asserted, too: each follows from those before it in the same cycle, the condition from all, and
    each may be in another piece.
    """

    def __init__(self, part: int, parts: int, piece: int = 0, pieces: int = 1) -> None:
        super().__init__()
        self._part, self._parts = part, parts
        self._piece, self._pieces = piece, pieces
        self._conditions: list[Value] = []
        self._steps: dict[int, list[Value]] = {}

    def claim(self, *conditions: Value) -> None:
        """Assert that they always hold, some of them here."""
        self._conditions += conditions

    def implies(self, premise: Value, *conclusions: Value, by: Sequence[Value] = ()) -> None:
        """Assert the conclusions whenever the premise holds, in pieces the steps as well."""
        known = len(self._conditions)
        super().implies(premise, *conclusions)
        steps = [~Value.cast(premise).bool() | step for step in by]
        self._steps.update(dict.fromkeys(range(known, len(self._conditions)), steps))

    def reach(self, *conditions: Value) -> None:
        """Demand it of the first part."""
        if self._part == self._piece == 0:
            super().reach(*conditions)

    def elaborate(self, platform) -> Module:
        # The first cycle has none before it; a reset is no reason to forget.
        all_held = Signal(init=1, reset_less=True)
        self.m.d.sync += all_held.eq(Cat(map(_holds, self._conditions)).all())
        for known, condition in list(self._asserted(all_held))[self._piece :: self._pieces]:
            statement = Assert(~known | _holds(condition))
            statement.src_loc = condition.src_loc
            self.m.d.comb += statement
        return self.m

    def _asserted(self, all_held: Value) -> Iterator[tuple[Value, Value]]:
        """The part's conditions and the steps towards them, each behind what is known by then."""
        for number in range(self._part, len(self._conditions), self._parts):
            known = all_held
            steps = self._steps.get(number, []) if self._pieces > 1 else []
            for condition in (*steps, self._conditions[number]):
                yield known, condition
                known &= _holds(condition)


def _holds(condition: Value) -> Value:
    return Value.cast(condition).bool()


def prove_part(
    proof: Callable[[Bench], None],
    folder: Path,
    part: int,
    *,
    parts: int,
    piece: int = 0,
    pieces: int = 1,
    timeout_s: int = 600,
) -> None:
    """Prove a part of the assertions by induction over one cycle; the first reaches each cover.

    Parameters
    ----------
    proof
        Builds a bench, the same one for each part.
    part, piece
        Which one of `parts`, and of the `pieces` of this part, from 0 on. All of them are the
        proof.
    """
    bench = PartBench(part, parts, piece, pieces)
    proof(bench)
    prove(bench, folder, depth=1, timeout_s=timeout_s)
