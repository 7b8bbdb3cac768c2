"""The engine's parts after any power-up: what they ask of buses and say does not depend on it."""

from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Value

from cdma.hw.bus.burst import BusError
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.config import PRESETS
from cdma.hw.dma.control.checker import DescriptorChecker
from cdma.hw.dma.control.completion import RetireUnit
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.control.dispatch import Dispatcher
from cdma.hw.dma.control.fetch_arbiter import FetchArbiter
from cdma.hw.dma.control.record import InterruptCoalescer
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.ring import DescriptorFetcher
from cdma.hw.dma.control.ring_arbiter import RingArbiter
from cdma.hw.dma.control.windows import RingWindowChecker
from cdma.hw.dma.engine import host_port, memory_port
from cdma.hw.dma.inbound.path import InJobSplitter
from cdma.hw.dma.job_faults import JobFaultFilter
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.burst_sender import BurstSender
from cdma.hw.dma.outbound.path import OutJobSplitter
from cdma.hw.dma.outbound.reader import LineReader
from cdma.hw.dma.outbound.throttle import TokenBucket
from cdma.hw.dma.outbound.write_responses import WriteResponseCollector
from cdma.hw.dma.path_activity import PathActivity
from tests.formal.broken import break_elaborate
from tests.formal.power_up import prove_power_up
from tests.formal.sby import RefutedError
from tests.lib.shares import configs

TINY = PRESETS["tiny"]
TITANX = PRESETS["titanx_gen3"]
TWO_RINGS = replace(TINY, rings=2)

COMPONENTS = {
    "registers": lambda: Registers(TINY),
    "registers of two rings": lambda: Registers(TWO_RINGS),
    "fetcher": lambda: DescriptorFetcher(TINY),
    "checker": lambda: DescriptorChecker(TINY),
    "ring arbiter": lambda: RingArbiter(2),
    "fetch arbiter": lambda: FetchArbiter(TWO_RINGS),
    "dispatcher": lambda: Dispatcher(TINY),
    "retire unit": lambda: RetireUnit(TINY),
    "interrupt coalescer": InterruptCoalescer,
    "path activity": lambda: PathActivity(TINY),
    "faults of jobs": lambda: JobFaultFilter(4),
    "splitter of jobs out": lambda: OutJobSplitter(TINY),
    "splitter of jobs in": lambda: InJobSplitter(TINY),
    "throttle": lambda: TokenBucket(TINY),
    "unit buffer": lambda: UnitBuffer(TINY),
    "line reader": lambda: LineReader(TINY.codec, TINY.unit_lines),
    "write responses": lambda: WriteResponseCollector(DEVICE_ADDRESS_BITS, 32, 4),
    "host port of tiny": lambda: host_port(TINY),
    "memory port of tiny": lambda: memory_port(TINY),
    "host port of titanx_gen3": lambda: host_port(TITANX),
    "memory port of titanx_gen3": lambda: memory_port(TITANX),
    "host port of two rings": lambda: host_port(TWO_RINGS),
}


def _of_an_error(collector: WriteResponseCollector) -> Value:
    """The bits of an outcome that count: the address only if there was an error."""
    outcome = collector.outcome.payload
    failed = outcome.error != BusError.NONE
    size = len(Value.cast(outcome)) - DEVICE_ADDRESS_BITS
    return Cat((1 for _bit in range(size)), failed.replicate(DEVICE_ADDRESS_BITS))


CARES = {
    # Whether it takes the line that is there, which is all that its source may look at.
    LineReader: {"i.ready": lambda reader: reader.i.valid},
    WriteResponseCollector: {"outcome.payload": _of_an_error},
}


@pytest.mark.verify
@pytest.mark.parametrize("make", configs(COMPONENTS, quick=()))
def test_nothing_depends_on_what_was_held(make, tmp_path):
    component = make()
    prove_power_up(component, tmp_path, cares=CARES.get(type(component)))


@pytest.mark.verify
def test_bursts_do_not_depend_on_what_was_held(tmp_path):
    prove_power_up(
        BurstSender(4, HOST_ADDRESS_BITS, 2, HOST_BURST_BEATS),
        tmp_path,
        assumes=lambda sender: [~sender.burst.valid | sender.burst.ready],
    )


def test_a_ring_is_judged_by_registers_that_were_reset(tmp_path):
    # In the first cycle of a reset it adds to what the registers have held.
    prove_power_up(RingWindowChecker(), tmp_path, reset_cycles=2)


def test_a_ring_is_judged_by_what_was_held_after_a_reset_of_one_cycle(tmp_path):
    with pytest.raises(RefutedError, match="depends on what registers held: outside"):
        prove_power_up(RingWindowChecker(), tmp_path)


FAULTS = {
    "fetcher's room": (
        DescriptorFetcher,
        lambda: DescriptorFetcher(TINY),
        "reserved = Signal(range(self.config.transfers + 1))",
        "reserved = Signal(range(self.config.transfers + 1), reset_less=True)",
    ),
    "checker's valid": (
        DescriptorChecker,
        lambda: DescriptorChecker(TINY),
        "checked = Signal()",
        "checked = Signal(reset_less=True)",
    ),
    "dispatcher's count": (
        Dispatcher,
        lambda: Dispatcher(TINY),
        "verifying = Signal(range(16))",
        "verifying = Signal(range(16), reset_less=True)",
    ),
    "port's count": (
        ReadHalf,
        lambda: host_port(TINY),
        'outstanding = Signal(range(bursts + 1), name=f"outstanding_{k}")',
        'outstanding = Signal(range(bursts + 1), name=f"outstanding_{k}", reset_less=True)',
    ),
    "reader's place in a line": (
        LineReader,
        lambda: LineReader(TINY.codec, TINY.unit_lines),
        "primed = Signal()",
        "primed = Signal(reset_less=True)",
    ),
    "first error": (
        WriteResponseCollector,
        lambda: WriteResponseCollector(DEVICE_ADDRESS_BITS, 32, 4),
        "error = Signal(BusError)",
        "error = Signal(BusError, reset_less=True)",
    ),
    "sender's count": (
        BurstSender,
        lambda: BurstSender(4, HOST_ADDRESS_BITS, 2, HOST_BURST_BEATS),
        "announced = Signal(range(self.bursts + 2))",
        "announced = Signal(range(self.bursts + 2), reset_less=True)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_control_without_a_reset_is_found(fault, tmp_path, monkeypatch):
    broken, make, right, wrong = fault
    break_elaborate(monkeypatch, broken, right, wrong)
    component = make()
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        prove_power_up(component, tmp_path, cares=CARES.get(broken))
