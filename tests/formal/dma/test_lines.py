"""Lines of a transfer: each lies in the job's bytes, one behind the other, whole but the last."""

from dataclasses import replace
from typing import Any

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring

from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS
from cdma.hw.dma.inbound.splitter import LineSplitter
from cdma.hw.dma.outbound.issue import LineIssuer
from tests.formal.bench import Bench, Condition, Port, anything
from tests.formal.broken import break_contract, break_elaborate, find_fault
from tests.formal.countdown import late_countdown
from tests.formal.dma.any_faults import AnyFaults
from tests.formal.dma.contracts import (
    UnnamedMemory,
    line_command,
    line_request,
    read_job,
    split_job,
)
from tests.formal.engines import codec_of, engine_of
from tests.formal.queues import FollowedFifo
from tests.formal.rules import ALWAYS
from tests.formal.smtbmc import prove
from tests.lib.shares import configs


def engine(width: int, units: int, **fields: Any) -> EngineConfig:
    """Engine with room for a few lines of each unit, so that it comes to an end early."""
    room = 2 * units * codec_of(width).line_bytes
    return engine_of(width, units=units, buffer_bytes=room, **fields)


ENGINES = {
    "tiny": engine(4, 2, read_buffer_bytes=128),
    "one": engine(32, 1),
    "three": engine(32, 3),
    "titanx": engine(32, 6),
    "wide": engine(64, 4),
    "line-per-beat": engine(128, 2),
}


def replace_parts(monkeypatch) -> None:
    """Leave the contents of queues, and faults, to the solver."""
    monkeypatch.setattr("cdma.hw.dma.outbound.issue.Fifo", FollowedFifo)
    for stage in ("outbound.issue", "inbound.splitter"):
        monkeypatch.setattr(f"cdma.hw.dma.{stage}.JobFaultFilter", AnyFaults)


@pytest.fixture(autouse=True)
def _parts_are_replaced(monkeypatch):
    replace_parts(monkeypatch)


def length_rules(_bench: Bench, port: Port) -> list[Condition]:
    """Jobs have at least a byte."""
    return [(ALWAYS, port.payload.length != 0)]


def issuer_proof(config: EngineConfig, *, chained: bool = False) -> Bench:
    """Any jobs, units that take lines when they like, room that is freed, and any throttle.

    Chained, jobs keep their contract, and so do lines.
    """
    bench = Bench(relies=chained)
    m = bench.m
    issuer = LineIssuer(config)
    inside = bench.add(issuer)
    line_bytes, units = config.codec.line_bytes, config.units
    line_bits = (line_bytes - 1).bit_length()
    behind = inside.component("behind")
    device_read, contract = None, None
    if chained:
        width = config.codec.sector_bytes
        device_read = UnnamedMemory(bench, "read", DEVICE_ADDRESS_BITS, width, config.rings)
        contract = read_job(config, device_read)
    job = bench.drive(issuer.i, contract or length_rules)
    for wire in (issuer.permits, issuer.abort, issuer.stop, issuer.ends.ready):
        m.d.comb += wire.eq(AnySeq(len(wire)))
    bench.assume(issuer.permits != 3, ~job.valid | (job.payload.first_unit < units))
    slots = [inside.component(f"slot_{k}").i for k in range(units)]
    free = []
    for k, output in enumerate(issuer.o):
        credit = inside[f"credit_{k}"]
        m.d.comb += [
            output.ready.eq(AnySeq(1)),
            issuer.freed[k].eq(AnySeq(len(issuer.freed[k]))),
        ]
        # What is freed was reserved before.
        bench.assume(issuer.freed[k] + credit <= config.unit_beats)
        bench.require(credit <= config.unit_beats)
        free.append(slots[k].ready & (credit >= config.codec.sectors))
    inside.component("job_ends").require(bench, inside, "job_ends.")
    ends = inside.component("job_ends").i

    # The job's bytes that are issued, and the unit of its next line.
    own = Signal(job.payload.shape(), name="own")
    sent, lines = Signal(LENGTH_BITS), Signal(LENGTH_BITS)
    left, size, next_size = Signal(LENGTH_BITS), Signal(LENGTH_BITS), Signal(LENGTH_BITS)
    unit = Signal(range(units))
    active, first, second = inside["active"], inside["first"], inside["second"]
    issued = first + second
    m.d.comb += [
        left.eq(own.length - sent),
        size.eq(Mux(left > line_bytes, line_bytes, left)),
        next_size.eq(Mux(left - size > line_bytes, line_bytes, left - size)),
    ]
    with m.If(first):
        m.d.sync += [
            sent.eq(sent + size + Mux(second, next_size, 0)),
            lines.eq(lines + issued),
            unit.eq((unit + issued) % units),
        ]
    with m.If(job.moves):
        m.d.sync += [
            own.eq(job.payload),
            sent.eq(0),
            lines.eq(0),
            unit.eq(job.payload.first_unit),
        ]
    bench.require(unit < units)
    bench.implies(
        active,
        sent < own.length,
        sent == lines * line_bytes,
        behind.count == (left - 1) >> line_bits,
        behind.is_zero == (left <= line_bytes),
        behind.is_one == ((left > line_bytes) & (left <= 2 * line_bytes)),
        ~behind.is_over,
        inside["last_size"] == ((own.length - 1) % line_bytes) + 1,
        inside["address"] == (own.src + sent)[:DEVICE_ADDRESS_BITS],
        inside["unit"] == unit,
        inside["codec"] == own.codec,
        inside["parameters"] == own.parameters,
        inside["lines"] == lines[: len(inside["lines"])],
        inside["begun"] == Mux(lines < units, lines, units),
    )

    # From the cycle behind a fault of the job on, none is issued until the next one begins.
    stopped = Signal(name="has_failed")
    own_faults = Cat(inside.component(f"faults_{k}").own for k in range(units))
    m.d.sync += stopped.eq(~job.ready & (stopped | issuer.stop | own_faults.any()))
    bench.require(inside["stopped"] == stopped)
    halts = issuer.abort | stopped
    bench.implies(halts, ~first, ~second)

    # Lines are of the job's bytes that come next, and go to the units in turn.
    bench.implies(first, active)
    bench.implies(second, first, left > line_bytes)
    for k, slot in enumerate(slots):
        takes_first, takes_second, offset = (
            Signal(name=f"takes_first_{k}"),
            Signal(name=f"takes_second_{k}"),
            Signal(DEVICE_ADDRESS_BITS, name=f"offset_{k}"),
        )
        line = slot.payload
        m.d.comb += [
            takes_first.eq(first & (unit == k)),
            takes_second.eq(second & ((unit + 1) % units == k)),
            offset.eq(line.address - own.src),
        ]
        bench.require(slot.valid == (takes_first | takes_second))
        bench.implies(slot.valid, free[k])
        bench.implies(takes_first, offset == sent, line.size == size)
        bench.implies(takes_second, offset == sent + line_bytes, line.size == next_size)
        bench.implies(
            slot.valid,
            line.size != 0,
            line.size <= line_bytes,
            offset + line.size <= own.length,
            line.codec == own.codec,
            line.parameters == own.parameters,
        )
        # The first and the last line that each unit has of the job are known as such.
        for takes, index, behind in (
            (takes_first, lines, left - size),
            (takes_second, lines + 1, left - size - next_size),
        ):
            bench.implies(
                takes,
                line.place.begins == (index == 0),
                line.place.first == (index < units),
                line.place.last == (behind <= (units - 1) * line_bytes),
            )

    # A job ends with its last line, or when all do.
    all_issued = left == size + Mux(second, next_size, 0)
    bench.implies(ends.valid, active, ends.ready, halts | (first & all_issued))
    bench.implies(ends.valid, ends.payload.lines == (lines + issued)[: len(ends.payload.lines)])
    bench.implies(ends.valid, ends.payload.cut == halts)
    # One that has failed does end.
    bench.implies(active & halts & ends.ready, ends.valid)
    bench.implies(active & first & all_issued, ends.valid)
    bench.implies(job.moves & active, ends.valid)
    willing = ends.ready & (issuer.permits != 0) & Array(free)[unit]
    bench.progress(willing & active, first | ends.valid, cycles=0)
    bench.implies(job.valid & ~active, job.ready)
    bench.cover(
        first & (size != line_bytes) & (lines == 0),
        first & (left == line_bytes) & (lines == 1),
        ends.valid & issuer.abort & (lines == 1),
        ends.valid & stopped & (lines == 1),
        job.moves & active,
        active & (inside["credit_0"] < config.codec.sectors),
    )
    if units > 1:
        bench.cover(second & (next_size != line_bytes), second & (unit == units - 1))
    if device_read and contract:
        bench.hold(active, own, contract)
        bench.claim(~active | (issuer.ring == own.ring))
        lines_contract = line_request(config.codec, device_read)
        for k, (slot, output) in enumerate(zip(slots, issuer.o, strict=True)):
            bench.hold(slot.valid, slot.payload, lines_contract)
            for place in ("front", "spare"):
                held = output.payload.shape()(inside[f"slot_{k}.{place}"])
                bench.hold(inside[f"slot_{k}.{place}_valid"], held, lines_contract)
            bench.assert_item(output.valid, output.payload, lines_contract)
    return bench


def cover_depth(config: EngineConfig) -> int:
    """Lines that take all of a unit's room, and some cycles."""
    return config.units * config.unit_beats // config.codec.sectors + 6


@pytest.mark.parametrize("config", configs(ENGINES, quick=["one"]))
def test_lines_that_are_read_are_those_of_the_job(config, tmp_path):
    prove(issuer_proof(config), tmp_path, depth=2, cover_depth=cover_depth(config))


CHAINED = {
    "one": ENGINES["one"],
    "tiny-two-rings": replace(ENGINES["tiny"], rings=2),
    "line-per-beat": ENGINES["line-per-beat"],
}
"""With three units and more, the solver has not decided in a minute; units keep no addresses."""


@pytest.mark.parametrize("config", configs(CHAINED, quick=()))
def test_lines_that_are_read_keep_their_contract(config, tmp_path):
    prove(issuer_proof(config, chained=True), tmp_path, depth=1)


ISSUER_FAULTS = {
    "goes on behind the job": (
        "first_size.eq(Mux(behind.is_zero, last_size, line_bytes))",
        "first_size.eq(line_bytes)",
    ),
    "reads the first line twice": (
        "slot.i.payload.address.eq(address + Mux(is_second, line_bytes, 0))",
        "slot.i.payload.address.eq(address)",
    ),
    "leaves a line out": (
        "address.eq(Mux(second, behind_two, behind_one))",
        "address.eq(behind_two)",
    ),
    "has a second line where there is none": ("& ~behind.is_zero ", ""),
    "ends with a line left": ("(first & is_done)", "first"),
    "reads without room": ("has_credit[k].eq(credit >= sectors)", "has_credit[k].eq(1)"),
    "reads on during an abort": ("active & ~halts & job", "active & ~stopped & job"),
    "reads on behind a fault": ("halts = self.abort | stopped", "halts = self.abort"),
    "ends the next job for a fault": ("stopped.eq(0),", ""),
    "overlooks what is not written": ("self.stop | own_fault.any()", "own_fault.any()"),
    "begins a unit's second line": ("(begun < config.units - 1)", "(begun < config.units)"),
    "ends a unit's lines too late": (
        "behind.count <= config.units",
        "behind.count < config.units - 1",
    ),
    "goes to the wrong unit": ("Mux(second, third_unit, second_unit)", "second_unit"),
    "forgets what it was asked": ("((job.length - 1) >> line_bits)", "(job.length >> line_bits)"),
    "stops": ("(self.permits != 0) & unit_free[unit]),", "(self.permits == 2) & unit_free[unit]),"),
}


@pytest.mark.parametrize("fault", configs(ISSUER_FAULTS, quick=()))
def test_issuer_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LineIssuer, *fault)
    find_fault(issuer_proof(ENGINES["three"]), tmp_path, depth=8)


class AnyUnpacker(wiring.Component):
    """Finds lines, whole or not, wherever it likes, and as many as it likes."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += [self.command.ready.eq(1), self.i.ready.eq(AnySeq(1))]
        for stream in (self.o, self.tail):
            m.d.comb += anything(stream)
        if hasattr(self, "second"):
            second = self.second.as_value()
            m.d.comb += second.eq(AnySeq(len(second)))
        return m


def any_unpackers(self, m: Module) -> list[tuple[Any, Any, int]]:
    """`LineSplitter._unpackers` without what finds lines."""
    found = []
    for entry in self.config.codec.entries:
        lines = min(self.config.split_lines, entry.lines_per_cycle)
        real = entry.unpacker(
            self.config.codec, lines_per_cycle=lines, chunk_beats=self.config.split_beats
        )
        # Only its ports are: Amaranth warns of components that are not elaborated.
        real._MustUse__used = True
        unpacker = AnyUnpacker(real.signature)
        m.submodules[f"{entry.name}_unpacker"] = unpacker
        found.append((entry, unpacker, lines))
    return found


def splitter_proof(config: EngineConfig, *, chained: bool = False) -> Bench:
    """Any jobs, whatever becomes of their streams, and units that take lines when they like.

    Chained, jobs keep their contract, and so do commands.
    """
    bench = Bench(relies=chained)
    m = bench.m
    splitter = LineSplitter(config)
    inside = bench.add(splitter)
    line_bytes, units = config.codec.line_bytes, config.units
    line_bits = line_bytes.bit_length() - 1
    written, contract = None, None
    if chained:
        written = UnnamedMemory(bench, "written", DEVICE_ADDRESS_BITS, 1, config.rings)
        contract = split_job(config, written)
    job = bench.drive(splitter.job, contract)
    bench.drive(splitter.i)
    for stream in (splitter.ends, splitter.tail, *splitter.lines):
        m.d.comb += stream.ready.eq(AnySeq(1))
    for k in range(units):
        bench.watch(splitter.commands[k])
    if not chained:
        bench.assume(~job.valid | (job.payload.first_unit < units))
    for entry in config.codec.entries:
        unpacker = inside.component(f"{entry.name}_unpacker")
        bench.assume(~unpacker.o.valid | (inside["active"] & ~inside["over"]))
        if config.split_lines == 2 and entry.lines_per_cycle == 2 and config.split_beats == 1:
            pair = unpacker.o.payload
            bench.assume(~unpacker.o.valid | ~pair.paired | pair.first.sol)

    # The job, and its lines that have ended; of more than there can be, the most.
    own = Signal(job.payload.shape(), name="own")
    number, next_number = Signal(OFFSET_BITS), Signal(OFFSET_BITS + 1)
    m.d.comb += next_number.eq(number + splitter.split)
    m.d.sync += number.eq(Mux(next_number[-1], ~0, next_number))
    with m.If(splitter.job.ready):
        m.d.sync += [own.eq(job.payload), number.eq(0)]
    whole, room = own.length >> line_bits, own.capacity >> line_bits
    active, unit = inside["active"], inside["unit"]
    lately, before = inside["ended_lately"], Signal(OFFSET_BITS, name="number_before")
    m.d.comb += before.eq(number - lately)
    for name, count in (("left", whole), ("room", room)):
        counter = inside.component(name)
        late_countdown(bench, inside, name, active & ~number.all(), count, number)
        bench.implies(active, counter.is_over == (number > count))
        bench.implies(
            active & (number <= count),
            inside[f"{name}.count"] == count - number,
            counter.is_zero == (count == number),
            counter.is_one == (count == number + 1),
        )
    bench.require(inside["index"] == own.codec, inside["parameters"] == own.parameters)
    bench.require(inside["left_over"] == own.length[:line_bits])
    bench.require(inside["room_over"] == own.capacity[:line_bits])
    bench.require(inside["bounded"] == (own.capacity != 0))
    bench.implies(active, unit < units)
    bench.implies(
        active & ~number.all(),
        inside["address"] == (own.dst + (number << line_bits))[:DEVICE_ADDRESS_BITS],
        # Lines that ended in the last cycle come to this address with the line of a command.
        lately <= number,
        inside["address_before"] == (own.dst + (before << line_bits))[:DEVICE_ADDRESS_BITS],
    )

    # Behind a fault of the job, no line begins but for the one that is being sent.
    failed, goes_on = Signal(name="has_failed"), inside["inside"]
    kinds = [f"{kind}_{k}" for kind in ("wrong", "refused") for k in range(units)]
    own_faults = Cat(inside.component(kind).own for kind in kinds)
    m.d.sync += failed.eq(~splitter.job.ready & (failed | own_faults.any()))
    bench.require(inside["job_failed"] == failed)
    begins = Cat(inside.component(f"command_slot_{k}").i.valid for k in range(units))
    bench.implies((failed | inside["cut"]) & ~goes_on, begins == 0)

    # Each command is of the line that comes next, or of the one behind it.
    for k in range(units):
        slot = inside.component(f"command_slot_{k}").i
        command = slot.payload
        line = Signal(OFFSET_BITS + 1, name=f"line_{k}")
        offset = Signal(OFFSET_BITS + 1 + line_bits, name=f"offset_{k}")
        rest = Signal(signed(OFFSET_BITS + 2 + line_bits), name=f"rest_{k}")
        left = Signal(signed(OFFSET_BITS + 2 + line_bits), name=f"left_{k}")
        m.d.comb += [
            line.eq(number + (unit != k)),
            offset.eq(line << line_bits),
            rest.eq(own.capacity - offset),
            left.eq(own.length - offset),
        ]
        here = slot.valid & ~number.all()
        bench.implies(here, active, slot.ready)
        bench.implies(
            here,
            command.address == (own.dst + offset)[:DEVICE_ADDRESS_BITS],
            command.codec == own.codec,
            command.parameters == own.parameters,
        )
        # No byte is named behind the capacity, whatever the stream.
        bench.implies(
            slot.valid & (command.writable != 0), offset + command.writable <= own.capacity
        )
        bench.implies(here & (rest <= 0), command.writable == 0)
        # One line is sent behind the capacity, if there is one, and no other.
        bench.implies(here & ~goes_on & (own.capacity != 0), line <= room)
        # In a line of the job, all of its bytes are that there is room for.
        inner = here & (left > 0)
        bench.implies(inner, command.size == Mux(left > line_bytes, line_bytes, left))
        bench.implies(
            inner & (rest > 0), command.writable == Mux(rest < command.size, rest, command.size)
        )
    first = inside.component("command_slot_0").i
    bench.cover(
        first.valid
        & (number == 1)
        & (own.capacity == line_bytes + 1)
        & (own.length > 2 * line_bytes),
        first.valid & (number == 1) & (own.length == line_bytes + 1) & (own.capacity == own.length),
        first.valid & (own.capacity == 0),
        first.valid & (number == 3) & (own.length == 1),
        inside["cut"] & ~failed,
        inside["cut"] & failed & (number == 1),
        job.moves & active,
    )
    if units > 1:
        bench.cover(first.valid & (unit != 0), splitter.split == 2)
    if written and contract:
        bench.hold(active, own, contract)
        bench.claim(~active | (inside["ring"] == own.ring))
        commands_contract = line_command(written)
        for k, output in enumerate(splitter.commands):
            slot = inside.component(f"command_slot_{k}").i
            bench.hold(slot.valid, slot.payload, commands_contract)
            bench.assert_item(output.valid, output.payload, commands_contract)
    return bench


SPLITTERS = {
    "tiny": engine(4, 2, read_buffer_bytes=128),
    "one": engine(32, 1),
    "pairs": engine(32, 6, split_lines=2),
    "chunks": engine(32, 3, split_lines=2, split_beats=2),
    "64": engine(64, 3),
    "128": engine(128, 2, split_lines=2),
}


CHAINED_SPLITTERS = {
    "tiny": SPLITTERS["tiny"],
    "three-two-rings": engine(32, 3, rings=2),
    "128": SPLITTERS["128"],
}


@pytest.mark.parametrize("config", configs(SPLITTERS, quick=["one"]))
def test_lines_that_are_written_are_those_of_the_job(config, tmp_path, monkeypatch):
    monkeypatch.setattr(LineSplitter, "_unpackers", any_unpackers)
    prove(splitter_proof(config), tmp_path, depth=2, cover_depth=12)


def contract_benches(monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    replace_parts(monkeypatch)
    monkeypatch.setattr(LineSplitter, "_unpackers", any_unpackers)
    return [
        issuer_proof(CHAINED["tiny-two-rings"], chained=True),
        splitter_proof(CHAINED_SPLITTERS["three-two-rings"], chained=True),
    ]


@pytest.mark.parametrize("config", configs(CHAINED_SPLITTERS, quick=()))
def test_lines_that_are_written_keep_their_contract(config, tmp_path, monkeypatch):
    monkeypatch.setattr(LineSplitter, "_unpackers", any_unpackers)
    prove(splitter_proof(config, chained=True), tmp_path, depth=1)


SPLITTER_FAULTS = {
    "writes behind the capacity": (
        "command.writable.eq(Mux(is_whole, job.room_over, both_over))",
        "command.writable.eq(size)",
    ),
    "writes where there is no room": ("command.writable.eq(0)", "command.writable.eq(size)"),
    "goes behind the data": (
        "size.eq(Mux(is_whole, codec.line_bytes, job.left_over))",
        "size.eq(codec.line_bytes)",
    ),
    "writes two lines to one place": (
        "(job.ended_lately + before) * codec.line_bytes",
        "job.ended_lately * codec.line_bytes",
    ),
    "leaves a line out": (
        "job.address.eq(job.address_before + job.ended_lately * line_bytes)",
        "job.address.eq(job.address_before + job.ended_lately * 2 * line_bytes)",
    ),
    "goes on behind a fault": ("dropping.eq(job.failed | job.cut |", "dropping.eq(job.cut |"),
    "drops for ever": ("job.failed.eq(0),", ""),
    "expands what has no room": ("(job.bounded & job.room.is_over)", "(job.bounded & 0)"),
    "expands a second line that has none": (
        "sent.second_drops.eq(dropping | (job.bounded & job.room.is_zero & ~halfway))",
        "sent.second_drops.eq(dropping)",
    ),
    "takes the larger of two ends": (
        "Mux(job.room_over > job.left_over, job.left_over, job.room_over)",
        "Mux(job.room_over > job.left_over, job.room_over, job.left_over)",
    ),
}


ISSUER_CONTRACT_FAULTS = {
    "goes on behind the job": ISSUER_FAULTS["goes on behind the job"],
    "begins inside an element": ("address.eq(job.src)", "address.eq(job.src + 1)"),
    "leaves a line out": ISSUER_FAULTS["leaves a line out"],
    "forgets the ring": ("slot.i.payload.ring.eq(self.ring)", "slot.i.payload.ring.eq(0)"),
}
SPLITTER_CONTRACT_FAULTS = {
    "writes behind the capacity": SPLITTER_FAULTS["writes behind the capacity"],
    "leaves a line out": SPLITTER_FAULTS["leaves a line out"],
    "forgets the ring": ("command.ring.eq(job.ring)", "command.ring.eq(0)"),
}


@pytest.mark.parametrize("fault", configs(ISSUER_CONTRACT_FAULTS, quick=()))
def test_issuer_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    break_contract(monkeypatch, LineIssuer, *fault)
    bench = issuer_proof(CHAINED["tiny-two-rings"], chained=True)
    find_fault(bench, tmp_path, depth=6)


@pytest.mark.parametrize("fault", configs(SPLITTER_CONTRACT_FAULTS, quick=()))
def test_splitter_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(LineSplitter, "_unpackers", any_unpackers)
    break_contract(monkeypatch, LineSplitter, *fault)
    bench = splitter_proof(CHAINED_SPLITTERS["three-two-rings"], chained=True)
    find_fault(bench, tmp_path, depth=6)


@pytest.mark.parametrize("fault", configs(SPLITTER_FAULTS, quick=()))
def test_splitter_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(LineSplitter, "_unpackers", any_unpackers)
    break_elaborate(monkeypatch, LineSplitter, *fault)
    find_fault(splitter_proof(SPLITTERS["pairs"]), tmp_path, depth=8)
