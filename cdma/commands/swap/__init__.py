"""`cdma swap`: arrays through the simulated RTL and back, and the report."""

from cdma.commands.swap.command import swap

__all__ = ["swap"]
