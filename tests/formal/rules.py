"""Rules of the payloads of each kind of stream: asserted at its source, assumed at its sink.

Since the rules are the same on both sides, proofs of single components add up to the whole.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Const, Mux, Signal, Value

from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from tests.formal.bench import Bench, Condition, Contract, Port

ALWAYS = Const(1)

BEAT, PADDED_BEAT = "Beat", "Beat, zero behind its bytes"
"""The second contract implies the first."""

RECEIVED_BEAT, SECTOR, EXPANDED_SECTOR = "ReceivedBeat", "Sector", "ExpandedSector"
WHOLE_LINE, ANY_LINE = "LineBeat of whole lines", "LineBeat of any stream"
"""The first contract implies the second."""
LINE_STREAMS = (RECEIVED_BEAT, SECTOR, WHOLE_LINE, ANY_LINE, EXPANDED_SECTOR)
"""What blocks of ZVC have between their parts, as `codec/test_contracts.py` compares."""


def minimum(a: Value, b: int) -> Value:
    return Mux(a > b, b, a)


def beat_rules(data_bytes: int) -> Contract:
    """`Beat`: full but on the last one, and zero behind its bytes."""

    def rules(bench: Bench, port: Port) -> list[Condition]:
        beat = port.payload
        return [
            (ALWAYS, beat.size <= data_bytes),
            (~beat.last, beat.size == data_bytes),
            *((beat.size <= j, beat.data.word_select(j, 8) == 0) for j in range(data_bytes)),
        ]

    return Contract(PADDED_BEAT, rules)


def beat_sizes(data_bytes: int) -> Contract:
    """`Beat`, for where it does not matter what is behind its bytes."""

    def rules(bench: Bench, port: Port) -> list[Condition]:
        beat = port.payload
        return [(ALWAYS, beat.size <= data_bytes), (~beat.last, beat.size == data_bytes)]

    return Contract(BEAT, rules)


def received_rules(data_bytes: int) -> Contract:
    """`ReceivedBeat`: what a receiver makes of anything."""

    def rules(bench: Bench, port: Port) -> list[Condition]:
        beat = port.payload
        return [
            (ALWAYS, beat.size <= data_bytes),
            (~beat.last & ~beat.framing_error, beat.size == data_bytes),
            (beat.framing_error, beat.size < data_bytes),
        ]

    return Contract(RECEIVED_BEAT, rules)


def axis_rules(bench: Bench, port: Port) -> list[Condition]:
    """AXI4-Stream packets are dense: TKEEP is a run of ones from bit 0, full before TLAST."""
    keep = port.payload.tkeep
    return [
        (ALWAYS, (keep & (keep + 1)) == 0),
        (~port.payload.tlast, keep.all()),
    ]


class SectorRules:
    """`Sector`: whole lines. `place` counts the sectors of the line so far."""

    interface = SECTOR

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self.place = Signal(range(config.sectors))

    def __call__(self, bench: Bench, port: Port) -> list[Condition]:
        sector = port.payload
        ends_line = self.place == self.config.sectors - 1
        with bench.m.If(port.moves):
            bench.m.d.sync += self.place.eq(Mux(sector.last | ends_line, 0, self.place + 1))
        return [
            (sector.empty, sector.last & (self.place == 0)),
            (sector.last, sector.empty | ends_line),
        ]


class LineRules:
    """`LineBeat`: the beats of each line are those that its mask announces.

    Attributes
    ----------
    inside : Signal
        The next beat is not the first of its line.
    left : Signal
        Then: payload elements still to come.

    Parameters
    ----------
    announces
        The number of elements that a mask announces: its ones, unless a proof has it otherwise.
    """

    def __init__(
        self,
        config: CodecConfig,
        *,
        damaged: bool,
        announces: Callable[[Value], Value] = count_ones,
    ) -> None:
        self.config = config
        self.damaged = damaged
        self.interface = ANY_LINE if damaged else WHOLE_LINE
        self.announces = announces
        self.inside = Signal(name="line_inside")
        self.left = Signal(range(config.elements + 1), name="line_left")

    def __call__(self, bench: Bench, port: Port) -> list[Condition]:
        lanes = self.config.lanes
        beat = port.payload
        announced = Signal(range(self.config.elements + 1), name="line_announced")
        bench.m.d.comb += announced.eq(Mux(self.inside, self.left, self.announces(beat.mask)))
        with bench.m.If(port.moves):
            bench.m.d.sync += [
                self.inside.eq(~beat.eol),
                self.left.eq(announced - beat.count),
            ]
        whole = beat.truncation == Truncation.NONE
        no_mask = beat.truncation == Truncation.MASK
        cut = beat.truncation == Truncation.PAYLOAD
        return [
            (ALWAYS, beat.sol == ~self.inside),
            (beat.last, beat.eol),
            (self.inside, ~beat.mask.bool()),
            (beat.empty, beat.last & beat.sol & (beat.mask == 0) & whole),
            (whole, beat.count == minimum(announced, lanes)),
            (whole, beat.eol == (announced <= lanes)),
            *((beat.count <= i, beat.elements[i] == 0) for i in range(lanes)),
            *(
                [
                    (ALWAYS, whole | no_mask | cut),
                    (~whole, beat.last),
                    (no_mask, beat.sol & (beat.mask == 0) & (beat.count == 0)),
                    (cut, beat.count < minimum(announced, lanes)),
                ]
                if self.damaged
                else [(ALWAYS, whole)]
            ),
        ]


class ExpandedRules:
    """`ExpandedSector`: whole lines, unless the last one is cut short. `place` as in `Sector`."""

    interface = EXPANDED_SECTOR

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self.place = Signal(range(config.sectors), name="expanded_place")

    def __call__(self, bench: Bench, port: Port) -> list[Condition]:
        sector = port.payload
        ends_line = self.place == self.config.sectors - 1
        with bench.m.If(port.moves):
            bench.m.d.sync += self.place.eq(Mux(sector.last | ends_line, 0, self.place + 1))
        cut = sector.missing.bool() | sector.mask_missing
        nothing = sector.last & (self.place == 0) & (sector.present == 0)
        return [
            (ALWAYS, sector.sol == (self.place == 0)),
            (ALWAYS, (sector.missing & ~sector.present) == 0),
            (sector.last, ends_line | cut | sector.empty),
            (cut, sector.last),
            (sector.mask_missing, nothing),
            (sector.empty, nothing & ~sector.mask_missing),
            *((~sector.present[i], sector.elements[i] == 0) for i in range(self.config.lanes)),
        ]


class CollectedRules:
    """`BurstSender`'s `data` and `burst`: a burst comes with its last beat, or later, and is of the
    beats that have come since the burst before it. Each of them names a byte.

    Attributes
    ----------
    number : Signal
        Of the burst whose beats come.
    beats : Signal
        Those of it that have come before.
    burst_fire, data_fire : Signal
        A burst, or a beat, comes now.
    """

    def __init__(self, burst_beats: int, *, number_bits: int) -> None:
        self.burst_beats = burst_beats
        self.number = Signal(number_bits, name="burst_number")
        self.beats = Signal(range(burst_beats + 1), name="burst_beats")
        self.data_fire = Signal(name="data_fire")
        self.burst_fire = Signal(name="burst_fire")

    def conditions(self, bench: Bench, data: Any, burst: Any) -> list[Value]:
        """What holds at the two streams in each cycle."""
        beats = Signal(range(self.burst_beats + 2), name="burst_beats_now")
        bench.m.d.comb += [
            self.data_fire.eq(data.valid & data.ready),
            self.burst_fire.eq(burst.valid & burst.ready),
            beats.eq(self.beats + self.data_fire),
        ]
        bench.m.d.sync += [
            self.beats.eq(Mux(self.burst_fire, 0, beats)),
            self.number.eq(self.number + self.burst_fire),
        ]
        return [
            beats <= self.burst_beats,
            ~burst.valid | burst.ready,
            ~burst.valid | (burst.payload.beats + 1 == beats),
            ~data.valid | data.payload.strobe.any(),
        ]
