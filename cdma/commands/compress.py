"""`cdma compress`: an .npy file to a .cz file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cdma import golden
from cdma.commands.completers import among, named
from cdma.errors import UserError
from cdma.files import load_npy
from cdma.golden import container
from cdma.golden.formats.lossy.power_of_two import rounded_down
from cdma.golden.formats.lossy.quantize import Quantize
from cdma.golden.formats.xc import elements as xc_elements
from cdma.golden.formats.xc.xc import Xc
from cdma.outputs import Force, open_atomically, require_outputs

_ELEMENT_FORMATS = [known.name for known in xc_elements.ELEMENT_FORMATS]


def compress(
    source: Annotated[
        Path, typer.Argument(metavar="IN.npy", help="The array.", show_default=False)
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="OUT.cz", help="The file to write.", show_default=False)
    ],
    codec: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(golden.codec_names())}.",
            autocompletion=named("codecs"),
        ),
    ] = golden.codec_names()[0],
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
            autocompletion=among(4, 2, 1),
            help="Bytes that are zero or not as one; from the array's type when not given.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(metavar="BITS", help="zfp: bits per 4 values, 9 to 128.", show_default=False),
    ] = None,
    bound: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR", help="quantize: the largest error of a value.", show_default=False
        ),
    ] = None,
    power_of_two: Annotated[
        bool,
        typer.Option(
            "--power-of-two",
            help="quantize: round the bound down to a power of two, as an engine needs it.",
        ),
    ] = False,
    element_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"xc: what elements are, {', '.join(_ELEMENT_FORMATS)}; "
            "from the array's type when not given, where uint16 is bf16 and uint8 e4m3.",
            autocompletion=named("element-formats"),
            show_default=False,
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Compress the array in an .npy file with a golden model.

    The codecs zfp and quantize are lossy: the file holds another array of float32, close to this.
    xc takes the parameters that are best for the array; they are in the file.
    """
    if power_of_two and bound is not None:
        bound = rounded_down(bound)
    options = {"rate": rate, "bound": bound}
    parameters = {name: value for name, value in options.items() if value is not None}
    # Before the file is read, which may take long.
    require_outputs([destination], inputs=[source], force=force)
    golden.codec(codec, 4 if element_bytes is None else element_bytes, **parameters)
    _check_options(codec, element_bytes, element_format, power_of_two)
    array = load_npy(source)
    size = golden.element_bytes_of(array.dtype) if element_bytes is None else element_bytes
    if codec == Xc.name:
        elements = xc_elements.element_format_for(array.dtype, element_format)
        size = elements.element_bytes
        fitted = Xc(size, exponent_bits=elements.exponent_bits).fitted(array)
        parameters = {name: getattr(fitted, name) for name in golden.codec_parameters(codec)}
    try:
        content = container.pack(array, golden.codec(codec, size, **parameters))
    except TypeError as error:
        raise UserError(f"{source} does not fit: {error}; reshape it or save a view") from error
    with open_atomically(destination, force=force) as file:
        file.write(content)
    ratio = f", {array.nbytes / len(content):.2f}x" if array.nbytes else ""
    typer.echo(
        f"{destination}: {array.nbytes:,} bytes in {len(content):,}{ratio} "
        f"({how(codec, parameters, size)})",
        err=True,
    )


def _check_options(
    codec: str, element_bytes: int | None, element_format: str | None, power_of_two: bool
) -> None:
    """Refuse options of another codec."""
    if codec == Xc.name and element_bytes is not None:
        raise UserError("xc takes its elements from --element-format; leave --element-bytes out")
    if codec != Xc.name and element_format is not None:
        raise UserError(f"{codec} has no element format; leave --element-format out, or choose xc")
    if codec != Quantize.name and power_of_two:
        raise UserError(f"{codec} has no bound; leave --power-of-two out, or choose quantize")
    if element_format is not None:
        xc_elements.element_format(element_format)


def how(codec: str, parameters: Mapping[str, float], element_bytes: int) -> str:
    """Describe a codec in words: its name, its parameters, and its elements."""
    described = "".join(f", {name} {value:g}" for name, value in parameters.items())
    return f"{codec}{described}, elements of {element_bytes} B"
