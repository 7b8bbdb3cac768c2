"""What a kernel's driver would do, against the engine's registers and rings only."""

from sim.driver.buddy import BuddyDriver
from sim.driver.buddy_errors import AccessError
from sim.driver.buddy_shape import BuddyShape
from sim.driver.copy import CopyKind
from sim.driver.engine import Engine
from sim.driver.errors import (
    BusyError,
    ConcurrentUseError,
    DescriptorError,
    DoubleFreeError,
    DriverError,
    DroppedError,
    EngineError,
    IdentityError,
    OutOfMemoryError,
    OverlapError,
    RingError,
    RingFullError,
    StuckError,
    UseAfterFreeError,
)
from sim.driver.memory import Buffer, Memory, Span
from sim.driver.queue import Transfer
from sim.driver.record import CompletionRecord, FirstError, TransferError
from sim.driver.shape import EngineShape
from sim.driver.throttle import THROTTLES, Throttle, throttle

__all__ = [
    "THROTTLES",
    "AccessError",
    "BuddyDriver",
    "BuddyShape",
    "Buffer",
    "BusyError",
    "CompletionRecord",
    "ConcurrentUseError",
    "CopyKind",
    "DescriptorError",
    "DoubleFreeError",
    "DriverError",
    "DroppedError",
    "Engine",
    "EngineError",
    "EngineShape",
    "FirstError",
    "IdentityError",
    "Memory",
    "OutOfMemoryError",
    "OverlapError",
    "RingError",
    "RingFullError",
    "Span",
    "StuckError",
    "Throttle",
    "Transfer",
    "TransferError",
    "UseAfterFreeError",
    "throttle",
]
