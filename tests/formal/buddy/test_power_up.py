"""Buddy's parts after any power-up: what they ask of buses and say does not depend on it."""

import pytest

from cdma.hw.buddy.address.mapper import SectorMapper
from cdma.hw.buddy.address.sector_runs import RunSplitter
from cdma.hw.buddy.controller import BuddyController
from cdma.hw.buddy.frontend.admission import Admission
from cdma.hw.buddy.frontend.dispatcher import AccessDispatcher
from cdma.hw.buddy.frontend.frontend import BuddyFrontend
from cdma.hw.buddy.frontend.scoreboard import Scoreboard
from cdma.hw.buddy.frontend.subordinate_port import SubordinatePort
from cdma.hw.buddy.frontend.write_collector import WriteCollector
from cdma.hw.buddy.metadata.lookups import LookupArbiter
from cdma.hw.buddy.payloads import DEVICE_ADDRESS_BITS
from cdma.hw.buddy.read.response import ReadResponse
from cdma.hw.buddy.read.spill_queues import PLACES, read_queues
from cdma.hw.buddy.read.waiting_order import WaitingOrder
from cdma.hw.config import BUDDY_PRESETS
from tests.formal.broken import break_elaborate
from tests.formal.power_up import prove_power_up
from tests.formal.power_up_search import search_power_up
from tests.formal.smtbmc import RefutedError
from tests.lib.shares import configs

TINY = BUDDY_PRESETS["tiny"]

COMPONENTS = {
    "subordinate port": lambda: SubordinatePort(TINY),
    "admission": lambda: Admission(TINY),
    "write collector": lambda: WriteCollector(TINY),
    "front end": lambda: BuddyFrontend(TINY),
    "mapper": lambda: SectorMapper(TINY),
    "scoreboard": lambda: Scoreboard(TINY.reads, TINY.writes),
    "dispatcher": lambda: AccessDispatcher(TINY),
    "lookup arbiter": lambda: LookupArbiter(3, 8),
    "order of what waits": lambda: WaitingOrder(read_queues(TINY) + 1, PLACES),
    "responses of reads": lambda: ReadResponse(TINY),
    "splitter of runs": lambda: RunSplitter(DEVICE_ADDRESS_BITS),
}
# Whether it takes what is there, which is all that its source may look at.
CARES = {RunSplitter: {"i.ready": lambda splitter: splitter.i.valid}}


@pytest.mark.verify
@pytest.mark.parametrize("make", configs(COMPONENTS, quick=()))
def test_nothing_depends_on_what_was_held(make, tmp_path):
    component = make()
    prove_power_up(component, tmp_path, cares=CARES.get(type(component)))


@pytest.mark.verify
def test_no_pin_of_a_controller_depends_on_what_was_held_at_first(tmp_path):
    search_power_up(BuddyController(TINY), tmp_path, cycles=4)


@pytest.mark.verify
def test_credits_without_a_reset_are_found(tmp_path, monkeypatch):
    reads = "reads = Signal(range(self.config.reads + 1)"
    break_elaborate(monkeypatch, Admission, f"{reads})", f"{reads}, reset_less=True)")
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        prove_power_up(Admission(TINY), tmp_path)
