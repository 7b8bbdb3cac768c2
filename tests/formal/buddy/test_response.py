"""Entries that were read, on their way to the bus or to a partial write: which bytes, and when.

The solver picks a read by its number, and a sector of its entry, of which some bits are looked at.
Where beats lie in an entry is proven by itself, and cut out of the rest: bits of an address stand
for the last byte of an access, as nothing else is made of them.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.buddy.frontend.beat_position import BeatPosition
from cdma.hw.buddy.payloads import ENTRY_OFFSET_BITS, AccessStatus, EntryAccess, last_byte
from cdma.hw.buddy.read import response
from cdma.hw.buddy.read.response import ReadResponse
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.config import BUDDY_PRESETS, BuddyConfig
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench, Contract, CutOut
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.payload_rules import (
    FETCHED,
    RESTORED,
    SectorsAlike,
    read_info,
)
from tests.formal.queues import FollowedFifo, WeighedFifo, follow, sampled
from tests.formal.smtbmc import prove

CONFIGS = {"tiny": BUDDY_PRESETS["tiny"]}


def sector_in_entry(config: BuddyConfig, access: Any, beat: Value) -> Value:
    """The sector that a beat of an access lies in: beats are of a size, one behind the other."""
    start = access.address[:ENTRY_OFFSET_BITS] >> access.size
    offset = ((start + beat) << access.size)[:ENTRY_OFFSET_BITS]
    return offset[(config.entry.sector_bytes - 1).bit_length() :]


def sectors_of(config: BuddyConfig, access: Any) -> tuple[Value, Value]:
    """The first and the last sector that an access covers."""
    last = (access.beats - 1)[:ENTRY_OFFSET_BITS]
    return sector_in_entry(config, access, Const(0)), sector_in_entry(config, access, last)


def last_byte_of(access: Any) -> Value:
    """Bits of an access that stand for the last byte that it covers."""
    return access.address[ENTRY_OFFSET_BITS : 2 * ENTRY_OFFSET_BITS]


def covered_by(config: BuddyConfig, access: Any) -> tuple[Value, Value]:
    """The first and the last sector that an access covers, whose last byte is that one."""
    sector_bits = (config.entry.sector_bytes - 1).bit_length()
    first = access.address[sector_bits:ENTRY_OFFSET_BITS]
    return first, last_byte_of(access)[sector_bits:]


def open_response(config: BuddyConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the solver see one read, and one sector of it; of others how many sectors they cover."""
    sectors, bits = config.entry.sectors, 8 * config.entry.sector_bytes

    def fifo(shape: Any, depth: int) -> Fifo:
        if isinstance(shape, EntryAccess):

            def covered(item: Value) -> Value:
                first, last = covered_by(config, shape(item))
                return (last - first + 1)[: sectors.bit_length()]

            return WeighedFifo(shape, depth, covered, most=sectors)

        def seen(item: Value) -> Value:
            sector = shape(item)
            return Cat(sector.error, sampled(sector.data, bits))

        return FollowedFifo(shape, depth, seen=seen)

    monkeypatch.setattr(response, "Fifo", fifo)
    monkeypatch.setattr(response, "last_byte", lambda _m, access: last_byte_of(access))
    monkeypatch.setattr(response, "BeatPosition", lambda shape: CutOut(BeatPosition(shape)))


def response_proof(config: BuddyConfig) -> Bench:
    """Any entries, for no more reads at a time than there is room for."""
    bench = Bench()
    m = bench.m
    sectors, bits = config.entry.sectors, 8 * config.entry.sector_bytes
    component = ReadResponse(config)
    # What it asserts of its queues is claimed below, for the cycle in which it is.
    inside = bench.add(component, ignored=True)
    came_alike, left_alike = SectorsAlike(config), SectorsAlike(config)
    sector = bench.drive(component.i, Contract(RESTORED, came_alike))
    info = bench.drive(component.info)
    beats = bench.watch(component.beats)
    fetched = bench.watch(component.fetched, Contract(FETCHED, left_alike))
    buffered, accesses = inside.component("buffered"), inside.component("accesses")
    bench.assume(accesses.possible)
    index = came_alike.before
    read, access = info.payload, info.payload.access
    of_read = ~read.fetch
    first, last = covered_by(config, access)
    is_last = index == sectors - 1
    # The last byte is none before the first one.
    bench.assume(~info.valid | (first <= last))

    def status_with(found: Value) -> Value:
        """The status of an access, if the codec has found that of its entry."""
        before = Value.cast(read.status)
        damaged = (before == AccessStatus.OK.value) & (found != StreamStatus.OK.value)
        return Mux(damaged, AccessStatus.CORRUPT_ENTRY.value, before)

    status, status_before = Signal(AccessStatus), Signal(AccessStatus, name="status_before")
    m.d.comb += [
        status.eq(status_with(sector.payload.status)),
        status_before.eq(status_with(came_alike.status)),
    ]
    fails = status != AccessStatus.OK

    # In reset, an entry may go away before all of its sectors have come.
    lives = ~ResetSignal()
    bench.require(index < sectors, inside["index"] == index)
    bench.implies(lives & (index != 0), info.waiting)
    bench.implies(sector.moves, info.valid)
    bench.require(info.moves == (sector.moves & is_last))
    # The bus never holds up what is read.
    bench.implies(sector.valid & info.valid & of_read, sector.ready)

    # A fetched entry goes to its write, sector by sector.
    bench.require(fetched.moves == (sector.moves & read.fetch))
    bench.implies(
        fetched.valid,
        fetched.payload.data == sector.payload.data,
        fetched.payload.status == status,
    )
    bench.implies(lives & ~info.valid, left_alike.before == 0)
    bench.implies(lives & info.valid, left_alike.before == Mux(read.fetch, index, 0))
    bench.implies(lives & read.fetch & (index != 0), left_alike.status == Value.cast(status_before))
    bench.require(component.fetch_done == (info.moves & read.fetch))
    bench.require(component.error.valid == (info.moves & of_read & fails))
    bench.implies(
        component.error.valid,
        component.error.status == status,
        component.error.address == access.address,
    )

    # Reads of which a sector has come, and beats have not all left.
    open_reads = Signal(range(config.reads + 2))
    begins = Signal()
    m.d.comb += begins.eq(sector.moves & of_read & (index == 0))
    m.d.sync += open_reads.eq(open_reads + begins - component.read_done)
    bench.assume(
        ~(sector.valid & info.valid & of_read & (index == 0)) | (open_reads < config.reads)
    )

    number_bits = (config.reads + 2).bit_length()

    def number(name: str) -> Signal:
        return Signal(number_bits, name=name)

    def less(one: Value, other: Value) -> Value:
        return (one - other)[:number_bits]

    picked, came, left = map(number, ("picked", "came", "left"))
    chosen = Signal(range(sectors), name="chosen")
    m.d.comb += picked.eq(AnyConst(number_bits))
    if sectors > 1:
        m.d.comb += chosen.eq(AnyConst(len(chosen)))
    enters, number_now = Signal(), number("number_now")
    m.d.comb += [
        enters.eq(sector.moves & of_read & (index == first)),
        number_now.eq(Mux(index <= first, came, came - 1)),
    ]
    m.d.sync += [came.eq(came + enters), left.eq(left + component.read_done)]
    own, own_fails = Signal(EntryAccess(config)), Signal()
    own_data = Signal(len(sampled(sector.payload.data, bits)))
    is_own, is_chosen = Signal(), Signal()
    covered = (first <= index) & (index <= last)
    m.d.comb += [
        is_own.eq(number_now == picked),
        is_chosen.eq(is_own & of_read & covered & (index == chosen)),
    ]
    with m.If(enters & is_own):
        m.d.sync += [own.eq(access), own_fails.eq(fails)]
    with m.If(sector.moves & is_chosen):
        m.d.sync += own_data.eq(sampled(sector.payload.data, bits))

    # The queues: accesses, and the sectors that are covered.
    count = follow(bench, inside, "accesses", came == picked, less(picked, left), own)
    all_covered, before = accesses.weights(bench, inside, "accesses.")
    m.d.comb += buffered.follows.eq(is_chosen)
    held = buffered.require(bench, inside, "buffered.")
    head = accesses.o.payload
    head_first, head_last = covered_by(config, head)
    # What comes in keeps to that, so what goes out does.
    bench.assume(~accesses.o.valid | (head_first <= head_last))
    # Beats are of the sectors of their access, one after the other: `position_proof`.
    position, passed = inside.component("position"), Signal(range(sectors + 1), name="passed")
    at = Signal(range(sectors), name="at")
    m.d.comb += at.eq(head_first + passed)
    bench.assume(
        ~accesses.o.valid
        | (
            (position.sector == at)
            & (~position.last | (position.sector_last & (at == head_last)))
            & (~position.sector_last | position.last | (at < head_last))
        )
    )
    stands, ends, ended = Signal(), Signal(2), Signal(2)
    m.d.comb += ends.eq(Cat(position.last, position.sector_last))
    m.d.sync += [stands.eq(accesses.o.valid & ~position.fire), ended.eq(ends)]
    bench.assume(~stands | (ends == ended))
    with m.If(position.fire):
        m.d.sync += passed.eq(Mux(position.last, 0, passed + position.sector_last))
    bench.require(position.fire == beats.moves)
    bench.implies(accesses.o.valid, position.access.as_value() == head.as_value())
    bench.implies(passed != 0, accesses.o.valid, head_first + passed <= head_last)
    gone = passed
    is_inside = of_read & (index != 0)
    some_come = is_inside & (index > first) & (index <= last)
    to_come = Mux(some_come, last - index + 1, 0)
    bench.implies(
        lives,
        held + to_come + gone == all_covered,
        open_reads == count + (is_inside & (index <= first)),
    )
    bench.require(
        less(came, left) == count,
        open_reads <= config.reads,
        ~buffered.i.valid | buffered.i.ready,
        ~accesses.i.valid | accesses.i.ready,
    )
    # Where the chosen sector is: to come, in the queue, or gone.
    waits = accesses.followed
    own_first, own_last = covered_by(config, own)
    comes_still = some_come & is_own
    bench.implies(
        lives & comes_still,
        waits,
        own.as_value() == access.as_value(),
        own_fails == (status_before != AccessStatus.OK),
    )
    has_left = accesses.o.valid & (left == picked) & (at > chosen)
    has_it = (own_first <= chosen) & (chosen <= own_last)
    is_queued = waits & has_it & ~(comes_still & (index <= chosen)) & ~has_left
    bench.implies(
        lives & is_queued,
        buffered.followed,
        buffered.ahead == before + chosen - own_first - gone,
        buffered.item == Cat(own_fails, own_data),
    )

    # Beats: the sector that each is of, and the end where it is the burst's.
    gives = Signal()
    m.d.comb += gives.eq(beats.valid & (left == picked))
    payload = beats.payload
    bench.require(component.read_done == (beats.moves & position.last))
    bench.implies(
        lives & gives,
        payload.id == own.id,
        (at != chosen) | (sampled(payload.data, bits) == own_data),
        (at != chosen)
        | (
            Value.cast(payload.resp)
            == Mux(own_fails, AxiResponse.SLVERR.value, AxiResponse.OKAY.value)
        ),
        payload.last == (own.last & position.last),
    )
    bench.cover(
        gives & own_fails & (picked == 1),
        gives & ~position.sector_last & beats.ready,
        gives & (own_first != own_last) & (at == chosen) if sectors > 1 else gives & own.last,
        component.error.valid & (status == AccessStatus.CORRUPT_ENTRY),
        fetched.moves & is_last & fails,
        component.read_done & enters,
    )
    return bench


def position_proof(config: BuddyConfig) -> Bench:
    """Any access that has beats, each of which is taken at any time."""
    bench = Bench()
    m = bench.m
    position = BeatPosition(config)
    inside = bench.add(position)
    access = position.access
    before = Signal(len(access.as_value()), name="access_before")
    number = Signal(range(ENTRY_BYTES), name="number")
    m.d.comb += [
        access.as_value().eq(AnySeq(len(before))),
        position.fire.eq(AnySeq(1)),
    ]
    ends = number == access.beats - 1
    m.d.sync += before.eq(access.as_value())
    with m.If(position.fire):
        m.d.sync += number.eq(Mux(ends, 0, number + 1))
    # It is what the response assumes of accesses.
    bench.subject = "ReadResponse"
    bench.assume_item(Const(1), SimpleNamespace(access=access), read_info(config))
    bench.assume((number == 0) | (access.as_value() == before) | ResetSignal())
    lives = ~ResetSignal()
    first, last = sectors_of(config, access)
    last_of_all = last_byte(m, access)
    sector_bits = (config.entry.sector_bytes - 1).bit_length()
    following = sector_in_entry(config, access, number + 1)
    end = access.address[:ENTRY_OFFSET_BITS] >> access.size
    bench.require(
        inside["beat"] == number,
        # As the response finds them.
        first == access.address[sector_bits:ENTRY_OFFSET_BITS],
        last == last_of_all[sector_bits:],
        last_of_all == (((end + access.beats) << access.size) - 1)[:ENTRY_OFFSET_BITS],
        first <= last,
    )
    bench.implies(
        lives,
        number < access.beats,
        position.sector == sector_in_entry(config, access, number),
        position.last == (number + 1 == access.beats),
        ~position.last | (position.sector_last & (position.sector == last)),
        (number != 0) | (position.sector == first),
        position.last
        | Mux(
            position.sector_last,
            (following == position.sector + 1) & (position.sector < last),
            following == position.sector,
        ),
    )
    bench.cover(
        position.fire & position.last & (number == 3) & (access.size == 2),
        position.fire & ~position.sector_last,
        position.fire & position.last & (number == 0),
    )
    return bench


PROOFS = {"position": position_proof, "sectors": response_proof}
CASES = {f"{proof}-{name}": (proof, config) for proof in PROOFS for name, config in CONFIGS.items()}


@pytest.mark.verify
@pytest.mark.parametrize(("proof", "config"), CASES.values(), ids=CASES)
def test_beats_are_of_the_sectors_that_were_read(proof, config, tmp_path, monkeypatch):
    if proof == "sectors":
        open_response(config, monkeypatch)
    prove(PROOFS[proof](config), tmp_path, depth=1, cover_depth=14)


FAULTS = {
    "leaves the last sector out": (
        *("sectors", ReadResponse),
        *("(index <= last[sector_bits:])", "(index < last[sector_bits:])"),
    ),
    "takes damaged entries": (
        *("sectors", ReadResponse),
        *("& (sector.status != 0)", "& (sector.status == 1)"),
    ),
    "forgets an error": (
        *("sectors", ReadResponse),
        *("error.eq(status != AccessStatus.OK)", "error.eq(0)"),
    ),
    "ends the burst with each entry": (
        *("sectors", ReadResponse),
        *("beat.last.eq(access.last & position.last)", "beat.last.eq(position.last)"),
    ),
    "waits for a write": (
        *("sectors", ReadResponse),
        *("valid & (~info.fetch | self.fetched.ready)", "valid & self.fetched.ready"),
    ),
    "takes a sector for each beat": (
        *("sectors", ReadResponse),
        *("buffered.o.ready.eq(fire & position.sector_last)", "buffered.o.ready.eq(fire)"),
    ),
    "counts beats of a byte": (
        *("position", BeatPosition),
        *("(unit + 1) << self.access.size", "unit + 1"),
    ),
    "ends a beat late": (
        *("position", BeatPosition),
        *("beat == self.access.beats - 1", "beat == self.access.beats"),
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_response_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, component, right, wrong = fault
    config = CONFIGS["tiny"]
    if proof == "sectors":
        open_response(config, monkeypatch)
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(PROOFS[proof](config), tmp_path, depth=8)
