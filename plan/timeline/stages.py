"""Stages: what a timeline has of a graph, one for each tensor that is produced.

Layers in place belong to the layer whose output they write over, as a ReLU to its convolution;
between them nothing can be moved.
"""

from dataclasses import dataclass

from cdma.plan.workload.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The layer that makes a tensor, and those that then write it in place.

    Attributes
    ----------
    output : int
        The tensor, by index into `Graph.tensors`.
    layers : tuple of int
        By index into `Graph.layers`, ascending.
    kind : str
        Of the first of them.
    inputs, saved, gradients : tuple of int
        As of a layer; of all of them together, but for `inputs` without the output.
    """

    output: int
    layers: tuple[int, ...]
    kind: str
    inputs: tuple[int, ...]
    saved: tuple[int, ...]
    gradients: tuple[int, ...]


def stages_of(graph: Graph) -> tuple[Stage, ...]:
    """A graph's stages in the order in which they can run: by their last layer."""
    members: dict[int, list[int]] = {}
    for i, layer in enumerate(graph.layers):
        members.setdefault(layer.output, []).append(i)
    order = sorted(members, key=lambda t: members[t][-1])
    return tuple(_stage(graph, t, members[t]) for t in order)


def _stage(graph: Graph, output: int, members: list[int]) -> Stage:
    layers = [graph.layers[i] for i in members]

    def together(field: str) -> tuple[int, ...]:
        return tuple(dict.fromkeys(t for layer in layers for t in getattr(layer, field)))

    return Stage(
        output=output,
        layers=tuple(members),
        kind=layers[0].kind,
        inputs=tuple(t for t in together("inputs") if t != output),
        saved=together("saved"),
        gradients=tuple(t for t in together("gradients") if t != output),
    )
