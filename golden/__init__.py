"""The formats, in numpy: the executable specification that the RTL is compared with.

One module per format; `codec` finds one by name. Imports numpy and codec libraries, nothing of
ours.
"""

from golden.stream import LINE_BYTES, StreamError, StreamStatus, crc32

__all__ = ["LINE_BYTES", "StreamError", "StreamStatus", "crc32"]
