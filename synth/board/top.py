"""The self-test on a board: its clock, and its ports on the board's pins."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    Signal,
    Value,
)
from amaranth.lib import io
from amaranth.lib.cdc import FFSynchronizer, ResetSynchronizer

from cdma.hw.selftest.config import SelfTestConfig
from cdma.hw.selftest.selftest import SelfTest
from cdma.synth.board.boards import Board, PinName
from cdma.synth.errors import SynthError

REST_CYCLES = 1 << 16
"""After which switches are where they rest, and have been read."""

PHASE_HZ = (10e6, 400e6)
OSCILLATOR_HZ = (400e6, 800e6)
"""Limits of a PLL of the ECP5 (Lattice, FPGA-DS-02012, "sysCLOCK PLL Timing")."""


@dataclass(frozen=True)
class PllDividers:
    """Dividers of an ECP5 PLL (EHXPLLL) whose feedback is its own output.

    Attributes
    ----------
    input, feedback, output : int
        The output is `feedback / input` times the input; the oscillator `output` times the output.
    """

    input: int
    feedback: int
    output: int


def pll_dividers(input_hz: float, output_hz: float) -> PllDividers:
    """Find the dividers of a PLL that makes a clock; `SynthError` if no setting reaches it."""
    found = []
    for divider in range(1, 129):
        phase_hz = input_hz / divider
        feedback = round(output_hz / phase_hz)
        if not PHASE_HZ[0] <= phase_hz <= PHASE_HZ[1] or not 1 <= feedback <= 80:
            continue
        if abs(phase_hz * feedback / output_hz - 1) > 1e-6:
            continue
        middle_hz = sum(OSCILLATOR_HZ) / 2
        output = min(max(round(middle_hz / output_hz), 1), 128)
        if OSCILLATOR_HZ[0] <= output_hz * output <= OSCILLATOR_HZ[1]:
            found.append(PllDividers(divider, feedback, output))
    if not found:
        raise SynthError(
            f"no PLL makes {output_hz / 1e6:g} MHz of {input_hz / 1e6:g} MHz; choose another clock"
        )
    return min(found, key=lambda dividers: dividers.input)


class BoardClock(Elaboratable):
    """Driver of the `sync` domain: the board's oscillator or a PLL behind it, and a reset.

    Amaranth's own domain for these devices has no reset that logic could ask for. Here it lasts
    until the PLL has locked, and while the board's reset button, if it has one, is pressed.

    Parameters
    ----------
    input_hz
        The oscillator's frequency.
    output_hz
        The frequency of the `sync` domain.
    """

    def __init__(self, input_hz: float, output_hz: float) -> None:
        self.output_hz = output_hz
        self.input_hz = input_hz
        self.dividers = None if input_hz == output_hz else pll_dividers(input_hz, output_hz)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        oscillator = io.Buffer("i", platform.request(platform.default_clk, dir="-"))
        m.submodules.oscillator = oscillator
        unready = Signal()
        if platform.default_rst is None:
            pressed: Value = Const(0)
        else:
            button = io.Buffer("i", platform.request(platform.default_rst, dir="-"))
            m.submodules.reset_button = button
            pressed = button.i
        if self.dividers is None:
            m.d.comb += ClockSignal().eq(oscillator.i)
        else:
            clock = Signal()
            locked = Signal()
            m.submodules.pll = self._pll(self.dividers, oscillator.i, clock, locked)
            platform.add_clock_constraint(clock, self.output_hz)
            m.d.comb += [ClockSignal().eq(clock), unready.eq(~locked)]
        m.submodules.reset = ResetSynchronizer(unready | pressed)
        return m

    def _pll(
        self, dividers: PllDividers, oscillator: Value, clock: Signal, locked: Signal
    ) -> Instance:
        return Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self.input_hz / 1e6:g}",
            a_FREQUENCY_PIN_CLKOP=f"{self.output_hz / 1e6:g}",
            # Of the loop's filter, as Lattice's tools set them.
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_CLKI_DIV=dividers.input,
            p_CLKFB_DIV=dividers.feedback,
            p_CLKOP_DIV=dividers.output,
            p_CLKOP_CPHASE=dividers.output // 2 - 1,
            p_CLKOP_FPHASE=0,
            p_CLKOP_ENABLE="ENABLED",
            p_FEEDBK_PATH="CLKOP",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            i_CLKI=oscillator,
            i_CLKFB=clock,
            i_RST=Const(0),
            i_STDBY=Const(0),
            i_ENCLKOP=Const(0),
            i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0),
            i_PHASEDIR=Const(1),
            i_PHASESTEP=Const(1),
            i_PHASELOADREG=Const(1),
            i_PLLWAKESYNC=Const(0),
            o_CLKOP=clock,
            o_LOCK=locked,
        )


class BoardTop(Elaboratable):
    """The self-test with a board's pins.

    Parameters
    ----------
    board : Board
    config : SelfTestConfig
        The self-test; its clock must be the board's.
    """

    def __init__(self, board: Board, config: SelfTestConfig) -> None:
        self.board = board
        self.config = config
        self._requested: dict[tuple[str, int], Any] = {}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        board = self.board
        m.domains.sync = ClockDomain()
        m.submodules.clock = BoardClock(platform.default_clk_frequency, board.clock_hz)
        m.submodules.selftest = selftest = SelfTest(self.config)
        for name in ("tx", "alive", "passed", "failed"):
            buffer = io.Buffer("o", self._port(platform, getattr(board, name)))
            m.submodules[f"{name}_pin"] = buffer
            m.d.comb += buffer.o.eq(getattr(selftest, name))
        for name in ("fault", "stuck"):
            buffer = io.Buffer("i", self._port(platform, getattr(board, name)))
            m.submodules[f"{name}_pin"] = buffer
            port = getattr(selftest, name)
            if board.from_rest:
                m.submodules[f"{name}_switch"] = switch = RestingSwitch()
                m.d.comb += [switch.i.eq(buffer.i), port.eq(switch.o)]
            else:
                m.d.comb += port.eq(buffer.i)
        return m

    def _port(self, platform: Any, pin: PinName) -> Any:
        name, number, *signal = pin
        key = (name, int(number))
        if key not in self._requested:
            self._requested[key] = platform.request(*key, dir="-")
        port = self._requested[key]
        return getattr(port, signal[0]) if signal else port


class RestingSwitch(Elaboratable):
    """Detector of a switch that stands otherwise than when the clock began.

    It does not matter which way is on. Latency: 2 cycles.

    Attributes
    ----------
    i : Signal
        The pin.
    o : Signal
    """

    def __init__(self, rest_cycles: int = REST_CYCLES) -> None:
        self.rest_cycles = rest_cycles
        self.i = Signal()
        self.o = Signal()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        level = Signal()
        rest = Signal()
        waiting = Signal(range(self.rest_cycles), init=self.rest_cycles - 1)
        m.submodules.input = FFSynchronizer(self.i, level)
        with m.If(waiting != 0):
            m.d.sync += [waiting.eq(waiting - 1), rest.eq(level)]
        m.d.comb += self.o.eq((waiting == 0) & (level ^ rest))
        return m
