"""Output helpers that the commands' reports share: the terminal, and how tables look."""

from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from cdma.synth.gates.clock import ReachedClock, clock_note

WIDE_CHARACTERS = 140
"""A console this wide gets all columns."""

GB = 1e9


def terminal() -> Console:
    """Open the console that reports are printed to."""
    console = Console()
    # Rich takes 80 characters where there is no terminal, as in a pipe.
    return console if console.is_terminal else Console(width=WIDE_CHARACTERS)


def plain_table(title: str | None = None) -> Table:
    """A table without columns yet, with one line: below its heading."""
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def figures_table(first: str, headings: Iterable[str], title: str | None = None) -> Table:
    """A table of figures, with the names of its rows in the first column."""
    table = plain_table(title)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def facts_grid(facts: Mapping[str, str]) -> Table:
    """Make a grid of what a report assumes, one fact per line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, text in facts.items():
        grid.add_row(name, text)
    return grid


def clock_fact(clock_hz: float, reached: ReachedClock) -> dict[str, str]:
    """The clock that times are of, for `facts_grid`; nothing if the RTL clocks that fast."""
    note = clock_note(clock_hz, reached)
    return {"clock": note} if note else {}


def link_rates(out_bytes_per_s: float, in_bytes_per_s: float) -> str:
    """A link's two rates, or its one."""
    if out_bytes_per_s == in_bytes_per_s:
        return f"{out_bytes_per_s / GB:g} GB/s each way"
    return f"{out_bytes_per_s / GB:g} GB/s out, {in_bytes_per_s / GB:g} in"
