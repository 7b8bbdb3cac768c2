"""`cdma buddy`: the commands for compressed memory."""

import typer

from cdma.buddy_profile import profile
from cdma.buddy_replay import replay

buddy = typer.Typer(help="Compressed memory with an overflow in buddy memory.")
buddy.command()(profile)
buddy.command()(replay)
