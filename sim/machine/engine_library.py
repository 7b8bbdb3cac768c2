"""The C interface of the engine's library, as ctypes sees it: `shim/engine/abi.h`."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np

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


class CountersStruct(ctypes.Structure):
    _fields_ = [
        ("link_out_busy_cycles", c_double),
        ("link_in_busy_cycles", c_double),
        ("window_read_bytes", c_uint64),
        ("window_written_bytes", c_uint64),
        ("since", c_uint64),
    ]


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, its functions typed."""
    library = ctypes.CDLL(str(path))
    signatures: dict[str, tuple[object, list[object]]] = {
        "open": (c_void_p, [POINTER(SurroundingsStruct), c_char_p]),
        "close": (None, [c_void_p]),
        "reset": (c_int32, [c_void_p]),
        "run": (c_int32, [c_void_p, POINTER(RunStruct)]),
        "read_register": (
            c_int32,
            [c_void_p, c_uint32, c_uint64, *[POINTER(c_uint32)] * 3],
        ),
        "write_register": (
            c_int32,
            [c_void_p, c_uint32, c_uint32, c_uint64, POINTER(c_uint64), *[POINTER(c_uint32)] * 2],
        ),
        "set_faults": (None, [c_void_p, c_void_p, c_uint64]),
        "counters": (None, [c_void_p, POINTER(CountersStruct), c_void_p]),
        "clear_counters": (None, [c_void_p]),
        "describe": (c_char_p, [c_void_p]),
        "message": (c_char_p, [c_void_p]),
        "cycle": (c_uint64, [c_void_p]),
        "irq": (c_int32, [c_void_p]),
        "units": (c_uint64, []),
        "sector_bytes": (c_uint64, []),
        "host_bytes": (c_uint64, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"cdma_engine_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
