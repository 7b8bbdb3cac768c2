"""The loss that is measured on what came back, and the swapper's verdict on it."""

import numpy as np
import pytest

from cdma import golden
from cdma.golden.formats.interface import as_bytes
from cdma.golden.formats.lossy.power_of_two import bound_of
from cdma.sim.swap import ArrayResult, Loss, Swapper
from cdma.sim.swap.encoding import encoding_with

K = 121
BOUND = bound_of(K)


class GoldenBackend:
    """A backend that does what the golden model says, but for what a test makes of the values."""

    def __init__(self, codec="quantize", parameters=None, damage=lambda values: None):
        self.codec = codec
        self.parameters = parameters
        self.damage = damage
        self.taken = []

    def encoding(self, data, element_bytes):
        return encoding_with(self.codec, data, element_bytes, self.parameters)

    def transfer(self, payloads):
        for index, payload in enumerate(payloads):
            self.taken += payload.pieces
            returned = [payload.encoding.returned(piece) for piece in payload.pieces]
            for back in returned:
                self.damage(back.view("<f4"))
            yield (
                index,
                ArrayResult(
                    streams=[payload.encoding.stream(piece) for piece in payload.pieces],
                    returned=returned,
                    cycles_out=1,
                    cycles_in=1,
                    faults=set(),
                ),
            )

    def queue_figures(self):
        return None

    def close(self):
        pass


def swapped(array, damage=lambda values: None):
    backend = GoldenBackend(parameters={"k": K}, damage=damage)
    with Swapper(backend) as swapper:
        (round_trip,) = swapper.swap([("a", array)]).round_trips
    return round_trip, backend


def values(count=1000):
    return np.random.default_rng(count).standard_normal(count).astype(np.float32)


def test_loss_is_what_the_values_show():
    array = values()
    array[[3, 4, 999]] = np.nan, -np.inf, np.inf
    array[64] = 2.0**20
    round_trip, _ = swapped(array)
    model = golden.codec("quantize", bound=BOUND)
    returned = model.decompress(model.compress(array), array.nbytes).view("<f4")
    finite = np.isfinite(array)
    errors = np.abs(returned[finite].astype(float) - array[finite])
    # Lines 0, 2 and the last one, which has 8 values.
    assert round_trip.loss == Loss(
        bound=BOUND, largest_error=errors.max(), exact_values=72, not_finite_values=3
    )
    assert 0.9 * BOUND < round_trip.loss.largest_error <= BOUND
    assert (round_trip.bit_exact, round_trip.parameters) == (True, {"k": K})
    assert round_trip.crc32 == golden.crc32(returned)
    assert round_trip.verdict == f"within {BOUND:g}"


def test_zeros_of_both_signs_lose_nothing():
    round_trip, _ = swapped(np.array([0.0, -0.0, BOUND / 2, 0], np.float32))
    assert round_trip.loss == Loss(
        bound=BOUND, largest_error=BOUND / 2, exact_values=0, not_finite_values=0
    )


@pytest.mark.parametrize(
    ("place", "value", "error"), [(7, 99.0, "beyond"), (3, 1.0, "inf off"), (7, np.nan, "inf off")]
)
def test_values_beyond_the_bound_are_faults(place, value, error):
    def damage(restored):
        restored[place] = value

    array = values()
    array[3] = np.nan
    round_trip, _ = swapped(array, damage)
    told = " ".join(round_trip.faults)
    assert "the array did not come back as the golden model restores it" in told
    assert "a value came back" in told
    assert error in told
    assert not round_trip.loss.within_bound
    assert round_trip.verdict == "WRONG"


def test_values_of_the_other_byte_order_are_taken_as_the_numbers_that_they_are():
    array = values()
    round_trip, backend = swapped(array.astype(">f4"))
    assert round_trip.loss == swapped(array)[0].loss
    np.testing.assert_array_equal(np.concatenate(backend.taken), as_bytes(array))


def test_nothing_loses_nothing():
    round_trip, _ = swapped(np.empty((0, 3), np.float32))
    assert round_trip.loss == Loss(
        bound=BOUND, largest_error=0.0, exact_values=0, not_finite_values=0
    )
    assert Loss.joined([]) is None


@pytest.mark.parametrize("dtype", ["<f8", "<i4", "<u4"])
def test_other_numbers_are_refused(dtype):
    with pytest.raises(golden.CodecError, match=r"quantize is for float32, not \w+; convert the"):
        swapped(np.ones(4, dtype))


def test_a_lossless_codec_has_no_loss():
    with Swapper(GoldenBackend("zvc")) as swapper:
        (round_trip,) = swapper.swap([("a", values())]).round_trips
    assert (round_trip.loss, round_trip.parameters, round_trip.verdict) == (None, {}, "exact")


def test_without_a_bound_nothing_goes_out():
    backend = GoldenBackend()
    with (
        Swapper(backend) as swapper,
        pytest.raises(golden.CodecError, match="'k' of the codec 'quantize' must be 1 to 254"),
    ):
        swapper.swap([("a", values())])
    assert backend.taken == []
