"""`cdma decompress`: a .cz file back to an .npy file."""

from pathlib import Path
from typing import Annotated

import typer

from cdma import golden
from cdma.errors import UserError
from cdma.files import open_input, shown_input, write_npy_header
from cdma.golden import container
from cdma.outputs import Force, open_atomically, require_outputs, shown_output


def decompress(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN.cz",
            help="The compressed array; - is the standard input.",
            show_default=False,
        ),
    ],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="OUT.npy",
            help="The file to write; - is the standard output.",
            show_default=False,
        ),
    ],
    force: Force = False,
) -> None:
    """Restore the array in a .cz file: type, shape, memory order and every bit that it holds.

    It is restored piece by piece: memory does not grow with the file.
    """
    require_outputs([destination], inputs=[source], force=force)
    try:
        with open_input(source) as file:
            header = container.read_header(file)
            order = container.memory_order(header.shape, header.order == "F")
            with open_atomically(destination, force=force) as restored:
                write_npy_header(restored, container.Layout(header.dtype, header.shape, order))
                for piece in container.data_pieces(file, header):
                    restored.write(piece.data)
    except (container.ContainerError, golden.StreamError) as error:
        raise damaged(source, error) from error
    typer.echo(
        f"{shown_output(destination)}: {header.dtype} {header.shape}, {header.nbytes:,} bytes",
        err=True,
    )


def damaged(path: Path, error: container.ContainerError | golden.StreamError) -> UserError:
    """Word the error for a file that is no whole .cz file."""
    cause = f"is damaged: {error}" if isinstance(error, golden.StreamError) else str(error)
    return UserError(f"{shown_input(path)} {cause}; copy it again, or make it with 'cdma compress'")
