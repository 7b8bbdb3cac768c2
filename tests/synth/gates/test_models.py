"""The papers' arithmetic: units and buffer, factor by factor."""

import pytest

from cdma.synth.gates.conversion import SCALING_45_TO_28, UM2_PER_GATE, UnitsArea, um2_of
from cdma.synth.gates.sram import PAPER_BUFFER_BYTES, array_mm2


def test_six_pairs_by_the_papers_factors():
    assert UnitsArea(27_899).mm2 == pytest.approx(0.154, abs=0.0005)


def test_gate_areas_differ_by_the_papers_scaling():
    assert UM2_PER_GATE[28] == pytest.approx(UM2_PER_GATE[45] * SCALING_45_TO_28, abs=0.0005)
    assert um2_of(1, 45) == 798


@pytest.mark.parametrize(("ports", "cacti_mm2"), [("1RW", 0.0905), ("1R1W", 0.184)])
def test_buffer_model_is_what_it_was_fitted_to(ports, cacti_mm2):
    assert array_mm2(PAPER_BUFFER_BYTES * 8, ports=ports) == pytest.approx(cacti_mm2, rel=0.01)


def test_array_scales_with_bits_and_the_square_of_the_feature():
    assert array_mm2(2000) == 2 * array_mm2(1000)
    assert array_mm2(1000, feature_nm=56) == 4 * array_mm2(1000, feature_nm=28)
