"""The C interface of the buddy controller's library, as ctypes sees it: `shim/buddy/abi.h`."""

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_uint64, c_void_p
from pathlib import Path

from cdma.sim.machine import structs
from cdma.sim.machine.bus import library as bus_library
from cdma.sim.machine.bus.library import EnvironmentStruct, Signatures

ACCESS = structs.ACCESS.dtype()

ACCESS_RECORD = structs.ACCESS_RECORD.dtype(signed=True)
"""Signed, so that differences are, and so that "never" is -1."""

PlayStruct = structs.PLAY.ctype
CountersStruct = structs.BUDDY_COUNTERS.ctype

_SIGNATURES: Signatures = {
    "open": (c_void_p, [POINTER(EnvironmentStruct), c_char_p]),
    "play": (c_int32, [c_void_p, POINTER(PlayStruct)]),
    "play_together": (
        c_int32,
        [POINTER(c_void_p), POINTER(PlayStruct), c_uint64, POINTER(c_uint64)],
    ),
    "counters": (None, [c_void_p, POINTER(CountersStruct), c_void_p]),
    "sector_bytes": (c_uint64, []),
}


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, its functions typed."""
    return bus_library.load(path, "cdma_buddy", _SIGNATURES, structs.BUDDY_STRUCTS)
