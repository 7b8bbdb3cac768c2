"""The formats, in numpy: the executable specification that the RTL is compared with.

One module per format; `codec` finds one by name. Imports numpy and codec libraries, nothing of
ours.
"""

from cdma.golden.formats.interface import ELEMENT_BYTES, Codec, CodecError, element_bytes_of
from cdma.golden.formats.registry import (
    codec,
    codec_names,
    codec_parameters,
    codec_summary,
    registered,
)
from cdma.golden.formats.stream import LINE_BYTES, StreamError, StreamStatus, crc32

__all__ = [
    "ELEMENT_BYTES",
    "LINE_BYTES",
    "Codec",
    "CodecError",
    "StreamError",
    "StreamStatus",
    "codec",
    "codec_names",
    "codec_parameters",
    "codec_summary",
    "crc32",
    "element_bytes_of",
    "registered",
]
