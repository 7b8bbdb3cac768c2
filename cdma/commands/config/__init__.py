"""The command `cdma config`: what it shows of configurations."""

import typer

from cdma.commands.config.check import check
from cdma.commands.config.listing import list_
from cdma.commands.config.show import show

__all__ = ["config"]

config = typer.Typer(
    help="List, show and check configurations: engines, machines, devices, links, networks."
)
config.command("list")(list_)
config.command("show")(show)
config.command("check")(check)
