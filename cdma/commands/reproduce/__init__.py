"""`cdma reproduce`: the papers' claims, as JSON or tables."""

from cdma.commands.reproduce.command import reproduce

__all__ = ["reproduce"]
