"""The check of expanded sectors, which gives packets of bytes that can be trusted."""

from amaranth.hdl import Assert, Cat, Module, Mux, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.codec.payloads import ExpandedSector
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.count import count_ones, run_length
from cdma.hw.lib.pipeline import PipelineControl


class LineError(enum.Enum, shape=unsigned(3)):  # type: ignore[call-arg]
    """The first thing wrong with a transfer's lines."""

    NONE = 0
    MASK_MISSING = 1
    ELEMENT_MISSING = 2
    ELEMENT_ZERO = 3
    FILL_NONZERO = 4
    CODEC = 5
    """An error that the codec has found; its status comes with it."""


def status_shape(config: CodecConfig | None) -> ShapeLike:
    """The shape of a status that a codec has found; none if no codec looks for errors."""
    return StreamStatus if config is not None and config.locates_errors else 0


class CheckResult(data.StructLayout):
    """The result of checking a transfer's lines.

    Parameters
    ----------
    length_bits, offset_bits
        Widths of a transfer's length and of a position in its stream.
    config : CodecConfig, optional
        Without it no codec locates errors itself.

    Members
    -------
    line_error
        The first thing wrong.
    offset
        Where it is in the stream; if nothing is wrong, where the last line ends.
    size
        Bytes given out: the transfer's length, or those before the first thing wrong.
    status, located_offset
        `ExpandedSector.status` and `offset` of the first sector that is wrong, or of the last one.
        No bits if no codec locates errors itself.
    """

    def __init__(
        self,
        length_bits: int = LENGTH_BITS,
        offset_bits: int = OFFSET_BITS,
        config: CodecConfig | None = None,
    ) -> None:
        located = config is not None and config.locates_errors
        super().__init__(
            {
                "line_error": LineError,
                "offset": offset_bits,
                "size": length_bits,
                "status": status_shape(config),
                "located_offset": offset_bits if located else 0,
            }
        )


class _CheckedSector:
    """Registers of the sector in stage 2 and of its transfer, and what follows from them.

    A transfer has `failed` from its first error on, and is `complete` when its length has come.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.control = PipelineControl()
        self.fires = Signal(name="checked_fires")
        self.sector = Signal(ExpandedSector(config), name="checked", reset_less=True)
        self.zero = Signal(config.lanes, name="checked_zero", reset_less=True)
        self.wrong = Signal(config.lanes, name="checked_wrong", reset_less=True)
        self.is_wrong = Signal(name="checked_is_wrong", reset_less=True)
        self.space_left = Signal(
            range(config.sector_bytes + 1), name="checked_space_left", reset_less=True
        )
        self.is_final = Signal(name="checked_final", reset_less=True)
        self.count = Signal(range(config.lanes + 1), name="checked_count", reset_less=True)
        self.first = Signal(config.lanes, name="first_wrong")
        self.failed = Signal()
        self.complete = Signal()
        self.fails = Signal()
        self.emits = Signal()
        # No data is in a sector without a mask, or in which the codec has found an error.
        self.no_data: Value = self.sector.mask_missing
        if config.locates_errors:
            self.no_data = self.sector.mask_missing | (self.sector.status != 0)


class StreamChecker(wiring.Component):
    """Checks sectors element by element, and lets the bytes before the first error out.

    Latency: 2 cycles, to beats and results alike. Throughput: a sector per cycle, also across
    transfers.

    Resources: two sectors of registers; for n lanes, n comparators with zero, two n-input
    population counts and an n-input priority encoder.

    Parameters
    ----------
    config : CodecConfig
    length_bits, offset_bits
        Widths of a transfer's length and of a position in its stream.

    Members
    -------
    length : `In(stream.Signature(length_bits))`
        Announced length of each transfer in bytes.
    i : `In(stream.Signature(ExpandedSector(config)))`
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        A packet per transfer, of at least one beat. Bytes beyond `size` are zero.
    result : `Out(stream.Signature(CheckResult(length_bits, offset_bits, config)))`
        After each transfer.
    """

    def __init__(
        self,
        config: CodecConfig,
        *,
        length_bits: int = LENGTH_BITS,
        offset_bits: int = OFFSET_BITS,
    ) -> None:
        self.config = config
        self.length_bits = length_bits
        self.offset_bits = offset_bits
        super().__init__(
            {
                "length": In(stream.Signature(length_bits)),
                "i": In(stream.Signature(ExpandedSector(config))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
                "result": Out(stream.Signature(CheckResult(length_bits, offset_bits, config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        checked = self._check_lanes(m)
        right = self._first_error(m, checked)
        size = self._give_beat(m, checked, right)
        self._collect_result(m, checked, right, size)

        # Lines enough for the length came, unless the first error ended them.
        with m.If(checked.fires & checked.sector.last):
            m.d.sync += Assert(checked.failed | checked.fails | checked.complete | checked.is_final)
        return m

    def _check_lanes(self, m: Module) -> _CheckedSector:
        """Stage 1: find what is wrong with each lane, whatever is wrong before it."""
        config = self.config
        element_bytes = config.element_bytes
        sector = self.i.payload
        checked = _CheckedSector(config)
        m.submodules.checked = checked.control

        active = Signal()
        left = Signal(self.length_bits, reset_less=True)
        final = Signal()
        space_left = Signal(range(config.sector_bytes + 1))
        beyond = Signal(config.sector_bytes)
        m.d.comb += [
            final.eq(left <= config.sector_bytes),
            space_left.eq(Mux(final, left, config.sector_bytes)),
            beyond.eq(Cat(j >= space_left for j in range(config.sector_bytes))),
        ]
        zero = Signal(config.lanes)
        tail_pad = Signal(config.lanes)
        wrong = Signal(config.lanes)
        for i in range(config.lanes):
            element = sector.elements[i]
            m.d.comb += [
                zero[i].eq(sector.present[i] & ~sector.missing[i] & (element == 0)),
                tail_pad[i].eq(
                    ~sector.missing[i]
                    & Cat(
                        beyond[i * element_bytes + b] & element.word_select(b, 8).any()
                        for b in range(element_bytes)
                    ).any()
                ),
            ]

        m.d.comb += [
            wrong.eq(sector.missing | zero | tail_pad),
            checked.control.i_valid.eq(self.i.valid & active),
            self.i.ready.eq(checked.control.i_ready & active),
            self.length.ready.eq(~active | (checked.control.load & sector.last)),
        ]
        with m.If(checked.control.load):
            m.d.sync += [
                checked.sector.eq(sector),
                checked.zero.eq(zero),
                checked.wrong.eq(wrong),
                checked.is_wrong.eq(wrong.any()),
                checked.space_left.eq(space_left),
                checked.is_final.eq(final),
                checked.count.eq(count_ones(sector.present)),
                left.eq(Mux(final, 0, left - config.sector_bytes)),
            ]
        with m.If(self.length.ready):
            m.d.sync += [active.eq(self.length.valid), left.eq(self.length.payload)]
        return checked

    def _first_error(self, m: Module, checked: _CheckedSector) -> Signal:
        """Stage 2: find the first lane that is wrong; returns the lanes before it."""
        lanes = self.config.lanes
        wrong_before = []
        for i in range(lanes):
            wrong_before.append(checked.wrong[:i].any())
            m.d.comb += checked.first[i].eq(checked.wrong[i] & ~wrong_before[i])
        right = Signal(lanes)
        m.d.comb += [
            right.eq(~checked.first & ~Cat(wrong_before)),
            checked.fails.eq(~checked.failed & (checked.no_data | checked.is_wrong)),
            checked.emits.eq(~checked.failed & ~checked.complete),
            checked.fires.eq(checked.control.o_valid & checked.control.o_ready),
        ]
        return right

    def _give_beat(self, m: Module, checked: _CheckedSector, right: Value) -> Signal:
        """Give the bytes before the first error, as a packet's beat; returns their number."""
        config = self.config
        keep = Signal(config.lanes)
        beat = Signal(Beat(config.sector_bytes), reset_less=True)
        m.submodules.beat = control = PipelineControl()
        size = Signal.like(checked.space_left)
        before = Signal.like(size)
        m.d.comb += [
            # Bytes beyond the length are zero in lanes that are right.
            keep.eq(right & ~checked.no_data.replicate(config.lanes)),
            before.eq(run_length(keep) * config.element_bytes),
            size.eq(Mux(before < checked.space_left, before, checked.space_left)),
            control.i_valid.eq(checked.fires & checked.emits),
            control.o_ready.eq(self.o.ready),
            # The former transfer's result must be out before this one's begins.
            checked.control.o_ready.eq(
                (control.i_ready | ~checked.emits)
                & ~(self.result.valid & (checked.fails | checked.sector.last))
            ),
            self.o.valid.eq(control.o_valid),
            self.o.payload.eq(beat),
        ]
        with m.If(control.load):
            m.d.sync += [
                beat.data.eq(
                    Cat(Mux(keep[i], checked.sector.elements[i], 0) for i in range(config.lanes))
                ),
                beat.size.eq(size),
                beat.last.eq(checked.is_final | checked.fails),
            ]
        return size

    def _collect_result(
        self, m: Module, checked: _CheckedSector, right: Value, size: Value
    ) -> None:
        """Collect a transfer's result: error and place at the first one, the rest at the end."""
        config = self.config
        sector = checked.sector
        position = Signal(self.offset_bits)
        end = Signal(self.offset_bits)
        headed = Signal()
        # Bytes up to the sector before the last one, and of that one: they are added a cycle later.
        given = Signal(self.length_bits)
        lately = Signal(size.shape())
        m.d.comb += [
            headed.eq(sector.sol & ~sector.empty & ~sector.mask_missing),
            end.eq(
                position
                + (Mux(headed, config.mask_bytes, 0) + checked.count * config.element_bytes)
            ),
        ]

        error = Signal(LineError)
        error_start = Signal(self.offset_bits, reset_less=True)
        error_headed = Signal(reset_less=True)
        error_before = Signal(config.lanes, reset_less=True)
        result_valid = Signal()
        result_before = Signal(self.length_bits, reset_less=True)
        result_lately = Signal(size.shape(), reset_less=True)
        result_located = Signal.like(sector.offset, reset_less=True)
        result_status = Signal.like(sector.status, reset_less=True)
        now = Signal(size.shape())
        m.d.comb += now.eq(Mux(checked.emits, size, 0))
        with m.If(checked.fires):
            with m.If(checked.fails):
                m.d.sync += [
                    error_start.eq(position),
                    error_headed.eq(headed),
                    error_before.eq(Mux(sector.mask_missing, 0, sector.present & right)),
                    error.eq(self._error(checked)),
                ]
            with m.Elif(sector.last & ~checked.failed):
                m.d.sync += [error_start.eq(end), error_headed.eq(0), error_before.eq(0)]
            if config.locates_errors:
                with m.If(checked.fails | (sector.last & ~checked.failed)):
                    m.d.sync += [
                        result_located.eq(sector.offset),
                        result_status.eq(sector.status),
                    ]

            with m.If(sector.last):
                m.d.sync += [
                    result_valid.eq(1),
                    result_before.eq(given + lately),
                    result_lately.eq(now),
                    position.eq(0),
                    given.eq(0),
                    lately.eq(0),
                    checked.failed.eq(0),
                    checked.complete.eq(0),
                ]
            with m.Else():
                m.d.sync += [
                    position.eq(end),
                    given.eq(given + lately),
                    lately.eq(now),
                    checked.failed.eq(checked.failed | checked.fails),
                    checked.complete.eq(checked.complete | checked.is_final),
                ]

        result = self.result.payload
        m.d.comb += [
            self.result.valid.eq(result_valid),
            result.line_error.eq(error),
            result.offset.eq(
                error_start
                + (
                    Mux(error_headed, config.mask_bytes, 0)
                    + count_ones(error_before) * config.element_bytes
                )
            ),
            result.size.eq(result_before + result_lately),
            result.status.eq(result_status),
            result.located_offset.eq(result_located),
        ]
        with m.If(result_valid & self.result.ready):
            m.d.sync += [result_valid.eq(0), error.eq(LineError.NONE)]

    def _error(self, checked: _CheckedSector) -> Value:
        """The error of the sector's first lane that is wrong, or of the sector as a whole."""
        sector = checked.sector
        error: Value = Mux(
            sector.mask_missing,
            LineError.MASK_MISSING,
            Mux(
                (checked.first & sector.missing).any(),
                LineError.ELEMENT_MISSING,
                Mux(
                    (checked.first & checked.zero).any(),
                    LineError.ELEMENT_ZERO,
                    LineError.FILL_NONZERO,
                ),
            ),
        )
        if self.config.locates_errors:
            error = Mux(sector.status != 0, LineError.CODEC, error)
        return error
