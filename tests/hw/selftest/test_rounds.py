"""The self-test as a whole, in Amaranth's simulator: what it writes of rounds with all ends."""

import pytest

from cdma.hw.config import PRESETS
from cdma.hw.selftest.config import SelfTestConfig
from cdma.hw.selftest.selftest import SelfTest
from tests.hw.selftest.model import STALLED_EIGHTHS, RoundReport, expected, stalls_of
from tests.lib.simulator import Simulator

BIT_CYCLES = 2
CONFIG = SelfTestConfig(
    codec=PRESETS["tiny"].codec,
    clock_hz=BIT_CYCLES * 115_200,
    # A round takes longer than the watchdog waits.
    lines=640,
    watchdog_cycles=1024,
)
FAULTY, STUCK = 2, 4
"""The rounds in which a fault is planted, and in which nothing comes through."""
ROUNDS = 6


class Terminal:
    """A reader of the lines of text, who sets switches for the round behind the next.

    While a line is sent the next round runs, so that another one begins when the line has ended.

    Attributes
    ----------
    reports : list of RoundReport
    lamps : list of (int, int)
        `passed` and `failed` while each line is sent.
    """

    def __init__(self, selftest: SelfTest) -> None:
        self.selftest = selftest
        self.reports: list[RoundReport] = []
        self.lamps: list[tuple[int, int]] = []

    async def run(self, ctx) -> None:
        selftest = self.selftest
        for number in range(ROUNDS):
            text = b""
            while not text.endswith(b"\r\n"):
                text += bytes([await self._byte(ctx)])
                if len(text) == 10:
                    ctx.set(selftest.fault, number + 2 == FAULTY)
                    ctx.set(selftest.stuck, number + 2 == STUCK)
                    self.lamps.append((ctx.get(selftest.passed), ctx.get(selftest.failed)))
            self.reports.append(RoundReport.parse(text[:-2].decode()))

    async def _byte(self, ctx) -> int:
        """The next byte that the UART sends."""
        tx = self.selftest.tx
        while ctx.get(tx):
            await ctx.tick()
        byte = 0
        for place in range(8):
            await ctx.tick().repeat(BIT_CYCLES)
            byte |= ctx.get(tx) << place
        await ctx.tick().repeat(BIT_CYCLES)
        assert ctx.get(tx), "no stop bit"
        await ctx.tick().repeat(BIT_CYCLES - 1)
        return byte


@pytest.fixture(scope="module")
def terminal():
    """A terminal that has got the rounds' lines."""
    selftest = SelfTest(CONFIG)
    terminal = Terminal(selftest)
    simulator = Simulator(selftest)
    simulator.add_clock(1e-9)
    simulator.add_testbench(terminal.run)
    simulator.run()
    return terminal


def test_rounds_are_reported_as_the_model_has_them(terminal):
    for number, told in enumerate(terminal.reports):
        if number != STUCK:
            fault = number == FAULTY
            right = expected(CONFIG.codec, CONFIG.lines, number, told.cycles, fault=fault)
            assert told == right
    verdicts = [told.verdict for told in terminal.reports]
    assert verdicts == ["PASS", "PASS", "FAIL", "PASS", "TIMEOUT", "PASS"]


def test_cycles_of_a_round_are_those_of_its_sectors_and_stalls(terminal):
    for number, told in enumerate(terminal.reports):
        if number != STUCK:
            least = CONFIG.sectors
            passed = 1 - STALLED_EIGHTHS[stalls_of(number)] / 8
            assert least <= told.cycles <= least / passed**2 + 64


def test_round_in_which_nothing_moves_ends_and_leaves_nothing_behind(terminal):
    told = terminal.reports[STUCK]
    assert (told.bytes_out, told.errors) == (0, 1)
    assert told.lines == told.bytes_in // CONFIG.codec.line_bytes < 16
    assert CONFIG.watchdog_cycles < told.cycles < CONFIG.watchdog_cycles + 128


def test_lamps_tell_of_the_last_round_and_of_all_before(terminal):
    assert terminal.lamps == [(1, 0), (1, 0), (0, 1), (1, 1), (0, 1), (1, 1)]
