"""`cdma train`: a training step of the user's own module, planned and carried out."""

from cdma.commands.train.command import train

__all__ = ["train"]
