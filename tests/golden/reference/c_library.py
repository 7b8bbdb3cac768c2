"""`golden/reference/xc.c` as a library, called from Python."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.lib.paths import ROOT

SOURCE = ROOT / "golden" / "reference" / "xc.c"
FORMATS = ("bf16", "fp32", "fp16", "e4m3", "e5m2")
"""In the order of `enum xc_format`."""
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
_CODING_BYTES = 4096
"""More than `struct xc_coding` takes."""


class Result(ctypes.Structure):
    _fields_ = [
        ("status", ctypes.c_int),
        ("offset", ctypes.c_size_t),
        ("valid_bytes", ctypes.c_size_t),
    ]


def build(folder: Path) -> ctypes.CDLL:
    """Compile the file by itself, as C and without a warning, and load it."""
    library = folder / "xc.so"
    subprocess.run(
        ["g++", "-x", "c", *FLAGS, "-shared", "-fPIC", SOURCE, "-o", library], check=True
    )
    loaded = ctypes.CDLL(str(library))
    loaded.xc_bound.restype = loaded.xc_encode.restype = ctypes.c_size_t
    loaded.xc_decode.restype = Result
    return loaded


class CXc:
    """The C codec for one coding."""

    def __init__(self, library: ctypes.CDLL, name: str, centre: int, pattern: int) -> None:
        self._library = library
        self._coding = ctypes.create_string_buffer(_CODING_BYTES)
        if library.xc_coding_init(self._coding, FORMATS.index(name), centre, pattern):
            raise ValueError("there is no such coding")

    def encode(self, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The stream; a byte behind the bound is not written."""
        bound = self._library.xc_bound(self._coding, ctypes.c_size_t(data.size))
        stream = np.full(bound + 1, 0xA5, np.uint8)
        size = self._library.xc_encode(
            self._coding, _pointer(data), ctypes.c_size_t(data.size), _pointer(stream)
        )
        assert size <= bound
        assert stream[bound] == 0xA5
        return stream[:size]

    def decode(self, stream: npt.NDArray[np.uint8], nbytes: int) -> tuple[int, int, int, bytes]:
        """Status, offset, valid bytes and those bytes; a byte behind `nbytes` is not written."""
        data = np.full(nbytes + 1, 0xA5, np.uint8)
        result = self._library.xc_decode(
            self._coding,
            _pointer(stream),
            ctypes.c_size_t(stream.size),
            _pointer(data),
            ctypes.c_size_t(nbytes),
        )
        assert data[nbytes] == 0xA5
        assert (data[result.valid_bytes :] == 0xA5).all()
        return (
            result.status,
            result.offset,
            result.valid_bytes,
            data[: result.valid_bytes].tobytes(),
        )


def _pointer(array: npt.NDArray[np.uint8]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
