"""The engine's parts after any power-up: what they ask of buses and say does not depend on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.config import PRESETS, EngineConfig
from cdma.hw.dma.control.checker import DescriptorChecker
from cdma.hw.dma.control.completion import RetireUnit
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.control.dispatch import Dispatcher
from cdma.hw.dma.control.each_ring import each_ring, of_ring
from cdma.hw.dma.control.fetch_arbiter import FetchArbiter
from cdma.hw.dma.control.record import InterruptCoalescer, RecordWriter
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.ring import DescriptorFetcher
from cdma.hw.dma.control.ring_arbiter import RingArbiter
from cdma.hw.dma.control.supervisor import Supervisor
from cdma.hw.dma.control.windows import RingWindowChecker
from cdma.hw.dma.engine import DmaEngine, host_port, memory_port
from cdma.hw.dma.inbound.line_reports import LineReportCollector
from cdma.hw.dma.inbound.path import InJobSplitter
from cdma.hw.dma.job_faults import JobFaultFilter
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.burst_sender import BurstSender
from cdma.hw.dma.outbound.drain import LineDrain
from cdma.hw.dma.outbound.issue import LineIssuer
from cdma.hw.dma.outbound.path import THROTTLE_CLASSES, OutJobSplitter
from cdma.hw.dma.outbound.reader import LineReader
from cdma.hw.dma.outbound.throttle import TokenBucket
from cdma.hw.dma.outbound.write_responses import WriteResponseCollector
from cdma.hw.dma.outbound.writer import DEVICE_BURST_BEATS, StreamWriter
from cdma.hw.dma.path_activity import PathActivity
from tests.formal.broken import break_elaborate
from tests.formal.power_up import prove_power_up
from tests.formal.power_up_search import search_power_up
from tests.formal.smtbmc import RefutedError
from tests.lib.shares import configs

TINY = PRESETS["tiny"]
TITANX = PRESETS["titanx_gen3"]
TWO_RINGS = replace(TINY, rings=2)


class IssuerOfClasses(wiring.Component):
    """An issuer with what its path picks by class and ring, which count only during a job.

    Members
    -------
    permits, passed
        Of the throttle of each class.
    aborts
        Of each ring.
    """

    PICKED = ("permits", "throttle_class", "ring", "issued", "abort")

    def __init__(self, config: EngineConfig) -> None:
        self._issuer = LineIssuer(config)
        members = self._issuer.signature.members
        super().__init__(
            {
                **{name: members[name] for name in members if name not in self.PICKED},
                "permits": In(2).array(THROTTLE_CLASSES),
                "passed": Out(2).array(THROTTLE_CLASSES),
                "aborts": In(each_ring(1, config.rings)),
            }
        )
        for name in members:
            if name not in self.PICKED:
                setattr(self, name, getattr(self._issuer, name))

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.issuer = issuer = self._issuer
        m.d.comb += [
            issuer.permits.eq(Array(self.permits)[issuer.throttle_class]),
            issuer.abort.eq(of_ring(self.aborts, issuer.ring)),
        ]
        for k in range(THROTTLE_CLASSES):
            mine = issuer.throttle_class == k
            m.d.comb += self.passed[k].eq(Mux(mine, issuer.issued, 0))
        return m


HOST = {"stops_at_error": True}
DEVICE = {
    "burst_beats": DEVICE_BURST_BEATS,
    "address_bits": DEVICE_ADDRESS_BITS,
    "size_bits": TINY.codec.line_bytes.bit_length(),
}
"""Parameters of the writers of both memories."""

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
    "reports of lines": lambda: LineReportCollector(TINY),
    "throttle": lambda: TokenBucket(TINY),
    "line issuer": lambda: IssuerOfClasses(TINY),
    "line issuer of two rings": lambda: IssuerOfClasses(TWO_RINGS),
    "unit buffer": lambda: UnitBuffer(TINY),
    "record writer": lambda: RecordWriter(TINY),
    "record writer of two rings": lambda: RecordWriter(TWO_RINGS),
    "line reader": lambda: LineReader(TINY.codec, TINY.unit_lines),
    "writer of streams": lambda: StreamWriter(TINY.host_bytes, TINY.write_bursts, **HOST),
    "writer of titanx_gen3": lambda: StreamWriter(TITANX.host_bytes, 4, **HOST),
    "writer of lines": lambda: StreamWriter(4, 4, **DEVICE),
    "write responses": lambda: WriteResponseCollector(DEVICE_ADDRESS_BITS, 32, 4),
    "host port of tiny": lambda: host_port(TINY),
    "memory port of tiny": lambda: memory_port(TINY),
    "host port of titanx_gen3": lambda: host_port(TITANX),
    "memory port of titanx_gen3": lambda: memory_port(TITANX),
    "host port of two rings": lambda: host_port(TWO_RINGS),
}


def _of_an_error(writer: StreamWriter | WriteResponseCollector) -> Value:
    """The bits of an outcome that count: the address only if there was an error."""
    outcome = writer.outcome.payload
    failed = outcome.error != BusError.NONE
    size = len(Value.cast(outcome)) - writer.address_bits
    return Cat((1 for _bit in range(size)), failed.replicate(writer.address_bits))


def _while(flag: Value, payload: Any) -> Value:
    return flag.replicate(len(Value.cast(payload)))


CARES = {
    # Whether it takes the line that is there, which is all that its source may look at.
    LineReader: {"i.ready": lambda reader: reader.i.valid},
    WriteResponseCollector: {"outcome.payload": _of_an_error},
    StreamWriter: {"outcome.payload": _of_an_error},
    RecordWriter: {"record_info": lambda writer: _while(writer.record_done, writer.record_info)},
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


class SupervisorOfRecords(wiring.Component):
    """A supervisor, and what has become of the records that its ring's errors are of.

    Attributes
    ----------
    told, kept : Signal
        In the cycle before, a record was answered; there was an error, and no clear.
    """

    def __init__(self) -> None:
        self.told = Signal()
        self.kept = Signal()
        self.failed = Signal()
        self._supervisor = Supervisor()
        super().__init__(self._supervisor.signature)
        for name in self.signature.members:
            setattr(self, name, getattr(self._supervisor, name))

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.supervisor = self._supervisor
        m.d.comb += self.failed.eq(self.record_error != BusError.NONE)
        m.d.sync += [self.told.eq(self.record_done), self.kept.eq(self.failed & ~self.clear)]
        return m


@pytest.mark.verify
def test_a_supervisor_does_not_depend_on_what_was_held(tmp_path):
    prove_power_up(
        SupervisorOfRecords(),
        tmp_path,
        cares={
            "record_info": lambda part: _while(part.record_done, part.record_info),
            "error": lambda part: _while(part.error_valid, part.error),
        },
        # As `test_record_places.py` proves of the record writer.
        assumes=lambda part: [~part.failed | part.told | part.kept],
    )


class DrainOfPatience(wiring.Component):
    """A drain at streams that keep their rules.

    Attributes
    ----------
    kept : list of tuples
        Of each stream that decides: it was not taken in the cycle before, what it offered, and the
        stream.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._drain = drain = LineDrain(config)
        super().__init__(drain.signature)
        for name in self.signature.members:
            setattr(self, name, getattr(drain, name))
        self.kept = [
            (Signal(), Signal(len(Value.cast(one.payload)), reset_less=True), one)
            for one in (drain.ends, *drain.lines, *drain.reports)
        ]

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.drain = self._drain
        for waits, offered, one in self.kept:
            m.d.sync += [waits.eq(one.valid & ~one.ready), offered.eq(one.payload)]
        return m

    def rules(self) -> list[Value]:
        """Streams offer again what was not taken."""
        return [
            ~waits | (one.valid & (Value.cast(one.payload) == offered))
            for waits, offered, one in self.kept
        ]


def _of_drained(drain: DrainOfPatience) -> Value:
    """The bits of an outcome that count: of a beat only if there was an error.

    The CRC, a number that decides nothing, is left out: those of the units are taken without a look
    at their valid bits.
    """
    outcome = drain.outcome.payload
    failed = outcome.error != BusError.NONE
    return Cat(
        _while(failed, outcome[name])
        if name == "faulty_beat"
        else _while(C(name != "crc32"), outcome[name])
        for name, _ in outcome.shape()
    )


def _of_chunk(drain: DrainOfPatience) -> Value:
    """The bits of a chunk that count: its elements up to their count."""
    chunk = drain.o.payload
    elements = [chunk.elements[place] for place in range(len(chunk.elements))]
    counted = Cat(_while(place < chunk.count, one) for place, one in enumerate(elements))
    return Cat(counted, _while(C(1), chunk.count), C(1))


def _search_drain(folder: Path) -> None:
    search_power_up(
        DrainOfPatience(TINY),
        folder,
        cycles=8,
        cares={"o.payload": _of_chunk, "outcome.payload": _of_drained},
        assumes=DrainOfPatience.rules,
    )


@pytest.mark.verify
def test_a_drain_does_not_depend_on_what_was_held_at_first(tmp_path):
    _search_drain(tmp_path)


@pytest.mark.verify
def test_a_drains_end_without_a_reset_is_found(tmp_path, monkeypatch):
    valid = "outcome_valid = Signal("
    break_elaborate(monkeypatch, LineDrain, f"{valid})", f"{valid}reset_less=True)")
    with pytest.raises(RefutedError, match="depends on what registers held: "):
        _search_drain(tmp_path)


@pytest.mark.verify
def test_no_pin_of_an_engine_depends_on_what_was_held_at_first(tmp_path):
    search_power_up(DmaEngine(TINY), tmp_path, cycles=8)


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
    "issuer's job": (
        LineIssuer,
        lambda: IssuerOfClasses(TINY),
        "active = Signal()",
        "active = Signal(reset_less=True)",
    ),
    "beats of a burst": (
        StreamWriter,
        lambda: StreamWriter(4, 2, **DEVICE),
        "count = Signal(range(self.burst_beats))",
        "count = Signal(range(self.burst_beats), reset_less=True)",
    ),
    "record under way": (
        RecordWriter,
        lambda: RecordWriter(TINY),
        "sending = Signal()",
        "sending = Signal(reset_less=True)",
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
