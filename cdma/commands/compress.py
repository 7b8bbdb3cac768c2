"""`cdma compress`: an .npy file to a .cz file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cdma import golden
from cdma.errors import UserError
from cdma.files import load_npy
from cdma.golden import container
from cdma.outputs import Force, open_atomically, require_outputs


def compress(
    source: Annotated[
        Path, typer.Argument(metavar="IN.npy", help="The array.", show_default=False)
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="OUT.cz", help="The file to write.", show_default=False)
    ],
    codec: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(golden.codec_names())}.")
    ] = golden.codec_names()[0],
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
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
    force: Force = False,
) -> None:
    """Compress the array in an .npy file with a golden model.

    The codecs zfp and quantize are lossy: the file holds another array of float32, close to this.
    """
    options = {"rate": rate, "bound": bound}
    parameters = {name: value for name, value in options.items() if value is not None}
    # Before the file is read, which may take long.
    require_outputs([destination], inputs=[source], force=force)
    golden.codec(codec, 4 if element_bytes is None else element_bytes, **parameters)
    array = load_npy(source)
    size = golden.element_bytes_of(array.dtype) if element_bytes is None else element_bytes
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


def how(codec: str, parameters: Mapping[str, float], element_bytes: int) -> str:
    """Describe a codec in words: its name, its parameters, and its elements."""
    described = "".join(f", {name} {value:g}" for name, value in parameters.items())
    return f"{codec}{described}, elements of {element_bytes} B"
