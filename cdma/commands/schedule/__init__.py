"""`cdma schedule`: plans of a training step, as JSON, tables, or carried out by the RTL."""

from cdma.commands.schedule.command import schedule

__all__ = ["schedule"]
