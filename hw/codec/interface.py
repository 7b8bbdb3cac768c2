"""The contract of a line codec: all that the rest of the project needs to know of a format.

A codec is one folder and one entry in `cdma.hw.codec.registry`. The engine, the driver, the closed
form of its times and the command line take codecs from there; none of them names one.

The entry itself loads no RTL: `cdma.hw.config` and host software read names, numbers and sizes
from it, and the components are imported by the methods that make them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from cdma import golden
from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import ByteArray

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from amaranth.hdl import Value
    from amaranth.lib import wiring

    from cdma.hw.config import CodecConfig

PARAMETER_BITS = 32
"""Bits of the field `parameters` of a descriptor, and of the field `result` of a record."""


class CodecParameterError(ValueError):
    """A value for a codec's parameters that it does not take: "cause; mend"."""


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
        The registry's key and the word on the command line; the golden format's name, too, unless
        `model` says otherwise.
    identifier : str
        The name as Verilog and C have it.
    number : int or None
        The descriptor's `codec` field, 0 to 255. None for the format of plain copies, which have
        opcodes of their own.
    lossless : bool
        Whether data comes back bit for bit. What comes back from other codecs is within what a
        transfer's parameters allow, and compresses to the same stream.
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
    parameters : mapping of str to int
        Parameters of a transfer and their widths in bits, the first one in the low bits of the
        descriptor's field `parameters`; at most `PARAMETER_BITS` together. They reach the
        compressor as `Sector.parameters` and the decompressor as its port `parameters`. The bits
        of the field that a codec does not use must be zero.
    usual_parameters : mapping of str to int
        Values of parameters unless a transfer says otherwise; 0 for those that are not named here.
    result : mapping of str to int
        Parts of the field `result` in the record of a compressing transfer, and their widths,
        likewise. A codec with a result has a `line_summary` and a `summary_collector`.
    element_format : str
        The floating-point format that the codec's elements have; empty if they may be any.
    value_bytes : int
        Bytes of a value, of which a transfer must have whole ones: more than one where a codec
        knows numbers, of which a part means nothing.
    line_summary_bits : int
        Width of the summary that `line_summary` gives of each line.
    locates_errors : bool
        Whether the decompressor itself finds what is wrong with a line, as statuses of the golden
        format with places in the line's stream, and how long the line is there:
        `ExpandedSector.status` and `ExpandedSector.offset`. Without it, both are always 0, and the
        engine finds errors and places from what is announced, present and missing. Excludes
        `counted`.
    """

    name: str
    number: int | None
    lossless: ClassVar[bool] = True
    carries_copies: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    commanded_by: ClassVar[str] = "lines"
    lines_per_cycle: ClassVar[int] = 1
    parameters: ClassVar[Mapping[str, int]] = {}
    usual_parameters: Mapping[str, int] = {}
    result: ClassVar[Mapping[str, int]] = {}
    element_format: str = ""
    value_bytes: ClassVar[int] = 1
    line_summary_bits: ClassVar[int] = 0
    locates_errors: ClassVar[bool] = False

    @property
    def identifier(self) -> str:
        return self.name.replace("-", "_")

    # Parameters and results, as fields of descriptors and records.

    @property
    def parameter_bits(self) -> int:
        """Bits of all parameters together."""
        return sum(self.parameters.values())

    @property
    def result_bits(self) -> int:
        """Bits of the result."""
        return sum(self.result.values())

    def all_parameters(self, values: Mapping[str, int]) -> dict[str, int]:
        """These values by name, and the usual ones of the parameters that are not among them.

        Raises
        ------
        CodecParameterError
            A parameter is unknown, or does not fit its bits.
        """
        for name, value in values.items():
            if name not in self.parameters:
                names = ", ".join(self.parameters) or "no parameters"
                raise CodecParameterError(
                    f"the codec {self.name!r} has no parameter {name!r}; it takes {names}"
                )
            largest = (1 << self.parameters[name]) - 1
            if not isinstance(value, int) or not 0 <= value <= largest:
                raise CodecParameterError(
                    f"the parameter {name!r} of the codec {self.name!r} must be 0 to {largest}, "
                    f"not {value!r}"
                )
        usual = {name: self.usual_parameters.get(name, 0) for name in self.parameters}
        return {**usual, **values}

    def packed_parameters(self, values: Mapping[str, int]) -> int:
        """The descriptor's field `parameters` for these values, as of `all_parameters`."""
        complete = self.all_parameters(values)
        packed, place = 0, 0
        for name, bits in self.parameters.items():
            packed |= complete[name] << place
            place += bits
        return packed

    def unpacked_result(self, packed: int) -> dict[str, int]:
        """The parts of a record's field `result`, by name."""
        parts, place = {}, 0
        for name, bits in self.result.items():
            parts[name] = packed >> place & ((1 << bits) - 1)
            place += bits
        return parts

    def parameters_from_result(self, result: Mapping[str, int]) -> dict[str, int] | None:
        """The parameters that a record recommends for the next transfer of such data.

        Parameters
        ----------
        result : mapping of str to int
            As of `unpacked_result`, of a transfer that has compressed.

        Returns
        -------
        parameters : dict or None
            None if the record recommends none; always so of codecs whose results do not.
        """
        return None

    def recorded_result(self, data: ByteArray) -> dict[str, int]:
        """The result by name that the record has of a transfer of some data, uint8 (bytes,).

        The golden model of `line_summary` and `summary_collector`; of codecs with a result.
        """
        raise NotImplementedError

    # Data of arrays.

    def check_length(self, nbytes: int) -> None:
        """Raise a `CodecParameterError` if so many bytes of data are not whole values."""
        if nbytes % self.value_bytes:
            raise CodecParameterError(
                f"the codec {self.name!r} takes whole values of {self.value_bytes} bytes, not "
                f"{nbytes} bytes; fill the data up, or choose another codec"
            )

    def granule_bytes(self, element_bytes: int) -> int:
        """`CodecConfig.element_bytes` of an engine for arrays of such elements.

        Raises
        ------
        CodecParameterError
            The codec takes no elements of that size.
        """
        return element_bytes

    def takes(self, element_bytes: int) -> bool:
        """Return True if the codec takes elements of that size."""
        try:
            self.granule_bytes(element_bytes)
        except CodecParameterError:
            return False
        return True

    def array_element_bytes(self, granule: int) -> int:
        """Bytes of an element in arrays for an engine of this `CodecConfig.element_bytes`."""
        return granule

    def model(self, element_bytes: int, parameters: Mapping[str, int]) -> golden.Codec:
        """The golden format, for arrays of such elements and all parameters of a transfer."""
        return golden.codec(self.name, element_bytes, **parameters)

    def fitted_parameters(self, data: ByteArray, element_bytes: int) -> dict[str, int]:
        """Parameters that suit some data, uint8 (bytes,); those of similar data suit it, too."""
        return self.all_parameters({})

    # Lossy codecs have these.

    def bounded_parameters(self, bound: float) -> dict[str, int]:
        """Parameters with which no value comes back farther off than the bound.

        Raises
        ------
        golden.CodecError
            The codec has no such bound.
        """
        raise NotImplementedError

    def error_bound(self, parameters: Mapping[str, int]) -> float:
        """The largest error that a value may have with these parameters."""
        raise NotImplementedError

    def exact_lines(self, line_sizes: IntArray) -> npt.NDArray[np.bool_]:
        """The lines that the codec keeps bit for bit, by the bytes of stream that each takes."""
        raise NotImplementedError

    # Sizes, in bytes.

    def check_config(self, config: CodecConfig) -> None:
        """Raise a `CodecParameterError` if there is no RTL of the codec for these lines."""

    def head_bytes(self, config: CodecConfig) -> int:
        """Bytes of a line's head; whole elements, and at most `CodecConfig.line_bytes`."""
        return 0

    def length_bytes(self, config: CodecConfig) -> int:
        """Bytes at a line's beginning that tell its length: the head, or more."""
        return self.head_bytes(config)

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
        """The compressor, from `i`, a stream of `Sector`, to `o`, a stream of `LineBeat`.

        It takes a sector per cycle; `line_latency` is the number of cycles from a line's first
        sector to its first beat. A line takes no more beats than it has sectors, which are what the
        DMA buffer reserves for it; the first beat carries the head besides.
        """
        raise NotImplementedError

    def decompressor(self, config: CodecConfig) -> wiring.Component:
        """The decompressor, from `i`, a stream of `LineBeat`, to `o`, one of `ExpandedSector`.

        All sectors of a line come out, the last one with `last`; of a damaged line, those up to the
        one in which data is missing. `sector_latency` is the number of cycles from a sector's last
        beat to the sector.

        A codec with parameters has an input `parameters` of `parameter_bits` here, which are those
        of the line whose beat is at `i` while that is valid.
        """
        raise NotImplementedError

    def line_summary(self, config: CodecConfig) -> wiring.Component:
        """The summary of each line, from `i`, a stream of `Sector`, to `o`, of `line_summary_bits`.

        Every line passes through it, whatever its codec, a sector per cycle; one summary may wait
        at `o`. Lines are whole, the last one of a transfer filled with zeros.
        """
        raise NotImplementedError

    def line_restorer(self, config: CodecConfig) -> wiring.Component:
        """What will come back of lines, from `i` to `o`, streams of `Sector`; of lossy codecs.

        Every line passes through it, a sector per cycle, those of other codecs as they are: a
        transfer's checksum is of what comes out.
        """
        raise NotImplementedError

    def summary_collector(self, config: CodecConfig) -> wiring.Component:
        """Makes the result of a transfer from the summaries of its lines, in order, two per cycle.

        Its ports are those of `cdma.hw.dma.line_crc.TransferCrc` without `tail_pad`: `begins`,
        `lines`, `first` and `second` (`line_summary_bits` each), `ends`, `settled`, and instead of
        `crc32` the output `result` of `result_bits`. The record of a transfer of the codec waits
        for `settled`; those of others do not, so that `ends` may come before it, and the result of
        the transfer before is then not wanted.
        """
        raise NotImplementedError

    def unpacker(
        self, config: CodecConfig, *, lines_per_cycle: int, chunk_beats: int = 1
    ) -> wiring.Component:
        """The component that finds lines in a stream; the ports are those of `Unpacker`.

        Without another choice, the general `Unpacker` asks `payload_elements` for a line's length.
        """
        from cdma.hw.codec.stream.unpack import Unpacker

        return Unpacker(
            config, codec=self.name, lines_per_cycle=lines_per_cycle, chunk_beats=chunk_beats
        )

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        """A line's length: stream elements of payload behind its head.

        Combinational, and found for each place at which a line may begin; of heads whose length
        more than one element tells, in a cycle of its own.

        Parameters
        ----------
        head : sequence of Value
            The elements of the line's first `length_bytes`, each with the number of its ones in the
            bits above the element. Behind the stream's end anything may stand: what is not in the
            head must count as payload, so that it is missed.
        config : CodecConfig
        """
        from amaranth.hdl import C

        return C(config.elements)
