"""`BpcCompressor` up to its codes, and the memory of entries that are kept as they are.

What leaves is pieces of code in their places (`test_bpc_pack.py`). Here is what goes into them, at
the widths that ship:

- control: each entry's planes go through all passes, one after the other and none skipped, while
  they stay; each pass goes through all levels; a code leaves for each entry, in order;
- planes: what the classifiers and the coder of bases get are the differences of neighboring words,
  and the first word, of one entry;
- codes: in each pass, each coder gets the plane whose number is the code's, and what it makes is in
  the code's place; places beyond the last code get what has none;
- entries: one whose code is too long leaves as it came, and none is written over.

A shift register of ghosts tells how long ago the last sector of an entry came; all registers that
control the pipeline are read from it. Classifiers, coders and shifters are cut out; so is the
memory, of which one word is followed.
"""

import itertools
from typing import Any

import pytest
from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import In

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc import compressor
from cdma.hw.codec.bpc.compressor import CODES, BpcCompressor
from cdma.hw.codec.bpc.planes import PlaneSymbol
from cdma.hw.codec.entry.compressor import LONGEST_BITS
from cdma.hw.config import EntryConfig
from cdma.hw.lib.ram import Ram
from tests.formal.bench import Bench, CutOut, anything_at
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.metadata_parts import OpenRam
from tests.formal.smtbmc import prove

SECTORS = [32, 64, 128]
COUNT_BITS = 5
"""Of the counts of entries: more than there are in the pipeline."""


class FollowedRam(Ram):
    """A `Ram` of which a word is seen, that at an address which the bench picks.

    A read of another address gives anything, and so does one of an address that is written.

    Attributes
    ----------
    followed : Signal
        The address.
    row : Signal
        What is there.
    """

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, depth)
        self.followed = Signal(range(depth))
        self.row = Signal(width, reset_less=True)

    def elaborate(self, platform) -> Module:
        m = Module()
        any_word = Signal(self.width)
        shown = Signal(self.width, reset_less=True)
        is_written = self.write_enable & (self.write_address == self.followed)
        m.d.comb += [any_word.eq(AnySeq(self.width)), self.read_data.eq(shown)]
        with m.If(is_written):
            m.d.sync += self.row.eq(self.write_data)
        with m.If(self.read_enable):
            m.d.sync += shown.eq(any_word)
            with m.If((self.read_address == self.followed) & ~is_written):
                m.d.sync += shown.eq(self.row)
        return m


class Pipeline:
    """A compressor with parts cut out, and ghosts of the entries that go through it.

    Parameters
    ----------
    ignored
        Leave its own assertions out, which need to be known how many entries are in the memory.

    Attributes
    ----------
    moves, leaves : Value
        A sector comes in; a code goes out.
    index : Signal
        Sectors of the entry that is coming in.
    sector, word_before : Signal
        The sector in stage 1's registers, and the word before its first one.
    first_word : Signal
        Of the entry that this sector is of.
    has_sector, sector_index : Signal
    completed : Signal
        Bit j: an entry's last sector was in stage 1's registers j steps of the pipeline ago.
    """

    def __init__(
        self, sector_bytes: int, patch: pytest.MonkeyPatch, *, ignored: bool = True
    ) -> None:
        for name in ("PlaneClassifier", "RunFinder", "BaseCoder", "PlaneCoder"):
            made = getattr(compressor, name)
            patch.setattr(compressor, name, lambda *args, made=made: CutOut(made(*args)))
        self.rams: list[FollowedRam] = []
        patch.setattr(compressor, "Ram", self._ram)
        patch.setattr(compressor, "_shifted", self._any_bits)
        self.bench = bench = Bench()
        self.config = EntryConfig(sector_bytes=sector_bytes)
        self.sectors = self.config.sectors
        self.words = sector_bytes // 4
        self.block = block = BpcCompressor(self.config, longest_bits=LONGEST_BITS)
        self.passes = block.passes
        self.levels = 1 + len(block.joins)
        self.bits: list[Signal] = []
        self.inside = bench.add(block, ignored=ignored)
        bench.m.d.comb += [bits.eq(AnySeq(len(bits))) for bits in self.bits]
        self.moves = bench.drive(block.i).moves
        self.leaves = bench.watch(block.o).moves
        self._follow()

    def _ram(self, width: int, depth: int) -> FollowedRam:
        self.rams.append(FollowedRam(width, depth))
        return self.rams[-1]

    def _any_bits(self, bits: Value, places: Value) -> Value:
        self.bits.append(Signal(LONGEST_BITS, name=f"any_bits_{len(self.bits)}"))
        return self.bits[-1]

    def _follow(self) -> None:
        m, data = self.bench.m, self.block.i.payload.data
        # Behind the last sector: the planes' passes, the levels, and the code.
        self.completed = Signal(1 + self.passes + self.levels + 1)
        self.index = Signal(range(self.sectors))
        self.has_sector = Signal()
        self.sector_index = Signal(range(self.sectors))
        self.sector = Signal(len(data), reset_less=True)
        self.word_before = Signal(32, reset_less=True)
        self.first_word = Signal(32, reset_less=True)
        self.steps = Signal(name="steps")
        self.ends = Signal(name="entry_ends")
        m.d.comb += [
            self.steps.eq(self.block.o.ready | ~self.block.o.valid),
            self.ends.eq(self.moves & (self.index == self.sectors - 1)),
        ]
        with m.If(self.steps):
            m.d.sync += [
                self.completed.eq(Cat(self.ends, self.completed[:-1])),
                self.has_sector.eq(self.moves),
            ]
        with m.If(self.moves):
            m.d.sync += [
                self.index.eq(self.index + 1),
                self.sector_index.eq(self.index),
                self.sector.eq(data),
                self.word_before.eq(self.sector[-32:]),
            ]
            with m.If(self.index == 0):
                m.d.sync += self.first_word.eq(data[:32])
            with m.If(self.ends):
                m.d.sync += self.index.eq(0)

    def word(self, k: int) -> Value:
        """A word of the sector in stage 1's registers."""
        return self.sector.word_select(k, 32)

    def has_pass(self, n: int) -> Value:
        """The planes are in their n-th pass."""
        return self.completed[1 + n]

    def parts(self, name: str, count: int) -> dict[int, Any]:
        """Components that are cut out, by their numbers; not all that there might be are there."""
        names = {part for _, part, _ in self.inside.fragment.subfragments}
        return {
            k: self.inside.component(f"{name}_{k}") for k in range(count) if f"{name}_{k}" in names
        }


def state_control(pipeline: Pipeline) -> None:
    """Each entry goes through all passes and levels, a step behind the other, and leaves."""
    bench, inside, block = pipeline.bench, pipeline.inside, pipeline.block
    completed, sectors, passes = pipeline.completed, pipeline.sectors, pipeline.passes
    # No entry is complete before all of its sectors have come.
    for i, j in itertools.combinations(range(len(completed)), 2):
        if j - i < sectors:
            bench.require(~(completed[i] & completed[j]))
    for j in range(sectors - 1):
        bench.implies(completed[j], pipeline.index <= j)
    following = (pipeline.index - 1)[: len(pipeline.index)]
    bench.implies(pipeline.has_sector, pipeline.sector_index == following)
    bench.require(
        pipeline.index < sectors,
        completed[0] == (pipeline.has_sector & (pipeline.sector_index == sectors - 1)),
        block.i.ready == pipeline.steps,
        inside["advance"] == pipeline.steps,
        inside["slice_valid"] == pipeline.has_sector,
    )
    if sectors > 1:
        bench.require(inside.register("index") == pipeline.index)
        bench.implies(pipeline.has_sector, inside.register("slice_index") == pipeline.sector_index)
    bench.require(inside["planes_valid"] == completed[1 : 1 + passes].any())
    if passes > 1:
        bench.require(inside.register("number") < passes)
        for n in range(passes):
            bench.implies(pipeline.has_pass(n), inside.register("number") == n)
    for level in range(pipeline.levels):
        at = 2 + level
        valid = completed[at : at + passes].any()
        bench.require(inside[f"valid_{level}"] == valid)
        bench.implies(valid, inside[f"final_{level}"] == completed[at + passes - 1])
    bench.require(block.o.valid == completed[-1])
    # Entries as near as can be.
    bench.cover(completed[-1] & completed[-1 - sectors] & pipeline.has_sector)


def planes_proof(sector_bytes: int, patch: pytest.MonkeyPatch) -> Bench:
    """Classifiers get the differences of neighboring words, bit by bit; bases are first words."""
    pipeline = Pipeline(sector_bytes, patch)
    bench, m, there = pipeline.bench, pipeline.bench.m, pipeline.has_sector
    state_control(pipeline)
    words = [pipeline.word(k) for k in range(pipeline.words)]
    is_first = pipeline.sector_index == 0
    if pipeline.sectors > 1:
        words = [pipeline.word_before, *words]
        bench.implies(there, pipeline.inside["last_word"] == words[-1])
        bench.implies((pipeline.index != 0), there | (pipeline.inside["last_word"] == words[-1]))
        bench.implies(pipeline.index != 0, pipeline.inside.register("base") == pipeline.first_word)
    deltas = [Signal(PLANES, name=f"own_delta_{k}") for k in range(len(words) - 1)]
    for delta, (low, high) in zip(deltas, itertools.pairwise(words), strict=True):
        m.d.comb += delta.eq(high.as_signed() - low.as_signed())
    if pipeline.sectors > 1:
        # The entry's first word has none before it.
        with m.If(is_first):
            m.d.comb += deltas[0].eq(0)
    else:
        assert len(deltas) == DELTAS
    classifiers = pipeline.parts("classifier", PLANES)
    assert len(classifiers) == PLANES
    for k, classifier in classifiers.items():
        bench.implies(
            there,
            classifier.plane == Cat(delta[PLANES - 1 - k] for delta in deltas),
            classifier.above == (classifiers[k - 1].plane if k else 0),
        )
        if pipeline.sectors > 1:
            bench.require(classifier.take == (there & pipeline.steps))
            bench.implies(there, classifier.index == pipeline.sector_index)
    bench.implies(
        pipeline.completed[0], pipeline.inside.component("base").base == pipeline.first_word
    )
    bench.cover(there & (pipeline.sector_index == pipeline.sectors - 1) & deltas[0][0])
    return bench


def codes_proof(sector_bytes: int, patch: pytest.MonkeyPatch) -> Bench:
    """In each pass, each coder gets its code's plane, and what it makes is in the code's place."""
    pipeline = Pipeline(sector_bytes, patch)
    bench, m, inside = pipeline.bench, pipeline.bench.m, pipeline.inside
    state_control(pipeline)
    many = pipeline.block.pass_codes
    runs, base = inside.component("runs"), inside.component("base")
    classifiers = pipeline.parts("classifier", PLANES)
    coders = pipeline.parts("coder", many)
    bench.require(*(runs.zero[k] == classifiers[k].symbol.zero for k in range(PLANES)))

    # What is made of the planes with the last sector is meant in all passes.
    symbols = [Signal(PlaneSymbol(), name=f"own_symbol_{k}") for k in range(PLANES)]
    lasts = [Signal(range(PLANES), name=f"own_last_{k}") for k in range(PLANES)]
    base_code = Signal.like(base.code, name="own_base_code")
    base_length = Signal.like(base.length, name="own_base_length")
    with m.If(pipeline.steps & pipeline.completed[0]):
        for k in range(PLANES):
            m.d.sync += [symbols[k].eq(classifiers[k].symbol), lasts[k].eq(runs.last[k])]
        m.d.sync += [base_code.eq(base.code), base_length.eq(base.length)]
    has_planes = inside["planes_valid"]
    for k in range(PLANES):
        bench.implies(
            has_planes,
            Value.cast(inside[f"symbol_{k}"]) == Value.cast(symbols[k]),
            inside[f"last_{k}"] == lasts[k],
        )
    bench.implies(
        has_planes, inside["base_code"] == base_code, inside["base_length"] == base_length
    )

    def state(number: int, there: Value, coder: Any) -> None:
        """State what the coder of a code gets."""
        if number >= CODES:
            # By the theorem of coders, no bits.
            bench.implies(there, coder.symbol.zero & ~coder.run_ends)
            return
        bench.implies(
            there,
            coder.number == number,
            Value.cast(coder.symbol) == Value.cast(symbols[number - 1]),
            coder.last == lasts[number - 1],
            coder.run_ends == (~symbols[number].zero if number < PLANES else 1),
        )

    for number in range(pipeline.passes * many):
        n, k = divmod(number, many)
        if number > 0:
            state(number, pipeline.has_pass(n), coders[k])
    for k in range(many):
        bits = Signal.like(inside[f"code_{k}_bits"], name=f"own_bits_{k}")
        length = Signal.like(inside[f"code_{k}_length"], name=f"own_length_{k}")
        with m.If(pipeline.steps):
            if k in coders:
                m.d.sync += [bits.eq(coders[k].code), length.eq(coders[k].length)]
            if k == 0:
                with m.If(pipeline.has_pass(0)):
                    m.d.sync += [bits.eq(base_code), length.eq(base_length)]
        bench.implies(
            inside["valid_0"],
            inside[f"code_{k}_bits"] == bits,
            inside[f"code_{k}_length"] == length,
        )
    bench.cover(
        inside["valid_0"] & inside["final_0"] & (inside[f"code_{many - 1}_length"] == 32),
        *(pipeline.has_pass(n) for n in range(pipeline.passes)),
    )
    return bench


def entries_proof(sector_bytes: int, patch: pytest.MonkeyPatch) -> Bench:
    """An entry whose code is too long leaves as it came; none is written over.

    The solver picks an entry by its number. The RTL asserts that there is room.
    """
    pipeline = Pipeline(sector_bytes, patch, ignored=False)
    bench, m, inside = pipeline.bench, pipeline.bench.m, pipeline.inside
    state_control(pipeline)
    sectors, completed, index = pipeline.sectors, pipeline.completed, pipeline.index
    out, data = pipeline.block.o, pipeline.block.i.payload.data
    (depth,) = {ram.depth for ram in pipeline.rams}
    assert len(completed) < 1 << COUNT_BITS
    assert depth < 1 << COUNT_BITS

    picked, came, left = (Signal(COUNT_BITS, name=name) for name in ("picked", "came", "left"))
    own = [Signal(len(data), name=f"own_{k}", reset_less=True) for k in range(sectors)]
    m.d.comb += picked.eq(AnyConst(COUNT_BITS))
    m.d.comb += [ram.followed.eq(picked) for ram in pipeline.rams]
    m.d.sync += [came.eq(came + pipeline.ends), left.eq(left + pipeline.leaves)]
    is_coming = came == picked
    with m.If(pipeline.moves & is_coming):
        m.d.sync += Array(own)[index].eq(data)

    # Codes leave in the order of their entries, one for each.
    in_pipeline = sum(completed[j] for j in range(len(completed)))
    bench.require(left == (came - in_pipeline)[:COUNT_BITS])
    in_memory = sum(completed[j] for j in range(len(completed) - 2))
    is_part = index != 0
    bench.require(
        inside.register("held") == in_memory + is_part,
        inside["into"] == came[: len(inside["into"])],
        inside["out_of"] == (came - in_memory)[: len(inside["out_of"])],
    )
    if sectors > 1:
        bench.require(inside["part"] == index)

    # The picked entry is in its word of the memory until it is read.
    age = Signal(COUNT_BITS, name="entries_behind_the_picked_one")
    m.d.comb += age.eq(came - 1 - picked)
    for k, ram in enumerate(pipeline.rams):
        bench.implies((age < in_memory) | (is_coming & (index > k)), ram.row == own[k])
        bench.implies(completed[-2] & (age == in_memory), ram.read_data == own[k])
    is_out = out.valid & (left == picked)
    bench.implies(is_out & (out.payload.bits > LONGEST_BITS), out.payload.data == Cat(own))
    bench.cover(is_out & (out.payload.bits > LONGEST_BITS) & (own[0] != 0) & (picked == 1))
    return bench


def ram_proof() -> Bench:
    """`FollowedRam` gives of its address what `Ram` gives; other addresses are not seen."""
    bench = Bench()
    m = bench.m
    ram, followed = OpenRam(4, 4), FollowedRam(4, 4)
    bench.add(ram)
    bench.add(followed)
    m.d.comb += [*anything_at(ram, In), followed.followed.eq(AnyConst(2))]
    for name, member in ram.signature.members.items():
        if member.flow is In:
            m.d.comb += getattr(followed, name).eq(getattr(ram, name))
    at_it = ram.read_address == followed.followed
    is_written = ram.write_enable & (ram.write_address == ram.read_address)
    is_read, was_written = Signal(), Signal()
    with m.If(ram.write_enable & (ram.write_address == followed.followed)):
        m.d.sync += was_written.eq(1)
    with m.If(ram.read_enable):
        m.d.sync += is_read.eq(at_it & ~is_written & was_written)
    bench.implies(was_written, Array(ram.rows)[followed.followed] == followed.row)
    bench.implies(is_read, followed.read_data == ram.read_data)
    bench.cover(is_read & (ram.read_data == 3) & (followed.followed == 3))
    return bench


PROOFS = {"planes": planes_proof, "codes": codes_proof, "entries": entries_proof}


@pytest.mark.verify
@pytest.mark.parametrize("sector_bytes", SECTORS)
@pytest.mark.parametrize("proof", list(PROOFS))
def test_up_to_its_codes(proof, sector_bytes, monkeypatch, tmp_path):
    prove(PROOFS[proof](sector_bytes, monkeypatch), tmp_path, depth=1, cover_depth=16)


def test_followed_word_is_that_of_a_memory(tmp_path):
    prove(ram_proof(), tmp_path, depth=1, cover_depth=6)


FAULTS = {
    "a pass less": (codes_proof, "number == passes - 1 if", "number == passes - 2 if"),
    "the base's place has a plane's code": (
        codes_proof,
        "advance & (number != 0) if k == 0 else advance",
        "advance",
    ),
    "a run from another plane": (codes_proof, "planes.last[own - 1]", "planes.last[own - 2]"),
    "a run ends with each of its planes": (
        codes_proof,
        "coder.run_ends.eq(~planes.symbols[own].zero if",
        "coder.run_ends.eq(planes.symbols[own].zero if",
    ),
    "the last code is left out": (codes_proof, "if 0 < own < CODES:", "if 0 < own <= CODES - 2:"),
    "a delta across entries": (planes_proof, "Mux(first, 0, across)", "across"),
    "the word before is another": (
        planes_proof,
        "last_word.eq(sector[-1])",
        "last_word.eq(sector[-2])",
    ),
    "planes from below": (planes_proof, "delta[PLANES - 1 - k]", "delta[k]"),
    "slices that stall are taken twice": (
        planes_proof,
        "classifier.take.eq(advance & slice_valid)",
        "classifier.take.eq(slice_valid)",
    ),
    "a base of the next entry": (
        planes_proof,
        "with m.If(first):\n",
        "with m.If(~first):\n",
    ),
    "the entry that comes in": (entries_proof, "read_address.eq(out_of)", "read_address.eq(into)"),
    "a bit too long": (
        entries_proof,
        "too_long.eq(length > self.longest_bits)",
        "too_long.eq(length > self.longest_bits + 1)",
    ),
    "no room": (
        entries_proof,
        "((self.entry_latency - 2) // sectors)",
        "((self.entry_latency - 2) // (2 * sectors))",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(FAULTS))
def test_compressor_with_a_fault_is_found(fault, monkeypatch, tmp_path):
    proof, right, wrong = FAULTS[fault]
    break_elaborate(monkeypatch, BpcCompressor, right, wrong)
    find_fault(proof(32, monkeypatch), tmp_path, depth=16)


@pytest.mark.verify
def test_next_entry_after_a_stall_is_found(monkeypatch, tmp_path):
    # Entries of several sectors are never as near as to be read while one waits.
    right, wrong = "kept.read_enable.eq(advance)", "kept.read_enable.eq(1)"
    break_elaborate(monkeypatch, BpcCompressor, right, wrong)
    find_fault(entries_proof(128, monkeypatch), tmp_path, depth=12)
