"""Entries that are read: of the sectors that both memories gave for them, in their places.

The solver picks an entry by its number, and one of its sectors, of which some bits are
looked at.
"""

import pytest
from amaranth.hdl import Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.hw.buddy.payloads import AccessStatus, ExpectedEntry
from cdma.hw.buddy.read.assembler import SECTOR_BITS, SLOT_BITS, AssembledEntry, EntryAssembler
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BuddyConfig
from tests.formal.bench import Bench, Condition, Port
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.test_write_back import CONFIGS
from tests.formal.queues import sampled
from tests.formal.rules import ALWAYS
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

NUMBER_BITS = 3
"""Fewer entries are on the way: one that is assembled, one that waits, one that is sent."""


def expected_rules(_bench: Bench, port: Port) -> list[Condition]:
    """`ExpectedEntry`: what is requested is of an entry."""
    entry = port.payload
    return [
        (ALWAYS, entry.fetched <= ENTRY_SECTORS),
        (ALWAYS, entry.device <= entry.fetched),
        (ALWAYS, entry.first + entry.device + entry.buddy <= ENTRY_SECTORS),
        (entry.buddy != 0, entry.first == 0),
    ]


def assembler_proof(config: BuddyConfig) -> Bench:
    """Any entries, and memories that give their sectors in order, with any errors."""
    bench = Bench()
    m = bench.m
    assembler = EntryAssembler(config)
    inside = bench.add(assembler)
    entry = bench.drive(assembler.i, expected_rules)
    device, buddy = bench.drive(assembler.device), bench.drive(assembler.buddy)
    out, info = bench.watch(assembler.o), bench.watch(assembler.info)
    expected = entry.payload
    picked, sector = Signal(NUMBER_BITS), Signal(range(ENTRY_SECTORS))
    m.d.comb += [picked.eq(AnyConst(NUMBER_BITS)), sector.eq(AnyConst(len(sector)))]

    def seen(entry: Value) -> Value:
        """Some bits of the picked sector."""
        return sampled(entry.word_select(sector, SECTOR_BITS), SECTOR_BITS)

    def number(name: str) -> Signal:
        return Signal(NUMBER_BITS, name=name)

    def less(one: Value, other: Value) -> Value:
        return (one - other)[:NUMBER_BITS]

    # The sectors that have come of the entry at the input.
    # In reset, an entry may go away before its sectors have come.
    lives = ~ResetSignal()
    counts: dict[str, tuple[Signal, Signal]] = {}
    for name, port, whole in (
        ("device", device, expected.fetched),
        ("buddy", buddy, expected.buddy),
    ):
        before, now = Signal(3, name=f"{name}_before"), Signal(3, name=f"{name}_now")
        m.d.comb += now.eq(before + port.moves)
        m.d.sync += before.eq(Mux(entry.moves, 0, now))
        bench.implies(port.moves & lives, entry.valid, before < whole)
        bench.implies(entry.moves & lives, now == whole)
        bench.implies(lives & (before != 0), entry.valid, before <= whole)
        counts[name] = before, now
    (from_device, device_now), (from_buddy, buddy_now) = counts["device"], counts["buddy"]
    bench.require(inside["from_device"] == from_device, inside["from_buddy"] == from_buddy)
    # Nothing waits for anything else: an entry leaves the input as soon as it is whole.
    whole = (device_now == expected.fetched) & (buddy_now == expected.buddy)
    bench.implies(lives & entry.valid & ~inside["complete"], entry.ready == whole)
    # The picked sector, and the first error of any that belongs to the entry.
    used = device.moves & (from_device < expected.device)
    own = Signal(len(sampled(device.payload.data, SECTOR_BITS)), name="own_sector")
    came = number("came")
    is_own = Signal()
    m.d.comb += is_own.eq(came == picked)
    from_slot = Signal(SECTOR_BITS, name="from_slot")
    m.d.comb += from_slot.eq(device.payload.data)
    with m.If(expected.shared):
        m.d.comb += from_slot.eq(device.payload.data.word_select(expected.eighth, SLOT_BITS))
    at_device = Signal(4, name="at_device")
    at_buddy = Signal(4, name="at_buddy")
    m.d.comb += [
        at_device.eq(expected.first + from_device),
        at_buddy.eq(expected.device + from_buddy),
    ]
    word_now = Signal.like(own, name="word_now")
    m.d.comb += word_now.eq(own)
    with m.If(used & (at_device == sector)):
        m.d.comb += word_now.eq(sampled(from_slot, SECTOR_BITS))
    with m.Elif(buddy.moves & (at_buddy == sector)):
        m.d.comb += word_now.eq(sampled(buddy.payload.data, SECTOR_BITS))
    has_it = (sector >= expected.first) & (
        sector < expected.first + expected.device + expected.buddy
    )
    of_device = sector < expected.first + expected.device
    has_come = has_it & Mux(of_device, at_device > sector, at_buddy > sector)

    device_error, buddy_error = Value.cast(device.payload.error), Value.cast(buddy.payload.error)
    first_error = Signal(AccessStatus, name="first_error")
    error_now = Signal(AccessStatus, name="error_now")
    m.d.comb += error_now.eq(first_error)
    with m.If(first_error == AccessStatus.OK):
        for there, error, status in (
            (buddy.moves, buddy_error, AccessStatus.BUDDY_READ),
            (used, device_error, AccessStatus.DEVICE_READ),
        ):
            with m.If(there & error.any()):
                m.d.comb += error_now.eq(status)
            with m.If(there & (error == BusError.TIMEOUT.value)):
                m.d.comb += error_now.eq(AccessStatus.TIMEOUT)
    m.d.sync += first_error.eq(Mux(entry.moves, AccessStatus.OK, error_now))
    # An access that has failed before has no sectors.
    bench.assume(
        ~entry.valid
        | (expected.status == AccessStatus.OK)
        | ((expected.device == 0) & (expected.buddy == 0))
    )
    shape = ExpectedEntry(config)
    own_entry, own_status = Signal(shape, name="own_entry"), Signal(AccessStatus, name="own_status")
    own_has_it = Signal(name="own_has_it")
    status_now = Signal(AccessStatus, name="status_now")
    m.d.comb += status_now.eq(
        Mux(error_now == AccessStatus.OK, expected.status.as_value(), Value.cast(error_now))
    )
    m.d.sync += came.eq(came + entry.moves)
    with m.If(is_own):
        m.d.sync += own.eq(word_now)
        with m.If(entry.moves):
            m.d.sync += [
                own_entry.eq(expected),
                own_status.eq(status_now),
                own_has_it.eq(has_it),
            ]

    # Where it is: collected, then sent; the access and the entry may leave one before the other.
    gone, told, left = map(number, ("gone", "told", "left"))
    m.d.sync += [
        left.eq(left + out.moves),
        told.eq(told + info.moves),
    ]
    sending, complete = inside["sending"], inside["complete"]
    collected, sent = (
        assembler_layout(config, inside, "collected"),
        assembler_layout(config, inside, "sent"),
    )
    frees = Signal()
    m.d.comb += frees.eq(sending & inside["free"])
    m.d.sync += gone.eq(gone + frees)
    bench.require(
        less(left, gone) == (sending & inside["entry_sent"]),
        less(told, gone) == (sending & inside["info_sent"]),
        less(came, gone) == sending + complete,
        ~(inside["entry_sent"] & inside["info_sent"]),
    )
    bench.implies(~sending, ~inside["entry_sent"], ~inside["info_sent"], ~complete)
    bench.implies(
        lives & is_own & entry.valid & has_come & ~complete,
        seen(collected.kept.data) == own,
    )
    bench.implies((from_device == 0) & (from_buddy == 0), first_error == AccessStatus.OK)
    bench.implies(~entry.waiting, from_device == 0, from_buddy == 0, inside["earlier"] == 0)
    bench.implies(
        lives & entry.valid,
        inside["earlier"]
        == Mux(
            first_error == AccessStatus.OK,
            Mux(
                inside["earlier"] == AccessStatus.OK.value,
                AccessStatus.OK.value,
                Value.cast(expected.status),
            ),
            Value.cast(first_error),
        ),
    )
    bench.implies(complete, from_device == 0, from_buddy == 0, inside["earlier"] == 0)

    def is_as_it_came(item) -> list[Value]:
        good = own_status == AccessStatus.OK
        conditions = [
            ~own_has_it | (seen(item.kept.data) == own),
            item.kept.metadata == Mux(good, own_entry.metadata, 0),
            item.info.access.as_value() == own_entry.access.as_value(),
            item.info.fetch == own_entry.fetch,
            Value.cast(item.info.status) == Value.cast(own_status),
        ]
        if config.entry.has_parameters:
            conditions.append(item.parameters.as_value() == own_entry.parameters.as_value())
        return conditions

    bench.implies(complete & (less(picked, gone) == sending), *is_as_it_came(collected))
    bench.implies(sending & (gone == picked), *is_as_it_came(sent))

    good = own_status == AccessStatus.OK
    gives, tells = Signal(), Signal()
    m.d.comb += [
        gives.eq(out.valid & (left == picked)),
        tells.eq(info.valid & (told == picked)),
    ]
    kept = out.payload
    bench.implies(
        gives,
        ~own_has_it | (seen(kept.data) == own),
        kept.metadata == Mux(good, own_entry.metadata, 0),
    )
    if config.entry.has_parameters:
        parameters = assembler.parameters
        bench.implies(gives, parameters.as_value() == own_entry.parameters.as_value())
    bench.implies(
        tells,
        info.payload.access.as_value() == own_entry.access.as_value(),
        info.payload.fetch == own_entry.fetch,
        Value.cast(info.payload.status) == Value.cast(own_status),
    )
    bench.cover(
        gives & own_has_it & (own_entry.device == 2) & (own_entry.buddy == 2) & (sector == 3),
        gives & own_has_it & (own_entry.first == 2),
        gives & own_entry.shared & (own_entry.eighth == 3) & own_has_it,
        gives & (own_status == AccessStatus.BUDDY_READ),
        tells & (own_entry.fetched > own_entry.device) & (own_status == AccessStatus.OK),
        complete & entry.valid,
    )
    return bench


def assembler_layout(config: BuddyConfig, inside, name: str):
    """A register of the assembler, as what it holds."""
    return AssembledEntry(config)(inside[name])


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_entries_have_the_sectors_that_memories_gave(config, tmp_path):
    prove(assembler_proof(config), tmp_path, depth=1, cover_depth=10)


FAULTS = {
    "takes what is overfetched": ("device_fire & (from_device < entry.device)", "device_fire"),
    "puts sectors at the start": ("entry.first + from_device", "from_device"),
    "puts buddy's over device's": ("entry.device + from_buddy", "entry.buddy + from_buddy"),
    "takes the first eighth": ("word_select(entry.eighth, SLOT_BITS)", "word_select(0, SLOT_BITS)"),
    "forgets errors": ("earlier.eq(status)", "earlier.eq(AccessStatus.OK)"),
    "sends before the last sector": ("(buddy_left == 1) & self.buddy.valid", "(buddy_left == 1)"),
    "sends an entry twice": ("self.o.valid.eq(sending & ~entry_sent)", "self.o.valid.eq(sending)"),
    "loses one that waits": ("(assembled | complete) & ~free", "assembled & ~free"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_assembler_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, EntryAssembler, *fault)
    find_fault(assembler_proof(CONFIGS["tiny"]), tmp_path, depth=9)
