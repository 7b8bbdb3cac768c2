"""The share of non-zero elements of a network's tensors: declared, or measured elsewhere.

Three sources: a capture of another training, a file, and a curve with few parameters. None of them
is fitted to a result that someone has published.

Some densities follow from others, whatever the source. Concatenation keeps its inputs' zeros, local
response normalization too, and dropout zeroes the share that it drops. What no source declares
is dense: convolutions, batch normalization, sums, leaky ReLUs, and pooling of what is dense.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdma.builds.documents import SCHEMA
from cdma.plan.workload.capture.capture import (
    CaptureError,
    capture_names,
    is_recipe,
    load_capture,
)
from cdma.plan.workload.density.sources import (
    SPARSE_KINDS,
    Captured,
    Curve,
    Declared,
    Shares,
    Source,
    scale,
)
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS, GraphError, Layer

__all__ = ["Captured", "Curve", "Declared", "Shares", "Source", "apply", "captured_shares", "find"]


def find(source: str | os.PathLike[str]) -> Source:
    """A source by what a user may write.

    Parameters
    ----------
    source : str or path
        `curve`, the name of a shipped capture, the path of a capture's `.json` or `.npz` file, or
        the path of a JSON file with densities by tensor or kind, as `{"relu": 0.4, "pool5": 0.9}`.

    Raises
    ------
    GraphError
        There is no such source, or it is damaged; the message lists those there are.
    """
    text = os.fspath(source)
    if text == "curve":
        return Curve()
    path = Path(text)
    shipped = text in capture_names()
    if not shipped and path.suffix not in (".json", ".npz"):
        raise GraphError(
            f"unknown densities {text!r}; name one of curve, {', '.join(capture_names())}, or a "
            ".json file"
        )
    content = None if shipped or path.suffix == ".npz" else _read(path)
    if content is None or is_recipe(content):
        try:
            return Captured(load_capture(text))
        except CaptureError as error:
            raise GraphError(str(error)) from error
    if SCHEMA in content:
        raise GraphError(
            f"{path} has the schema {content[SCHEMA]!r}, and neither densities nor a capture; "
            'write densities as {"relu": 0.4}'
        )
    return Declared(content)


def apply(
    graph: Graph,
    source: Source | str | os.PathLike[str] = "digits-cnn",
    epoch: int = 0,
    epochs: int = 90,
) -> Graph:
    """The graph with a density for every tensor.

    Parameters
    ----------
    graph : Graph
    source : Source, str or path
        What `find` takes is found.
    epoch, epochs : int
        Which of how many: 0 is the first epoch.

    Raises
    ------
    GraphError
        There is no such source or epoch, a file names a tensor or kind that there is not, or a
        density is not in 0…1.
    """
    if not 0 <= epoch < epochs:
        raise GraphError(f"epoch must be 0 to {epochs - 1}, not {epoch}")
    if isinstance(source, (str, os.PathLike)):
        source = find(source)
    if isinstance(source, Declared):
        _check_names(graph, source.densities)
    progress, depths = _progress(epoch, epochs), _depths(graph)
    densities = [1.0] * len(graph.tensors)
    for t, tensor in enumerate(graph.tensors):
        if graph.first_writers[t] < 0:
            densities[t] = _or(source.density(tensor, tensor.kind, 1.0, 0.0, progress), 1.0)
    for i, layer in enumerate(graph.layers):
        tensor = graph.tensors[layer.output]
        inputs = min((densities[t] for t in layer.inputs), default=1.0)
        said = source.density(tensor, layer.kind, inputs, depths.get(i, 0.0), progress)
        densities[layer.output] = _or(said, _derived(graph, layer, densities))
    return graph.with_densities(
        {tensor.name: densities[t] for t, tensor in enumerate(graph.tensors)}
    )


def captured_shares(
    graph: Graph, source: Captured, epoch: int, epochs: int
) -> dict[str, tuple[bool, Shares]]:
    """The captured arrays that tensors have their densities of.

    Parameters
    ----------
    graph : Graph
        With the densities of `apply`.
    source : Captured
    epoch, epochs : int
        As of `apply`.

    Returns
    -------
    dict
        By tensor, for those that have such arrays: whether they are the tensor's own, and not of
        other layers of its kind; and the shares.
    """
    progress, depths = _progress(epoch, epochs), _depths(graph)
    found = {}
    for i, layer in enumerate(graph.layers):
        tensor = graph.tensors[layer.output]
        inputs = min((_or(graph.tensors[t].density, 1.0) for t in layer.inputs), default=1.0)
        shares = source.shares(tensor, layer.kind, inputs, depths.get(i, 0.0), progress)
        # A layer in place makes other values of a tensor.
        found[tensor.name] = all(a.layer == tensor.name for _, a in shares), shares
    return {name: (own, shares) for name, (own, shares) in found.items() if shares}


def _progress(epoch: int, epochs: int) -> float:
    """The part of a training that lies before an epoch, 0…1."""
    return epoch / (epochs - 1) if epochs > 1 else 0.0


def _depths(graph: Graph) -> dict[int, float]:
    """The places, 0…1, of the layers of sparse kinds among each other, by the layers' numbers."""
    sparse = [i for i, layer in enumerate(graph.layers) if layer.kind in SPARSE_KINDS]
    return dict(zip(sparse, scale(range(len(sparse))), strict=True))


def _derived(graph: Graph, layer: Layer, densities: Sequence[float]) -> float:
    """The density of a layer's output that follows from those of its inputs."""
    if layer.kind == "lrn":
        return densities[layer.inputs[0]]
    if layer.kind == "dropout":
        return layer.keeps * densities[layer.inputs[0]]
    if layer.kind == "concat":
        sizes = [graph.tensors[t].nbytes for t in layer.inputs]
        parts = [densities[t] * size for t, size in zip(layer.inputs, sizes, strict=True)]
        return sum(parts) / sum(sizes)
    return 1.0


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror}; check the path") from error
    except (ValueError, RecursionError) as error:
        raise GraphError(f'{path} is not JSON; write densities as {{"relu": 0.4}}') from error
    if not isinstance(content, dict):
        raise GraphError(f'{path} has no densities by name; write them as {{"relu": 0.4}}')
    return content


def _check_names(graph: Graph, densities: Mapping[str, float]) -> None:
    for name in densities:
        if name not in graph.index and name not in (*KINDS, "input"):
            raise GraphError(
                f"{graph.name} has no tensor {name!r}, nor is it a kind; its tensors are "
                f"{', '.join(graph.index)}; kinds are {', '.join(KINDS)}"
            )
