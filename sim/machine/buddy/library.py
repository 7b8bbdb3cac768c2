"""The C interface of the buddy controller's library, as ctypes sees it: `shim/buddy/abi.h`."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_uint64, c_void_p
from pathlib import Path

import numpy as np

from cdma.sim.machine.bus import library as bus_library
from cdma.sim.machine.bus.library import Signatures, SurroundingsStruct

ACCESS = np.dtype(
    [
        (name, np.uint64)
        for name in ("write", "address", "bytes", "id", "size", "burst", "earliest", "offset")
    ]
)

ACCESS_RECORD = np.dtype(
    # Signed, so that differences are, and so that "never" is -1.
    [(name, np.int64) for name in ("offered", "accepted", "first", "end", "response")]
)


class PlayStruct(ctypes.Structure):
    _fields_ = [
        ("access", c_void_p),
        ("accesses", c_uint64),
        ("data", c_void_p),
        ("mask", c_void_p),
        ("most_reads", c_uint64),
        ("most_writes", c_uint64),
        ("apart", c_uint64),
        ("cycles", c_uint64),
        ("record", c_void_p),
        ("finished", c_uint64),
        ("took", c_uint64),
    ]


class CountersStruct(ctypes.Structure):
    _fields_ = [
        ("link_out_busy_cycles", c_double),
        ("link_in_busy_cycles", c_double),
        ("since", c_uint64),
    ]


_SIGNATURES: Signatures = {
    "open": (c_void_p, [POINTER(SurroundingsStruct), c_char_p]),
    "play": (c_int32, [c_void_p, POINTER(PlayStruct)]),
    "counters": (None, [c_void_p, POINTER(CountersStruct), c_void_p]),
    "sector_bytes": (c_uint64, []),
}


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, its functions typed."""
    return bus_library.load(path, "cdma_buddy", _SIGNATURES)
