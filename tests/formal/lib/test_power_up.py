"""Queues and registers after any power-up: what they show is what came in, and nothing else."""

import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import AxiStreamReceiver, AxiStreamSender
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.codes.crc import Crc32
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import (
    HalfRateRegister,
    LateValidRegister,
    PingPongBuffer,
    PipelineControl,
    PipelineRegister,
    ReverseRegister,
    SkidBuffer,
)
from cdma.hw.lib.protected_fifo import ProtectedFifo
from cdma.hw.lib.round_robin import RoundRobinArbiter
from cdma.hw.lib.width_converter import PacketNarrower, PacketWidener
from tests.formal.broken import break_elaborate
from tests.formal.power_up import prove_power_up
from tests.formal.smtbmc import RefutedError, UndecidedError
from tests.lib.shares import configs

COMPONENTS = {
    "skid buffer": lambda: SkidBuffer(8),
    "ping-pong buffer": lambda: PingPongBuffer(8),
    "half-rate register": lambda: HalfRateRegister(8),
    "pipeline control": PipelineControl,
    "pipeline register": lambda: PipelineRegister(8),
    "wide pipeline register": lambda: PipelineRegister(280),
    "reverse register": lambda: ReverseRegister(8),
    **{f"fifo of {depth}": lambda depth=depth: Fifo(8, depth) for depth in (1, 2, 3, 4, 5, 16, 64)},
    "protected fifo": lambda: ProtectedFifo(Beat(4), 4),
    "fork": lambda: Fork(8, 3),
    "round-robin arbiter": lambda: RoundRobinArbiter(4),
    "1 to 4 bytes": lambda: PacketWidener(1, 4),
    "4 to 32 bytes": lambda: PacketWidener(4, 32),
    "4 to 1 bytes": lambda: PacketNarrower(4, 1),
    "32 to 4 bytes": lambda: PacketNarrower(32, 4),
    "CRC": lambda: Crc32(4),
    **{f"sender of {width}": lambda width=width: AxiStreamSender(width) for width in (4, 32, 128)},
    **{
        f"receiver of {width}": lambda width=width: AxiStreamReceiver(width)
        for width in (4, 32, 128)
    },
}

CARES = {
    # Whether it takes the beat that is there, which is all that its source may look at.
    PacketWidener: {"i.ready": lambda widener: widener.i.valid}
}

QUICK = ["skid buffer", "pipeline register", "reverse register", "fifo of 1", "fifo of 5", "fork"]


@pytest.mark.parametrize("make", configs(COMPONENTS, quick=QUICK))
def test_nothing_depends_on_what_was_held(make, tmp_path):
    component = make()
    prove_power_up(component, tmp_path, cares=CARES.get(type(component)))


def test_a_late_valid_register_shows_no_more_than_came(tmp_path):
    prove_power_up(
        LateValidRegister(8),
        tmp_path,
        assumes=lambda register: [register.i_maybe | ~register.i.valid],
    )


FAULTS = {
    "valid without a reset": (
        SkidBuffer(8),
        "front_valid = Signal()",
        "front_valid = Signal(reset_less=True)",
    ),
    "payload decides": (
        ReverseRegister(8),
        "self.i.valid | spare_valid",
        "self.i.valid | spare[0]",
    ),
    "payload is not loaded": (
        HalfRateRegister(8),
        "[held_valid.eq(1), held.eq(self.i.payload)]",
        "[held_valid.eq(1), held[1:].eq(self.i.payload[1:])]",
    ),
    "count without a reset": (
        Fifo(8, 4),
        "stored = Signal(range(self.depth + 1))",
        "stored = Signal(range(self.depth + 1), reset_less=True)",
    ),
    "reads what was not written": (Fifo(8, 4), "(stored != 0) & (", "("),
    "place without a reset": (
        Fifo(8, 4),
        "write_address = Signal(range(self.depth))",
        "write_address = Signal(range(self.depth), reset_less=True)",
    ),
    "flag of a packet without a reset": (
        PacketWidener(1, 4),
        "begins = Signal(init=1)",
        "begins = Signal(init=1, reset_less=True)",
    ),
}
SLOW_FAULTS = {"flag of a packet without a reset"}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=FAULTS.keys() - SLOW_FAULTS))
def test_what_is_held_and_shown_is_found(fault, tmp_path, monkeypatch):
    component, right, wrong = fault
    break_elaborate(monkeypatch, type(component), right, wrong)
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        prove_power_up(component, tmp_path, cares=CARES.get(type(component)))


class Late(wiring.Component):
    """Shows a bit of what it held before the reset, long after that."""

    def __init__(self) -> None:
        super().__init__({"go": In(1), "late": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        held = Signal(reset_less=True)
        waited = Signal(4)
        with m.If(self.go):
            m.d.sync += waited.eq(Mux(waited == 15, 15, waited + 1))
        m.d.sync += held.eq(~held)
        m.d.comb += self.late.eq((waited == 15) & held)
        return m


def test_what_is_shown_late_is_not_proven(tmp_path):
    with pytest.raises(UndecidedError, match="may depend on what registers held: late"):
        prove_power_up(Late(), tmp_path)
