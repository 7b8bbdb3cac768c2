"""The choice of a codec for an array: the one named, or the one that makes least of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cdma import golden
from cdma.golden.formats.interface import Array, IntArray
from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.interface import CodecParameterError
from cdma.hw.codec.registry import line_codec
from cdma.sim.swap.loss import Loss

AUTO = "auto"
"""What stands for the codec that a sample of an array's lines is smallest in."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """An array's codec, with its parameters and its golden model.

    Attributes
    ----------
    codec : str
        A name of `cdma.hw.codec.registry`.
    parameters : mapping of str to int
        The codec's, by name.
    model : golden.Codec
        The golden format with these parameters.
    """

    codec: str
    parameters: Mapping[str, int]
    model: golden.Codec

    def stream(self, data: ByteArray) -> ByteArray:
        """The golden stream of some data, uint8 (bytes,) both."""
        return self.model.compress(self._values(data))

    def returned(self, data: ByteArray) -> ByteArray:
        """What comes back of some data, uint8 (bytes,): of a lossy codec, not quite the same."""
        if self.model.lossless:
            return data
        return self.model.decompress(self.stream(data), data.size)

    def line_sizes(self, data: ByteArray) -> IntArray:
        """Bytes of stream that each line of some data takes, int64 (lines,)."""
        return self.model.line_sizes(self._values(data))

    def loss(self, sent: ByteArray, returned: ByteArray) -> Loss | None:
        """The loss of some data, uint8 (bytes,), that came back; None of a lossless codec."""
        if self.model.lossless:
            return None
        entry = line_codec(self.codec)
        exact = entry.exact_lines(self.line_sizes(sent))
        return Loss.of(sent, returned, exact, entry.error_bound(self.parameters))

    def _values(self, data: ByteArray) -> Array:
        """The data as the model takes them: lossy ones know the values."""
        return data if self.model.lossless else data.view("<f4")


def require_elements(codec: str, element_bytes: int) -> None:
    """Refuse elements that a codec does not take, with a `golden.CodecError`."""
    try:
        line_codec(codec).granule_bytes(element_bytes)
    except CodecParameterError as error:
        raise golden.CodecError(str(error)) from error


def require_length(codec: str, nbytes: int) -> None:
    """Refuse data that are no whole values of a codec's, with a `golden.CodecError`."""
    try:
        line_codec(codec).check_length(nbytes)
    except CodecParameterError as error:
        raise golden.CodecError(str(error)) from error


def encoding_with(
    codec: str,
    data: ByteArray,
    element_bytes: int,
    parameters: Mapping[str, int] | None = None,
) -> Encoding:
    """The encoding with one codec; its parameters suit the data unless they are given.

    Raises
    ------
    golden.CodecError
        The codec takes no elements of that size, or has no stream with these parameters: those of
        a lossy one must be given.
    """
    require_elements(codec, element_bytes)
    entry = line_codec(codec)
    if parameters is None:
        parameters = entry.fitted_parameters(data, element_bytes)
    try:
        model = entry.model(element_bytes, parameters)
    except CodecParameterError as error:
        raise golden.CodecError(str(error)) from error
    return Encoding(codec=codec, parameters=parameters, model=model)


def suitable_codecs(codecs: Sequence[str], element_bytes: int) -> tuple[str, ...]:
    """Those of the codecs that take elements of a size, in their order."""
    return tuple(name for name in codecs if line_codec(name).takes(element_bytes))


def shared_granule_bytes(codecs: Sequence[str], element_bytes: int) -> int:
    """`CodecConfig.element_bytes` of an engine with all these codecs: that of the finest one."""
    return min(line_codec(name).granule_bytes(element_bytes) for name in codecs)


def engine_encoding(
    codec: str, lines: ByteArray, granule: int, parameters: Mapping[str, int] | None = None
) -> Encoding:
    """The encoding with one codec of an engine; its parameters suit some lines unless given.

    Beside a codec of finer granules, the others work on such, too: `granule` is the engine's
    `CodecConfig.element_bytes`. Raises as `encoding_with` does.
    """
    size = line_codec(codec).array_element_bytes(granule)
    return encoding_with(codec, lines, size, parameters)


def auto_encoding(
    codecs: Sequence[str], lines: ByteArray, element_bytes: int, granule: int
) -> Encoding:
    """The encoding, of an engine's lossless codecs, that a sample of lines is smallest in.

    Parameters
    ----------
    codecs : sequence of str
        The engine's. Those that take no elements of `element_bytes` are no choice.
    lines : array
        Of the data: `cdma.golden.formats.sample.sample`.
    element_bytes : int
        Of the data.
    granule : int
        As of `engine_encoding`.
    """
    lossless = [
        name for name in suitable_codecs(codecs, element_bytes) if line_codec(name).lossless
    ]
    return smallest_encoding((engine_encoding(name, lines, granule) for name in lossless), lines)


def smallest_encoding(encodings: Iterable[Encoding], lines: ByteArray) -> Encoding:
    """The encoding that some lines are smallest in, uint8 (bytes,); of equal ones, the first."""
    return min(encodings, key=lambda one: int(one.line_sizes(lines).sum()))
