"""`cdma buddy`: the commands for compressed memory."""

import typer

from cdma.buddy_profile import profile

buddy = typer.Typer(help="Compressed memory with an overflow in buddy memory.")
buddy.command()(profile)


@buddy.callback()
def _group() -> None:
    # Without it, typer would take a single command for the group itself.
    pass
