"""`cdma config check`: whether a file is right, and what it makes."""

from typing import Annotated

import typer

from cdma.commands.config.show import KindName, configurations
from cdma.config import DEVICE, ENGINE, LINK, MACHINE, engine_setup, table_of
from cdma.config.resolve import is_file
from cdma.config.writer import kind_of


def check(
    name: Annotated[
        str,
        typer.Argument(metavar="FILE|HOOK", help="What is to be checked.", show_default=False),
    ],
    kind: KindName = None,
) -> None:
    """Check a file's configurations, and say in a line each what they are.

    Exit status 2, and an error that names file, table, key, value and what would be right, if one
    is wrong.
    """
    found = configurations(name, kind)
    if is_file(name) and {ENGINE.name, MACHINE.name} <= set(map(kind_of, found)):
        # One machine for one engine.
        engine_setup(name, name, name)
    for value in found:
        typer.echo(f"{name}: [{kind_of(value)}] {_summary(value)}")


_KEYS = {
    ENGINE.name: ("units", "host_bytes", "buffer_bytes", "read_buffer_bytes"),
    MACHINE.name: ("clock_hz", "engines", "channels", "dram_bytes_per_s", "link_out_bytes_per_s"),
    DEVICE.name: ("name", "peak_flops", "dram_bytes_per_s", "capacity_bytes", "engine"),
    LINK.name: ("name", "bytes_per_s", "in_bytes_per_s", "efficiency"),
    "throttle": ("name", "bytes_per_s", "burst_bytes"),
    "network": ("name", "batch", "dataset", "precision"),
    "buddy": ("page_bytes", "pages", "reads", "writes"),
}
"""By kind, the keys that tell most."""


def _summary(value: object) -> str:
    table = table_of(value)
    told = [f"{key} {_number(table[key])}" for key in _KEYS[kind_of(value)] if key in table]
    return f"is right: {', '.join(told)}"


def _number(value: object) -> str:
    return f"{value:,g}" if isinstance(value, float) else str(value)
