"""The coverage of benches, as `make coverage` counts it: no more is open than is listed."""

import pytest

from tests.coverage.benches import BENCHES
from tests.coverage.counts import is_known, kept_counts, merged
from tests.coverage.report import Report, read_open, read_waivers
from tests.lib.closure import Checkout
from tests.lib.paths import ROOT

# Benches are named by their files, and run by another process; counts have a cache of their own.
pytestmark = [pytest.mark.verify, pytest.mark.always]


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_covers_what_is_not_listed_as_open(name):
    checkout = Checkout(ROOT)
    totals = merged([kept_counts(name, checkout)])
    assert any(totals.points.values())
    # What one does not reach, another may: whichever of them comes last compares.
    if all(is_known(each, checkout) for each in BENCHES):
        totals = merged([kept_counts(each, checkout) for each in BENCHES])
        assert not Report.of(totals, read_waivers(), read_open()).failures
