"""The C interface of designs on AXI, as ctypes sees it: `shim/bus/abi.h`."""

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_double, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np

Signatures = Mapping[str, tuple[object, list[object]]]
"""Functions by name: what they return and take."""

FAULT = np.dtype(
    [
        (name, np.uint64)
        for name in (
            "port",
            "channel",
            "kind",
            "index",
            "low",
            "high",
            "delivered",
            "cycle",
            "address",
        )
    ]
)

PORT_COUNTERS = np.dtype(
    [
        # Signed, so that differences are, and so that "never" is -1.
        (name, np.int64)
        for name in (
            "read_bytes",
            "written_bytes",
            "foreign_bytes",
            "read_bursts",
            "write_bursts",
            "most_reads",
            "most_writes",
            "read_wait_cycles",
            "decode_errors",
            "first_read_cycle",
            "first_write_cycle",
            "last_response_cycle",
        )
    ]
)


class MemoryStruct(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_uint64), ("base", c_uint64)]


class SurroundingsStruct(ctypes.Structure):
    _fields_ = [
        ("device", MemoryStruct),
        ("host", MemoryStruct),
        ("dram_bytes_per_cycle", c_double),
        ("dram_latency", c_uint64),
        ("dram_outstanding", c_uint64),
        ("refresh_interval", c_uint64),
        ("refresh_length", c_uint64),
        ("interleave_bytes", c_uint64),
        ("link_out_bytes_per_cycle", c_double),
        ("link_in_bytes_per_cycle", c_double),
        ("link_latency", c_uint64),
        ("link_overhead_bytes", c_uint64),
        ("link_outstanding", c_uint64),
        ("link_buffer_bursts", c_uint64),
        ("window", c_uint64),
        ("stall", c_double),
        ("seed", c_uint64),
    ]


class RunStruct(ctypes.Structure):
    _fields_ = [
        ("cycles", c_uint64),
        ("irq", c_uint64),
        ("idle_cycles", c_uint64),
        ("word", c_void_p),
        ("mask", c_uint64),
        ("value", c_uint64),
        ("stopped", c_uint64),
    ]


_SIGNATURES: Signatures = {
    "close": (None, [c_void_p]),
    "reset": (c_int32, [c_void_p]),
    "run": (c_int32, [c_void_p, POINTER(RunStruct)]),
    "read_register": (c_int32, [c_void_p, c_uint32, c_uint64, *[POINTER(c_uint32)] * 3]),
    "write_register": (
        c_int32,
        [c_void_p, c_uint32, c_uint32, c_uint64, POINTER(c_uint64), *[POINTER(c_uint32)] * 2],
    ),
    "set_faults": (None, [c_void_p, c_void_p, c_uint64]),
    "clear_counters": (None, [c_void_p]),
    "describe": (c_char_p, [c_void_p]),
    "message": (c_char_p, [c_void_p]),
    "cycle": (c_uint64, [c_void_p]),
    "irq": (c_int32, [c_void_p]),
}


def load(path: Path, prefix: str, signatures: Signatures) -> ctypes.CDLL:
    """The library at `path`, its functions typed: those of all, and `prefix`'s own."""
    library = ctypes.CDLL(str(path))
    everything = {f"cdma_bus_{name}": types for name, types in _SIGNATURES.items()}
    everything |= {f"{prefix}_{name}": types for name, types in signatures.items()}
    for name, (result, arguments) in everything.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
