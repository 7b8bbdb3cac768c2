"""The memory layouts of activations that frameworks use (cDMA, §III-C)."""

from typing import Any

import numpy as np
import numpy.typing as npt

LAYOUTS = ("NCHW", "NHWC", "CHWN")
"""Caffe's and PyTorch's, cuDNN's alternative, and Neon's; the last letter is innermost."""


def relayout(array: npt.NDArray[Any], layout: str, *, source: str = "NCHW") -> npt.NDArray[Any]:
    """The same activations with their dimensions in another order in memory.

    Parameters
    ----------
    array : numpy.ndarray
        Four dimensions in the order that `source` names; or two, N×C (C×N from CHWN), the
        output of a fully connected layer, which has H = W = 1.
    layout, source : str
        One of `LAYOUTS`.

    Returns
    -------
    numpy.ndarray
        C-contiguous, dimensions in the order that `layout` names; the same dtype and elements.

    Raises
    ------
    ValueError
        A layout that is none of `LAYOUTS`, or an array with neither four nor two dimensions.
    """
    for given in (layout, source):
        if given not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {given!r}")
    if array.ndim not in (2, 4):
        raise ValueError(f"array must have four or two dimensions, not {array.ndim}")
    if array.ndim == 2:
        source, layout = (name.replace("H", "").replace("W", "") for name in (source, layout))
    order = [source.index(dimension) for dimension in layout]
    return np.ascontiguousarray(array.transpose(order))
