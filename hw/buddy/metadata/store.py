"""The metadata themselves: lines come in, are read and changed, and go out."""

from amaranth.hdl import Cat, Module, Mux, Signal
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
from cdma.hw.lib.ecc import EccDecoder, EccEncoder


class MetadataStore(wiring.Component):
    """Does what the tags have decided, in order.

    A task waits here for its line's fetch; the line then takes the place of another one, which is
    written back before if need be. A line whose fetch has failed is remembered as failed: lookups
    of it end with its error and change nothing, and it is not written back.

    A codeword of which one bit has flipped is corrected, by a lookup also in memory. One that is
    beyond correction gives a read UNCORRECTABLE; a write takes its other nibbles for 15, and so
    does a write-back all of them.

    Latency: 2 cycles from a task to its answer, if its line is there. Throughput: a lookup per
    cycle, a cycle for each row that comes or goes, and none in between. Cost: a memory of `lines`
    lines with 8 check bits for each 64, four decoders and encoders, 2 bits for each line.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(StoreTask(config)))`
    o : `Out(stream.Signature(SliceResult()))`
    fill_complete : `In(1)`, fill_error : `In(MetadataError)`
        The oldest fetched line is there, and how.
    fill_row : `Out(row_bits)`, fill_read : `Out(1)`, fill_data : `In(256)`
        Its rows, each in the cycle after.
    fill_release : `Out(1)`
        It is not needed any more.
    rows : `Out(stream.Signature(EvictedRow(config)))`
    drop : `Out(1)`, dropped : `Out(write_back_bits)`
        Nothing comes of this write-back.
    failed_set, failed_way : `In(...)`, failed : `Out(1)`
        Whether a line's fetch has failed.
    fails : `Out(1)`
        One has now.
    corrected, uncorrectable : `Out(1)`
        A bit of a codeword had flipped, or two.
    idle : `Out(1)`
        There is no task here.
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
                "dropped": Out(shape.write_back_bits),
                "failed_set": In(shape.set_bits),
                "failed_way": In(shape.way_bits),
                "failed": Out(1),
                "fails": Out(1),
                "corrected": Out(1),
                "uncorrectable": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = LineShape(self.config)
        m.submodules.data = rows = memory.Memory(
            shape=CodedRow(), depth=max(2, shape.lines * shape.rows), init=[]
        )
        write = rows.write_port(granularity=1)
        read = rows.read_port(transparent_for=(write,))
        # Written with each line that comes, and asked only for lines that have come.
        m.submodules.outcomes = outcomes = memory.Memory(
            shape=MetadataError, depth=max(2, shape.lines), init=[]
        )
        outcome_write = outcomes.write_port()
        outcome_read = outcomes.read_port(domain="comb")
        failed_read = outcomes.read_port(domain="comb")

        # The task's steps: rows out, rows in, and the lookup.
        moves = Signal()
        task = self.i.payload
        line = Signal(shape.set_bits + shape.way_bits)
        outcome = Signal(MetadataError)
        error = Signal(MetadataError)
        row = Signal(shape.row_bits)
        last = Signal()
        has_evicted = Signal()
        has_filled = Signal()
        evicts = Signal()
        fills = Signal()
        looks_up = Signal()
        ends = Signal()
        is_bad = Signal()
        m.d.comb += [
            line.eq(Cat(task.way, task.set)),
            outcome_read.addr.eq(line),
            outcome.eq(outcome_read.data),
            is_bad.eq(outcome != MetadataError.NONE),
            failed_read.addr.eq(Cat(self.failed_way, self.failed_set)),
            self.failed.eq(failed_read.data != MetadataError.NONE),
            last.eq(row.all() if shape.row_bits else 1),
            outcome_write.addr.eq(line),
            outcome_write.data.eq(self.fill_error),
            self.dropped.eq(task.write_back),
            self.fill_row.eq(row),
            self.fill_read.eq(moves),
        ]
        with m.If(self.i.valid & moves):
            with m.If(task.evicts & ~has_evicted):
                m.d.comb += [
                    evicts.eq(~is_bad),
                    self.drop.eq(is_bad),
                    ends.eq((is_bad | last) & ~task.answers),
                ]
                m.d.sync += has_evicted.eq(is_bad | last)
            with m.Elif(task.fills & ~has_filled):
                with m.If(self.fill_complete):
                    m.d.comb += [
                        fills.eq(self.fill_error == MetadataError.NONE),
                        self.fails.eq(self.fill_error != MetadataError.NONE),
                        self.fill_release.eq(self.fails | last),
                        outcome_write.en.eq(self.fill_release),
                    ]
                    m.d.sync += has_filled.eq(self.fill_release)
            with m.Else():
                m.d.comb += [looks_up.eq(1), ends.eq(1)]
        with m.If(evicts | fills):
            m.d.sync += row.eq(row + 1)
        with m.If(ends):
            m.d.sync += [has_evicted.eq(0), has_filled.eq(0)]
        m.d.comb += self.i.ready.eq(ends)
        with m.If(task.broken):
            m.d.comb += error.eq(MetadataError.UNCORRECTABLE)
        with m.Else():
            m.d.comb += error.eq(outcome)

        # The memory, and the fill's.
        row_of = Signal(shape.row_bits)
        m.d.comb += [
            row_of.eq(Mux(looks_up, task.place[ROW_PLACE_BITS:], row)),
            read.addr.eq(Cat(row_of, line)),
            read.en.eq(moves),
        ]
        read_evicts = Signal()
        read_fills = Signal()
        read_looks_up = Signal()
        read_task = Signal(StoreTask(self.config), reset_less=True)
        read_addr = Signal.like(read.addr, reset_less=True)
        read_error = Signal(MetadataError, reset_less=True)
        read_last = Signal(reset_less=True)
        with m.If(moves):
            m.d.sync += [
                read_evicts.eq(evicts),
                read_fills.eq(fills),
                read_looks_up.eq(looks_up),
                read_task.eq(task),
                read_addr.eq(read.addr),
                read_error.eq(error),
                read_last.eq(last),
            ]

        # The decoders, and what the step ahead is writing.
        evicts_now = Signal()
        fills_now = Signal()
        looks_up_now = Signal()
        task_now = Signal(StoreTask(self.config), reset_less=True)
        addr_now = Signal.like(read.addr, reset_less=True)
        error_now = Signal(MetadataError, reset_less=True)
        last_now = Signal(reset_less=True)
        decoded = Signal(ROW_BITS, reset_less=True)
        row_now = Signal(ROW_BITS)
        corrected = Signal(ROW_WORDS, reset_less=True)
        uncorrectable = Signal(ROW_WORDS, reset_less=True)
        changed = Signal(ROW_BITS)
        changes = Signal(ROW_WORDS)
        with m.If(moves):
            m.d.sync += [
                evicts_now.eq(read_evicts),
                fills_now.eq(read_fills),
                looks_up_now.eq(read_looks_up),
                task_now.eq(read_task),
                addr_now.eq(read_addr),
                error_now.eq(read_error),
                last_now.eq(read_last),
            ]
        same_row = Signal()
        m.d.comb += same_row.eq(read_addr == addr_now)
        for k in range(ROW_WORDS):
            m.submodules[f"decoder_{k}"] = decoder = EccDecoder(WORD_BITS)
            m.submodules[f"encoder_{k}"] = encoder = EccEncoder(WORD_BITS)
            current = Signal(name=f"current_{k}")
            word = Signal(WORD_BITS, name=f"word_{k}")
            bits = slice(WORD_BITS * k, WORD_BITS * (k + 1))
            m.d.comb += [
                decoder.i.eq(read.data[k]),
                encoder.i.eq(changed[bits]),
                write.data[k].eq(encoder.o),
                # What is being written was read too early.
                current.eq(same_row & changes[k]),
            ]
            with m.If(read_fills):
                m.d.comb += word.eq(self.fill_data[bits])
            with m.Elif(current):
                m.d.comb += word.eq(changed[bits])
            with m.Else():
                m.d.comb += word.eq(decoder.o)
            with m.If(moves):
                m.d.sync += [
                    decoded[bits].eq(word),
                    corrected[k].eq(decoder.corrected & ~current),
                    uncorrectable[k].eq(decoder.uncorrectable & ~current & ~read_fills),
                ]
            # What is beyond correction is poisoned: no entry has metadata 15.
            m.d.comb += row_now[bits].eq(decoded[bits] | uncorrectable[k].replicate(WORD_BITS))

        # The answer, and what changes.
        place = Signal(ROW_PLACE_BITS)
        word_now = Signal(range(ROW_WORDS))
        of_word = Signal(ROW_WORDS)
        regards = Signal(ROW_WORDS)
        sound = Signal()
        writes = Signal()
        lost = Signal()
        m.d.comb += [
            place.eq(task_now.place[:ROW_PLACE_BITS]),
            word_now.eq(place[WORD_PLACE_BITS:]),
            of_word.eq(Cat(word_now == k for k in range(ROW_WORDS))),
            sound.eq(looks_up_now & (error_now == MetadataError.NONE)),
            writes.eq(sound & task_now.write),
            lost.eq((uncorrectable & of_word).any()),
            changes.eq(
                Mux(
                    fills_now,
                    (1 << ROW_WORDS) - 1,
                    Mux(sound, of_word & (corrected | task_now.write.replicate(ROW_WORDS)), 0),
                )
            ),
            changed.eq(row_now),
            write.addr.eq(addr_now),
            write.en.eq(changes & moves.replicate(ROW_WORDS)),
            regards.eq(Mux(evicts_now, (1 << ROW_WORDS) - 1, Mux(sound, of_word, 0))),
            self.corrected.eq(moves & (corrected & regards).any()),
            self.uncorrectable.eq(moves & (uncorrectable & regards).any()),
        ]
        for k in range(ROW_BITS // METADATA_BITS):
            nibble = slice(METADATA_BITS * k, METADATA_BITS * (k + 1))
            with m.If(writes & (place == k)):
                m.d.comb += changed[nibble].eq(task_now.metadata)
        result = self.o.payload
        m.d.comb += [
            self.o.valid.eq(looks_up_now),
            result.metadata.eq(row_now.word_select(place, METADATA_BITS)),
            result.error.eq(error_now),
            result.hit.eq(task_now.hit),
            result.miss.eq(task_now.fills),
            result.evicted.eq(task_now.replaces),
            self.rows.valid.eq(evicts_now),
            self.rows.payload.data.eq(row_now),
            self.rows.payload.write_back.eq(task_now.write_back),
            self.rows.payload.last.eq(last_now),
            moves.eq(~(looks_up_now & ~self.o.ready) & ~(evicts_now & ~self.rows.ready)),
            self.idle.eq(
                ~self.i.valid
                & ~(read_evicts | read_fills | read_looks_up)
                & ~(evicts_now | fills_now | looks_up_now)
            ),
        ]
        with m.If(sound & ~task_now.write & lost):
            m.d.comb += result.error.eq(MetadataError.UNCORRECTABLE)
        return m
