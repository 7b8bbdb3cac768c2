"""`cdma estimate`: transfer times in closed form, as JSON or a table."""

from cdma.commands.estimate.command import estimate

__all__ = ["estimate"]
