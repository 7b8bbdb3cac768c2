"""The codecs by name."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import getdoc

from cdma.golden.formats.bpc.bpc import Bpc
from cdma.golden.formats.csr import Csr
from cdma.golden.formats.interface import Codec, CodecError
from cdma.golden.formats.lossy.quantize import Quantize
from cdma.golden.formats.lossy.zfp import Zfp
from cdma.golden.formats.raw import Raw
from cdma.golden.formats.rle import Rle
from cdma.golden.formats.windows.deflate import Deflate, DeflateFast
from cdma.golden.formats.windows.lz4 import Lz4
from cdma.golden.formats.xc.xc import Xc
from cdma.golden.formats.zvc import Zvc

_LOSSLESS: dict[str, Callable[..., Codec]] = {
    "zvc": Zvc,
    "rle": Rle,
    "csr": Csr,
    "lz4": Lz4,
    "deflate": Deflate,
    "deflate-fast": DeflateFast,
    "bpc": Bpc,
    "xc": Xc,
    "raw": Raw,
}
_LOSSY: dict[str, Callable[..., Codec]] = {"zfp": Zfp, "quantize": Quantize}
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "xc": ("exponent_bits", "centre", "pattern"),
    "zfp": ("rate",),
    "quantize": ("bound",),
}
"""Numbers that a codec takes besides the element size. Those of lossy codecs must be given."""


def register(name: str, make: Callable[..., Codec], parameters: tuple[str, ...] = ()) -> None:
    """Add a lossless codec, which `make` makes for an element size and the parameters by name.

    Raises
    ------
    CodecError
        There is one of that name.
    """
    if name in codec_names():
        raise CodecError(f"the codec {name!r} is registered already; rename one")
    _LOSSLESS[name] = make
    if parameters:
        _PARAMETERS[name] = parameters


@contextmanager
def registered(
    name: str, make: Callable[..., Codec], parameters: tuple[str, ...] = ()
) -> Iterator[None]:
    """Register a lossless codec for the length of a `with` block."""
    register(name, make, parameters)
    try:
        yield
    finally:
        del _LOSSLESS[name]
        _PARAMETERS.pop(name, None)


def codec_names(*, lossy: bool = True) -> tuple[str, ...]:
    """The names that `codec` takes, the project's own format first.

    Parameters
    ----------
    lossy : bool
        Also those that do not restore every bit; they come last.
    """
    return (*_LOSSLESS, *(_LOSSY if lossy else ()))


def codec_parameters(name: str) -> tuple[str, ...]:
    """The parameters that `codec` takes for this name, which its codecs have as attributes.

    Raises
    ------
    CodecError
        There is no such codec; the message lists those there are.
    """
    if name not in codec_names():
        raise CodecError(f"unknown codec {name!r}; choose from {', '.join(codec_names())}")
    return _PARAMETERS.get(name, ())


def codec_summary(name: str) -> str:
    """The docstring of the codec's class, or of whatever makes it; empty if it has none."""
    codec_parameters(name)
    return getdoc(_LOSSY[name] if name in _LOSSY else _LOSSLESS[name]) or ""


def codec(name: str, element_bytes: int = 4, **parameters: float) -> Codec:
    """The codec of that name for elements of 4, 2 or 1 bytes.

    Parameters
    ----------
    name : str
        One of `codec_names`.
    element_bytes : int
        4, 2 or 1; 4 for the lossy codecs.
    **parameters : float
        For `zfp`, `rate`: bits per 4 values. For `quantize`, `bound`: the largest error. Both must
        be given. For `xc`, `exponent_bits`, `centre` and `pattern`, as `Xc` has them. The others
        take none.

    Raises
    ------
    CodecError
        There is no such codec or no such element size, the message lists those there are; or a
        parameter is missing, or none of the codec's, or has a value that it may not have.
    """
    known = codec_parameters(name)
    for parameter in known:
        if name in _LOSSY and parameter not in parameters:
            raise CodecError(f"the codec {name} needs a {parameter}; give one")
    for parameter in parameters:
        if parameter not in known:
            takes = f"only {', '.join(known)}" if known else "no parameters"
            raise CodecError(f"the codec {name} has no {parameter}; it takes {takes}")
    make = _LOSSY[name] if name in _LOSSY else _LOSSLESS[name]
    return make(element_bytes, **parameters)
