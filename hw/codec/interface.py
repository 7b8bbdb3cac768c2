"""The contract of a line codec: all that the rest of the project needs to know of a format.

A codec is one folder and one entry in `cdma.hw.codec.registry`. The engine, the driver, the closed
form of its times and the command line take codecs from there; none of them names one.

The entry itself loads no RTL: `cdma.hw.config` and host software read names, numbers and sizes
from it, and the components are imported by the methods that make them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig


class LineCodec:
    """A format of compressed lines, as its entry in the registry describes it.

    A line is `CodecConfig.line_bytes` of data. In the stream it is a head, of a fixed size, and a
    payload; either may be empty. Both are whole stream elements of `CodecConfig.element_bytes`, the
    granule in which everything moves: an engine of one-byte elements has lines of any number of
    bytes. The defaults below are those of a format without a head whose payload is as long as the
    data.

    Attributes
    ----------
    name : str
        The registry's key, the word on the command line, and the golden format's name.
    number : int or None
        The descriptor's `codec` field, 0 to 255. None for the format of plain copies, which have
        opcodes of their own.
    carries_copies : bool
        Whether the codec's pipelines also carry lines of plain copies, which are those whose
        `Sector.codec` is `CodecConfig.copy_index`: they must come out as full lines. Copies
        otherwise get pipelines of their own.
    counted : bool
        Whether a line's elements are announced by a mask in its head: an announced element must not
        be zero, and places in the stream are found by counting announced elements. The places in
        other streams are those in the data, which a transfer's length ends.
    commanded_by : str
        "lines" or "bytes": the unit of the command of the codec's unpacker.
    lines_per_cycle : int
        How many lines the codec's unpacker can give in a cycle, at most 2.
    """

    name: ClassVar[str]
    number: ClassVar[int | None]
    carries_copies: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    commanded_by: ClassVar[str] = "lines"
    lines_per_cycle: ClassVar[int] = 1

    # Sizes, in bytes.

    def head_bytes(self, config: CodecConfig) -> int:
        """Bytes of a line's head; whole elements. The codecs of one engine with heads agree."""
        return 0

    def worst_line_bytes(self, config: CodecConfig) -> int:
        """Bytes of the longest line in the stream, head included."""
        return self.head_bytes(config) + config.line_bytes

    def worst_stream_bytes(self, nbytes: int, config: CodecConfig) -> int:
        """Bytes of the longest stream of `nbytes` of data: the room that always suffices."""
        return -(-nbytes // config.line_bytes) * self.worst_line_bytes(config)

    # Expected sizes, for times in closed form.

    def payload_chances(
        self, density: float, config: CodecConfig
    ) -> tuple[Sequence[int], Sequence[float]]:
        """Sizes that a line's payload can have, in bytes, and how likely each is.

        Parameters
        ----------
        density : float
            Part of the elements that is not zero, 0…1; zeros are anywhere.
        config : CodecConfig
        """
        return [config.line_bytes], [1.0]

    def mean_stream_bytes(self, nbytes: float, density: float, config: CodecConfig) -> float:
        """Bytes of the stream of `nbytes` of data, of which the part `density` is not zero."""
        return -(-nbytes // config.line_bytes) * self.worst_line_bytes(config)

    def density(self, stream_bytes: float, nbytes: float, config: CodecConfig) -> float:
        """The density at which `nbytes` of data have a stream of so many bytes; 0…1."""
        return 1.0

    # Hardware. Each of these has the ports that the docstring names.

    def compressor(self, config: CodecConfig) -> wiring.Component:
        """From `i`, a stream of `Sector`, to `o`, a stream of `LineBeat`: a sector per cycle.

        `line_latency` is the number of cycles from a line's first sector to its first beat. A line
        takes no more beats than it has sectors, which are what the DMA buffer reserves for it; the
        first beat carries the head besides.
        """
        raise NotImplementedError

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        """From `i`, a stream of `LineBeat`, to `o`, a stream of `ExpandedSector`.

        All sectors of a line come out, the last one with `last`; of a damaged line, those up to the
        one in which data is missing. `sector_latency` is the number of cycles from a sector's last
        beat to the sector.
        """
        raise NotImplementedError

    def unpacker(self, config: CodecConfig, *, lines_per_cycle: int) -> wiring.Component:
        """The component that finds lines in a stream; the ports are those of `Unpacker`.

        Without another choice, the general `Unpacker` asks `payload_elements` for a line's length.
        """
        from cdma.hw.codec.stream.pack import Unpacker

        return Unpacker(config, codec=self.name, lines_per_cycle=lines_per_cycle)

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        """A line's length: stream elements of payload behind its head.

        Combinational, and in the unpacker's slowest path.

        Parameters
        ----------
        head : sequence of Value
            The head's elements, each with the number of its ones in the bits above the element.
        config : CodecConfig
        """
        from amaranth.hdl import C

        return C(config.elements)
