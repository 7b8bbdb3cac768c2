"""The program that asks two solvers: it answers as Yices alone does, whoever is first."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.formal import solvers
from tests.formal.smtbmc import find_tools
from tests.formal.solvers import (
    SATISFIABLE,
    UNSATISFIABLE,
    Race,
    clauses_of,
    question_of,
    solve,
    write_clauses,
)
from tests.lib.paths import ROOT

TWO_NUMBERS = """(set-option :produce-models true)
(set-logic QF_ABV)
(declare-fun a () (_ BitVec 12))
(declare-fun |b c| () (_ BitVec 12))
"""
ORDER = "(assert (not (= (bvmul a |b c|) (bvmul |b c| a))))\n"
"""Nobody finds numbers of which that holds."""
FACTORS = """(assert (= (bvmul ((_ zero_extend 12) a) ((_ zero_extend 12) |b c|)) (_ bv9797 24)))
(assert (bvult (_ bv1 12) a))
(assert (bvult a |b c|))
"""
"""97 and 101 are the only ones."""
VALUES = ["((|b c| #b000001100101))", "((a #b000001100001))"]
FLAGS = """(set-logic QF_BV)
(declare-fun |a b| () Bool)
(declare-fun c () Bool)
(assert (not (and |a b| c)))
"""
ARRAY = """(set-logic QF_ABV)
(declare-fun m () (Array (_ BitVec 4) (_ BitVec 4)))
(assert (not (= (select m #x1) (select m #x1))))
"""
SOON = {"the first alone": 60.0, "the second": 0.0, "both": 0.0}


@pytest.fixture(params=SOON)
def race(request, monkeypatch):
    """Makes a race in which Yices, CaDiCaL, or both come to an answer."""
    monkeypatch.setattr(solvers, "SOON_S", SOON[request.param])
    if request.param == "both":
        monkeypatch.setattr(solvers, "ALONE_S", 0.0)
    races = []

    def begin(question: str) -> Race:
        races.append(Race(find_tools()["YICES"], [], question))
        return races[-1]

    yield begin
    for one in races:
        one.close()


def asked_of(race: Race, command: str) -> str:
    assert race.first.stdin is not None
    assert race.first.stdout is not None
    race.first.stdin.write(command.encode())
    return race.first.stdout.readline().decode()


def test_what_has_no_solution_has_none(race):
    assert race(f"{TWO_NUMBERS}{ORDER}(check-sat)\n").answer() == "unsat\n"


def test_solution_has_a_model(race):
    runner = race(f"{TWO_NUMBERS}{FACTORS}(check-sat)\n")
    assert runner.answer() == "sat\n"
    if runner.first.returncode is not None:
        # It was CaDiCaL that has found one.
        runner.find_model()
    assert asked_of(runner, "(get-value (a))\n") == "((a #b000001100001))\n"


@pytest.mark.parametrize(
    ("assumed", "answer"), [("|a b| c", "unsat\n"), ("|a b|", "sat\n"), ("", "sat\n")]
)
def test_assumptions_count(assumed, answer, race):
    runner = race(f"{FLAGS}(check-sat-assuming ({assumed}))\n")
    assert runner.answer() == answer


def test_arrays_are_left_to_yices(race):
    assert clauses_of(f"{ARRAY}(check-sat)\n") is None
    assert race(f"{ARRAY}(check-sat)\n").answer() == "unsat\n"


def test_clauses_have_all_that_was_asserted():
    text = clauses_of(f"{FLAGS}(check-sat-assuming (|a b| c))")
    assert text is not None
    lines = text.splitlines()
    assert lines[0] == "(set-logic QF_BV)"
    assert lines[-3:] == ["(assert |a b|)", "(assert c)", "(check-sat)"]
    assert set(FLAGS.splitlines()[1:]) < set(lines)


def test_question_ends_where_it_is_asked():
    lines = iter(["(assert a)\n", "(check-sat)\n", "(get-value (a))\n"])
    assert question_of(lines) == "(assert a)\n(check-sat)\n"
    assert next(lines) == "(get-value (a))\n"


AT_ONCE = """import sys
from tests.formal import solvers

solvers.SOON_S = 0.0
raise SystemExit(solvers.main(sys.argv[1], sys.argv[2:]))
"""
PROGRAMS = {"as it is": [str(Path(solvers.__file__))], "CaDiCaL at once": ["-c", AT_ONCE]}


@pytest.mark.parametrize("options", [[], ["--incremental"]])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program_answers_what_comes_behind_the_question(program, options):
    command = [sys.executable, *program, find_tools()["YICES"], *options]
    text = f"{TWO_NUMBERS}{FACTORS}(check-sat)\n"
    for more, answers in (
        ("", ["sat"]),
        ("(exit)\n", ["sat"]),
        ("(get-value (|b c|))\n(get-value (a))\n(exit)\n", ["sat", *VALUES]),
    ):
        done = subprocess.run(
            command, input=text + more, capture_output=True, text=True, timeout=60, cwd=ROOT
        )
        assert done.stdout.split("\n")[: len(answers)] == answers
        assert done.stderr == ""


def formula(seed: int) -> str:
    """Some random equations and inequalities of five numbers."""
    draw = random.Random(seed)
    names = [f"x{i}" for i in range(5)]

    def term(depth: int) -> str:
        if depth == 0:
            return draw.choice([*names, f"(_ bv{draw.randrange(256)} 8)"])
        operation = draw.choice(["bvadd", "bvmul", "bvand", "bvor", "bvxor", "bvshl", "bvlshr"])
        return f"({operation} {term(depth - 1)} {term(depth - 1)})"

    lines = [f"(declare-fun {name} () (_ BitVec 8))" for name in names]
    for _ in range(9):
        relation = draw.choice(["=", "bvult", "bvsle", "distinct"])
        lines.append(f"(assert ({relation} {term(2)} {term(2)}))")
    return "\n".join(["(set-logic QF_BV)", *lines, "(check-sat)", ""])


def test_clauses_have_a_solution_when_the_question_has(tmp_path):
    yices = find_tools()["YICES"]
    found = {SATISFIABLE: "sat", UNSATISFIABLE: "unsat"}
    answers = []
    for seed in range(60):
        question, folder = formula(seed), tmp_path / str(seed)
        folder.mkdir()
        assert clauses_of(question) is not None
        file = write_clauses(yices, question, folder)
        # Of what it sees through at once, it writes no clauses.
        if file is not None:
            alone = subprocess.run([yices], input=question, capture_output=True, text=True)
            answers.append(found[solve(str(file))])
            assert answers[-1] == alone.stdout.strip(), question
    assert min(answers.count("sat"), answers.count("unsat")) >= 10
