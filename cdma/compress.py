"""`cdma compress`: an .npy file to a .cz file."""

from pathlib import Path
from typing import Annotated

import typer

import golden
from cdma.errors import UserError
from cdma.files import load_npy, open_atomically
from golden import container


def compress(
    source: Annotated[
        Path, typer.Argument(metavar="IN.npy", help="The array.", show_default=False)
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="OUT.cz", help="The file to write.", show_default=False)
    ],
    codec: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(golden.codec_names())}.")
    ] = "zvc",
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
            help="Bytes that are zero or not as one; from the array's type when not given.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Compress the array in an .npy file with a golden model."""
    # Before the file is read, which may take long.
    golden.codec(codec, 4 if element_bytes is None else element_bytes)
    array = load_npy(source)
    size = golden.element_bytes_of(array.dtype) if element_bytes is None else element_bytes
    try:
        content = container.pack(array, golden.codec(codec, size))
    except TypeError as error:
        raise UserError(f"{source} does not fit: {error}; reshape it or save a view") from error
    with open_atomically(destination) as file:
        file.write(content)
    ratio = f", {array.nbytes / len(content):.2f}x" if array.nbytes else ""
    typer.echo(
        f"{destination}: {array.nbytes:,} bytes in {len(content):,}{ratio} "
        f"({codec}, elements of {size} B)",
        err=True,
    )
