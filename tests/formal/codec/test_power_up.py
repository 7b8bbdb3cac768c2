"""Parts of the stream blocks after any power-up: what they say does not depend on it."""

from collections.abc import Callable
from typing import Any

import pytest

from cdma.hw.codec.stream.checker import StreamChecker
from cdma.hw.codec.stream.frame import LinePadder, PacketTrimmer
from cdma.hw.codec.stream.pack import ElementPacker, Packer
from cdma.hw.codec.stream.packet import PacketStates
from cdma.hw.codec.stream.status import ByteMeter
from tests.formal.broken import break_elaborate
from tests.formal.lines import TINY
from tests.formal.power_up import prove_power_up
from tests.formal.smtbmc import RefutedError
from tests.lib.shares import configs

COMPONENTS: dict[str, Callable[[], Any]] = {
    "trimmer": lambda: PacketTrimmer(TINY.sector_bytes),
    "padder": lambda: LinePadder(TINY),
    "meter": lambda: ByteMeter(TINY.sector_bytes),
    "packer": lambda: Packer(TINY),
    "checker": lambda: StreamChecker(TINY),
    "states of a packet": PacketStates,
}
# Whether it takes what is there, which is all that its source may look at.
TAKES = {"i.ready": lambda part: part.i.valid}
CARES = dict.fromkeys((PacketTrimmer, ByteMeter, Packer), TAKES)


@pytest.mark.verify
@pytest.mark.parametrize("make", configs(COMPONENTS, quick=()))
def test_nothing_depends_on_what_was_held(make, tmp_path):
    component = make()
    prove_power_up(component, tmp_path, cares=CARES.get(type(component)))


@pytest.mark.verify
def test_count_without_a_reset_is_found(tmp_path, monkeypatch):
    fill = "fill = Signal(range(capacity + 1)"
    break_elaborate(monkeypatch, ElementPacker, f"{fill})", f"{fill}, reset_less=True)")
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        prove_power_up(Packer(TINY), tmp_path, cares=TAKES)
