"""`cdma decompress`: a .cz file back to an .npy file."""

from pathlib import Path
from typing import Annotated

import typer

from cdma import golden
from cdma.errors import UserError
from cdma.files import read_bytes, save_npy
from cdma.golden import container
from cdma.outputs import Force, require_outputs


def decompress(
    source: Annotated[
        Path, typer.Argument(metavar="IN.cz", help="The compressed array.", show_default=False)
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="OUT.npy", help="The file to write.", show_default=False)
    ],
    force: Force = False,
) -> None:
    """Restore the array in a .cz file: type, shape, memory order and every bit that it holds."""
    require_outputs([destination], inputs=[source], force=force)
    content = read_bytes(source)
    try:
        array = container.unpack(content)
    except (container.ContainerError, golden.StreamError) as error:
        raise damaged(source, error) from error
    save_npy(destination, array, force=force)
    typer.echo(f"{destination}: {array.dtype} {array.shape}, {array.nbytes:,} bytes", err=True)


def damaged(path: Path, error: container.ContainerError | golden.StreamError) -> UserError:
    """Word the error for a file that is no whole .cz file."""
    cause = f"is damaged: {error}" if isinstance(error, golden.StreamError) else str(error)
    return UserError(f"{path} {cause}; copy it again, or make it with 'cdma compress'")
