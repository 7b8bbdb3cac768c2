"""`cdma energy`: energy per byte, and its report."""

from cdma.commands.energy.command import energy

__all__ = ["energy"]
