"""A packet in which an unpacker finds lines, as it is seen from outside, and what holds of it."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Signal, Value

from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, Inside, Port
from tests.formal.countdown import late_countdown
from tests.formal.rules import LineRules


@dataclass(frozen=True)
class UnpackerPorts:
    """The ports of an unpacker.

    Attributes
    ----------
    command, o, tail : Port
    outside, i : Port
        Beats at the unpacker, and where its slots take them.
    first : Any
        The first line that is offered.
    paired, second_ends, last : Value
        There is a second one, all of it; the packet's last line is among them.
    """

    command: Port
    outside: Port
    i: Port
    o: Port
    tail: Port
    first: Any
    paired: Value
    second_ends: Value
    last: Value


class FollowedPacket:
    """How a packet goes, by what moves at the ports.

    Attributes
    ----------
    announced, given : Signal
        Lines.
    open_, closed, ended, done : Signal
        There is a packet; no beat counts any more; none is to come; the last line has been given.
    framing_error : Signal
    size : Signal
        Bytes.
    """

    def __init__(self, bench: Bench, inside: Inside, ports: UnpackerPorts) -> None:
        self._bench, self._inside, self._ports = bench, inside, ports
        m = bench.m
        i, o, first = ports.i, ports.o, ports.first
        lines_left = inside["lines_left.count"]
        announced = Signal.like(lines_left, name="announced")
        given = Signal.like(lines_left, name="given")
        open_ = Signal()
        closed, ended, done, framing_error = Signal(), Signal(), Signal(), Signal()
        size = Signal(40)
        self.announced, self.given, self.size = announced, given, size
        self.open_, self.closed, self.ended, self.done = open_, closed, ended, done
        self.framing_error = framing_error
        with m.If(ports.tail.moves):
            m.d.sync += [
                open_.eq(0),
                *(s.eq(0) for s in (closed, ended, done, framing_error, size, given)),
            ]
        with m.Else():
            with m.If(i.moves):
                m.d.sync += [
                    closed.eq(closed | i.payload.last | i.payload.framing_error),
                    ended.eq(i.payload.last),
                ]
                with m.If(~closed):
                    m.d.sync += [
                        size.eq(size + i.payload.size),
                        framing_error.eq(i.payload.framing_error),
                    ]
            with m.If(o.moves):
                m.d.sync += [
                    given.eq(
                        given + (first.eol & ~first.empty) + (ports.paired & ports.second_ends)
                    ),
                    done.eq(ports.last),
                ]
        with m.If(ports.command.moves):
            m.d.sync += [open_.eq(1), announced.eq(ports.command.payload)]

    def holds(self, config: CodecConfig, rules: LineRules, *empty: Value) -> None:
        """Ask for one packet per command, all of it taken, and no line more than announced.

        Parameters
        ----------
        empty
            What holds besides while there is no packet.
        """
        bench, inside, ports = self._bench, self._inside, self._ports
        i, o, tail, first, paired, last = (
            ports.i,
            ports.o,
            ports.tail,
            ports.first,
            ports.paired,
            ports.last,
        )
        announced, given, size = self.announced, self.given, self.size
        open_, closed, ended, done = self.open_, self.closed, self.ended, self.done
        framing_error = self.framing_error
        active, busy = inside["packet.active"], inside["busy"]
        level, lines_left = inside["slots.level"], inside["lines_left.count"]
        bench.implies(i.valid & i.ready, open_ & ~ended)
        bench.implies(o.valid, open_ & ~done)
        bench.implies(o.valid & ~first.empty, given + paired < announced)
        bench.implies(o.valid & first.empty, announced == 0)
        bench.implies(
            o.valid & last & ~first.empty & (first.truncation == Truncation.NONE),
            given + 1 + paired == announced,
        )
        bench.implies(tail.valid, ended & done, tail.payload.size == size)
        bench.implies(
            tail.valid & (first.truncation == Truncation.NONE),
            tail.payload.framing_error <= framing_error,
        )

        bench.require(
            active == open_, inside["lines_done"] == done, inside["packet.ended"] == ended
        )
        bench.require(
            inside["packet.closed"] == closed,
            inside["size"] == size,
            inside["framing_error"] == framing_error,
        )
        bench.implies(active, lines_left + given == announced, given <= announced)
        late_countdown(bench, inside, "lines_left", active, announced, given)
        bench.implies(~active, ~done, ~ended, ~closed, size == 0, given == 0)
        bench.implies(~active, level == 0, *empty, ~busy, ~framing_error)
        bench.implies(ended, closed)
        bench.implies(framing_error, closed)
        bench.implies(done, ~busy)
        bench.implies(
            busy,
            lines_left != 0,
            inside["payload_left"] == rules.left,
            inside["payload_left"] != 0,
            rules.left <= config.elements,
        )
        bench.require(rules.inside == busy)
        bench.implies(active & ~done & (lines_left == 0), announced == 0)
        bench.implies(active, inside["packet_empty"] == (announced == 0))

    def goes_on(self, config: CodecConfig) -> None:
        """Ask for something to move at once if whoever is outside is willing: so it ends."""
        bench, ports = self._bench, self._ports
        command, outside, i, o, tail = ports.command, ports.outside, ports.i, ports.o, ports.tail
        first = ports.first
        willing = command.valid & outside.valid & o.ready & tail.ready
        moves = command.ready | outside.ready | i.moves | o.valid | tail.valid
        bench.implies(willing, moves)
        bench.cover(
            o.moves & (first.truncation == Truncation.MASK),
            o.moves & (first.truncation == Truncation.PAYLOAD),
            tail.moves & tail.payload.trailing,
            tail.moves & tail.payload.framing_error,
            o.moves & first.last & (first.count == config.lanes) & (self.given > 1),
            o.moves & first.empty,
        )
