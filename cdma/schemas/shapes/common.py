"""Parts that documents of several commands have."""

from typing import Annotated, Any, TypedDict

Configuration = Annotated[dict[str, Any], "configuration"]
"""The tables of `cdma.config`, which options take again; the generator knows it by this text."""

Text = str
"""A word or a sentence."""

Count = int
Bytes = int
Cycles = int
Seconds = float
BytesPerSecond = float
Share = Annotated[float, "a part of the whole, 0 to 1"]


class MadeBy(TypedDict):
    """What made the document."""

    cdma: Annotated[str, "the version of cdma"]
    command: Annotated[
        str | None,
        "the command line, with absolute paths cut to what is below the working folder or to their "
        "last part; null outside of any command",
    ]


class Density(TypedDict):
    """The share of elements that are not zero."""

    source: Annotated[str, "curve, a capture's name, or a file"]
    epoch: int
    epochs: int
    mean: Annotated[float, "of all tensors, weighted by their bytes"]
