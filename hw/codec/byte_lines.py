"""The common part of codecs whose lines are any number of bytes behind a short header."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdma import golden
from cdma.hw.codec.interface import CodecParameterError, LineCodec

if TYPE_CHECKING:
    from cdma.hw.config import CodecConfig

HEADER_BYTES = 1


class ByteLineCodec(LineCodec):
    """A codec of lines of any number of bytes, so that the configuration's elements must be bytes.

    The codec's own elements are of one format, whatever those are.

    Attributes
    ----------
    own_element_bytes : int
    conversion : str
        How other arrays are made such, for messages.
    """

    own_element_bytes: int
    conversion: str
    locates_errors = True

    def payload_bytes(self, kept: int, config: CodecConfig) -> int:
        """Bytes of payload of a usual line in which so many elements are not zero."""
        raise NotImplementedError

    def granule_bytes(self, element_bytes: int) -> int:
        if element_bytes != self.own_element_bytes:
            raise CodecParameterError(
                f"the codec {self.name!r} takes elements of {self.own_element_bytes} bytes, which "
                f"are {self.element_format}, not {element_bytes}; {self.conversion}, or choose "
                "another codec"
            )
        return 1

    def array_element_bytes(self, granule: int) -> int:
        return self.own_element_bytes

    def check_config(self, config: CodecConfig) -> None:
        if config.line_bytes != golden.LINE_BYTES:
            raise CodecParameterError(
                f"the codec {self.name!r} has lines of {golden.LINE_BYTES} bytes, not "
                f"{config.line_bytes}; choose another codec, or longer lines"
            )

    def head_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES

    def line_elements(self, config: CodecConfig) -> int:
        """The codec's own elements in a line."""
        return config.line_bytes // self.own_element_bytes

    def payload_chances(
        self, density: float, config: CodecConfig
    ) -> tuple[Sequence[int], Sequence[float]]:
        """The number of elements in a line is binomial, what each of them takes is usual."""
        elements = self.line_elements(config)
        sizes, chances = [], []
        for kept in range(elements + 1):
            sizes.append(self.payload_bytes(kept, config))
            chances.append(
                math.comb(elements, kept) * density**kept * (1 - density) ** (elements - kept)
            )
        return sizes, chances

    def mean_stream_bytes(self, nbytes: float, density: float, config: CodecConfig) -> float:
        line = self.head_bytes(config) + sum(
            size * chance
            for size, chance in zip(*self.payload_chances(density, config), strict=True)
        )
        return nbytes / config.line_bytes * line
