"""States of packets that are taken whole."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class PacketStates(wiring.Component):
    """Follows a packet per command, all of whose beats are taken, whatever is in it.

    ::

        IDLE ──command──► OPEN ──last──────────────► ENDED ──reported──► IDLE, or OPEN
                            └──framing error──► DROP ──last──┘

    Latency: 1 cycle. Resources: two flip-flops.

    Members
    -------
    command_valid : `In(1)`
    command_ready : `Out(1)`
        The next packet can begin: there is none, or it is `reported`.
    beat_fire : `In(1)`
        A beat is taken.
    beat_last, beat_framing_error : `In(1)`
        Of that beat.
    reported : `In(1)`
        The ended packet has been reported.
    active : `Out(1)`
        There is a packet.
    closed : `Out(1)`
        No beat counts any more.
    ended : `Out(1)`
        No beat is to come.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "command_valid": In(1),
                "command_ready": Out(1),
                "beat_fire": In(1),
                "beat_last": In(1),
                "beat_framing_error": In(1),
                "reported": In(1),
                "active": Out(1),
                "closed": Out(1),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        with m.FSM(name="packet"):
            with m.State("IDLE"):
                m.d.comb += self.command_ready.eq(1)
                with m.If(self.command_valid):
                    m.next = "OPEN"
            with m.State("OPEN"):
                m.d.comb += self.active.eq(1)
                with m.If(self.beat_fire & self.beat_framing_error & ~self.beat_last):
                    m.next = "DROP"
                with m.If(self.beat_fire & self.beat_last):
                    m.next = "ENDED"
            with m.State("DROP"):
                m.d.comb += [self.active.eq(1), self.closed.eq(1)]
                with m.If(self.beat_fire & self.beat_last):
                    m.next = "ENDED"
            with m.State("ENDED"):
                m.d.comb += [
                    self.active.eq(1),
                    self.closed.eq(1),
                    self.ended.eq(1),
                    self.command_ready.eq(self.reported),
                ]
                with m.If(self.reported):
                    m.next = "IDLE"
                    with m.If(self.command_valid):
                        m.next = "OPEN"
        return m
