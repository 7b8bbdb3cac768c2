"""A round's figures as a line of text."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

FIELDS = {
    "round": 32,
    "lines": 32,
    "in": 32,
    "out": 32,
    "cycles": 32,
    "errors": 32,
    "status": 8,
}
"""Bits of each figure, in the order of the line: whole hexadecimal digits."""


class RoundResult(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """Outcome of a round."""

    PASS = 0
    FAIL = 1
    TIMEOUT = 2


class RoundRecord(data.StructLayout):
    """The report of a round.

    Members
    -------
    round
        Its number, from 0.
    lines, in
        Lines of data, and bytes, that the compressor took.
    out
        Bytes that it gave.
    cycles
        From the round's start to its end.
    errors
        Sectors that did not come back whole and right, and checks that failed.
    status
        `golden.StreamStatus` of the compressor in the high digit, of the decompressor in the low.
    verdict
        How it ended.
    """

    def __init__(self) -> None:
        super().__init__({**FIELDS, "verdict": RoundResult})


RESULT_TEXTS = {"PASS": RoundResult.PASS, "FAIL": RoundResult.FAIL, "TIMEOUT": RoundResult.TIMEOUT}

DIGIT = 0x80
"""In the text: a digit of the next figure stands here."""


def line_text() -> tuple[list[int], list[int]]:
    """The line's characters with `DIGIT` for each digit, and where each verdict begins in them."""
    text: list[int] = []
    for name, bits in FIELDS.items():
        text += [*name.encode(), ord(" "), *[DIGIT] * (bits // 4), ord(" ")]
    starts = []
    for verdict in RESULT_TEXTS:
        starts.append(len(text))
        text += f"{verdict}\r\n".encode()
    return text, starts


class RoundReporter(wiring.Component):
    """Writes a line of text for each record, figures in hexadecimal digits, as in

        round 0000000c lines 00001000 in 00080000 out 00031c40 cycles 0001f3a2 errors 00000000
        status 00 PASS

    (one line; it ends with CR and LF). The next record is accepted when the line is written.

    Latency: 1 cycle. Throughput: a character per cycle.

    Members
    -------
    i : `In(stream.Signature(RoundRecord()))`
    o : `Out(stream.Signature(8))`
        Characters.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(RoundRecord())), "o": Out(stream.Signature(8))})

    def elaborate(self, platform) -> Module:
        m = Module()
        text, starts = line_text()
        m.submodules.text = storage = memory.Memory(shape=8, depth=len(text), init=text)
        character = storage.read_port(domain="comb")

        # The first digit on top.
        digits = Signal(sum(FIELDS.values()), reset_less=True)
        verdict = Signal(RoundResult, reset_less=True)
        position = Signal(range(len(text)))
        writing = Signal()
        is_digit = Signal()
        digit = Signal(4)
        m.d.comb += [
            character.addr.eq(position),
            is_digit.eq(character.data == DIGIT),
            digit.eq(digits[-4:]),
            self.i.ready.eq(~writing),
            self.o.valid.eq(writing),
            self.o.payload.eq(
                Mux(
                    is_digit,
                    Mux(digit < 10, ord("0") + digit, ord("a") - 10 + digit),
                    character.data,
                )
            ),
        ]
        with m.If(self.i.valid & self.i.ready):
            record = self.i.payload
            m.d.sync += [
                digits.eq(Cat(record[name] for name in reversed(FIELDS))),
                verdict.eq(record.verdict),
                position.eq(0),
                writing.eq(1),
            ]
        with m.Elif(writing & self.o.ready):
            m.d.sync += position.eq(position + 1)
            with m.If(is_digit):
                m.d.sync += digits.eq(digits << 4)
            with m.If(position == starts[0] - 1):
                with m.Switch(verdict):
                    for value, start in zip(RESULT_TEXTS.values(), starts, strict=True):
                        with m.Case(value):
                            m.d.sync += position.eq(start)
            with m.If(character.data == ord("\n")):
                m.d.sync += writing.eq(0)
        return m
