"""Errors of the driver: arguments that it refuses, and faults of the engine."""

from cdma.hw.dma.control.descriptor import Status
from cdma.sim.machine.errors import MachineError


class DriverError(RuntimeError):
    """Raised for arguments that the driver refuses, or an engine that does not do its part."""


class OutOfMemoryError(DriverError):
    """No free piece of a memory is large enough."""


class UseAfterFreeError(DriverError):
    """A buffer was used after it had been freed."""


class DoubleFreeError(DriverError):
    """A buffer was freed twice, or is not of this memory."""


class OverlapError(DriverError):
    """Two live buffers, or two transfers without a fence between them, would share bytes."""


class BusyError(DriverError):
    """A buffer was to be freed that a transfer still uses."""


class RingFullError(DriverError):
    """Raised when the ring has no free slot and the caller would not wait."""


class DescriptorError(DriverError):
    """The engine would refuse the descriptor, or it could not do any good.

    Attributes
    ----------
    field : str
        The field of the descriptor that is at fault.
    status : Status or None
        What the engine would say; None if only the driver can know.
    """

    def __init__(self, field: str, message: str, status: Status | None = None) -> None:
        self.field = field
        self.status = status
        super().__init__(f"{field} {message}")


class ConcurrentUseError(DriverError):
    """A thread called a driver while another one was in it."""


class DroppedError(DriverError):
    """A reset came before the transfer's record.

    The engine had not fetched the descriptor then, and nothing was done for it, unless the ring had
    stopped or the record could not be written: its destination may then hold anything.
    """


class EngineError(DriverError, MachineError):
    """The engine is not the one that this driver is for, or does not do its part."""


class IdentityError(EngineError):
    """The registers are not those of an engine that this driver knows."""


class RingError(EngineError):
    """The engine cannot read descriptors or write records; `Engine.reset` makes it go on."""


class StuckError(EngineError):
    """Raised when nothing has moved for long although a record is outstanding."""
