"""A driver of the engine like a kernel's: it uses the engine's registers and rings only."""

from cdma.plan.platform.throttles import THROTTLES, Throttle, throttle
from cdma.sim.driver.buddy.driver import BuddyDriver
from cdma.sim.driver.buddy.errors import AccessError
from cdma.sim.driver.buddy.shape import BuddyShape
from cdma.sim.driver.copy import ENGINE_CODEC, CopyKind
from cdma.sim.driver.engine import Engine
from cdma.sim.driver.errors import (
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
from cdma.sim.driver.memory.buffers import Buffer, Memory, Span
from cdma.sim.driver.ring.queue import Transfer
from cdma.sim.driver.ring.record import CompletionRecord, FirstError, TransferError
from cdma.sim.driver.shape import EngineShape
from cdma.sim.driver.tensor_parameters import TensorParameterError, TensorParameters
from cdma.sim.driver.windows import Windows

__all__ = [
    "ENGINE_CODEC",
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
    "TensorParameterError",
    "TensorParameters",
    "Throttle",
    "Transfer",
    "TransferError",
    "UseAfterFreeError",
    "Windows",
    "throttle",
]
