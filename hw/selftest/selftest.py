"""The self-test as a whole: rounds without end, a line of text for each."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.count import count_ones
from cdma.hw.selftest.config import SelfTestConfig
from cdma.hw.selftest.loop import CodecLoop
from cdma.hw.selftest.plan import RoundPlanner
from cdma.hw.selftest.report import RoundReporter, RoundResult
from cdma.hw.selftest.uart import UartTransmitter

CLEAR_CYCLES = 16
ALIVE_BIT = 6
"""Bit of the round's number: at 115,200 baud it changes about twice a second."""


class SelfTest(wiring.Component):
    """Tests compressor and decompressor round by round, and reports each over a UART.

    While a round's line of text is sent the next round runs, and waits with its own. A round ends
    when its packet has come back, or when nothing has moved for `watchdog_cycles`. That is a
    TIMEOUT; the codec and all around it are then reset, which they are not otherwise. A round has
    a limited number of moves (`CodecLoop`), and the text does not wait for a reader: so there is
    always a next round.

    Parameters
    ----------
    config : SelfTestConfig

    Members
    -------
    fault : `In(1)`
        High at a round's start: flip a bit of its compressed stream. Asynchronous.
    stuck : `In(1)`
        High at a round's start: hold its compressed stream up. Asynchronous.
    tx : `Out(1)`
        The UART, 8N1.
    alive : `Out(1)`
        Changes every 64 rounds.
    passed : `Out(1)`
        The last round passed.
    failed : `Out(1)`
        A round has failed since reset.
    """

    def __init__(self, config: SelfTestConfig) -> None:
        self.config = config
        super().__init__(
            {
                "fault": In(1),
                "stuck": In(1),
                "tx": Out(1, init=1),
                "alive": Out(1),
                "passed": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, codec = self.config, self.config.codec
        clear = Signal()
        m.submodules.planner = planner = RoundPlanner()
        loop = CodecLoop(config)
        m.submodules.loop = ResetInserter(clear)(loop)
        m.submodules.reporter = reporter = RoundReporter()
        m.submodules.uart = uart = UartTransmitter(config.bit_cycles)
        m.submodules.fault_input = FFSynchronizer(self.fault, loop.fault)
        m.submodules.stuck_input = FFSynchronizer(self.stuck, loop.stuck)
        wiring.connect(m, reporter.o, uart.i)
        m.d.comb += [loop.plan.eq(planner.plan), self.tx.eq(uart.tx)]

        cycles = Signal(32)
        still = Signal(range(config.watchdog_cycles))
        errors = Signal(32)
        verdict = Signal(RoundResult)
        clearing = Signal(range(CLEAR_CYCLES))
        with m.FSM(name="phase"):
            with m.State("START"):
                m.d.comb += loop.start.eq(1)
                m.d.sync += [cycles.eq(0), still.eq(0), verdict.eq(RoundResult.PASS)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += [
                    cycles.eq(cycles + 1),
                    still.eq(Mux(loop.moved, 0, still + 1)),
                ]
                with m.If(loop.done):
                    m.d.sync += errors.eq(loop.wrong + count_ones(Cat(loop.checks)))
                    m.next = "JUDGE"
                with m.Elif(still == config.watchdog_cycles - 1):
                    m.d.sync += [errors.eq(loop.wrong + 1), verdict.eq(RoundResult.TIMEOUT)]
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                with m.If((verdict == RoundResult.PASS) & (errors != 0)):
                    m.d.sync += verdict.eq(RoundResult.FAIL)
                m.next = "TELL"
            with m.State("TELL"):
                m.d.comb += reporter.i.valid.eq(1)
                with m.If(reporter.i.ready):
                    m.d.sync += [
                        self.passed.eq(verdict == RoundResult.PASS),
                        self.failed.eq(self.failed | (verdict != RoundResult.PASS)),
                    ]
                    m.d.comb += planner.next.eq(1)
                    m.d.sync += clearing.eq(CLEAR_CYCLES - 1)
                    with m.If(verdict == RoundResult.TIMEOUT):
                        m.next = "CLEAR"
                    with m.Else():
                        m.next = "START"
            with m.State("CLEAR"):
                m.d.comb += clear.eq(1)
                m.d.sync += clearing.eq(clearing - 1)
                with m.If(clearing == 0):
                    m.next = "START"

        record = reporter.i.payload
        sector_bits = (codec.sectors - 1).bit_length()
        width_bits = (codec.sector_bytes - 1).bit_length()
        m.d.comb += [
            record.round.eq(planner.round),
            record.lines.eq(loop.sectors >> sector_bits),
            record["in"].eq(loop.sectors << width_bits),
            record.out.eq(loop.compressed),
            record.cycles.eq(cycles),
            record.errors.eq(errors),
            record.status.eq(Cat(loop.decompressor_status, loop.compressor_status)),
            record.verdict.eq(verdict),
            self.alive.eq(planner.round[ALIVE_BIT]),
        ]
        return m
