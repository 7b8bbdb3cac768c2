"""CSWAP+'s parameter over the epochs: equations 1 and 2, and what print leaves open."""

from itertools import pairwise

import pytest

from cdma.golden.formats.lossy.zfp import MAX_RATE, RATES
from cdma.plan.platform.codec_rates import ZFP_LEAST_BITS, ZFP_MOST_BITS
from cdma.plan.policies.cswap import Inverse, SlidingDown, printed_step
from cdma.plan.timeline.errors import ScheduleError


def test_the_papers_example_slides_from_100_to_20_in_81_epochs():
    sliding = SlidingDown(top=100, bottom=20, epochs=90)
    bits = [sliding.bits(epoch) for epoch in range(90)]
    assert sliding.step == 1
    assert bits[:2] == [100, 99]
    assert bits.index(20) == 80, "the 81st epoch, as the first is epoch 0"
    assert bits[80:] == [20] * 10


def test_the_printed_step_is_rounded_half_up():
    assert [printed_step(top, 0, 10) for top in (4, 5, 14, 15, 25)] == [0, 1, 1, 2, 3]


def test_a_printed_step_of_zero_never_slides():
    trapped = SlidingDown(top=64, bottom=32, epochs=90)
    assert trapped.step == 0
    assert not trapped.slides
    assert {trapped.bits(epoch) for epoch in range(90)} == {64}


@pytest.mark.parametrize(
    ("top", "bottom", "epochs"), [(64, 32, 90), (100, 20, 90), (128, 9, 7), (50, 49, 2)]
)
def test_the_exact_slope_ends_at_the_bottom_in_even_steps(top: int, bottom: int, epochs: int):
    sliding = SlidingDown(top=top, bottom=bottom, epochs=epochs, slope="exact")
    bits = [sliding.bits(epoch) for epoch in range(epochs)]
    assert sliding.slides
    assert (bits[0], bits[-1]) == (top, bottom)
    steps = [before - after for before, after in pairwise(bits)]
    assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize("slope", ["printed", "exact"])
def test_both_slopes_never_rise_nor_leave_the_range(slope):
    for epochs in (1, 2, 37, 90):
        sliding = SlidingDown(top=101, bottom=13, epochs=epochs, slope=slope)
        bits = [sliding.bits(epoch) for epoch in range(epochs + 5)]
        assert bits == sorted(bits, reverse=True)
        assert bits[0] == 101
        assert min(bits) >= 13


def test_the_inverse_scheme_has_the_same_values_from_the_bottom_up():
    down = SlidingDown(top=100, bottom=20, epochs=90)
    up = Inverse(top=100, bottom=20, epochs=90)
    bits = [up.bits(epoch) for epoch in range(90)]
    assert bits[:2] == [20, 21]
    assert bits[80:] == [100] * 10
    assert sorted(bits) == sorted(down.top + down.bottom - down.bits(e) for e in range(90))


def test_the_legal_values_are_those_of_the_codec():
    assert (RATES[0], RATES[-1]) == (ZFP_LEAST_BITS, ZFP_MOST_BITS)
    assert MAX_RATE == ZFP_MOST_BITS


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bottom": 8}, "bottom and top must be 9 to 128 bits .* not 8 and 100"),
        ({"top": 129}, "not 20 and 129"),
        ({"top": 19}, "in this order, not 20 and 19"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"slope": "steep"}, "unknown slope 'steep'; choose from printed, exact"),
    ],
)
def test_what_cannot_slide_is_refused(wrong, message):
    with pytest.raises(ScheduleError, match=message):
        SlidingDown(**({"top": 100, "bottom": 20, "epochs": 90} | wrong))


def test_there_is_no_epoch_before_the_first():
    with pytest.raises(ScheduleError, match="epoch must be 0 or more, not -1"):
        SlidingDown(top=100, bottom=20, epochs=90).bits(-1)
