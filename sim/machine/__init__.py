"""The Verilated RTL as a Python library: whole buffers in, whole buffers and cycles out."""

from cdma.builds.cache import cache_directory
from cdma.builds.errors import BuildError
from cdma.plan.platform.environment import MACHINES, MachineConfig, machine_config
from cdma.sim.machine.buddy.config import BUDDY_MACHINES, BuddyMachineConfig, buddy_machine_config
from cdma.sim.machine.buddy.machine import BuddyCounters, BuddyMachine, PortCounters
from cdma.sim.machine.buddy.trace import Access, AccessTrace, Playback
from cdma.sim.machine.build.build import VerilogText, build_library
from cdma.sim.machine.bus.bus import BusEvent, BusFault, Counters, DeliveredFault
from cdma.sim.machine.engine.machine import Machine
from cdma.sim.machine.errors import (
    AssertionFailedError,
    CapacityError,
    HangError,
    MachineError,
    ProtocolError,
    RegisterError,
    RunError,
)
from cdma.sim.machine.pipeline.batch import Batch, Fault, Packets
from cdma.sim.machine.pipeline.library import FAULT
from cdma.sim.machine.pipeline.pipeline import CHANNELS, Pipeline

__all__ = [
    "BUDDY_MACHINES",
    "CHANNELS",
    "FAULT",
    "MACHINES",
    "Access",
    "AccessTrace",
    "AssertionFailedError",
    "Batch",
    "BuddyCounters",
    "BuddyMachine",
    "BuddyMachineConfig",
    "BuildError",
    "BusEvent",
    "BusFault",
    "CapacityError",
    "Counters",
    "DeliveredFault",
    "Fault",
    "HangError",
    "Machine",
    "MachineConfig",
    "MachineError",
    "Packets",
    "Pipeline",
    "Playback",
    "PortCounters",
    "ProtocolError",
    "RegisterError",
    "RunError",
    "VerilogText",
    "buddy_machine_config",
    "build_library",
    "cache_directory",
    "machine_config",
]
