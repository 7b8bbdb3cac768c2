"""Figures of matplotlib as files: PNG, SVG or PDF, the same bytes every time.

`Figure` is made without pyplot, which would keep every figure and ask for a display.
"""

import base64
import io
from pathlib import PurePath
from typing import Any

from cdma.builds.extras import extra

FORMATS = ("png", "svg", "pdf")

_NO_DATE: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""Metadata that would be another one at every run, or with every version of matplotlib."""


def new_figure(width_inches: float, height_inches: float) -> Any:
    """An empty `matplotlib.figure.Figure` whose parts are laid out without overlap.

    Raises
    ------
    MissingPackageError
        matplotlib is not installed.
    """
    # Here, as it takes a second and little needs it.
    with extra("plan"):
        from matplotlib.figure import Figure

    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def encoded(figure: Any, file_format: str = "png", *, dpi: int = 100) -> bytes:
    """The file of a figure in one of `FORMATS`; `dpi` is of PNG, dots per inch."""
    with extra("plan"):
        from matplotlib import rc_context

    file = io.BytesIO()
    # Without a salt, SVG has random names in it.
    with rc_context({"svg.hashsalt": "cdma", "svg.fonttype": "path"}):
        figure.savefig(file, format=file_format, dpi=dpi, metadata=_NO_DATE[file_format])
    return file.getvalue()


def format_of(path: PurePath) -> str | None:
    """The format that a file's name asks for; None if it is none of `FORMATS`."""
    suffix = path.suffix.lower().removeprefix(".")
    return suffix if suffix in FORMATS else None


def svg_address(svg: bytes) -> str:
    """A picture as an address of its own content, for pages; scripts in it would not run."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def literal(text: str) -> str:
    """A text for matplotlib, to which a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
