"""The C interface of designs on AXI, as ctypes sees it: `shim/bus/abi.h`."""

import ctypes
from collections.abc import Iterable, Mapping
from ctypes import POINTER, c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path

from cdma.builds.structs import Struct, require_sizes
from cdma.sim.machine import structs

Signatures = Mapping[str, tuple[object, list[object]]]
"""Functions by name: what they return and take."""

FAULT = structs.FAULT.dtype()

BUS_EVENT = structs.BUS_EVENT.dtype()

PORT_COUNTERS = structs.PORT_COUNTERS.dtype(signed=True)
"""Signed, so that differences are, and so that "never" is -1."""

MemoryStruct = structs.MEMORY.ctype
EnvironmentStruct = structs.ENVIRONMENT.ctype
RunStruct = structs.RUN.ctype

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


def load(path: Path, prefix: str, signatures: Signatures, shared: Iterable[Struct]) -> ctypes.CDLL:
    """The library at `path`, its functions typed: those of all, and `prefix`'s own.

    `shared` are the structures of its own that it shares with Python.

    Raises
    ------
    BuildError
        A structure has another size in the library.
    """
    library = ctypes.CDLL(str(path))
    everything = {f"cdma_bus_{name}": types for name, types in _SIGNATURES.items()}
    everything |= {f"{prefix}_{name}": types for name, types in signatures.items()}
    for name, (result, arguments) in everything.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    require_sizes(library, (*structs.BUS_STRUCTS, *shared))
    return library
