"""The codecs by name."""

from collections.abc import Callable

from golden.bpc import Bpc
from golden.csr import Csr
from golden.deflate import Deflate, DeflateFast
from golden.interface import Codec, CodecError
from golden.lz4 import Lz4
from golden.rle import Rle
from golden.zvc import Zvc

_CODECS: dict[str, Callable[[int], Codec]] = {
    "zvc": Zvc,
    "rle": Rle,
    "csr": Csr,
    "lz4": Lz4,
    "deflate": Deflate,
    "deflate-fast": DeflateFast,
    "bpc": Bpc,
}


def codec_names() -> tuple[str, ...]:
    """The names that `codec` takes, the project's own format first."""
    return tuple(_CODECS)


def codec(name: str, element_bytes: int = 4) -> Codec:
    """The codec of that name for elements of 4, 2 or 1 bytes.

    Raises
    ------
    CodecError
        There is no such codec or no such element size; the message lists those there are.
    """
    if name not in _CODECS:
        raise CodecError(f"unknown codec {name!r}; choose from {', '.join(_CODECS)}")
    return _CODECS[name](element_bytes)
