"""The C interface of the Verilated library, as ctypes sees it: `shim/abi.h`, name for name."""

import ctypes
from ctypes import c_char_p, c_double, c_int32, c_uint64, c_void_p
from pathlib import Path

import numpy as np

RECORD = np.dtype(
    [
        # Signed, so that differences are: the hardware's counts have 40 bits.
        ("offset", np.int64),
        ("out_size", np.int64),
        ("command_cycle", np.int64),
        ("input_first_cycle", np.int64),
        ("input_last_cycle", np.int64),
        ("output_first_cycle", np.int64),
        ("output_last_cycle", np.int64),
        ("status_cycle", np.int64),
        ("crc32", np.uint32),
        ("status", np.uint32),
    ]
)
"""A transfer's status record, and when its beats were accepted, in cycles since the batch began."""

FAULT = np.dtype(
    [
        ("transfer", np.uint64),
        ("beat", np.uint64),
        ("keep", np.uint64, 2),
        ("null_end", np.uint64),
    ]
)

DONE, HANG, ASSERTION, PROTOCOL, CAPACITY, EXCEPTION = range(6)


class BatchStruct(ctypes.Structure):
    _fields_ = [
        ("transfers", c_uint64),
        ("length", c_void_p),
        ("crc32", c_void_p),
        ("check_crc", c_void_p),
        ("data", c_void_p),
        ("data_offset", c_void_p),
        ("fault", c_void_p),
        ("faults", c_uint64),
        ("stall", c_double * 4),
        ("seed", c_uint64),
        ("cycle_budget", c_uint64),
        ("reset_at", c_uint64),
        ("out", c_void_p),
        ("out_capacity", c_uint64),
        ("out_offset", c_void_p),
        ("record", c_void_p),
        ("finished", c_uint64),
        ("cycles", c_uint64),
        ("input_beats", c_uint64),
        ("output_beats", c_uint64),
        ("input_stall_cycles", c_uint64),
        ("output_idle_cycles", c_uint64),
    ]


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, its functions typed."""
    library = ctypes.CDLL(str(path))
    library.cdma_open.restype = c_void_p
    library.cdma_open.argtypes = [c_char_p]
    library.cdma_close.restype = None
    library.cdma_close.argtypes = [c_void_p]
    library.cdma_reset.restype = c_int32
    library.cdma_reset.argtypes = [c_void_p]
    library.cdma_run.restype = c_int32
    library.cdma_run.argtypes = [c_void_p, ctypes.POINTER(BatchStruct)]
    library.cdma_message.restype = c_char_p
    library.cdma_message.argtypes = [c_void_p]
    library.cdma_cycle.restype = c_uint64
    library.cdma_cycle.argtypes = [c_void_p]
    library.cdma_sector_bytes.restype = c_uint64
    library.cdma_sector_bytes.argtypes = []
    library.cdma_takes_crc.restype = c_int32
    library.cdma_takes_crc.argtypes = []
    return library
