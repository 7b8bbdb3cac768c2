"""`cdma buddy`: the commands for compressed memory."""

import typer

from cdma.commands.buddy.profile import profile
from cdma.commands.buddy.replay import replay

buddy = typer.Typer(help="Compressed memory with an overflow in buddy memory.")
buddy.command()(profile)
buddy.command()(replay)
