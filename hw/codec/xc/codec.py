"""The registry's entries of XC: one for each element format that there is RTL for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdma.golden.formats.sample import sample
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.xc.elements import ElementFormat, element_format
from cdma.golden.formats.xc.recorded import recorded_parameters
from cdma.golden.formats.xc.xc import Xc as GoldenXc
from cdma.hw.codec.byte_lines import ByteLineCodec

if TYPE_CHECKING:
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig

_NUMBERS = {"bf16": 1, "fp16": 3, "e4m3": 4, "e5m2": 5, "fp32": 6}
"""The descriptors' numbers of the element formats."""
ELEMENT_FORMATS = tuple(map(element_format, _NUMBERS))
TYPICAL_EXTRA_BITS = 1
"""Extras and escapes of an element, in data that the parameters fit: weights and activations."""


def codec_name(elements: ElementFormat) -> str:
    """The registry's name of the codec of an element format; that of bf16 is the usual one."""
    return "xc" if elements == ELEMENT_FORMATS[0] else f"xc-{elements.name}"


def chosen_elements(config: CodecConfig) -> ElementFormat:
    """The element format of a configuration's first codec of these; that of `xc` if it has none."""
    chosen = (entry.elements for entry in config.entries if isinstance(entry, Xc))
    return next(chosen, ELEMENT_FORMATS[0])


class Xc(ByteLineCodec):
    """The exponent-class codec, of elements of one format.

    Parameters
    ----------
    elements : ElementFormat
        One of `ELEMENT_FORMATS`.
    """

    parameters = {"centre": 8, "pattern": 2}
    result = {"centre": 8, "pattern": 2, "valid": 1}
    # A sample's exponent, and whether there is one.
    line_summary_bits = 9

    def __init__(self, elements: ElementFormat) -> None:
        self.elements = elements
        self.name = codec_name(elements)
        self.number = _NUMBERS[elements.name]
        self.own_element_bytes = elements.element_bytes
        self.element_format = elements.name
        self.conversion = f"round the arrays to {elements.name}"
        # A little below the exponent of 1.0.
        self.usual_parameters = {"centre": self._golden().centre}

    def _golden(self, **parameters: int) -> GoldenXc:
        return GoldenXc(
            self.own_element_bytes, exponent_bits=self.elements.exponent_bits, **parameters
        )

    def model(self, element_bytes: int, parameters: Mapping[str, int]) -> GoldenXc:
        self.granule_bytes(element_bytes)
        return self._golden(**parameters)

    def fitted_parameters(self, data: ByteArray, element_bytes: int) -> dict[str, int]:
        """The best ones for a sample of the lines."""
        best = self._golden().fitted(sample(data))
        return {"centre": best.centre, "pattern": best.pattern}

    def parameters_from_result(self, result: Mapping[str, int]) -> dict[str, int] | None:
        """Those that the record recommends; none if the elements that it saw were zeros."""
        if not result["valid"]:
            return None
        return {name: result[name] for name in self.parameters}

    def recorded_result(self, data: ByteArray) -> dict[str, int]:
        found = recorded_parameters(data, self.elements)
        centre, pattern = found or (0, 0)
        return {"centre": centre, "pattern": pattern, "valid": int(found is not None)}

    def head_bytes(self, config: CodecConfig) -> int:
        return self.elements.header_bytes

    def length_bytes(self, config: CodecConfig) -> int:
        return self.elements.header_bytes + self.elements.mask_bytes

    def density(self, stream_bytes: float, nbytes: float, config: CodecConfig) -> float:
        lines = nbytes / config.line_bytes
        payload = stream_bytes / lines - self.elements.header_bytes
        elements = self.line_elements(config)
        dense = self.payload_bytes(elements, config)
        # Between them, sizes go up by as much for each element.
        one = self.payload_bytes(elements - 1, config) / (elements - 1)
        return 1.0 if payload >= dense else min(1.0, max(0.0, payload / one / elements))

    def compressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.compressor.pipeline import XcCompressor

        return XcCompressor(config, self.elements)

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.decompressor.pipeline import XcDecompressor

        return XcDecompressor(config, self.elements)

    def line_summary(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.record.line_sampler import LineSampler

        return LineSampler(config, self.elements)

    def summary_collector(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.xc.record.parameter_collector import ParameterCollector

        return ParameterCollector(self.elements)

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        from cdma.hw.codec.xc.decompressor.head import payload_elements

        return payload_elements(head, config, self.elements)

    def payload_bytes(self, kept: int, config: CodecConfig) -> int:
        elements = self.line_elements(config)
        if not kept:
            return 0
        mask = 0 if kept == elements else elements // 8
        behind = -(-kept * TYPICAL_EXTRA_BITS // 8)
        rest = -(-kept * (self.elements.mantissa_bits + 1) // 8)
        # No line is longer than a raw one.
        return min(mask + -(-kept // 4) + rest + behind, config.line_bytes)
