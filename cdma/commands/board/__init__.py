"""`cdma board`: a self-testing bitstream, and its report."""

from cdma.commands.board.command import board

__all__ = ["board"]
