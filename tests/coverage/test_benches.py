"""The benches of codec blocks and engine, and whether what they do not cover is known."""

import pytest

from tests.coverage.__main__ import merged, run_benches
from tests.coverage.benches import VERIFIED
from tests.coverage.report import Report, read_open, read_waivers


@pytest.mark.verify
def test_benches_cover_all_but_what_is_known_to_be_open(tmp_path):
    assert run_benches(tmp_path, VERIFIED)
    report = Report.of(merged(tmp_path, VERIFIED), read_waivers(), read_open("verify"))
    assert not report.new, "\n".join(report.failures)
