"""The C interface of the engine's library, as ctypes sees it: `shim/engine/abi.h`."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_uint64, c_void_p
from pathlib import Path

from cdma.sim.machine import structs
from cdma.sim.machine.bus import library as bus_library
from cdma.sim.machine.bus.library import EnvironmentStruct, Signatures

CountersStruct = structs.ENGINE_COUNTERS.ctype

LAYER = structs.LAYER.dtype()

_SIGNATURES: Signatures = {
    "open": (c_void_p, [POINTER(EnvironmentStruct), c_char_p]),
    "counters": (None, [c_void_p, POINTER(CountersStruct), c_void_p]),
    "compute": (None, [c_void_p, c_void_p, c_uint64, c_double]),
    "computed": (c_double, [c_void_p]),
    "watch": (None, [c_void_p]),
    "events": (c_uint64, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "sleep": (None, [c_void_p, c_int32]),
    "units": (c_uint64, []),
    "sector_bytes": (c_uint64, []),
    "host_bytes": (c_uint64, []),
}


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, its functions typed."""
    return bus_library.load(path, "cdma_engine", _SIGNATURES, structs.ENGINE_STRUCTS)
