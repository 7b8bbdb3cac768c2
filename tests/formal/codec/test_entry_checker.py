"""Kept entries that are damaged: what is found, and where, as the golden model has it.

The rules are stated of an entry's bytes one after the other, as in
`cdma.golden.buddy.entry.EntryCodec.decode`. The number of ones in a mask has a proof of its own;
any number stands for it.
"""

from typing import Any

import pytest
from amaranth.hdl import Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.golden.buddy.entry import AS_IT_IS, SIZES, ZVC_FLAG
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.entry import checker
from cdma.hw.codec.entry.checker import EntryChecker, EntryNote, EntryPrechecker
from cdma.hw.codec.entry.payloads import CODE_BYTES, KeptEntry
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.contracts import Choice
from tests.formal.smtbmc import prove

CONFIGS = {
    "E4": EntryConfig(),
    "E2": EntryConfig(element_bytes=2),
    "E1": EntryConfig(element_bytes=1),
    "E4-S64": EntryConfig(sector_bytes=64),
    "E4-S128": EntryConfig(sector_bytes=128),
    "bpc": EntryConfig(mode="bpc"),
    "bpc-S128": EntryConfig(mode="bpc", sector_bytes=128),
}
ZEROS_BITS = 10
"""Bits of the BPC code of zeros: that of a base of zero, and of one run of 33 planes."""


def any_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Signal:
    """Put any number, at any time, in the place of the ones of a mask; returns it."""
    ones = Signal(range(129), name="ones")
    bench.m.d.comb += ones.eq(AnySeq(len(ones)))
    monkeypatch.setattr(checker, "count_ones", lambda bits: ones[: len(bits).bit_length()])
    return ones


def first_of(found: list[tuple[Value, Any]], otherwise: Any) -> Value:
    """The second of the first pair whose first holds."""
    value = otherwise
    for there, item in reversed(found):
        value = Mux(there, item, value)
    return Value.cast(value)


def note_proof(config: EntryConfig, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Any entries, of which the solver picks one."""
    bench = Bench()
    m = bench.m
    prechecker = EntryPrechecker(config)
    best_of = config.mode == "best-of"
    ones = any_count(bench, monkeypatch)
    inside = bench.add(prechecker)
    entry, out = bench.drive(prechecker.i), bench.watch(prechecker.o)

    # The picked one comes at any time; ghosts tell where it is.
    own, count = Signal(KeptEntry()), Signal(range(129), name="count")
    comes = Signal()
    m.d.comb += [
        own.as_value().eq(AnyConst(len(own.as_value()))),
        count.eq(AnyConst(len(count))),
        comes.eq(AnySeq(1)),
    ]
    elements = config.zvc.elements
    bench.assume(
        ~(entry.valid & comes) | ((entry.payload.as_value() == own.as_value()) & (ones == count)),
        count <= elements,
        ones <= elements,
    )
    stages = ["seen", "noted"] if best_of else ["seen"]
    takes, there = comes, []
    for name in stages:
        control = inside.component(name)
        is_own = Signal(name=f"{name}_is_own")
        with m.If(control.load):
            m.d.sync += is_own.eq(takes)
        takes = is_own
        there.append(control.o_valid & is_own)

    # The rules.
    number, of_zvc = own.metadata[:3], own.metadata >= ZVC_FLAG
    coded = (number != 0) & (number != AS_IT_IS)
    size = Signal(8, name="size")
    m.d.comb += size.eq(Choice(SIZES)[number])
    nonzero = [(k < size) & (own.data.word_select(k, 8) != 0) for k in range(CODE_BYTES)]
    known = ~of_zvc | coded if best_of else ~of_zvc
    mask, width = config.zvc.mask_bytes, config.zvc.element_bytes
    wrong: list[tuple[Value, tuple[StreamStatus, int]]] = [
        (~known, (StreamStatus.BAD_TOKEN, 0)),
        (of_zvc & (size < mask), (StreamStatus.MASK_TRUNCATED, 0)),
    ]
    # One element more than there may be is missing.
    for k in range((CODE_BYTES - mask) // width + 1):
        at = mask + k * width
        element = own.data[8 * at : 8 * (at + width)]
        wrong += [
            (of_zvc & (k < count) & (size < at + width), (StreamStatus.PAYLOAD_TRUNCATED, at)),
            (of_zvc & (k < count) & (element == 0), (StreamStatus.ZERO_ELEMENT, at)),
        ]
    status, offset = Signal(4, name="status"), Signal(8, name="offset")
    m.d.comb += [
        status.eq(first_of([(bad, found[0].value) for bad, found in wrong], StreamStatus.OK.value)),
        offset.eq(first_of([(bad, found[1]) for bad, found in wrong], 0)),
    ]

    def holds_facts(note: Any) -> list[Value]:
        return [
            note.size_class == number,
            note.by_bpc == (coded & ~of_zvc),
            *(note.nonzero[k] == nonzero[k] for k in range(CODE_BYTES)),
        ]

    if best_of:
        seen = EntryNote()(inside["seen"])
        bench.implies(
            there[0],
            *holds_facts(seen),
            inside["count"] == count,
            seen.by_zvc == (coded & of_zvc),
            seen.offset == 0,
            seen.status == Mux(known, StreamStatus.OK.value, StreamStatus.BAD_TOKEN.value),
        )
    note = prechecker.o.payload
    is_noted = there[-1]
    bench.implies(out.valid & is_noted, *holds_facts(note))
    bench.implies(is_noted, note.status == status, note.offset == offset)
    if best_of:
        is_zvc = is_noted & note.by_zvc
        bench.implies(is_noted, note.by_zvc == (coded & of_zvc))
        bench.implies(is_zvc, note.zvc_bytes == mask + count * width)
    else:
        bench.implies(is_noted, ~note.by_zvc)
    # Each entry in its turn, and once.
    open_entries = Signal(range(len(stages) + 2))
    m.d.sync += open_entries.eq(open_entries + entry.moves - out.moves)
    bench.require(
        open_entries == sum(inside.component(name).o_valid for name in stages),
    )
    bench.cover(is_noted & out.ready & (status == StreamStatus.BAD_TOKEN))
    bench.cover(is_noted & out.ready & (status == StreamStatus.OK) & coded)
    if best_of:
        bench.cover(
            is_noted & (status == StreamStatus.PAYLOAD_TRUNCATED) & (offset == 32),
            is_noted & (status == StreamStatus.ZERO_ELEMENT) & (offset > mask),
            is_zvc & (status == StreamStatus.OK) & (count == 2),
        )
        if mask > SIZES[1]:
            bench.cover(is_noted & (status == StreamStatus.MASK_TRUNCATED))
    return bench


def check_proof(config: EntryConfig, _monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Any note of an entry, and any planes of the same one."""
    bench = Bench()
    m = bench.m
    component = EntryChecker(config)
    bench.add(component)
    best_of = config.mode == "best-of"
    note, planes = component.note.payload, component.planes.payload
    out = component.o.payload
    for stream in (component.note, component.planes):
        m.d.comb += [
            stream.valid.eq(AnySeq(1)),
            Value.cast(stream.payload).eq(AnySeq(len(Value.cast(stream.payload)))),
        ]
    m.d.comb += component.o.ready.eq(AnySeq(1))

    # As notes are: of one codec at most, which makes no bytes behind its class.
    number = note.size_class
    coded = (number != 0) & (number != AS_IT_IS)
    of_zvc = note.by_zvc
    of_bpc = note.by_bpc
    bench.assume(
        Const(best_of) | ~of_zvc,
        ~(of_bpc & of_zvc),
        ~(of_bpc | of_zvc) | coded,
        ~of_bpc | (note.status == StreamStatus.OK),
        # No code is empty, and none longer than the longest one.
        (planes.bits != 0) & (planes.bits <= MAX_CODE_BITS),
        ~of_zvc | (note.zvc_bytes >= config.zvc.mask_bytes),
    )
    # The code's bytes, and the least class for them.
    used = Signal(9, name="used_bytes")
    whole, more = planes.bits >> 3, planes.bits[:3] != 0
    m.d.comb += used.eq(Mux(of_zvc, note.zvc_bytes, whole + more))
    is_zeros = Mux(of_zvc, note.zvc_bytes == config.zvc.mask_bytes, planes.bits == ZEROS_BITS)
    least = first_of(
        [(is_zeros, 0), *((used <= SIZES[k], k) for k in range(1, AS_IT_IS))], AS_IT_IS
    )
    found_before = Mux(of_bpc, planes.status, note.status)
    sound = (of_bpc | of_zvc) & (found_before == StreamStatus.OK)
    too_large = Signal()
    m.d.comb += too_large.eq(sound & (least < number))
    fill = [(k >= used) & note.nonzero[k] for k in range(CODE_BYTES)]
    first_fill = first_of([(there, k) for k, there in enumerate(fill)], CODE_BYTES)
    is_filled = Signal()
    m.d.comb += is_filled.eq(sound & ~too_large & (first_fill != CODE_BYTES))
    moves = component.o.valid & component.o.ready
    bench.require(
        component.o.valid == (component.note.valid & component.planes.valid),
        (component.note.valid & component.note.ready) == moves,
        (component.planes.valid & component.planes.ready) == moves,
        out.base == planes.base,
        out.planes == planes.planes,
        out.status
        == first_of(
            [
                (too_large, StreamStatus.LENGTH_MISMATCH.value),
                (is_filled, StreamStatus.NONZERO_FILL.value),
            ],
            found_before,
        ),
        out.offset
        == first_of(
            [(too_large, used), (is_filled, first_fill)],
            Mux(of_bpc & (planes.status != StreamStatus.OK), planes.offset, note.offset),
        )[: len(out.offset)],
    )
    bench.cover(
        moves & of_bpc & too_large & ~is_zeros,
        moves & of_bpc & too_large & is_zeros & (number == 1),
        moves & is_filled & (first_fill == 95) & (used == 81),
        moves & of_bpc & sound & ~too_large & ~is_filled,
        moves & ~of_bpc & (planes.status != StreamStatus.OK) & (out.status == StreamStatus.OK),
    )
    if best_of:
        bench.cover(
            moves & of_zvc & too_large & is_zeros & (number == 1),
            moves & of_zvc & is_filled,
            moves & of_zvc & (note.status != StreamStatus.OK),
        )
    return bench


PROOFS = {"note": note_proof, "check": check_proof}


CASES = {f"{proof}-{config}": (proof, config) for proof in PROOFS for config in CONFIGS}


@pytest.mark.verify
@pytest.mark.parametrize(("proof", "config"), CASES.values(), ids=CASES)
def test_damaged_entries_are_found(proof, config, tmp_path, monkeypatch):
    prove(PROOFS[proof](CONFIGS[config], monkeypatch), tmp_path, depth=1, cover_depth=6)


FAULTS = {
    "takes elements that are zero": (
        *("note", EntryPrechecker, "bad.eq(seen.by_zvc & lacking.any())"),
        "bad.eq(seen.by_zvc & lacking[-1])",
    ),
    "forgets the mask's bytes": (
        *("note", EntryPrechecker, "zvc.mask_bytes + first_one(m, lacking"),
        "first_one(m, lacking",
    ),
    "takes what is missing for a zero": (
        *("note", EntryPrechecker, "place >= size", "place > size"),
    ),
    "counts BPC's bytes down": (
        "check",
        EntryChecker,
        "(planes.bits + 7) >> 3",
        "planes.bits >> 3",
    ),
    "keeps zeros in class 1": ("check", EntryChecker, "zeros | (used <= lesser)", "used <= lesser"),
    "tells errors of zeros": (
        *("check", EntryChecker, "with m.If(note.by_bpc & (planes.status != StreamStatus.OK))"),
        "with m.If(planes.status != StreamStatus.OK)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_check_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, component, right, wrong = fault
    break_elaborate(monkeypatch, component, right, wrong)
    bench = PROOFS[proof](CONFIGS["E4"], monkeypatch)
    find_fault(bench, tmp_path, depth=4)
