"""The registry's entry of zero-value compression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdma.hw.codec.interface import LineCodec

if TYPE_CHECKING:
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig


class Zvc(LineCodec):
    """Zero-value compression (cDMA, §V-A): a mask of the elements, then those that are not zero."""

    name = "zvc"
    number = 0
    carries_copies = True
    counted = True
    lines_per_cycle = 2

    def head_bytes(self, config: CodecConfig) -> int:
        return config.mask_bytes

    def worst_stream_bytes(self, nbytes: int, config: CodecConfig) -> int:
        lines = -(-nbytes // config.line_bytes)
        # The zeros that fill the last line are not in the stream.
        elements = -(-nbytes // config.element_bytes)
        return lines * config.mask_bytes + elements * config.element_bytes

    def payload_chances(
        self, density: float, config: CodecConfig
    ) -> tuple[Sequence[int], Sequence[float]]:
        """The number of elements in a line is binomial."""
        import numpy as np

        chances = np.array([1.0])
        for _ in range(config.elements):
            chances = np.convolve(chances, [1 - density, density])
        return [n * config.element_bytes for n in range(config.elements + 1)], chances.tolist()

    def mean_stream_bytes(self, nbytes: float, density: float, config: CodecConfig) -> float:
        return density * nbytes + math.ceil(nbytes / config.line_bytes) * config.mask_bytes

    def density(self, stream_bytes: float, nbytes: float, config: CodecConfig) -> float:
        return min(1.0, max(0.0, stream_bytes / nbytes - 1 / (8 * config.element_bytes)))

    def compressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.zvc.compressor import ZvcCompressor

        return ZvcCompressor(config)

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.zvc.decompressor import ZvcDecompressor

        return ZvcDecompressor(config)

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        from cdma.hw.lib.count import total

        return total([element[8 * config.element_bytes :] for element in head])
