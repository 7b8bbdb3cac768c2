"""The solver that is asked many questions: it answers as Yices alone does, whoever is first."""

from contextlib import ExitStack

import pytest

from tests.formal import incremental
from tests.formal.incremental import IncrementalSolver
from tests.formal.smtbmc import UndecidedError, find_tools

NUMBERS = [f"(declare-fun {name} () (_ BitVec 12))" for name in "ab"]
WIDE = "(bvmul ((_ zero_extend 12) a) ((_ zero_extend 12) b))"
FACTORS = [f"(assert (= {WIDE} (_ bv9797 24)))", "(assert (bvult (_ bv1 12) a))"]
"""97 and 101 are the only ones."""
LARGE = [
    *(f"(declare-fun {name} () (_ BitVec 96))" for name in "xy"),
    f"(assert (= (bvmul x y) (_ bv{(2**31 - 1) * (2**61 - 1)} 96)))",
    *(f"(assert (bvult (_ bv1 96) {name}))" for name in "xy"),
    *(f"(assert (bvult {name} (_ bv{2**48} 96)))" for name in "xy"),
]
"""Its factors are primes, one of which has more bits than either may have: nobody knows soon."""
ROWS = 6


def same_rows() -> list[str]:
    """Two rows of numbers, alike where a flag is set: one has the number asked for, the other not.

    Yices has not refuted it in minutes.
    """
    told = ["(declare-fun asked () (_ BitVec 33))"]
    found: list[list[str]] = [[], []]
    for k in range(ROWS):
        told.append(f"(declare-fun flag{k} () Bool)")
        for row in range(2):
            told.append(f"(declare-fun n{row}{k} () (_ BitVec 33))")
            found[row].append(f"(and flag{k} (= n{row}{k} asked))")
        told.append(f"(assert (=> flag{k} (= n0{k} n1{k})))")
    rows = [f"(or {' '.join(row)})" for row in found]
    return [*told, f"(assert (distinct {' '.join(rows)}))"]


@pytest.fixture(params={"Yices alone": 60.0, "both": 0.0}.items(), ids=lambda item: item[0])
def solver(request, monkeypatch):
    """Makes solvers that ask Yices alone, or CaDiCaL at once, too."""
    monkeypatch.setattr(incremental, "SOON_S", request.param[1])
    with ExitStack() as begun:
        yield lambda text, seconds=60.0: begun.enter_context(
            IncrementalSolver(find_tools()["YICES"], seconds, text)
        )


def test_questions_on_a_stack_are_answered(solver):
    asked = solver(NUMBERS)
    asked.tell(*FACTORS)
    for least, answers in ((2, {97, 101}), (98, {101}), (102, set())):
        asked.tell("(push 1)", f"(assert (bvuge a (_ bv{least} 12)))", "(assert (bvult a #xfff))")
        asked.tell("(define-fun both () Bool (bvult a b))")
        found = set()
        while asked.satisfiable():
            values = asked.values(["a", "b", "both"])
            assert values["a"] * values["b"] == 9797
            assert values["both"] == (values["a"] < values["b"])
            found.add(values["a"])
            asked.tell(f"(assert (distinct a (_ bv{values['a']} 12)))")
        assert found == answers
        asked.tell("(pop 1)")
    assert asked.satisfiable()


def test_what_is_refuted_on_an_upper_level_is_taken_back(solver):
    asked = solver(NUMBERS)
    asked.tell("(push 1)", "(assert (bvult a b))", "(push 1)", "(assert (bvult b a))")
    assert not asked.satisfiable()
    asked.tell("(pop 1)")
    assert asked.satisfiable()
    assert asked.values(["a"])["a"] < asked.values(["b"])["b"]
    asked.tell("(pop 1)", "(assert (= a b))")
    assert asked.satisfiable()


def test_memories_are_asked_about_too(solver):
    asked = solver(["(declare-fun m () (Array (_ BitVec 4) (_ BitVec 4)))"])
    asked.tell("(push 1)", "(assert (distinct (select m #x1) (select m #x2)))")
    assert asked.satisfiable()
    asked.tell("(pop 1)", "(assert (distinct (select m #x1) (select m #x1)))")
    assert not asked.satisfiable()


def test_rows_of_comparators_are_refuted():
    with IncrementalSolver(find_tools()["YICES"], 60.0, same_rows()) as asked:
        assert not asked.satisfiable()


def test_questions_end_with_the_time_that_there_is(solver):
    asked = solver(LARGE, seconds=1.0)
    with pytest.raises(UndecidedError, match=r"not decided in 1.0 s"):
        asked.satisfiable()


def test_what_the_solver_does_not_understand_is_told(solver):
    asked = solver(NUMBERS)
    asked.tell("(assert (= a c))")
    with pytest.raises(UndecidedError, match="undefined term: c"):
        asked.satisfiable()
