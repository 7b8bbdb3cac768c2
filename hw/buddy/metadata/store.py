"""The data of a slice of the cache: rows are filled, read, changed and evicted."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import METADATA_BITS
from cdma.hw.buddy.metadata.line import (
    ROW_BITS,
    ROW_PLACE_BITS,
    ROW_WORDS,
    WORD_BITS,
    WORD_PLACE_BITS,
    CodedRow,
    EvictedRow,
    LineShape,
    SliceResult,
    StoreTask,
)
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.codes.ecc import EccDecoder, EccEncoder


class StepSequencer(wiring.Component):
    """Splits each task into its steps: rows out, rows in, and the lookup.

        task      evict  row 0 … row n-1    unless the line's fetch has failed: then `drop`
                  fill   row 0 … row n-1    once the line is fetched
                  lookup                    one cycle

    A line whose fetch has failed is recorded as failed. Lookups of it end with its error.

    Latency: 0 cycles. Throughput: a step per cycle; a task's last step may be its first one.
    Cost: 2 bits for each line.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(StoreTask(config)))`
    advance : `In(1)`
        The data array accepts a step.
    evict, fill, lookup : `Out(1)`
        The kind of the present step; none if all are 0.
    address : `Out(...)`
        The step's row in the data array.
    last : `Out(1)`
        The row is the line's last one.
    error : `Out(MetadataError)`
        Error of a lookup.
    fill_complete, fill_error, fill_row, fill_release, drop, dropped
    failed_set, failed_way, failed, fetch_failed
        As in `MetadataStore`.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "i": In(stream.Signature(StoreTask(config))),
                "advance": In(1),
                "evict": Out(1),
                "fill": Out(1),
                "lookup": Out(1),
                "address": Out(shape.row_bits + shape.set_bits + shape.way_bits),
                "last": Out(1),
                "error": Out(MetadataError),
                "fill_complete": In(1),
                "fill_error": In(MetadataError),
                "fill_row": Out(shape.row_bits),
                "fill_release": Out(1),
                "drop": Out(1),
                "dropped": Out(shape.eviction_bits),
                "failed_set": In(shape.set_bits),
                "failed_way": In(shape.way_bits),
                "failed": Out(1),
                "fetch_failed": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = LineShape(self.config)
        # Written with each line that is filled, and read only for lines that have been filled.
        m.submodules.outcomes = outcomes = memory.Memory(
            shape=MetadataError, depth=max(2, shape.lines), init=[]
        )
        outcome_write = outcomes.write_port()
        outcome_read = outcomes.read_port(domain="comb")
        failed_read = outcomes.read_port(domain="comb")

        task = self.i.payload
        line = Signal(shape.set_bits + shape.way_bits)
        outcome = Signal(MetadataError)
        line_failed = Signal()
        row = Signal(shape.row_bits)
        m.d.comb += [
            line.eq(Cat(task.way, task.set)),
            outcome_read.addr.eq(line),
            outcome.eq(outcome_read.data),
            line_failed.eq(outcome != MetadataError.NONE),
            failed_read.addr.eq(Cat(self.failed_way, self.failed_set)),
            self.failed.eq(failed_read.data != MetadataError.NONE),
            self.last.eq(row.all() if shape.row_bits else 1),
            outcome_write.addr.eq(line),
            outcome_write.data.eq(self.fill_error),
            self.dropped.eq(task.eviction),
            self.fill_row.eq(row),
        ]

        evict_done = Signal()
        fill_done = Signal()
        task_done = Signal()
        with m.If(self.i.valid & self.advance):
            with m.If(task.evict & ~evict_done):
                m.d.comb += [
                    self.evict.eq(~line_failed),
                    self.drop.eq(line_failed),
                    task_done.eq((line_failed | self.last) & ~task.respond),
                ]
                m.d.sync += evict_done.eq(line_failed | self.last)
            with m.Elif(task.fill & ~fill_done):
                with m.If(self.fill_complete):
                    m.d.comb += [
                        self.fill.eq(self.fill_error == MetadataError.NONE),
                        self.fetch_failed.eq(self.fill_error != MetadataError.NONE),
                        self.fill_release.eq(self.fetch_failed | self.last),
                        outcome_write.en.eq(self.fill_release),
                    ]
                    m.d.sync += fill_done.eq(self.fill_release)
            with m.Else():
                m.d.comb += [self.lookup.eq(1), task_done.eq(1)]
        with m.If(self.evict | self.fill):
            m.d.sync += row.eq(row + 1)
        with m.If(task_done):
            m.d.sync += [evict_done.eq(0), fill_done.eq(0)]
        m.d.comb += self.i.ready.eq(task_done)
        with m.If(task.tag_error):
            m.d.comb += self.error.eq(MetadataError.UNCORRECTABLE)
        with m.Else():
            m.d.comb += self.error.eq(outcome)

        step_row = Signal(shape.row_bits)
        m.d.comb += [
            step_row.eq(Mux(self.lookup, task.place[ROW_PLACE_BITS:], row)),
            self.address.eq(Cat(step_row, line)),
        ]
        return m


class StepStage(NamedTuple):
    """A stage of the data array's pipeline: the kind of its step, and what the step needs."""

    evict: Signal
    fill: Signal
    lookup: Signal
    task: Any
    address: Signal
    error: Signal
    last: Signal

    @classmethod
    def new(cls, config: MetadataCacheConfig, address_bits: int, name: str) -> "StepStage":
        return cls(
            evict=Signal(name=f"{name}_evict"),
            fill=Signal(name=f"{name}_fill"),
            lookup=Signal(name=f"{name}_lookup"),
            task=Signal(StoreTask(config), name=f"{name}_task", reset_less=True),
            address=Signal(address_bits, name=f"{name}_address", reset_less=True),
            error=Signal(MetadataError, name=f"{name}_error", reset_less=True),
            last=Signal(name=f"{name}_last", reset_less=True),
        )

    @property
    def active(self) -> Value:
        return self.evict | self.fill | self.lookup


class MetadataStore(wiring.Component):
    """Executes the tasks of the tags in order, in a pipeline of three stages.

        sequencer ─ read memory ─ decode, or take the fill ─ write, respond or send the row
                         └──────────── forwarding ───────────────┘

    A task that fills is stalled until its line is fetched; the line it replaces is evicted before,
    if it is dirty. A line whose fetch has failed is recorded as failed: lookups of it end with its
    error and change nothing, and it is not evicted.

    One flipped bit of a codeword is corrected, by a lookup also in memory. An uncorrectable
    codeword ends a read with UNCORRECTABLE; a write sets its other nibbles to 15, and an eviction
    all of them.

    Latency: 2 cycles from a task to its response, if its line is present. Throughput: a lookup per
    cycle, a cycle for each row that is filled or evicted, and no bubbles between them. Cost: a
    memory of `lines` lines with 8 check bits for each 64, four decoders and encoders, 2 bits for
    each line.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(StoreTask(config)))`
    o : `Out(stream.Signature(SliceResult()))`
    fill_complete : `In(1)`, fill_error : `In(MetadataError)`
        The oldest fetched line is complete; its error.
    fill_row : `Out(row_bits)`, fill_read : `Out(1)`, fill_data : `In(256)`
        A row of that line is read; its data are valid one cycle later.
    fill_release : `Out(1)`
        That line is released.
    rows : `Out(stream.Signature(EvictedRow(config)))`
    drop : `Out(1)`, dropped : `Out(eviction_bits)`
        Eviction `dropped` is cancelled.
    failed_set, failed_way : `In(...)`, failed : `Out(1)`
        The fetch of the line at this position has failed.
    fetch_failed : `Out(1)`
        A fetch is found to have failed in this cycle.
    corrected, uncorrectable : `Out(1)`
        One bit of a codeword had flipped; two had.
    idle : `Out(1)`
        No task is in the store.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "i": In(stream.Signature(StoreTask(config))),
                "o": Out(stream.Signature(SliceResult())),
                "fill_complete": In(1),
                "fill_error": In(MetadataError),
                "fill_row": Out(shape.row_bits),
                "fill_read": Out(1),
                "fill_data": In(ROW_BITS),
                "fill_release": Out(1),
                "rows": Out(stream.Signature(EvictedRow(config))),
                "drop": Out(1),
                "dropped": Out(shape.eviction_bits),
                "failed_set": In(shape.set_bits),
                "failed_way": In(shape.way_bits),
                "failed": Out(1),
                "fetch_failed": Out(1),
                "corrected": Out(1),
                "uncorrectable": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.data = rows = memory.Memory(
            shape=CodedRow(),
            depth=max(2, LineShape(self.config).lines * LineShape(self.config).rows),
            init=[],
        )
        write = rows.write_port(granularity=1)
        read = rows.read_port(transparent_for=(write,))
        m.submodules.sequencer = sequencer = StepSequencer(self.config)
        self._connect_sequencer(m, sequencer)
        address_bits = len(sequencer.address)
        reading = StepStage.new(self.config, address_bits, "reading")
        decoded = StepStage.new(self.config, address_bits, "decoded")

        # Stage 1 reads the memory, and the row to be filled.
        advance = Signal()
        m.d.comb += [
            sequencer.advance.eq(advance),
            read.addr.eq(sequencer.address),
            read.en.eq(advance),
            self.fill_read.eq(advance),
        ]
        with m.If(advance):
            m.d.sync += [
                reading.evict.eq(sequencer.evict),
                reading.fill.eq(sequencer.fill),
                reading.lookup.eq(sequencer.lookup),
                reading.task.eq(self.i.payload),
                reading.address.eq(sequencer.address),
                reading.error.eq(sequencer.error),
                reading.last.eq(sequencer.last),
            ]
            m.d.sync += [new.eq(old) for new, old in zip(decoded, reading, strict=True)]

        # Stage 2 decodes; stage 3 changes the row and responds.
        changed = Signal(ROW_BITS)
        changes = Signal(ROW_WORDS)
        row = Signal(ROW_BITS)
        corrected = Signal(ROW_WORDS, reset_less=True)
        uncorrectable = Signal(ROW_WORDS, reset_less=True)
        same_row = Signal()
        m.d.comb += [
            same_row.eq(reading.address == decoded.address),
            write.addr.eq(decoded.address),
            write.en.eq(changes & advance.replicate(ROW_WORDS)),
        ]
        for k in range(ROW_WORDS):
            m.submodules[f"decoder_{k}"] = decoder = EccDecoder(WORD_BITS)
            m.submodules[f"encoder_{k}"] = encoder = EccEncoder(WORD_BITS)
            forwards = Signal(name=f"forwards_{k}")
            word = Signal(WORD_BITS, name=f"word_{k}")
            register = Signal(WORD_BITS, name=f"decoded_{k}", reset_less=True)
            bits = slice(WORD_BITS * k, WORD_BITS * (k + 1))
            m.d.comb += [
                decoder.i.eq(read.data[k]),
                encoder.i.eq(changed[bits]),
                write.data[k].eq(encoder.o),
                # The memory was read before this write.
                forwards.eq(same_row & changes[k]),
            ]
            with m.If(reading.fill):
                m.d.comb += word.eq(self.fill_data[bits])
            with m.Elif(forwards):
                m.d.comb += word.eq(changed[bits])
            with m.Else():
                m.d.comb += word.eq(decoder.o)
            with m.If(advance):
                m.d.sync += [
                    register.eq(word),
                    corrected[k].eq(decoder.corrected & ~forwards),
                    uncorrectable[k].eq(decoder.uncorrectable & ~forwards & ~reading.fill),
                ]
            # Uncorrectable words are poisoned: no valid entry has metadata 15.
            m.d.comb += row[bits].eq(register | uncorrectable[k].replicate(WORD_BITS))

        self._change_row(m, decoded, row, corrected, uncorrectable, advance, changed, changes)
        self._respond(m, decoded, row)
        m.d.comb += [
            advance.eq(~(decoded.lookup & ~self.o.ready) & ~(decoded.evict & ~self.rows.ready)),
            self.idle.eq(~self.i.valid & ~reading.active & ~decoded.active),
        ]
        return m

    def _connect_sequencer(self, m: Module, sequencer: StepSequencer) -> None:
        wiring.connect(m, wiring.flipped(self.i), sequencer.i)
        m.d.comb += [
            getattr(sequencer, name).eq(getattr(self, name))
            for name in ("fill_complete", "fill_error", "failed_set", "failed_way")
        ]
        m.d.comb += [
            getattr(self, name).eq(getattr(sequencer, name))
            for name in ("fill_row", "fill_release", "drop", "dropped", "failed", "fetch_failed")
        ]

    def _change_row(
        self,
        m: Module,
        step: StepStage,
        row: Signal,
        corrected: Signal,
        uncorrectable: Signal,
        advance: Signal,
        changed: Signal,
        changes: Signal,
    ) -> None:
        """Drive the changed row and the words of it to be written, and report ECC errors."""
        place = Signal(ROW_PLACE_BITS)
        word = Signal(range(ROW_WORDS))
        lookup_word = Signal(ROW_WORDS)
        words_used = Signal(ROW_WORDS)
        lookup_ok = Signal()
        nibble_write = Signal()
        nibble_lost = Signal()
        all_words = (1 << ROW_WORDS) - 1
        m.d.comb += [
            place.eq(step.task.place[:ROW_PLACE_BITS]),
            word.eq(place[WORD_PLACE_BITS:]),
            lookup_word.eq(Cat(word == k for k in range(ROW_WORDS))),
            lookup_ok.eq(step.lookup & (step.error == MetadataError.NONE)),
            nibble_write.eq(lookup_ok & step.task.write),
            changes.eq(
                Mux(
                    step.fill,
                    all_words,
                    Mux(
                        lookup_ok,
                        lookup_word & (corrected | step.task.write.replicate(ROW_WORDS)),
                        0,
                    ),
                )
            ),
            changed.eq(row),
            words_used.eq(Mux(step.evict, all_words, Mux(lookup_ok, lookup_word, 0))),
            self.corrected.eq(advance & (corrected & words_used).any()),
            self.uncorrectable.eq(advance & (uncorrectable & words_used).any()),
        ]
        for k in range(ROW_BITS // METADATA_BITS):
            nibble = slice(METADATA_BITS * k, METADATA_BITS * (k + 1))
            with m.If(nibble_write & (place == k)):
                m.d.comb += changed[nibble].eq(step.task.metadata)
        m.d.comb += [
            nibble_lost.eq((uncorrectable & lookup_word).any()),
            self.o.payload.metadata.eq(row.word_select(place, METADATA_BITS)),
            self.o.payload.error.eq(step.error),
        ]
        with m.If(lookup_ok & ~step.task.write & nibble_lost):
            m.d.comb += self.o.payload.error.eq(MetadataError.UNCORRECTABLE)

    def _respond(self, m: Module, step: StepStage, row: Signal) -> None:
        """Respond to lookups, and send evicted rows."""
        m.d.comb += [
            self.o.valid.eq(step.lookup),
            self.o.payload.hit.eq(step.task.hit),
            self.o.payload.miss.eq(step.task.fill),
            self.o.payload.evicted.eq(step.task.replaced),
            self.rows.valid.eq(step.evict),
            self.rows.payload.data.eq(row),
            self.rows.payload.eviction.eq(step.task.eviction),
            self.rows.payload.last.eq(step.last),
        ]
