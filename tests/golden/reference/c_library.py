"""The C references in `golden/reference/` as libraries, called from Python."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cdma.golden import StreamStatus
from cdma.golden.formats.stream import DecodedMany
from tests.lib.paths import ROOT

FOLDER = ROOT / "golden" / "reference"
XC_FORMATS = ("bf16", "fp32", "fp16", "e4m3", "e5m2")
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


def build(name: str, folder: Path) -> ctypes.CDLL:
    """Compile the file of a codec by itself, as C and without a warning, and load it."""
    library = folder / f"{name}.so"
    source = FOLDER / f"{name}.c"
    subprocess.run(
        ["g++", "-x", "c", *FLAGS, "-shared", "-fPIC", source, "-o", library], check=True
    )
    loaded = ctypes.CDLL(str(library))
    for function in ("bound", "encode"):
        getattr(loaded, f"{name}_{function}").restype = ctypes.c_size_t
    getattr(loaded, f"{name}_decode").restype = Result
    return loaded


class CCodec:
    """A codec in C; `coding` is what its functions take first.

    Both ways check that nothing is written behind what the functions announce.
    """

    def __init__(self, library: ctypes.CDLL, name: str, coding: object) -> None:
        self._coding = coding
        self._bound = getattr(library, f"{name}_bound")
        self._encode = getattr(library, f"{name}_encode")
        self._decode = getattr(library, f"{name}_decode")

    def encode(self, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The stream; a byte behind the bound is not written."""
        bound = self._bound(self._coding, ctypes.c_size_t(data.size))
        stream = np.full(bound + 1, 0xA5, np.uint8)
        size = self._encode(
            self._coding, _pointer(data), ctypes.c_size_t(data.size), _pointer(stream)
        )
        assert size <= bound
        assert stream[bound] == 0xA5
        return stream[:size]

    def decode(self, stream: npt.NDArray[np.uint8], nbytes: int) -> tuple[int, int, int, bytes]:
        """Status, offset, valid bytes and those bytes; a byte behind `nbytes` is not written."""
        data = np.full(nbytes + 1, 0xA5, np.uint8)
        result = self._decode(
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


def assert_answer(
    in_c: CCodec, stream: npt.NDArray[np.uint8], nbytes: int, found: DecodedMany, index: int
) -> None:
    """The C decoder answers a stream as numpy did; and what both accept is what C compresses to."""
    part = found.data[found.data_offsets[index] : found.data_offsets[index + 1]]
    told = (found.status[index], found.offset[index], found.valid_bytes[index])
    assert (*told, part.tobytes()) == in_c.decode(stream, nbytes), stream.tobytes().hex()
    if told[0] == StreamStatus.OK:
        assert in_c.encode(part).tobytes() == stream.tobytes()


class CXc(CCodec):
    """XC in C for one coding."""

    def __init__(self, library: ctypes.CDLL, name: str, centre: int, pattern: int) -> None:
        coding = ctypes.create_string_buffer(_CODING_BYTES)
        if library.xc_coding_init(coding, XC_FORMATS.index(name), centre, pattern):
            raise ValueError("there is no such coding")
        super().__init__(library, "xc", coding)


class CZvc(CCodec):
    """ZVC in C for elements of one size."""

    def __init__(self, library: ctypes.CDLL, element_bytes: int) -> None:
        super().__init__(library, "zvc", ctypes.c_size_t(element_bytes))


def _pointer(array: npt.NDArray[np.uint8]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
