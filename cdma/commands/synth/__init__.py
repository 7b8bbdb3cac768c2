"""`cdma synth`: components in gates, and the report."""

from cdma.commands.synth.command import synth

__all__ = ["synth"]
