"""The registry's entry of the error-bounded lossy lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdma import golden
from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.lossy.power_of_two import LARGEST_K, SMALLEST_K, bound_of, k_of
from cdma.hw.codec.byte_lines import HEADER_BYTES, ByteLineCodec
from cdma.hw.codec.interface import CodecParameterError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig

MAP_BYTES = 4
ELEMENT_BYTES = 4
TYPICAL_BITS = 8
"""Width of a line's numbers at bounds around 1 % of the rms."""


class Quantize(ByteLineCodec):
    """Quantization of fp32 with bounds that are powers of two.

    The parameter k is that of the bound 2^(k - 128). 0 and 255 are none: the hardware then keeps
    every line as it is, so that a transfer without a bound loses nothing; the golden format has no
    such stream.
    """

    name = "quantize"
    number = 2
    parameters = {"k": 8}
    own_element_bytes = ELEMENT_BYTES
    value_bytes = ELEMENT_BYTES
    element_format = "fp32"
    conversion = "convert the arrays"
    lossless = False

    def model(self, element_bytes: int, parameters: Mapping[str, int]) -> golden.Codec:
        k = parameters["k"]
        if not SMALLEST_K <= k <= LARGEST_K:
            raise CodecParameterError(
                f"the parameter 'k' of the codec {self.name!r} must be {SMALLEST_K} to "
                f"{LARGEST_K} for a bound of 2^(k - 128), not {k}"
            )
        return golden.codec(self.name, element_bytes, bound=bound_of(k))

    def bounded_parameters(self, bound: float) -> dict[str, int]:
        return {"k": k_of(bound)}

    def error_bound(self, parameters: Mapping[str, int]) -> float:
        return bound_of(parameters["k"])

    def exact_lines(self, line_sizes: IntArray) -> npt.NDArray[np.bool_]:
        # No form with numbers has as many bits for each as the values have.
        return line_sizes == HEADER_BYTES + golden.LINE_BYTES

    def length_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES + MAP_BYTES

    def density(self, stream_bytes: float, nbytes: float, config: CodecConfig) -> float:
        elements = self.line_elements(config)
        payload = stream_bytes / (nbytes / config.line_bytes) - HEADER_BYTES
        if payload >= self.payload_bytes(elements, config):
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

    def payload_bytes(self, kept: int, config: CodecConfig) -> int:
        if not kept:
            return 0
        mapped = MAP_BYTES + -(-kept * TYPICAL_BITS // 8)
        return min(mapped, self.line_elements(config) * TYPICAL_BITS // 8)
