"""The C references of ZVC and XC, as libraries that take and fill buffers.

They are `zvc.c` and `xc.c` of cdma, which need nothing but a C compiler; they are compiled when
they are first wanted, and kept in cdma's cache.
"""

import ctypes
import os
import shutil
from functools import cache
from pathlib import Path

import cdma.golden
from cdma.builds.cache import cached, digest
from cdma.builds.compiler import run_tool
from cdma.builds.errors import BuildError
from cdma.golden import StreamError, StreamStatus

SOURCES = Path(cdma.golden.__file__).parent / "reference"
FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared")
XC_FORMATS = {(2, 8): 0, (4, 8): 1, (2, 5): 2, (1, 4): 3, (1, 5): 4}
"""`enum xc_format` by bytes of an element and bits of its exponent."""


class _Coding(ctypes.Structure):
    """`struct xc_coding`."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("exponent_bits", "mantissa_bits", "element_bytes")),
        *((name, ctypes.c_int) for name in ("elements", "mask_bytes", "header_bytes")),
        ("extra_bits", ctypes.c_int * 4),
        ("class_of", ctypes.c_uint8 * 256),
        ("index_of", ctypes.c_uint8 * 256),
        ("exponent_of", ctypes.c_int * 16 * 4),
    ]


class _Result(ctypes.Structure):
    """`struct zvc_result` and `struct xc_result`."""

    _fields_ = [
        ("status", ctypes.c_int),
        ("offset", ctypes.c_size_t),
        ("valid_bytes", ctypes.c_size_t),
    ]


@cache
def library(name):
    """The library of `zvc` or `xc`, compiled unless it is in the cache.

    Raises
    ------
    BuildError
        There is no C compiler, or it fails; the message says what to install.
    """
    command = os.environ.get("CC", "cc")
    if shutil.which(command) is None:
        raise BuildError(
            f"the C compiler {command!r} is not on PATH; install one, for example with "
            "`apt-get install gcc`, or name another in the variable CC"
        )
    source = SOURCES / f"{name}.c"
    key = digest(command, run_tool([command, "--version"]), *FLAGS, source.read_text("utf-8"))

    def build(into):
        run_tool([command, *FLAGS, str(source), "-o", str(into / "library.so")])

    loaded = ctypes.CDLL(str(cached(f"{name}-c-{key}", build) / "library.so"))
    getattr(loaded, f"{name}_bound").restype = ctypes.c_size_t
    getattr(loaded, f"{name}_encode").restype = ctypes.c_size_t
    getattr(loaded, f"{name}_decode").restype = _Result
    return loaded


class Reference:
    """A codec of `cdma.golden`, carried out by its C reference.

    Parameters
    ----------
    codec : cdma.golden.Codec
        ZVC or XC, with its element size and, of XC, its coding.

    Raises
    ------
    BuildError
        As of `library`.
    """

    def __init__(self, codec):
        c = library(codec.name)
        if codec.name == "xc":
            coding = _Coding()
            elements = XC_FORMATS[codec.element_bytes, codec.exponent_bits]
            c.xc_coding_init(ctypes.byref(coding), elements, codec.centre, codec.pattern)
            self._first = ctypes.byref(coding)
        else:
            self._first = ctypes.c_size_t(codec.element_bytes)
        self._bound, self._encode, self._decode = (
            getattr(c, f"{codec.name}_{function}") for function in ("bound", "encode", "decode")
        )

    def bound(self, nbytes):
        """Bytes that a stream of `nbytes` bytes never exceeds."""
        return self._bound(self._first, ctypes.c_size_t(nbytes))

    def encode(self, data, stream):
        """Compress `data`, uint8 (n,), into `stream`, uint8 (`bound(n)` or more,).

        Returns the actual length of the stream in bytes.
        """
        assert stream.size >= self.bound(data.size)
        return self._encode(
            self._first, _pointer(data), ctypes.c_size_t(data.size), _pointer(stream)
        )

    def decode(self, stream, data):
        """Fill `data`, uint8 (n,), with what was compressed into `stream`, uint8 (bytes,).

        Raises
        ------
        cdma.golden.StreamError
            The stream is damaged or of another length; `data` is right up to `valid_bytes`.
        """
        result = self._decode(
            self._first,
            _pointer(stream),
            ctypes.c_size_t(stream.size),
            _pointer(data),
            ctypes.c_size_t(data.size),
        )
        if result.status != StreamStatus.OK:
            raise StreamError(StreamStatus(result.status), result.offset, result.valid_bytes)


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)
