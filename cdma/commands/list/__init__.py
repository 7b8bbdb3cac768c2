"""The command `cdma list`: the names that options and arguments take."""

from cdma.commands.list.command import list_names as list

__all__ = ["list"]
