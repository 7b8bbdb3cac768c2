"""The C interface of the Verilated library, as ctypes sees it: `shim/abi.h`."""

import ctypes
from ctypes import c_char_p, c_int32, c_uint64, c_void_p
from pathlib import Path

from cdma.builds.structs import require_sizes
from cdma.sim.machine import structs

RECORD = structs.RECORD.dtype(signed=True)
"""A transfer's status record, and when its beats were accepted, in cycles since the batch began.

Signed, so that differences are: the hardware's counts have 40 bits.
"""

FAULT = structs.PIPELINE_FAULT.dtype()

BatchStruct = structs.BATCH.ctype

DONE, HANG, ASSERTION, PROTOCOL, CAPACITY, EXCEPTION = range(6)


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, its functions typed.

    Raises
    ------
    BuildError
        A structure has another size in the library.
    """
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
    require_sizes(library, structs.PIPELINE_STRUCTS)
    return library
