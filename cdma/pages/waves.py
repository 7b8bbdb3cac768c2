"""Waves of a simulation as a picture, an SVG that pages show: a column per clock cycle.

A cycle's values are those just before the rising edge that ends it, as registers and handshakes
see them.

    python -m cdma.pages.waves x.vcd --scope bench.top --clock clk --cycles 4:30 valid data > x.svg
"""

import argparse
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path

from vcd.reader import TokenKind, VCDParseError, tokenize

from cdma.errors import UserError, os_user_error

CYCLE, ROW, HIGH = 26, 26, 16
"""Pixels: the width of a cycle, the height of a row, and that of a signal in it."""

SLOPE = 3
"""Pixels that an edge takes."""

LETTER = 6.7
"""Pixels that a letter takes at most."""

STYLE = """
text { font: 11px ui-monospace, monospace; fill: #24292f }
.name { text-anchor: end }
.value, .number { text-anchor: middle }
.number { fill: #6e7781; font-size: 9px }
.line { fill: none; stroke: #0b5cad; stroke-width: 1.4 }
.bus { fill: #e8f1fb; stroke: #0b5cad; stroke-width: 1.2 }
.unknown { fill: #f3d6d6; stroke: #b3261e; stroke-width: 1.2 }
.cycle { stroke: #d8dee4; stroke-width: 1 }
"""


@dataclass(frozen=True)
class Wave:
    """A signal's values, a cycle after the other.

    Attributes
    ----------
    name : str
    width : int
        In bits.
    values : sequence of int or None
        None where a bit is unknown.
    """

    name: str
    width: int
    values: Sequence[int | None]


@dataclass
class _Trace:
    width: int
    times: list[int] = field(default_factory=list)
    values: list[int | None] = field(default_factory=list)

    def before(self, time: int) -> int | None:
        """The value just before a time; None if there is none."""
        index = bisect_left(self.times, time)
        return self.values[index - 1] if index else None


def read(path: Path, names: Sequence[str], clock: str) -> list[Wave]:
    """Read signals of a trace, cycle by cycle.

    Parameters
    ----------
    path : Path
        A VCD file, as Icarus, Verilator and Amaranth's simulator write them.
    names : sequence of str
        Signals with their scopes, `bench.top.valid`.
    clock : str
        The signal whose rising edges end the cycles.

    Returns
    -------
    list of Wave
        One for each name, in order, with a value for each edge of the clock.

    Raises
    ------
    UserError
        The file cannot be read or is no VCD file, or a signal is not in it.
    """
    try:
        codes, traces = _traces(path)
    except OSError as error:
        raise os_user_error("read", path, error) from error
    except (VCDParseError, KeyError, ValueError) as error:
        raise UserError(f"{path} is no VCD file; give what a simulator has dumped") from error
    for name in (clock, *names):
        if name not in codes:
            scope = name.rpartition(".")[0]
            there = sorted(one for one in codes if one.rpartition(".")[0] == scope) or sorted(codes)
            raise UserError(f"{path} has no signal {name}; name one of {', '.join(there[:20])}")
    clocked = traces[codes[clock]]
    changes = zip(clocked.times, [None, *clocked.values], clocked.values, strict=False)
    edges = [time for time, old, new in changes if (old, new) == (0, 1)]
    return [
        Wave(
            name.rpartition(".")[2],
            traces[codes[name]].width,
            [traces[codes[name]].before(edge) for edge in edges],
        )
        for name in names
    ]


def _traces(path: Path) -> tuple[dict[str, str], dict[str, _Trace]]:
    """Codes of a file's signals by their full names, and what is told of each code."""
    codes: dict[str, str] = {}
    traces: dict[str, _Trace] = {}
    scopes: list[str] = []
    time = 0
    with path.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scopes.append(token.scope.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scopes.pop()
            elif token.kind is TokenKind.VAR:
                codes[".".join([*scopes, token.var.reference])] = token.var.id_code
                traces.setdefault(token.var.id_code, _Trace(token.var.size))
            elif token.kind is TokenKind.CHANGE_TIME:
                time = token.time_change
            elif token.kind is TokenKind.CHANGE_SCALAR:
                _note(traces[token.scalar_change.id_code], time, token.scalar_change.value)
            elif token.kind is TokenKind.CHANGE_VECTOR:
                _note(traces[token.vector_change.id_code], time, token.vector_change.value)
    return codes, traces


def _note(trace: _Trace, time: int, value: int | str) -> None:
    trace.times.append(time)
    known = not isinstance(value, str) or set(value) <= set("01")
    trace.values.append(int(str(value), 2 if isinstance(value, str) else 10) if known else None)


def drawing(waves: Sequence[Wave], first: int, stop: int) -> str:
    """Draw waves as an SVG.

    Parameters
    ----------
    waves : sequence of Wave
        Those of one bit are drawn as a line, others as boxes with their value in hexadecimal,
        where it fits.
    first, stop : int
        Cycles: those from the first to the one before the last named are drawn.

    Returns
    -------
    str
        The file's text.
    """
    left = 12 + LETTER * max(len(wave.name) for wave in waves)
    width, height = left + CYCLE * (stop - first) + 12, 24 + ROW * len(waves) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for cycle in range(first, stop + 1):
        x = left + CYCLE * (cycle - first)
        parts.append(f'<path class="cycle" d="M{x:.1f} 20V{height - 4}"/>')
        if cycle < stop:
            parts.append(f'<text class="number" x="{x + CYCLE / 2:.1f}" y="14">{cycle}</text>')
    for row, wave in enumerate(waves):
        top = 24 + ROW * row + (ROW - HIGH) / 2
        parts.append(
            f'<text class="name" x="{left - 6:.1f}" y="{top + HIGH - 4:.1f}">'
            f"{escape(wave.name)}</text>"
        )
        shown = wave.values[first:stop]
        parts += _line(shown, left, top) if wave.width == 1 else _boxes(shown, left, top)
    return "\n".join([*parts, "</svg>", ""])


def _runs(values: Sequence[int | None]) -> Iterator[tuple[int, int, int | None]]:
    """Stretches of cycles with one value: the first, the one behind the last, and the value."""
    start = 0
    for value, run in groupby(values):
        stop = start + len(list(run))
        yield start, stop, value
        start = stop


def _line(values: Sequence[int | None], left: float, top: float) -> Iterator[str]:
    path = ""
    for start, stop, value in _runs(values):
        x, end = left + CYCLE * start, left + CYCLE * stop
        if value is None:
            yield _box("unknown", x, end, top, HIGH)
        y = top if value else top + HIGH
        path += f"{'L' if path else 'M'}{x + (SLOPE if path else 0):.1f} {y:.1f}H{end:.1f}"
    yield f'<path class="line" d="{path}"/>'


def _boxes(values: Sequence[int | None], left: float, top: float) -> Iterator[str]:
    for start, stop, value in _runs(values):
        x, end = left + CYCLE * start, left + CYCLE * stop
        yield _box("unknown" if value is None else "bus", x, end, top, HIGH)
        text = "x" if value is None else f"{value:x}"
        room = int((end - x - 2 * SLOPE) / LETTER)
        if len(text) > room:
            # Of a wide bus its upper digits, if there is room for some.
            text = f"{text[: room - 1]}…" if room >= 3 else ""
        if text:
            middle = (x + end) / 2
            yield f'<text class="value" x="{middle:.1f}" y="{top + HIGH - 4:.1f}">{text}</text>'


def _box(kind: str, x: float, end: float, top: float, height: float) -> str:
    middle = top + height / 2
    return (
        f'<path class="{kind}" d="M{x:.1f} {middle:.1f}L{x + SLOPE:.1f} {top:.1f}'
        f"H{end - SLOPE:.1f}L{end:.1f} {middle:.1f}L{end - SLOPE:.1f} {top + height:.1f}"
        f'H{x + SLOPE:.1f}Z"/>'
    )


def _cycles(text: str) -> tuple[int, int]:
    first, _, stop = text.partition(":")
    if not (first.isdecimal() and stop.isdecimal() and int(first) < int(stop)):
        raise argparse.ArgumentTypeError(f"give FIRST:STOP, as 0:30, not {text!r}")
    return int(first), int(stop)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the named signals of a file, and print the SVG.

    Raises
    ------
    UserError
        As `read`, or the simulation has fewer cycles.
    """
    parser = argparse.ArgumentParser(prog="python -m cdma.pages.waves", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("signals", nargs="+", metavar="SIGNAL")
    parser.add_argument("--scope", required=True, help="of the signals, as bench.top")
    parser.add_argument("--clock", required=True, metavar="SIGNAL")
    parser.add_argument("--cycles", type=_cycles, required=True, metavar="FIRST:STOP")
    given = parser.parse_args(arguments)
    names = [f"{given.scope}.{name}" for name in given.signals]
    waves = read(given.file, names, f"{given.scope}.{given.clock}")
    first, stop = given.cycles
    there = len(waves[0].values)
    if stop > there:
        raise UserError(f"{given.file} has {there} cycles, not {stop}; give others to --cycles")
    print(drawing(waves, first, stop), end="")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
