"""The registry's entry of XC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdma import golden
from cdma.golden.formats.sample import sample
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.xc.elements import element_format
from cdma.golden.formats.xc.recorded import recorded_parameters
from cdma.golden.formats.xc.xc import Xc as GoldenXc
from cdma.hw.codec.byte_lines import HEADER_BYTES, ByteLineCodec

if TYPE_CHECKING:
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig

ELEMENT_BYTES = 2
TYPICAL_EXTRA_BITS = 1
"""Extras and escapes of an element, in data that the parameters fit: weights and activations."""


class Xc(ByteLineCodec):
    """The exponent-class codec, of bf16 elements."""

    name = "xc"
    number = 1
    parameters = {"centre": 8, "pattern": 2}
    # A little below the exponent of 1.0.
    usual_parameters = {"centre": 126}
    result = {"centre": 8, "pattern": 2, "valid": 1}
    # A sample's exponent, and whether there is one.
    line_summary_bits = 9
    own_element_bytes = ELEMENT_BYTES
    element_format = "bf16"
    conversion = "round the arrays to bf16"

    def fitted_parameters(self, data: ByteArray, element_bytes: int) -> dict[str, int]:
        """The best ones for a sample of the lines."""
        codec = golden.codec(self.name, ELEMENT_BYTES)
        assert isinstance(codec, GoldenXc)
        best = codec.fitted(sample(data))
        return {"centre": best.centre, "pattern": best.pattern}

    def parameters_from_result(self, result: Mapping[str, int]) -> dict[str, int] | None:
        """Those that the record recommends; none if the elements that it saw were zeros."""
        if not result["valid"]:
            return None
        return {name: result[name] for name in self.parameters}

    def recorded_result(self, data: ByteArray) -> dict[str, int]:
        found = recorded_parameters(data, element_format(self.element_format))
        centre, pattern = found or (0, 0)
        return {"centre": centre, "pattern": pattern, "valid": int(found is not None)}

    def length_bytes(self, config: CodecConfig) -> int:
        return HEADER_BYTES + self.line_elements(config) // 8

    def density(self, stream_bytes: float, nbytes: float, config: CodecConfig) -> float:
        lines = nbytes / config.line_bytes
        payload = stream_bytes / lines - HEADER_BYTES
        elements = self.line_elements(config)
        dense = self.payload_bytes(elements, config)
        # Between them, sizes go up by as much for each element.
        one = self.payload_bytes(elements - 1, config) / (elements - 1)
        return 1.0 if payload >= dense else min(1.0, max(0.0, payload / one / elements))

    def compressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.compressor.pipeline import XcCompressor

        return XcCompressor(config)

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.decompressor.pipeline import XcDecompressor

        return XcDecompressor(config)

    def line_summary(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.record.line_sampler import LineSampler

        return LineSampler(config)

    def summary_collector(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.record.parameter_collector import ParameterCollector

        return ParameterCollector()

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        from cdma.hw.codec.xc.decompressor.head import payload_elements

        return payload_elements(head, config)

    def payload_bytes(self, kept: int, config: CodecConfig) -> int:
        elements = self.line_elements(config)
        if not kept:
            return 0
        mask = 0 if kept == elements else elements // 8
        behind = -(-kept * TYPICAL_EXTRA_BITS // 8)
        return mask + -(-kept // 4) + kept + behind
