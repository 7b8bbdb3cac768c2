"""The element formats of XC: how many bits are sign, exponent and mantissa."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdma.golden.formats.interface import CodecError
from cdma.golden.formats.stream import LINE_BYTES


@dataclass(frozen=True, kw_only=True)
class ElementFormat:
    """A floating-point format as XC sees it: sign on top, then exponent, then mantissa.

    Attributes
    ----------
    name : str
        What the command line calls it.
    exponent_bits, mantissa_bits : int
        E and M. The sign has one bit.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int

    @property
    def bits(self) -> int:
        """N, bits of an element."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def element_bytes(self) -> int:
        """Bytes of an element: 4, 2 or 1."""
        return self.bits // 8

    @property
    def line_elements(self) -> int:
        """n, elements of a line of 128 B."""
        return LINE_BYTES // self.element_bytes

    @property
    def mask_bytes(self) -> int:
        """Bytes of the mask of a sparse line."""
        return self.line_elements // 8

    @property
    def trims(self) -> bool:
        """True for fp32 only: lines have a second header byte and drop common trailing zeros."""
        return self.element_bytes == 4

    @property
    def header_bytes(self) -> int:
        """Bytes of every line's header: 2 for fp32, 1 for the others."""
        return 2 if self.trims else 1

    @property
    def worst_line_bytes(self) -> int:
        """Bytes of a raw line, which no line exceeds."""
        return self.header_bytes + LINE_BYTES


ELEMENT_FORMATS = (
    ElementFormat(name="bf16", exponent_bits=8, mantissa_bits=7),
    ElementFormat(name="fp32", exponent_bits=8, mantissa_bits=23),
    ElementFormat(name="fp16", exponent_bits=5, mantissa_bits=10),
    ElementFormat(name="e4m3", exponent_bits=4, mantissa_bits=3),
    ElementFormat(name="e5m2", exponent_bits=5, mantissa_bits=2),
)
"""All of them. The first of an element size is the one that is meant when nothing else is said."""


def element_format(name: str) -> ElementFormat:
    """The element format of that name; `CodecError`, listing those there are, if there is none."""
    for known in ELEMENT_FORMATS:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in ELEMENT_FORMATS)
    raise CodecError(f"unknown element format {name!r}; choose from {names}")


def element_format_of(element_bytes: int, exponent_bits: int | None = None) -> ElementFormat:
    """The element format of so many bytes and exponent bits.

    Parameters
    ----------
    element_bytes : int
        4, 2 or 1.
    exponent_bits : int, optional
        4, 5 or 8. Of bf16, fp32 and e4m3 when not given.

    Raises
    ------
    CodecError
        There is no such element format; the message lists those of the element size.
    """
    fitting = [known for known in ELEMENT_FORMATS if known.element_bytes == element_bytes]
    for known in fitting:
        if exponent_bits in (None, known.exponent_bits):
            return known
    choices = ", ".join(f"{known.exponent_bits} ({known.name})" for known in fitting)
    raise CodecError(
        f"xc has no elements of {element_bytes} bytes with {exponent_bits!r} exponent bits; "
        f"choose from {choices}"
    )


def element_format_for(dtype: np.dtype[Any], name: str | None = None) -> ElementFormat:
    """The element format of arrays of a type.

    Parameters
    ----------
    dtype : numpy.dtype
        Little-endian, of 1, 2 or 4 bytes. Floats have their own format. For integers, which hold
        bit patterns, it must be named; but uint16 is bf16 and uint8 e4m3 when it is not, as numpy
        has no such types.
    name : str, optional
        The element format's name.

    Raises
    ------
    CodecError
        There is no such element format, or the array's type has none, or another.
    """
    own = {"<f4": "fp32", "<f2": "fp16"}.get(dtype.str)
    if name is None:
        usual = own or {"<u2": "bf16", "|u1": "e4m3"}.get(dtype.str)
        if usual is None:
            raise CodecError(
                f"xc has no element format for {dtype.str}; name that of its bits if it is an "
                "integer, or choose another codec"
            )
        return element_format(usual)
    named = element_format(name)
    # Big-endian elements have their exponents elsewhere.
    bits = dtype.kind in "iub" and dtype.str[0] != ">" and dtype.itemsize == named.element_bytes
    if name != own and not bits:
        raise CodecError(
            f"{name} does not fit an array of {dtype.str}; choose the element format of its own "
            "bits, or another codec"
        )
    return named
