"""DEFLATE on 4 KiB windows: the papers' upper bound (cDMA, §V-A), in our framing.

A payload is a raw DEFLATE stream (RFC 1951), without zlib's header and checksum. Another version
of a compressor may choose other tokens, so streams of the same data may differ in their bytes;
every version decodes them.
"""

import zlib
from functools import partial
from typing import Any

from cdma.builds.extras import extra
from cdma.golden.formats.windows.block import BadBlock, BlockCodec

LEVEL = 6
"""Of zlib, as the paper uses it."""

_RAW = -15
"""zlib's name for DEFLATE without a wrapper, distances up to 32 KiB."""


class Deflate(BlockCodec):
    """zlib at `LEVEL`; `cdma.golden.formats.windows.block` has the layout."""

    def __init__(self, element_bytes: int = 4) -> None:
        super().__init__("deflate", element_bytes, encode_window, _decode_block)


class DeflateFast(BlockCodec):
    """ISA-L at level 1, for speed: what DEFLATE costs then."""

    def __init__(self, element_bytes: int = 4) -> None:
        with extra("formats"):
            from isal import igzip_lib
        super().__init__(
            "deflate-fast", element_bytes, partial(_encode_fast, igzip_lib), _decode_block
        )


def encode_window(window: memoryview | bytes) -> bytes:
    """The raw DEFLATE stream of a window of any length."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW)
    return compressor.compress(window) + compressor.flush()


def _encode_fast(igzip_lib: Any, window: memoryview) -> bytes:
    compressed: bytes = igzip_lib.compress(window, 1, igzip_lib.COMP_DEFLATE)
    return compressed


def _decode_block(payload: memoryview, length: int) -> bytes:
    decompressor = zlib.decompressobj(_RAW)
    try:
        # One byte more than should come, so that a block that holds more shows.
        window = decompressor.decompress(payload, length + 1)
    except zlib.error as error:
        raise BadBlock(str(error)) from error
    if len(window) <= length and not decompressor.eof:
        raise BadBlock("the DEFLATE stream does not end")
    if decompressor.unused_data:
        raise BadBlock("bytes follow the DEFLATE stream's end")
    return window
