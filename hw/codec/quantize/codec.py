"""The registry's entry of the error-bounded lossy lane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdma import golden
from cdma.golden.formats.lossy.power_of_two import LARGEST_K, SMALLEST_K, bound_of
from cdma.hw.codec.interface import CodecParameterError, LineCodec

if TYPE_CHECKING:
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig

HEADER_BYTES = 1
MAP_BYTES = 4
ELEMENT_BYTES = 4
TYPICAL_BITS = 8
"""Width of a line's numbers at bounds around 1 % of the rms."""


class Quantize(LineCodec):
    """Quantization of fp32 with bounds that are powers of two.

    Its lines are of any number of bytes, so that the configuration's elements must be bytes; the
    codec's own elements are fp32 whatever those are.

    The parameter k is that of the bound 2^(k - 128). 0 and 255 are none: the hardware then keeps
    every line as it is, so that a transfer without a bound loses nothing; the golden format has no
    such stream.
    """

    name = "quantize"
    number = 2
    parameters = {"k": 8}
    locates_errors = True
    lossless = False

    def granule_bytes(self, element_bytes: int) -> int:
        if element_bytes != ELEMENT_BYTES:
            raise CodecParameterError(
                f"the codec {self.name!r} takes elements of {ELEMENT_BYTES} bytes, which are fp32, "
                f"not {element_bytes}; convert the arrays, or choose another codec"
            )
        return 1

    def array_element_bytes(self, granule: int) -> int:
        return ELEMENT_BYTES

    def model(self, element_bytes: int, parameters: Mapping[str, int]) -> golden.Codec:
        k = parameters["k"]
        if not SMALLEST_K <= k <= LARGEST_K:
            raise CodecParameterError(
                f"the parameter 'k' of the codec {self.name!r} must be {SMALLEST_K} to "
                f"{LARGEST_K} for a bound of 2^(k - 128), not {k}"
            )
        return golden.codec(self.name, element_bytes, bound=bound_of(k))

    def check_config(self, config: CodecConfig) -> None:
        if config.line_bytes != golden.LINE_BYTES:
            raise CodecParameterError(
                f"the codec {self.name!r} has lines of {golden.LINE_BYTES} bytes, not "
                f"{config.line_bytes}; choose another codec, or longer lines"
            )

    def head_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES

    def length_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES + MAP_BYTES

    def payload_chances(
        self, density: float, config: CodecConfig
    ) -> tuple[Sequence[int], Sequence[float]]:
        """The number of elements in a line is binomial, their width typical."""
        elements = config.line_bytes // ELEMENT_BYTES
        sizes, chances = [], []
        for kept in range(elements + 1):
            sizes.append(_payload_bytes(kept, elements))
            chances.append(
                math.comb(elements, kept) * density**kept * (1 - density) ** (elements - kept)
            )
        return sizes, chances

    def mean_stream_bytes(self, nbytes: float, density: float, config: CodecConfig) -> float:
        line = HEADER_BYTES + sum(
            size * chance
            for size, chance in zip(*self.payload_chances(density, config), strict=True)
        )
        return nbytes / config.line_bytes * line

    def density(self, stream_bytes: float, nbytes: float, config: CodecConfig) -> float:
        elements = config.line_bytes // ELEMENT_BYTES
        payload = stream_bytes / (nbytes / config.line_bytes) - HEADER_BYTES
        if payload >= _payload_bytes(elements, elements):
            return 1.0
        return min(1.0, max(0.0, 8 * (payload - MAP_BYTES) / TYPICAL_BITS / elements))

    def compressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.quantize.compressor.pipeline import QuantizeCompressor

        return QuantizeCompressor(config)

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.quantize.decompressor.pipeline import QuantizeDecompressor

        return QuantizeDecompressor(config)

    def line_restorer(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.quantize.restorer import LineRestorer

        return LineRestorer(config, self.name)

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        from cdma.hw.codec.quantize.forms import payload_elements

        return payload_elements(head)


def _payload_bytes(kept: int, elements: int) -> int:
    if not kept:
        return 0
    mapped = MAP_BYTES + -(-kept * TYPICAL_BITS // 8)
    return min(mapped, elements * TYPICAL_BITS // 8)
