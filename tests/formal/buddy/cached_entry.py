"""One entry of a slice of the metadata cache: memory behind it, and what is true of it inside.

The solver picks a line and a nibble of it. An entry is at most in one place of the data array, and
that changes only as the store executes the tasks of the tags, in order. So what the tags say of the
line is where it is after all tasks that are on their way, and the value that is expected next is in
the data array, in a write that memory has not answered yet, or in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import data

from cdma.golden.buddy.entry import METADATA_BITS
from cdma.hw.buddy.metadata import line as layout
from cdma.hw.buddy.metadata.line import LineShape, StoreTask, TagAccess, TagWord, Walk
from cdma.hw.buddy.metadata.slice import MetadataSlice
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.bus.burst import BusError, WriteBeat
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.count import count_ones, total
from tests.formal.bench import Bench
from tests.formal.order import Order, one
from tests.formal.queues import Queue, StraightFifo

RUN, DRAIN, WALK, SETTLE = range(4)
"""States of a slice."""


def select(items: Sequence[Any], index: Any) -> Value:
    """One of the items; the first, if the index has no bits."""
    values = [Value.cast(item) for item in items]
    return Array(values)[index] if len(Value.cast(index)) else values[0]


class Ghosts:
    """A queue of a proof's own, the oldest item first.

    Attributes
    ----------
    count : Signal
    items : list[Signal]
    """

    def __init__(
        self, m: Module, name: str, bits: int, depth: int, *, push: Value, item: Value, pop: Value
    ) -> None:
        self.count = Signal(range(depth + 1), name=f"{name}_count")
        self.items = [Signal(bits, name=f"{name}_{k}") for k in range(depth)]
        m.d.sync += self.count.eq(self.count + push - pop)
        with m.If(pop):
            m.d.sync += [
                item.eq(behind) for item, behind in zip(self.items, self.items[1:], strict=False)
            ]
        for k, place in enumerate(self.items):
            with m.If(push & (self.count - pop == k)):
                m.d.sync += place.eq(item)


class QuietBench(Bench):
    """A bench that demands only what `demand` is told: all ports have carried transfers by then."""

    def reach(self, *conditions: Value) -> None:
        pass

    def demand(self, *conditions: Value) -> None:
        super().reach(*conditions)


@dataclass
class Steps:
    """Steps that are left of a task, at one place on its way: evict, fill, look up.

    Attributes
    ----------
    evict, fill, lookup : Value
    task : data.View
    picked : Value
        The lookup is of the picked line.
    """

    evict: Value
    fill: Value
    lookup: Value
    task: Any
    picked: Value

    @property
    def active(self) -> Value:
        return self.evict | self.fill | self.lookup


class CachedEntry:
    """A slice with anything at its ports, and memory, as far as it concerns the entry.

    Memory answers in order, without errors, with what was last written; while a write of the line
    is not answered, it gives anything.

    Attributes
    ----------
    bench : Bench
    expected : Signal
        What was last written to the entry by lookups that have a result, or what memory held.
    stored : Signal
        What memory holds.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.bench = QuietBench()
        self.m = self.bench.m
        self.config = config
        self.shape = LineShape(config)
        self.part = MetadataSlice(config)
        self.inside = self.bench.add(self.part)
        self._pick()
        self._attach_lookups()
        self._attach_memory()
        self._follow_tasks()
        self._state_contract()

    def _pick(self) -> None:
        """Let the solver choose the entry."""
        self.line = Signal(self.shape.line_bits, name="picked_line")
        self.place = Signal(layout.ROW_PLACE_BITS, name="picked_place")
        self.m.d.comb += [
            self.line.eq(AnyConst(len(self.line))),
            self.place.eq(AnyConst(len(self.place))),
        ]
        self.set = self.line[: self.shape.set_bits]
        self.tag = self.line[self.shape.set_bits :]
        self.nibbles = layout.ROW_BITS // METADATA_BITS

    def nibble(self, row: Any) -> Signal:
        """The entry's place in a row."""
        found = Signal(METADATA_BITS, name="nibble")
        self.m.d.comb += found.eq(Value.cast(row).word_select(self.place, METADATA_BITS))
        return found

    def coded_nibble(self, row: Any) -> Signal:
        """The same in a row of codewords."""
        return self.nibble(Cat(row[k][: layout.WORD_BITS] for k in range(layout.ROW_WORDS)))

    def _attach_lookups(self) -> None:
        bench, part = self.bench, self.part
        self.lookup = bench.drive(part.lookup)
        self.result = bench.watch(part.o)
        bench.assume(part.lookup.payload.place < self.nibbles)
        # Commands come from registers, so they stay until the clock edge of a reset.
        self.command = bench.drive(part.command)
        walk = part.command.payload
        bench.assume(
            ~self.command.waiting | (self.command.valid & self.command.unchanged),
            ~walk.failed,
            ~walk.blind | (walk.invalidate & ~walk.write_back),
        )

    def _attach_memory(self) -> None:
        bench, m, part = self.bench, self.m, self.part
        self.reads, self.beats = bench.watch(part.read_request), bench.drive(part.read_beats)
        self.writes, self.bursts = bench.watch(part.write_request), bench.watch(part.write_beats)
        self.response = bench.drive(part.write_response)
        self.asked = Ghosts(
            m,
            "asked",
            1,
            self.config.misses,
            push=self.reads.moves,
            item=self.reads.payload == self.line,
            pop=self.beats.moves,
        )
        self.unanswered = Ghosts(
            m,
            "unanswered",
            1,
            self.shape.evictions,
            push=self.writes.moves,
            item=self.writes.payload == self.line,
            pop=self.response.moves,
        )
        self.written = Ghosts(
            m,
            "written",
            METADATA_BITS,
            self.shape.evictions,
            push=self.bursts.moves,
            item=self.nibble(self.bursts.payload.data),
            pop=self.response.moves,
        )
        self.stored = Signal(METADATA_BITS, reset_less=True)
        self.writing = Signal()
        answers_write = Signal()
        m.d.comb += [
            self.writing.eq(
                Cat(
                    (self.unanswered.count > k) & item
                    for k, item in enumerate(self.unanswered.items)
                ).any()
            ),
            answers_write.eq(self.response.moves & self.unanswered.items[0]),
        ]
        beat, answer = part.read_beats.payload, part.write_response.payload
        bench.assume(
            ~self.beats.valid | ((self.asked.count != 0) & (beat.error == BusError.NONE)),
            ~(self.beats.valid & self.asked.items[0] & ~self.writing)
            | (self.nibble(beat.data) == self.stored),
            ~self.response.valid
            | (
                (self.unanswered.count != 0) & (self.written.count != 0) & (answer == BusError.NONE)
            ),
        )
        # After a reset, of which memory may know nothing, it holds anything.
        self.fresh = Signal(METADATA_BITS)
        m.d.comb += self.fresh.eq(AnySeq(METADATA_BITS))
        with m.If(answers_write):
            m.d.sync += self.stored.eq(self.written.items[0])
        with m.If(ResetSignal()):
            m.d.sync += self.stored.eq(self.fresh)
        self.written_back = Signal()
        with m.If(answers_write):
            m.d.sync += self.written_back.eq(1)
        self.answers_write = answers_write

    def _follow_tasks(self) -> None:
        """Know of each task whether its lookup is of the picked line."""
        m, inside = self.m, self.inside
        fifo = inside.component("tasks")
        self.access = data.View(TagAccess(self.config), inside.register("tags.array.access"))
        self.ghosts = StraightFifo(1, self.shape.tasks)
        self.inside_ghosts = self.bench.add(self.ghosts)
        m.d.comb += [
            self.ghosts.i.valid.eq(fifo.i.valid),
            self.ghosts.i.payload.eq(~self.access.is_walk & (self.access.lookup.line == self.line)),
            self.ghosts.o.ready.eq(fifo.o.ready),
        ]
        self.advance = inside["store.advance"]
        self.reading_picked = Signal()
        self.decoded_picked = Signal()
        with m.If(self.advance):
            m.d.sync += [
                self.reading_picked.eq(self.ghosts.o.payload),
                self.decoded_picked.eq(self.reading_picked),
            ]
        self.responding = data.View(StoreTask(self.config), inside["store.decoded_task"])

    def _state_contract(self) -> None:
        """State what the ports show."""
        bench, m, part, inside = self.bench, self.m, self.part, self.inside
        self.expected = Signal(METADATA_BITS, reset_less=True)
        task = self.responding
        of_entry = Signal()
        m.d.comb += of_entry.eq(self.decoded_picked & (task.place == self.place))
        bench.implies(
            self.result.valid & of_entry,
            part.o.payload.error == MetadataError.NONE,
            part.o.payload.metadata == self.expected,
        )
        bench.implies(self.reads.valid & (self.reads.payload == self.line), ~self.writing)
        bench.implies(self.answers_write, self.written.items[0] == self.expected)
        beat = part.write_beats.payload
        bench.implies(self.bursts.valid, beat.strobe.all(), beat.last)
        with m.If(self.result.moves & of_entry & task.write):
            m.d.sync += self.expected.eq(task.metadata)
        # A walk ends: the line was written to memory, or dropped, or both.
        self.settled = Signal()
        self.walk = data.View(Walk(), inside.register("walk"))
        m.d.comb += self.settled.eq((inside["fsm_state"] == SETTLE) & inside["all_idle"])
        bench.implies(self.settled & self.walk.write_back, self.stored == self.expected)
        with m.If(self.settled & self.walk.invalidate):
            m.d.sync += self.expected.eq(self.stored)
        with m.If(ResetSignal()):
            m.d.sync += self.expected.eq(self.fresh)

        def item(line_picked: Value, lookup: Any) -> Value:
            return Cat(line_picked, lookup.place, lookup.write, lookup.metadata)

        asked = self.lookup.payload
        self.item = item
        self.order = Order(bench, len(item(Const(0, 1), asked)), count_bits=4)
        self.order.comes(one(self.lookup.moves, item(asked.line == self.line, asked)))
        self.order.leaves(one(self.result.moves, item(self.decoded_picked, task)))
        self.uses = (
            self.result.moves & of_entry & task.hit & (self.expected != self.stored),
            self.result.moves & of_entry & task.fill & self.written_back,
            self.settled & self.walk.write_back & self.written_back,
        )

    def reach_uses(self) -> None:
        """Demand that an update is seen, a line comes again after it was evicted, and a flush.

        The solver need not find out how: lookups of one entry are those that lead there in two
        ways of one set, and nothing outside makes the slice wait.
        """
        bench, m, part = self.bench, self.m, self.part
        count = Signal(range(8), name="lookup_count")
        m.d.sync += count.eq(count + self.lookup.moves)
        asked = part.lookup.payload
        other = Signal()
        m.d.comb += other.eq((count == 2) | (count == 3))
        data_of = Mux(self.asked.items[0], self.stored.replicate(self.nibbles), 0)
        bench.assume(
            self.line == (1 << len(self.line)) - 2,
            self.place == 1,
            part.read_beats.payload.data == data_of,
            asked.metadata == count + 1,
            ~ResetSignal(),
            part.lookup.valid == (count < 6),
            asked.line == Mux(other, self.line ^ (count - 1), self.line),
            asked.place == self.place,
            asked.write == ((count == 0) | (count == 5)),
            part.command.valid == (count == 6),
            part.command.payload.write_back,
            part.command.payload.invalidate,
            part.o.ready,
            part.read_request.ready,
            part.write_request.ready,
            part.write_beats.ready,
            self.beats.valid == (self.asked.count != 0),
            self.response.valid == ((self.unanswered.count != 0) & (self.written.count != 0)),
        )
        self.bench.demand(*self.uses)

    def require_invariants(self) -> None:
        """Add what makes the contract inductive."""
        self._require_steps()
        self._require_no_errors()
        self._require_evictions()
        self._require_values()
        self._require_tags()
        self._require_walks()
        self._require_fetches()
        self._require_data()
        self.order.on_the_way(
            *(one(step.lookup, self.item(step.picked, step.task)) for step in self.steps),
            *(
                one(
                    valid & ~access.is_walk,
                    self.item(access.lookup.line == self.line, access.lookup),
                )
                for valid, access in reversed(self.accesses)
            ),
        )

    def _in_set(self, number: Any) -> Value:
        return number == self.set if self.shape.set_bits else Const(1)

    def _position(self, way: Any) -> Value:
        """The number of the line in the data array that has this way of the picked set."""
        return Cat(way, self.set)

    def _require_steps(self) -> None:
        """State which steps are left of the tasks, the oldest first."""
        bench, inside, config = self.bench, self.inside, self.config
        self.tasks = Queue.inside(bench, inside, "tasks")
        ghosts = Queue(bench, self.ghosts, self.inside_ghosts)
        bench.require(
            self.inside_ghosts["stored"] == inside["tasks.stored"],
            self.inside_ghosts["holds"] == inside["tasks.holds"],
        )
        state = inside["fsm_state"]
        self.walking = Signal()
        self.m.d.comb += self.walking.eq((state == WALK) | (state == SETTLE))

        self.steps = []
        stages = (("decoded", self.decoded_picked), ("reading", self.reading_picked))
        for stage, picked in stages:
            step = Steps(
                *(inside[f"store.{stage}_{kind}"] for kind in ("evict", "fill", "lookup")),
                task=data.View(StoreTask(config), inside[f"store.{stage}_task"]),
                picked=picked,
            )
            bench.require(count_ones(Cat(step.evict, step.fill, step.lookup)) <= 1)
            bench.implies(
                step.active,
                inside[f"store.{stage}_address"] == Cat(step.task.way, step.task.set),
                inside[f"store.{stage}_error"] == MetadataError.NONE,
                inside[f"store.{stage}_last"],
            )
            bench.implies(step.evict, step.task.evict)
            bench.implies(step.fill, step.task.fill)
            bench.implies(step.lookup, step.task.respond)
            self.steps.append(step)
        evict_done = inside["store.sequencer.evict_done"]
        fill_done = inside["store.sequencer.fill_done"]
        for k, ((valid, item), (_, ghost)) in enumerate(
            zip(self.tasks.items, ghosts.items, strict=True)
        ):
            task = data.View(StoreTask(config), item)
            bench.implies(valid, task.evict | task.respond)
            evicts, fills = task.evict, task.fill
            if k == 0:
                bench.implies(evict_done, valid, evicts, task.respond)
                bench.implies(fill_done, valid, fills, evict_done | ~evicts)
                evicts, fills = evicts & ~evict_done, fills & ~fill_done
            picked = Value.cast(ghost)
            self.steps.append(
                Steps(valid & evicts, valid & fills, valid & task.respond, task, picked)
            )
        for step in self.steps:
            bench.implies(step.active, ~step.task.tag_error, step.task.respond == ~self.walking)
            bench.implies(step.active & step.task.fill, step.task.respond)
            bench.implies(step.active & step.picked, step.task.respond)
            bench.implies(step.lookup, step.task.place < self.nibbles)

    def _require_no_errors(self) -> None:
        inside = self.inside
        outcomes = inside.component("store.sequencer.outcomes").rows
        fetched = [inside[f"mshrs.outcome_{k}"] for k in range(self.config.misses)]
        errors = [*outcomes, *fetched, inside["mshrs.earlier_error"]]
        self.bench.require(
            *(error == MetadataError.NONE for error in errors),
            ~inside.register("tags.array.corrected").any(),
            ~inside.register("tags.array.uncorrectable").any(),
            ~inside.register("store.corrected").any(),
            ~inside.register("store.uncorrectable").any(),
            ~inside.register("failed"),
        )

    def _require_evictions(self) -> None:
        """State where evictions are, and that of the picked line carries what is expected."""
        bench, m, inside, shape = self.bench, self.m, self.inside, self.shape
        outstanding = inside["evictions.outstanding"]
        requests = Queue.inside(bench, inside, "evictions.requests")
        unanswered = Queue.inside(bench, inside, "evictions.unanswered")
        beats = Queue.inside(bench, inside, "evictions.beats")
        self.is_picked = Signal(shape.evictions)
        self.outstanding_picked = Signal()
        lines = [inside[f"evictions.line_{k}"] for k in range(shape.evictions)]
        m.d.comb += [
            self.is_picked.eq(Cat(line == self.line for line in lines)),
            self.outstanding_picked.eq((outstanding & self.is_picked).any()),
        ]
        # Each number is in one place.
        for number in range(shape.evictions):
            places = [
                *(step.evict & (step.task.eviction == number) for step in self.steps),
                *(valid & (item == number) for valid, item in (*requests.items, *unanswered.items)),
            ]
            bench.require(total(places) == outstanding[number])
        sent_count = Signal(range(2 * shape.evictions + 3))
        m.d.comb += sent_count.eq(requests.count + unanswered.count)
        bench.require(
            sent_count == self.written.count + beats.count,
            unanswered.count == self.unanswered.count,
            inside["evictions.next_number"] < shape.evictions,
        )
        # Those that the store has executed, the oldest first: their numbers, and what they write.
        rows = [data.View(WriteBeat(layout.ROW_BITS // 8), row) for row in beats.numbered]
        values = [self.nibble(row.data) for row in rows]
        found = []
        for k in range(shape.evictions):
            number = Signal(shape.eviction_bits, name=f"sent_{k}")
            value = Signal(METADATA_BITS, name=f"sent_value_{k}")
            picked = Signal(name=f"sent_picked_{k}")
            m.d.comb += [
                number.eq(Array(requests.numbered)[_offset(k, unanswered.count)]),
                value.eq(Array(values)[_offset(k, self.written.count)]),
                picked.eq((sent_count > k) & self.is_picked.bit_select(number, 1)),
            ]
            with m.If(unanswered.count > k):
                m.d.comb += number.eq(unanswered.numbered[k])
            with m.If(self.written.count > k):
                m.d.comb += value.eq(self.written.items[k])
            bench.implies(picked, value == self.expected)
            bench.implies(unanswered.count > k, self.unanswered.items[k] == picked)
            found.append(picked)
        self.sent = Signal()
        m.d.comb += self.sent.eq(Cat(found).any())
        bench.require(count_ones(Cat(found)) <= 1)
        for valid, item in beats.items:
            row = data.View(WriteBeat(layout.ROW_BITS // 8), item)
            bench.implies(valid, row.strobe.all(), row.last)

    def _require_values(self) -> None:
        """State where the entry is, before and after each step that is left."""
        bench, m, shape = self.bench, self.m, self.shape
        self.positions = [
            self.coded_nibble(row) for row in self.inside.component("store.data").rows
        ]
        resident = Signal()
        resident_way = Signal(shape.way_bits)
        changed = Signal()
        held = Signal(METADATA_BITS)
        m.d.comb += held.eq(select(self.positions, self._position(resident_way)))
        bench.implies(resident, held == self.expected)
        bench.implies(~changed & ~self.sent, self.stored == self.expected)
        bench.implies(changed, resident, ~self.sent)

        here, way, differs, evicted = resident, resident_way, changed, self.sent
        for k, step in enumerate(self.steps):
            task = step.task
            # It is evicted with its number, once, and stays until another line is filled in.
            at = Signal(name=f"at_{k}")
            m.d.comb += at.eq(here & self._in_set(task.set) & (task.way == way))
            bench.implies(step.evict, self.is_picked.bit_select(task.eviction, 1) == at)
            bench.implies(step.evict & at, ~evicted)
            after_evict = Signal(2, name=f"after_evict_{k}")
            m.d.comb += after_evict.eq(Mux(step.evict & at, 0b10, Cat(differs, evicted)))
            differs, evicted = after_evict[0], after_evict[1]
            # It is filled from memory only if that is up to date.
            bench.implies(step.fill & step.picked, ~differs, ~evicted, self._in_set(task.set))
            bench.implies(step.fill & at, ~differs)
            after_fill = Signal(1 + shape.way_bits, name=f"after_fill_{k}")
            m.d.comb += after_fill.eq(Cat(here & ~(step.fill & at), way))
            with m.If(step.fill & step.picked):
                m.d.comb += after_fill.eq(Cat(Const(1, 1), task.way))
            here, way = after_fill[0], after_fill[1:]
            # Lookups of the line are those of its place.
            found = Signal(name=f"found_{k}")
            after = Signal(name=f"differs_{k}")
            m.d.comb += [
                found.eq(here & self._in_set(task.set) & (task.way == way)),
                after.eq(
                    differs | (step.lookup & step.picked & task.write & (task.place == self.place))
                ),
            ]
            bench.implies(step.lookup, found == step.picked)
            differs = after
            if k == 0:
                with m.If(self.advance):
                    m.d.sync += [resident.eq(here), resident_way.eq(way), changed.eq(differs)]
        bench.require(evicted == self.outstanding_picked)
        self.here, self.way, self.differs = here, way, differs
        self.resident, self.changed = resident, changed

    def _require_tags(self) -> None:
        """State that the tags tell where the entry is after all steps."""
        bench, m, inside, shape = self.bench, self.m, self.inside, self.shape
        ways = self.config.ways
        memory = inside.component("tags.array.codewords")
        bits = TagWord(self.config).size
        rows = [
            [data.View(TagWord(self.config), Value.cast(row[w])[:bits]) for w in range(ways)]
            for row in memory.rows
        ]
        for row in rows:
            for w in range(ways):
                bench.implies(row[w].dirty, row[w].valid)
                for v in range(w):
                    bench.require(~(row[v].valid & row[w].valid & (row[v].tag == row[w].tag)))

        read_access = data.View(TagAccess(self.config), inside["tags.array.read_access"])
        read_valid = inside["tags.array.read_valid"]
        valid = inside.register("tags.array.valid")
        self.accesses = [(read_valid, read_access), (valid, self.access)]
        self.line_counter = inside.register("line")
        # The position of each access, as a walk counts them.
        self.walked = []
        for k, (_, access) in enumerate(self.accesses):
            walked = Signal.like(self.line_counter, name=f"walked_{k}")
            m.d.comb += walked.eq(Cat(access.way, access.lookup.line[: shape.set_bits]))
            self.walked.append(walked)
        sets = [access.lookup.line[: shape.set_bits] for _, access in self.accesses]
        bench.implies(read_valid, Value.cast(memory.reads[0].data) == select(memory.rows, sets[0]))
        for w in range(ways):
            word = inside[f"tags.array.word_{w}"]
            bench.implies(valid, word == select([row[w] for row in rows], sets[1]))

        # After a reset, tags mean nothing until the walk has passed them.
        consistent = Signal()
        holders = Signal(ways)
        m.d.comb += consistent.eq(~(self.walking & self.walk.blind))
        for w in range(ways):
            word = Signal(TagWord(self.config), name=f"picked_word_{w}")
            passed = Signal(name=f"passed_{w}")
            position = self._position(Const(w, shape.way_bits))
            reached = [
                access_valid & (walked == position)
                for (access_valid, _), walked in zip(self.accesses, self.walked, strict=True)
            ]
            m.d.comb += [
                Value.cast(word).eq(select([row[w] for row in rows], self.set)),
                holders[w].eq(word.valid & (word.tag == self.tag)),
                passed.eq(
                    self.walking
                    & ~Cat(reached).any()
                    & ((inside["fsm_state"] == SETTLE) | (self.line_counter > position))
                ),
            ]
            bench.implies(passed & self.walk.invalidate, Value.cast(word) == 0)
            bench.implies(passed & self.walk.write_back, ~word.dirty)
            here = self.here & (self.way == w)
            bench.implies(consistent & word.valid, holders[w] == here)
            bench.implies(
                consistent & here & self.differs,
                (word.dirty & holders[w]) | (passed & self.walk.invalidate & ~self.walk.write_back),
            )
            bench.implies(consistent & holders[w] & ~passed, ~self.outstanding_picked)
        bench.implies(~self.walking & self.here, holders.any())
        # What a walk has dropped is nowhere, and what it has written is not changed.
        with m.If(self.settled):
            with m.If(self.walk.write_back):
                m.d.sync += self.changed.eq(0)
            with m.If(~holders.any()):
                m.d.sync += [self.resident.eq(0), self.changed.eq(0)]

    def _require_walks(self) -> None:
        """State that walks go through all lines, each alone in the slice."""
        bench, m, inside = self.bench, self.m, self.inside
        state, count, walk = inside["fsm_state"], self.line_counter, self.walk
        for valid, access in self.accesses:
            bench.implies(valid, access.is_walk == self.walking)
            bench.implies(valid & self.walking, Value.cast(access.walk) == Value.cast(walk))
            bench.implies(valid & ~self.walking, access.lookup.place < self.nibbles)
        newest, before = Signal.like(count), Signal.like(count)
        (read_valid, _), (valid, _) = self.accesses
        m.d.comb += [newest.eq(count - 1), before.eq(count - 1 - read_valid)]
        bench.implies(self.walking & read_valid, self.walked[0] == newest)
        bench.implies(self.walking & valid, self.walked[1] == before)
        bench.implies(state == WALK, read_valid == (count != 0), valid == (count > 1))
        bench.implies(state != WALK, count == 0)
        bench.require(~walk.failed)
        bench.implies(walk.blind, walk.invalidate, ~walk.write_back)
        bench.implies(
            self.walking & inside["is_command"],
            self.command.waiting,
            Value.cast(walk) == Value.cast(self.part.command.payload),
        )
        bench.implies(self.walking & ~inside["is_command"], walk.blind)
        bench.implies(state == DRAIN, self.command.waiting)
        bench.implies(
            self.walking & walk.blind,
            self.tasks.count == 0,
            inside["store.idle"],
            inside["evictions.outstanding"] == 0,
        )
        bench.implies(self.walking, inside["mshrs.allocated"] == 0)
        bench.require(inside["tasks_queued"] == self.tasks.count)

    def _require_fetches(self) -> None:
        """State that lines are asked for and come in the order of the tasks that fill them in."""
        bench, m, inside, misses = self.bench, self.m, self.inside, self.config.misses
        skid = [(inside[f"fetches.{p}_valid"], inside[f"fetches.{p}"]) for p in ("front", "spare")]
        bench.implies(skid[1][0], skid[0][0])
        complete = inside.register("mshrs.complete")
        oldest, filled = inside["mshrs.oldest"], inside["mshrs.filled"]
        rows = [self.nibble(row) for row in inside.component("mshrs.rows").rows]
        fills = self.steps[2:]
        count = Signal(range(len(fills) + 1), name="fill_count")
        end = Signal(range(2 * misses + 1), name="filled_end")
        m.d.comb += [count.eq(total([step.fill for step in fills])), end.eq(oldest + complete)]
        bench.require(
            inside["mshrs.allocated"] == count,
            count <= misses,
            count == complete + self.asked.count + skid[0][0] + skid[1][0],
            oldest < misses,
            filled == Mux(end >= misses, end - misses, end),
        )
        before = Const(0)
        for k, step in enumerate(fills):
            ordinal = Signal(range(len(fills)), name=f"ordinal_{k}")
            m.d.comb += ordinal.eq(before)
            for j in range(misses):
                at = Signal(range(2 * misses), name=f"fill_at_{k}_{j}")
                slot = Signal(range(len(rows)), name=f"fill_slot_{k}_{j}")
                m.d.comb += [
                    at.eq(oldest + j),
                    slot.eq(Mux(at >= misses, at - misses, at)),
                ]
                is_jth = step.fill & (ordinal == j)
                bench.implies(
                    is_jth & (complete > j) & step.picked, select(rows, slot) == self.stored
                )
                for i in range(misses):
                    bench.implies(
                        is_jth & (complete + i == j) & (self.asked.count > i),
                        self.asked.items[i] == step.picked,
                    )
                for i, (valid, line) in enumerate(skid):
                    bench.implies(
                        is_jth & (complete + self.asked.count + i == j) & valid,
                        (line == self.line) == step.picked,
                    )
            before = before + step.fill

    def _require_data(self) -> None:
        """State what the stages of the store hold."""
        bench, inside = self.bench, self.inside
        decoded, reading = self.steps[:2]
        memory = inside.component("store.data")
        values = self.nibble(inside["store.row"]), self.coded_nibble(memory.reads[0].data)
        for step, value in zip((decoded, reading), values, strict=True):
            bench.implies(
                (step.evict | step.lookup) & self._in_set(step.task.set),
                value == select(self.positions, self._position(step.task.way)),
            )
        fetched = self.nibble(inside.component("mshrs").data)
        bench.implies(decoded.fill & decoded.picked, values[0] == self.stored)
        bench.implies(reading.fill & reading.picked, fetched == self.stored)


def _offset(k: int, count: Value) -> Value:
    """The k-th of several items, counted from behind the first `count`, which it must not be of."""
    return (k - count)[: len(count)]
