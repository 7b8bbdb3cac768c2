"""Mixed-integer programs, row by row, for HiGHS."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.builds.extras import extra

Sum = dict[int, float]
"""A linear expression: coefficients by variable."""


def add(*parts: tuple[float, Sum]) -> Sum:
    """Expressions, each times a factor, as one."""
    total: Sum = {}
    for factor, part in parts:
        for variable, coefficient in part.items():
            total[variable] = total.get(variable, 0.0) + factor * coefficient
    return total


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """The lower bound on a program's least value.

    Attributes
    ----------
    solved : bool
        Whether it was found.
    infeasible : bool
        Whether it was proved that there is no solution.
    proved : float
        What no solution is below; minus infinity if nothing was proved.
    solution : numpy.ndarray or None
        The best one found, float64 by variable.
    gap : float or None
        HiGHS's own, of branch and bound: from the solution's value to what was proved, as a part
        of the value. None without either of them, and of linear programs.
    """

    solved: bool
    infeasible: bool
    proved: float
    solution: npt.NDArray[np.float64] | None
    gap: float | None = None


class LinearProgram:
    """Variables, 0 or more, and lower bounds on sums of them."""

    def __init__(self) -> None:
        self._upper: list[float] = []
        self._integral: list[bool] = []
        self._sums: list[Sum] = []
        self._least: list[float] = []
        self._most: list[float] = []

    def variable(self, upper: float = math.inf, *, integral: bool = False) -> int:
        """A new one; its number."""
        self._upper.append(upper)
        self._integral.append(integral)
        return len(self._upper) - 1

    def at_least(self, total: Sum, number: float) -> None:
        self._constrain(total, number, math.inf)

    def equal(self, total: Sum, number: float) -> None:
        self._constrain(total, number, number)

    def named(self, total: Sum, constant: float = 0.0) -> int:
        """A new variable that equals a sum and a constant."""
        variable = self.variable()
        self.equal(add((1, {variable: 1.0}), (-1, total)), constant)
        return variable

    def running(self, parts: Iterable[Sum]) -> list[int]:
        """A new variable for each part: the sum of the parts so far."""
        totals: list[int] = []
        for part in parts:
            totals.append(self.named(add((1, part), (1, {totals[-1]: 1.0} if totals else {}))))
        return totals

    @property
    def coefficients(self) -> int:
        """The number of coefficients of all rows."""
        return sum(map(len, self._sums))

    def minimize(self, variable: int, nodes: int = 0, relative_gap: float = 1e-4) -> Answer:
        """The solution that HiGHS finds.

        It gets no time limit, so that its answer does not depend on the machine.

        Parameters
        ----------
        variable : int
        nodes : int
            Of branch and bound at most; 0 to take integral variables for continuous ones.
        relative_gap : float
            At which branch and bound is content.
        """
        # Here, as it takes a second that no other command shall wait for.
        with extra("plan"):
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csr_array

        rows = csr_array(
            (
                [value for total in self._sums for value in total.values()],
                [number for total in self._sums for number in total],
                np.cumsum([0] + [len(total) for total in self._sums]),
            ),
            shape=(len(self._sums), len(self._upper)),
        )
        cost = np.zeros(len(self._upper))
        cost[variable] = 1
        found = milp(
            cost,
            integrality=np.array(self._integral, int) if nodes else None,
            bounds=Bounds(0, self._upper),
            constraints=LinearConstraint(rows, self._least, self._most),
            options={"node_limit": nodes, "mip_rel_gap": relative_gap} if nodes else {},
        )
        proved = found.mip_dual_bound if nodes else found.fun
        return Answer(
            solved=found.status == 0,
            infeasible=found.status == 2,
            proved=-math.inf if proved is None else float(proved),
            solution=found.x,
            gap=None if not nodes or found.x is None else float(found.mip_gap),
        )

    def _constrain(self, total: Sum, least: float, most: float) -> None:
        self._sums.append(total)
        self._least.append(least)
        self._most.append(most)
