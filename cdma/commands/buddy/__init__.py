"""`cdma buddy`: the commands for compressed memory."""

import typer

from cdma.commands.buddy import profile, replay

buddy = typer.Typer(help="Compressed memory with an overflow in buddy memory.")
buddy.command()(profile.profile)
buddy.command()(replay.replay)
