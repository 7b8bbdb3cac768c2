"""The registry's entry of plain copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdma.hw.codec.interface import LineCodec

if TYPE_CHECKING:
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig


class Raw(LineCodec):
    """The data as it is; the last line is as long as its data. COPY_OUT and COPY_IN transfer it."""

    name = "raw"
    number = None
    carries_copies = True
    commanded_by = "bytes"

    def worst_stream_bytes(self, nbytes: int, config: CodecConfig) -> int:
        return nbytes

    def mean_stream_bytes(self, nbytes: float, density: float, config: CodecConfig) -> float:
        return nbytes

    def compressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.raw.pipelines import RawCompressor

        return RawCompressor(config)

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        from cdma.hw.codec.raw.pipelines import RawDecompressor

        return RawDecompressor(config)

    def unpacker(
        self, config: CodecConfig, *, lines_per_cycle: int, chunk_beats: int = 1
    ) -> wiring.Component:
        from cdma.hw.codec.raw.unpacker import RawUnpacker

        return RawUnpacker(config)
