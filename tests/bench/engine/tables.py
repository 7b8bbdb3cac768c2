"""Formats and helpers that the engine's tables share."""

from rich.table import Table


def table(title: str, *headings: str) -> Table:
    """A table of numbers."""
    made = Table(title=title, title_justify="left")
    for heading in headings:
        made.add_column(heading, justify="right")
    return made


def percent(part: float) -> str:
    """With two digits behind the point, never rounded up to 100 %."""
    return f"{int(part * 10_000) / 100:.2f} %"
