"""Bench inside the simulator: it reads the self-test's UART and presses buttons.

`tests.hw.cocotb.simulate` starts this; the environment carries a `Scenario`.
"""

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer, with_timeout

from cdma.hw.config import CodecConfig
from tests.hw.selftest.model import RoundReport, expected, stalls_of

PERIOD_NS = 2
LINE_CHARACTERS = 120


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A top, its rounds, and the buttons pressed in them, from the third on."""

    codec: dict[str, int]
    lines: int
    bit_cycles: int
    watchdog_cycles: int
    rounds: int
    faults: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()
    seed: int = 1

    @property
    def config(self) -> CodecConfig:
        # JSON has lists only.
        return CodecConfig(**{**self.codec, "codecs": tuple(self.codec["codecs"])})

    def to_env(self) -> dict[str, str]:
        return {"SCENARIO": json.dumps(asdict(self))}

    @classmethod
    def from_env(cls) -> "Scenario":
        return cls(**json.loads(os.environ["SCENARIO"]))


class Reader:
    """Reads bytes off the pin by time, as a serial port does: it has no clock of the top's."""

    def __init__(self, pin: Any, bit_ns: float) -> None:
        self.pin = pin
        self.bit_ns = bit_ns

    async def byte(self) -> int:
        await FallingEdge(self.pin)
        await self._bits(0.5)
        assert self.pin.value == 0, "the start bit is too short"
        value = 0
        for k in range(8):
            await self._bits(1)
            value |= int(self.pin.value) << k
        await self._bits(1)
        assert self.pin.value == 1, "no stop bit"
        return value

    async def _bits(self, count: float) -> None:
        await Timer(count * self.bit_ns, unit="ns")

    async def line(self) -> str:
        """Read what comes up to the line's end."""
        text = b""
        while not text.endswith(b"\r\n"):
            text += bytes([await self.byte()])
            assert len(text) < LINE_CHARACTERS, f"a line without end: {text!r}"
        return text[:-2].decode("ascii")


def check(scenario: Scenario, report: RoundReport) -> None:
    """A round's line against the golden model."""
    config, number = scenario.config, report.round
    if number in scenario.stuck:
        # Nothing came through; what the compressor took in waits in its buffers, which lines of
        # zeros do not fill.
        assert report.verdict == "TIMEOUT", report
        assert (report.bytes_out, report.errors) == (0, 1), report
        assert report.lines <= scenario.lines - (number % 8 != 0), report
        assert report.cycles > scenario.watchdog_cycles, report
        return
    fault = number in scenario.faults
    want = expected(config, scenario.lines, number, report.cycles, fault=fault)
    assert report == want
    assert (report.errors != 0, report.verdict) == ((True, "FAIL") if fault else (False, "PASS"))
    sectors = scenario.lines * config.sectors
    assert report.cycles > sectors, report
    if not fault and stalls_of(number) == 0:
        # A sector per cycle, the slower of the two sides of a codec that expands dense data.
        busiest = max(want.bytes_in, want.bytes_out) / config.sector_bytes
        assert report.cycles < busiest + 100, report


@cocotb.test()
async def rounds_are_told_as_the_model_has_them(dut: Any) -> None:
    scenario = Scenario.from_env()
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    dut.fault.value = 0
    dut.stuck.value = 0
    dut.rst.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk)
    assert dut.tx.value == 1, "the line is not at rest"
    dut.rst.value = 0
    bit_ns = PERIOD_NS * scenario.bit_cycles
    reader = Reader(dut.tx, bit_ns)
    # A round is reported at the latest when the watchdog has bitten and the line before is written.
    longest_ns = 10 * LINE_CHARACTERS * bit_ns + 40 * PERIOD_NS * scenario.watchdog_cycles
    failed = False
    for number in range(scenario.rounds):
        first = await with_timeout(reader.byte(), longest_ns, "ns")
        # The next round has begun, the one after it will after this line.
        dut.fault.value = number + 2 in scenario.faults
        dut.stuck.value = number + 2 in scenario.stuck
        lamps = int(dut.passed.value), int(dut.failed.value), int(dut.alive.value)
        text = chr(first) + await with_timeout(reader.line(), longest_ns, "ns")
        dut._log.info(text)
        report = RoundReport.parse(text)
        assert report.round == number
        check(scenario, report)
        passes = report.verdict == "PASS"
        failed |= not passes
        assert lamps == (passes, failed, (number + 1) >> 6 & 1), f"round {number}: {lamps}"
