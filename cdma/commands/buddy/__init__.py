"""`cdma buddy`: the commands for compressed memory."""

from cdma.commands.buddy import profile, replay
from cdma.terminal.parser import plain_typer

buddy = plain_typer(help="Compressed memory with an overflow in buddy memory.")
buddy.command()(profile.profile)
buddy.command()(replay.replay)
