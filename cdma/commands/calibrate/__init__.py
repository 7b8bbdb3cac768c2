"""`cdma calibrate`: a device file from times of this machine."""

from cdma.commands.calibrate.command import calibrate

__all__ = ["calibrate"]
