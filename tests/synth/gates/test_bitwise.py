"""Functions of pins on words, against the same functions of single bits."""

from itertools import product

import numpy as np
import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.bitwise import bitwise
from cdma.synth.gates.function import evaluate

FUNCTIONS = {
    "!(A & B)": "AB",
    "A B' + C": "ABC",
    "!((A1 & A2) | (B1 & B2))": ("A1", "A2", "B1", "B2"),
    "(S & B) | (!S & A)": "ABS",
    "A ^ B ^ C": "ABC",
    "!(A ^ B)": "AB",
    "A | !B": "AB",
    "!A & B": "AB",
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_bit_is_a_case_of_its_own(function):
    names = FUNCTIONS[function]
    cases = list(product((False, True), repeat=len(names)))
    pins = {
        name: np.array([sum(case[i] << k for k, case in enumerate(cases))], np.uint64)
        for i, name in enumerate(names)
    }
    (word,) = bitwise(function, set(names))(pins)
    for k, case in enumerate(cases):
        expected = evaluate(function, dict(zip(names, case, strict=True)))
        assert bool(int(word) >> k & 1) == expected, case


@pytest.mark.parametrize(("function", "word"), [("0", 0), ("1", 2**64 - 1), ("A & !A", 0)])
def test_what_is_constant_is_so_in_all_bits(function, word):
    assert bitwise(function, {"A"})({"A": np.array([5], np.uint64)}) == word


@pytest.mark.parametrize(
    ("function", "cause"), [("A & B", "has B, which is no pin"), ("A &", "'A &' is no function")]
)
def test_what_is_no_function_of_the_pins_is_told(function, cause):
    with pytest.raises(SynthError, match=f"{cause}.*; give another library"):
        bitwise(function, {"A"})
