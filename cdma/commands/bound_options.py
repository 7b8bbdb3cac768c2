"""The options of lossy codecs: how far off a value may come back."""

from typing import Annotated

import typer

from cdma.errors import UserError
from cdma.golden.formats.lossy.power_of_two import rounded_down
from cdma.hw.codec.registry import line_codec, lossy_codecs

_NAMES = tuple(entry.name for entry in lossy_codecs())

Bound = Annotated[
    float | None,
    typer.Option(
        metavar="ERROR",
        help=f"{', '.join(_NAMES)}: the largest error of a value.",
        show_default=False,
    ),
]

PowerOfTwo = Annotated[
    bool,
    typer.Option(
        "--power-of-two",
        help=f"{', '.join(_NAMES)}: round the bound down to a power of two, as an engine needs it.",
    ),
]


def engine_bound(codec: str, asked: float | None, *, power_of_two: bool) -> float | None:
    """The bound that an engine's codec works with; None for one that loses nothing.

    Parameters
    ----------
    codec : str
    asked : float or None
        The option `--bound`.
    power_of_two : bool
        The option `--power-of-two`.

    Raises
    ------
    UserError, golden.CodecError
        A lossy codec has no bound, or one that it does not take, or another codec has one.
    """
    if codec not in _NAMES:
        given = {"--bound": asked is not None, "--power-of-two": power_of_two}
        for option in (name for name, is_given in given.items() if is_given):
            raise UserError(
                f"{codec} has no bound; leave {option} out, or choose {' or '.join(_NAMES)}"
            )
        return None
    if asked is None:
        raise UserError(f"the codec {codec} needs a bound; give one by --bound ERROR")
    bound = rounded_down(asked) if power_of_two else asked
    line_codec(codec).bounded_parameters(bound)
    return bound


def tell_rounding(asked: float | None, bound: float | None) -> None:
    """Tell, on the standard error, that the bound is another than the one asked for."""
    if bound != asked:
        typer.echo(f"the bound {asked:g} was rounded down to {bound:g}", err=True)
