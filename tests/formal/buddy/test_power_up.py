"""Buddy's parts after any power-up: what they ask of buses and say does not depend on it."""

import pytest

from cdma.hw.buddy.address.mapper import SectorMapper
from cdma.hw.buddy.frontend.admission import Admission
from cdma.hw.buddy.frontend.frontend import BuddyFrontend
from cdma.hw.buddy.frontend.subordinate_port import SubordinatePort
from cdma.hw.buddy.frontend.write_collector import WriteCollector
from cdma.hw.config import BUDDY_PRESETS
from tests.formal.broken import break_elaborate
from tests.formal.power_up import prove_power_up
from tests.formal.smtbmc import RefutedError
from tests.lib.shares import configs

TINY = BUDDY_PRESETS["tiny"]

COMPONENTS = {
    "subordinate port": lambda: SubordinatePort(TINY),
    "admission": lambda: Admission(TINY),
    "write collector": lambda: WriteCollector(TINY),
    "front end": lambda: BuddyFrontend(TINY),
    "mapper": lambda: SectorMapper(TINY),
}


@pytest.mark.verify
@pytest.mark.parametrize("make", configs(COMPONENTS, quick=()))
def test_nothing_depends_on_what_was_held(make, tmp_path):
    prove_power_up(make(), tmp_path)


@pytest.mark.verify
def test_credits_without_a_reset_are_found(tmp_path, monkeypatch):
    reads = "reads = Signal(range(self.config.reads + 1)"
    break_elaborate(monkeypatch, Admission, f"{reads})", f"{reads}, reset_less=True)")
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        prove_power_up(Admission(TINY), tmp_path)
