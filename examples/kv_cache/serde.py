"""ZVC and XC behind the interface with which a serving stack serializes chunks of its KV cache.

`Serializer` and `Deserializer` have the methods of LMCache's classes of these names: an upper bound
before anything is allocated, a buffer that is filled, and the actual length. LMCache itself is not
needed: a chunk is any object with a `byte_array`, and a layout has `shapes` and `dtypes`.

A serialized chunk is a .cz file (docs/reference/formats.md): its header has the codec and its
parameters, the lengths, and the CRC-32 of the chunk and of the stream, so that `cdma inspect` and
`cdma decompress` read it as well.
"""

import io
import math
import zlib

import numpy as np
from reference import Reference

from cdma.golden import StreamError, StreamStatus
from cdma.golden import codec as golden_codec
from cdma.golden.container import ContainerError, read_header
from cdma.golden.container.header import encode_header

CODECS = ("zvc", "xc")
ELEMENTS = {"bf16": (2, 8), "fp16": (2, 5), "fp32": (4, 8), "e4m3": (1, 4), "e5m2": (1, 5)}
"""Bytes of an element, and bits of its exponent."""

_BYTES = np.dtype(np.uint8)
_MOST_HEADER_BYTES = 1024


class Serializer:
    """Compress chunks of a KV cache, without loss.

    Parameters
    ----------
    codec : str
        `xc`, whose parameters are fitted to each chunk, or `zvc`.
    elements : str
        The format of the cache's numbers, of `ELEMENTS`.

    Raises
    ------
    ValueError
        There is no such codec, or no such format.
    """

    def __init__(self, codec="xc", elements="bf16"):
        if codec not in CODECS:
            raise ValueError(f"unknown codec {codec!r}; choose from {', '.join(CODECS)}")
        if elements not in ELEMENTS:
            raise ValueError(f"unknown elements {elements!r}; choose from {', '.join(ELEMENTS)}")
        element_bytes, exponent_bits = ELEMENTS[elements]
        more = {"exponent_bits": exponent_bits} if codec == "xc" else {}
        self._codec = golden_codec(codec, element_bytes, **more)

    def codec_for(self, data):
        """The codec of `cdma.golden` that a chunk, uint8 (bytes,), is compressed with."""
        return self._codec.fitted(data) if self._codec.name == "xc" else self._codec

    def estimate_serialized_size(self, layout_desc):
        """Bytes to allocate for a chunk of this layout; no serialized one is longer."""
        pairs = zip(layout_desc.shapes, layout_desc.dtypes, strict=True)
        return self._most_bytes(sum(math.prod(shape) * dtype.itemsize for shape, dtype in pairs))

    def serialize(self, src, dst, key=None):
        """Compress the chunk `src` into the buffer `dst`, and return the actual length in bytes.

        Parameters
        ----------
        src, dst : object
            Their `byte_array` is what they hold; that of `dst` can be written.
        key : object, optional
            The chunk's; not needed.

        Raises
        ------
        ValueError
            `dst` is smaller than `estimate_serialized_size` says. Nothing is written.
        """
        data, out = _bytes_of(src), _bytes_of(dst)
        most = self._most_bytes(data.size)
        if out.size < most:
            raise ValueError(
                f"dst has {out.size} bytes, and a chunk of {data.size} may take {most}; allocate "
                "what estimate_serialized_size says"
            )
        codec = self.codec_for(data)
        begin = len(_header(codec, data.size))
        size = Reference(codec).encode(data, out[begin:])
        checksums = zlib.crc32(data), zlib.crc32(out[begin : begin + size])
        header = _header(codec, data.size, size, checksums)
        out[:begin] = np.frombuffer(header, np.uint8)
        return begin + size

    def _most_bytes(self, nbytes):
        return len(_header(self._codec, nbytes)) + Reference(self._codec).bound(nbytes)


class Deserializer:
    """Restore chunks that `Serializer` has compressed, with any codec."""

    def deserialize(self, src, dst, key=None):
        """Decompress the buffer `src` into the chunk `dst`.

        Parameters
        ----------
        src, dst : object
            As of `Serializer.serialize`; `src` may be longer than the serialized chunk in it.
        key : object, optional
            The chunk's; not needed.

        Raises
        ------
        ValueError
            The header or the stream is damaged, or `dst` is not of the chunk's size. A wrong header
            or checksum of the stream is found before anything is written.
        """
        blob, data = _bytes_of(src), _bytes_of(dst)
        try:
            header = read_header(io.BytesIO(blob[:_MOST_HEADER_BYTES].tobytes()))
        except ContainerError as error:
            raise ContainerError(f"the serialized chunk {error}; compute it again") from error
        if header.codec not in CODECS:
            raise ContainerError(
                f"the serialized chunk is of the codec {header.codec!r}, not of "
                f"{' or '.join(CODECS)}; restore it with `cdma decompress`"
            )
        if header.nbytes != data.size:
            raise ValueError(
                f"the serialized chunk has {header.nbytes} bytes, and dst {data.size}; give the "
                "layout that it was stored with"
            )
        stream = blob[header.header_bytes :][: header.stream_bytes]
        if stream.size < header.stream_bytes:
            raise ContainerError(
                f"the serialized chunk is truncated: {stream.size} bytes of stream instead of "
                f"{header.stream_bytes}; compute it again"
            )
        if zlib.crc32(stream) != header.stream_crc32:
            raise StreamError(StreamStatus.CRC_MISMATCH, stream.size)
        Reference(header.make_codec()).decode(stream, data)
        if zlib.crc32(data) != header.crc32:
            raise StreamError(StreamStatus.CRC_MISMATCH, stream.size, data.size)


def _bytes_of(memory_obj):
    """A buffer's bytes, uint8 (bytes,), without a copy."""
    return np.frombuffer(memoryview(memory_obj.byte_array).cast("B"), np.uint8)


def _header(codec, nbytes, stream_bytes=0, checksums=(0, 0)):
    """The header of a .cz file that holds `nbytes` bytes; its length depends on the codec alone."""
    sizes = (nbytes, stream_bytes)
    return encode_header(codec, _BYTES, (nbytes,), "C", sizes=sizes, checksums=checksums)
