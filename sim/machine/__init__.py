"""The Verilated RTL as a Python library: whole buffers in, whole buffers and cycles out."""

from sim.machine.batch import Batch, Fault, Packets
from sim.machine.build import VerilogText, build_library
from sim.machine.cache import cache_directory
from sim.machine.errors import (
    AssertionFailedError,
    BuildError,
    CapacityError,
    HangError,
    MachineError,
    ProtocolError,
    RunError,
)
from sim.machine.library import FAULT
from sim.machine.pipeline import CHANNELS, Pipeline

__all__ = [
    "CHANNELS",
    "FAULT",
    "AssertionFailedError",
    "Batch",
    "BuildError",
    "CapacityError",
    "Fault",
    "HangError",
    "MachineError",
    "Packets",
    "Pipeline",
    "ProtocolError",
    "RunError",
    "VerilogText",
    "build_library",
    "cache_directory",
]
