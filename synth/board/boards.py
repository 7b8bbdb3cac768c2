"""ECP5 boards that the self-test is built for, and what of them it uses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.build import Attrs, Pins, Resource, Subsignal

from cdma.synth.errors import SynthError

PinName = tuple[str, ...]
"""A pin of a board: its resource, the number, and for one of several its name in the resource."""


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes
    ----------
    name : str
    platform : (str, str)
        Module and class that describe it, in amaranth-boards.
    clock_hz : float
        The self-test's clock: the board's own oscillator, or a PLL if that has another frequency.
        Oscillators of 48 and 100 MHz are too fast for the codec with framing.
    tx, alive, passed, failed, fault, stuck : tuple
        Pins of the self-test's ports: the resource's name and number, and the signal's if it has
        several.
    program : str
        openFPGALoader's command that loads `{bitstream}` until the board is switched off.
    uart : str
        The port that the text comes out of.
    lamps : str
        The lamps that show `passed`, `failed` and `alive`.
    faults : str
        The buttons or switches that plant a fault in the stream, and that stall it.
    from_rest : bool
        True for switches: a fault is asked for by a switch that is not as it was at the start.
    resources : callable
        Returns the resources that amaranth-boards lacks.
    """

    name: str
    platform: tuple[str, str]
    clock_hz: float
    tx: PinName
    alive: PinName
    passed: PinName
    failed: PinName
    fault: PinName
    stuck: PinName
    program: str
    uart: str
    lamps: str
    faults: str
    from_rest: bool = False
    resources: Callable[[], list[Any]] = list


_PULLED_DOWN = {"IO_TYPE": "LVCMOS33", "PULLMODE": "DOWN"}


def _ecpix5_resources() -> list[Any]:
    """The pins of the first connector, to be bridged to its 3.3 V: the board has no buttons but
    reset.
    """
    return [
        Resource("jumper", 0, Pins("1", dir="i", conn=("pmod", 0)), Attrs(**_PULLED_DOWN)),
        Resource("jumper", 1, Pins("2", dir="i", conn=("pmod", 0)), Attrs(**_PULLED_DOWN)),
    ]


def _orangecrab_resources() -> list[Any]:
    """The UART's TX on pin 1, as on boards of this shape (Feather), and a second button's pin."""
    return [
        Resource(
            "uart",
            0,
            Subsignal("tx", Pins("1", dir="o", conn=("io", 0))),
            Attrs(IO_TYPE="LVCMOS33"),
        ),
        Resource("jumper", 0, Pins("5", dir="i", conn=("io", 0)), Attrs(**_PULLED_DOWN)),
    ]


BOARDS = {
    board.name: board
    for board in (
        Board(
            name="ulx3s_85f",
            platform=("amaranth_boards.ulx3s", "ULX3S_85F_Platform"),
            clock_hz=25e6,
            tx=("uart", "0", "tx"),
            alive=("led", "0"),
            passed=("led", "1"),
            failed=("led", "2"),
            fault=("button_fire", "0"),
            stuck=("button_fire", "1"),
            program="openFPGALoader -b ulx3s {bitstream}",
            uart="the USB port US1, through the FT231X",
            lamps="passed LED 1, failed LED 2, alive LED 0",
            faults="button F1 plants a fault, button F2 holds the stream up",
        ),
        Board(
            name="ecpix5_85f",
            platform=("amaranth_boards.ecpix5", "ECPIX585Platform"),
            clock_hz=25e6,
            tx=("uart", "0", "tx"),
            alive=("rgb_led", "1", "b"),
            passed=("rgb_led", "0", "g"),
            failed=("rgb_led", "0", "r"),
            fault=("jumper", "0"),
            stuck=("jumper", "1"),
            program="openFPGALoader -b ecpix5 {bitstream}",
            uart="the USB port of the debug interface, its second serial port",
            lamps="the first RGB LED: passed green, failed red; the second: alive blue",
            faults="3.3 V at pin 1 of PMOD 0 plants a fault, at pin 2 it holds the stream up",
            resources=_ecpix5_resources,
        ),
        Board(
            name="orangecrab_85f",
            platform=("amaranth_boards.orangecrab_r0_2", "OrangeCrabR0_2_85FPlatform"),
            clock_hz=24e6,
            tx=("uart", "0", "tx"),
            alive=("rgb_led", "0", "b"),
            passed=("rgb_led", "0", "g"),
            failed=("rgb_led", "0", "r"),
            fault=("button", "0"),
            stuck=("jumper", "0"),
            program="openFPGALoader -b orangeCrab {bitstream}",
            uart="pin 1 (TX, 3.3 V) of the header, with an adapter: the board has no serial port",
            lamps="one LED: passed green, failed red, alive blue",
            faults="the button plants a fault, 3.3 V at pin 5 of the header holds the stream up",
            resources=_orangecrab_resources,
        ),
        Board(
            name="versa_ecp5_5g",
            platform=("amaranth_boards.versa_ecp5_5g", "VersaECP55GPlatform"),
            clock_hz=25e6,
            tx=("uart", "0", "tx"),
            alive=("led", "0"),
            passed=("led", "1"),
            failed=("led", "2"),
            fault=("switch", "0"),
            stuck=("switch", "1"),
            program="openFPGALoader -c ft2232 {bitstream}",
            uart="the USB port, its second serial port",
            lamps="passed LED 1, failed LED 2, alive LED 0",
            faults="switch 0 plants a fault, switch 1 holds the stream up: whenever it stands "
            "otherwise than at the start",
            from_rest=True,
        ),
    )
}
"""By name."""


def board_names() -> list[str]:
    """List the names of all boards."""
    return list(BOARDS)


def find_board(name: str) -> Board:
    """Find a board by its name; `SynthError` with the list if there is none of that name."""
    if name not in BOARDS:
        raise SynthError(f"unknown board {name!r}; choose one of {', '.join(BOARDS)}")
    return BOARDS[name]
