"""The line codecs by name and by number: the one place that lists them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from cdma.hw.codec.interface import PARAMETER_BITS, LineCodec


class CodecRegistryError(ValueError):
    """An unknown codec, or a second one of the same name or number: "cause; mend"."""


@cache
def _codecs() -> dict[str, LineCodec]:
    # Entries load no RTL, so that `cdma.hw.config` can ask for them.
    from cdma.hw.codec.quantize.codec import Quantize
    from cdma.hw.codec.raw.codec import Raw
    from cdma.hw.codec.xc.codec import ELEMENT_FORMATS, Xc
    from cdma.hw.codec.zvc.codec import Zvc

    # Of one codec's element formats the usual one comes first.
    xc, *others = map(Xc, ELEMENT_FORMATS)
    return {entry.name: entry for entry in (Zvc(), Raw(), xc, Quantize(), *others)}


def register(entry: LineCodec) -> None:
    """Add a codec; its golden format must be known to `cdma.golden` under the same name.

    Raises
    ------
    CodecRegistryError
        The name or the number is taken, or the number does not fit its field of 8 bits; parameters
        or result do not fit theirs; or what is declared contradicts itself.
    """
    known = _codecs()
    if entry.name in known:
        raise CodecRegistryError(f"the codec {entry.name!r} is registered already; rename one")
    if entry.number is None or not 0 <= entry.number < 256:
        raise CodecRegistryError(
            f"the codec {entry.name!r} must have a number from 0 to 255, not {entry.number!r}"
        )
    for other in known.values():
        if other.number == entry.number:
            raise CodecRegistryError(
                f"the codecs {other.name!r} and {entry.name!r} have the same number, "
                f"{entry.number}; change one"
            )
    _check_declaration(entry)
    known[entry.name] = entry


def _check_declaration(entry: LineCodec) -> None:
    for what, fields in (("parameters", entry.parameters), ("result", entry.result)):
        bits = sum(fields.values())
        if any(width < 1 for width in fields.values()) or bits > PARAMETER_BITS:
            raise CodecRegistryError(
                f"the {what} of the codec {entry.name!r} must have at least a bit each and at most "
                f"{PARAMETER_BITS} together, not {bits}"
            )
    if bool(entry.result) != bool(entry.line_summary_bits):
        raise CodecRegistryError(
            f"the codec {entry.name!r} must have both a result and line_summary_bits, or neither"
        )
    if entry.counted and entry.locates_errors:
        raise CodecRegistryError(
            f"the codec {entry.name!r} is counted and locates errors itself; choose one"
        )


@contextmanager
def registered(entry: LineCodec) -> Iterator[LineCodec]:
    """Register a codec for the length of a `with` block."""
    register(entry)
    try:
        yield entry
    finally:
        del _codecs()[entry.name]


def line_codec(name: str) -> LineCodec:
    """The codec of that name; `CodecRegistryError`, listing those there are, if there is none."""
    known = _codecs()
    if name not in known:
        raise CodecRegistryError(f"unknown codec {name!r}; choose from {', '.join(known)}")
    return known[name]


def codec_of_number(number: int) -> LineCodec:
    """The codec with that number in descriptors; `CodecRegistryError` if there is none."""
    for entry in _codecs().values():
        if entry.number == number:
            return entry
    known = ", ".join(f"{e.number} ({e.name})" for e in compressing_codecs())
    raise CodecRegistryError(f"unknown codec number {number}; choose from {known}")


def compressing_codecs() -> tuple[LineCodec, ...]:
    """The codecs that descriptors have numbers for, by number."""
    numbered = [(e.number, e) for e in _codecs().values() if e.number is not None]
    return tuple(entry for _, entry in sorted(numbered, key=lambda pair: pair[0]))


def lossless_codecs() -> tuple[LineCodec, ...]:
    """Those of them that give back what they were given, which a plan can choose by itself."""
    return tuple(entry for entry in compressing_codecs() if entry.lossless)


def lossy_codecs() -> tuple[LineCodec, ...]:
    """The others, which need a bound for what they lose."""
    return tuple(entry for entry in compressing_codecs() if not entry.lossless)


def codec_names(*, lossy: bool = True) -> tuple[str, ...]:
    """All names, or those of lossless codecs, in the order of registration."""
    return tuple(name for name, entry in _codecs().items() if lossy or entry.lossless)


def copy_codec() -> LineCodec:
    """The format of plain copies: the one entry without a number."""
    return next(entry for entry in _codecs().values() if entry.number is None)
