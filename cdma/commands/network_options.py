"""Options of the commands that are about a network: which one, and how dense its tensors are."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cdma.builds.pictures import FORMATS, format_of
from cdma.commands.completers import named
from cdma.commands.config_options import METAVAR, NETWORK_NAMES
from cdma.errors import UserError
from cdma.plan.workload import capture_files, capture_names

FROM_CAPTURE = "capture"
"""What `--density` is if not given."""

CAPTURE = "digits-cnn"

EPOCHS = 90
"""As CSWAP+ trains (§6)."""

NetworkName = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar=METAVAR,
        help=f"{NETWORK_NAMES}.",
        show_default=False,
        autocompletion=named("networks"),
    ),
]
Batch = Annotated[
    int | None, typer.Option(metavar="N", help="The network's usual batch if not given.")
]
Dataset = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="imagenet, cifar, …; the network's usual one if not given."),
]
Capture = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"With --density {FROM_CAPTURE}: {', '.join(capture_names())}, or the path of one; "
        f"{CAPTURE} if not given.",
        autocompletion=named("captures"),
    ),
]
Epoch = Annotated[int, typer.Option(metavar="N", help="Of the training, from 0 on.")]
Epochs = Annotated[int, typer.Option(metavar="N", help="Of the training.")]


def density_source(source: str, capture: str | None) -> str:
    """The source of densities: a capture's name, or what `--density` says.

    Raises
    ------
    UserError
        There is a capture that `--density` does not ask for.
    """
    if source == FROM_CAPTURE:
        return CAPTURE if capture is None else capture
    if capture is not None:
        raise UserError(f"--capture is for --density {FROM_CAPTURE}; leave one of them out")
    return source


def files_of(names: Iterable[str]) -> list[Path]:
    """The files that are read for captures, or for paths; a name of neither is taken for a path."""
    files: list[Path] = []
    for name in names:
        path = Path(name)
        if name in capture_names() or path.suffix in (".json", ".npz"):
            files += capture_files(name)
        files.append(path)
    return files


def picture_format(option: str, picture: Path) -> str:
    """The format of a picture, by the file's name; `UserError` if it is none."""
    found = format_of(picture)
    if found is None:
        raise UserError(
            f"{option} writes {', '.join(FORMATS[:-1]).upper()} or {FORMATS[-1].upper()}, not "
            f"{picture.name!r}; name a file that ends in .{', .'.join(FORMATS[:-1])} or "
            f".{FORMATS[-1]}"
        )
    return found


def require_picture(option: str, picture: Path | None) -> None:
    """Raise `UserError` for a picture of an unknown format."""
    if picture is not None:
        picture_format(option, picture)
