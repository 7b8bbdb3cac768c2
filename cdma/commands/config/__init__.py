"""The command `cdma config`: what it shows of configurations."""

from cdma.commands.config.check import check
from cdma.commands.config.show import show
from cdma.terminal.parser import plain_typer

__all__ = ["config"]

config = plain_typer(
    help="Show and check configurations: engines, machines, devices, links, networks."
)
config.command("show")(show)
config.command("check")(check)
