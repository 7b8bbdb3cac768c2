"""The registry's entry of XC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdma import golden
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.xc.xc import Xc as GoldenXc
from cdma.hw.codec.interface import CodecParameterError, LineCodec

if TYPE_CHECKING:
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig

HEADER_BYTES = 1
SAMPLE_LINES = 512
"""Lines whose exponents are counted to choose parameters."""
ELEMENT_BYTES = 2
TYPICAL_EXTRA_BITS = 1
"""Extras and escapes of an element, in data that the parameters fit: weights and activations."""


class Xc(LineCodec):
    """The exponent-class codec, of bf16 elements.

    Its lines are of any number of bytes, so that the configuration's elements must be bytes; the
    codec's own elements are bf16 whatever those are.
    """

    name = "xc"
    number = 1
    parameters = {"centre": 8, "pattern": 2}
    locates_errors = True

    def granule_bytes(self, element_bytes: int) -> int:
        if element_bytes != ELEMENT_BYTES:
            raise CodecParameterError(
                f"the codec {self.name!r} takes elements of {ELEMENT_BYTES} bytes, which are bf16, "
                f"not {element_bytes}; round the arrays to bf16, or choose another codec"
            )
        return 1

    def array_element_bytes(self, granule: int) -> int:
        return ELEMENT_BYTES

    def fitted_parameters(self, data: ByteArray, element_bytes: int) -> dict[str, int]:
        """The best ones for `SAMPLE_LINES` lines, evenly spaced."""
        codec = golden.codec(self.name, ELEMENT_BYTES)
        whole = data.size // golden.LINE_BYTES
        if whole > SAMPLE_LINES:
            lines = data[: whole * golden.LINE_BYTES].reshape(whole, golden.LINE_BYTES)
            data = lines[np.linspace(0, whole - 1, SAMPLE_LINES).astype(np.int64)].reshape(-1)
        assert isinstance(codec, GoldenXc)
        best = codec.fitted(data)
        return {"centre": best.centre, "pattern": best.pattern}

    def check_config(self, config: CodecConfig) -> None:
        if config.line_bytes != golden.LINE_BYTES:
            raise CodecParameterError(
                f"the codec {self.name!r} has lines of {golden.LINE_BYTES} bytes, not "
                f"{config.line_bytes}; choose another codec, or longer lines"
            )

    def head_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES

    def length_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES + self._elements(config) // 8

    def payload_chances(
        self, density: float, config: CodecConfig
    ) -> tuple[Sequence[int], Sequence[float]]:
        """The number of elements in a line is binomial, extras and escapes are typical."""
        elements = self._elements(config)
        sizes, chances = [], []
        for kept in range(elements + 1):
            sizes.append(self._payload_bytes(kept, config))
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
        lines = nbytes / config.line_bytes
        payload = stream_bytes / lines - HEADER_BYTES
        elements = self._elements(config)
        dense = self._payload_bytes(elements, config)
        # Between them, sizes go up by as much for each element.
        one = self._payload_bytes(elements - 1, config) / (elements - 1)
        return 1.0 if payload >= dense else min(1.0, max(0.0, payload / one / elements))

    def compressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.compressor.pipeline import XcCompressor

        return XcCompressor(config)

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.decompressor.pipeline import XcDecompressor

        return XcDecompressor(config)

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        from cdma.hw.codec.xc.decompressor.head import payload_elements

        return payload_elements(head, config)

    @staticmethod
    def _elements(config: CodecConfig) -> int:
        return config.line_bytes // ELEMENT_BYTES

    def _payload_bytes(self, kept: int, config: CodecConfig) -> int:
        elements = self._elements(config)
        if not kept:
            return 0
        mask = 0 if kept == elements else elements // 8
        behind = -(-kept * TYPICAL_EXTRA_BITS // 8)
        return mask + -(-kept // 4) + kept + behind
