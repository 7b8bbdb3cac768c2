"""`cdma sweep`: a command over all combinations of its options' values."""

from cdma.commands.sweep.command import sweep

__all__ = ["sweep"]
