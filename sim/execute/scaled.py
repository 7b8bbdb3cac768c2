"""A scenario so small that the engine's RTL can carry it out, with real data in its tensors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.interface import Array
from cdma.plan.timeline.placement import Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate
from cdma.plan.workload.capture.capture import Activation, load_capture
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Tensor
from cdma.sim.execute.carried_tensor import CarriedTensor, carried

CAPTURES = ("digits-cnn", "digits-cnn-training")
"""Captures that the data comes from: the second one has dense arrays, too."""

OTHER_KIND = 0.1
"""An array of a tensor's own kind is taken unless another one's density is nearer by so much."""

ELEMENT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A scenario made small.

    Attributes
    ----------
    scenario : Scenario
        With the data's real densities.
    factor : float
        What bytes and times were multiplied by.
    tensors : mapping of int to CarriedTensor
        Each tensor that the plan swaps, by index into the graph's tensors.
    """

    scenario: Scenario
    factor: float
    tensors: Mapping[int, CarriedTensor]


def scaled(
    scenario: Scenario,
    plan: Plan,
    total_bytes: int,
    most: float = 1.0,
    captures: Sequence[str] = CAPTURES,
) -> Scaled:
    """The scenario with all bytes and all work multiplied by one factor, at most `most`.

    Latencies are not: copies are as far from each other as they were, and their latencies weigh
    more. Tensors become whole lines of 128 B. Their data is that of the captured array with the
    nearest density, over and over, and the timeline's streams are what golden models make of it.

    Parameters
    ----------
    scenario : Scenario
        With an engine.
    plan : Plan
    total_bytes : int
        What all that the plan swaps is to have together.
    most : float
        The factor's limit.
    captures : sequence of str
        Names or paths, as of `load_capture`.
    """
    graph = scenario.graph
    engine = scenario.placed_engine
    assert engine is not None
    swapped = {
        t: choice
        for t, choice in zip(graph.managed, plan.choices, strict=True)
        if choice.placement is Placement.SWAP
    }
    whole = sum(graph.tensors[t].nbytes for t in swapped or graph.managed)
    factor = min(1.0, most, total_bytes / whole)
    small = _small(graph, factor)
    arrays = captured_arrays(captures)
    tensors = {}
    densities = {}
    streams = {}
    for t, choice in swapped.items():
        tensor = small.tensors[t]
        values = nearest_array(arrays, tensor).reshape(-1)
        model = scenario.codec(choice)
        tensors[t] = carried(values, tensor.nbytes, model, engine.config)
        words = np.resize(values, tensor.nbytes // ELEMENT_BYTES).view(np.uint32)
        densities[tensor.name] = float(np.count_nonzero(words) / words.size)
        if model is not None and model.where != "host":
            streams[t, model.name] = tensors[t].stream_bytes
    made = replace(
        scenario,
        graph=small.with_densities(densities),
        memory_bytes=math.ceil(scenario.memory_bytes * factor),
        measured_streams=streams,
    )
    # Whole lines take a little more than the factor.
    least = simulate(made, plan).least_bytes
    made = replace(made, memory_bytes=max(made.memory_bytes, least))
    return Scaled(scenario=made, factor=factor, tensors=tensors)


def _small(graph: Graph, factor: float) -> Graph:
    return replace(
        graph,
        tensors=tuple(
            replace(
                tensor,
                nbytes=max(1, round(tensor.nbytes * factor / LINE_BYTES)) * LINE_BYTES,
            )
            for tensor in graph.tensors
        ),
        layers=tuple(
            replace(
                layer,
                flops_forward=layer.flops_forward * factor,
                flops_backward=layer.flops_backward * factor,
                bytes_forward=layer.bytes_forward * factor,
                bytes_backward=layer.bytes_backward * factor,
                parameter_bytes=round(layer.parameter_bytes * factor),
                workspace_bytes=round(layer.workspace_bytes * factor),
                kept_bytes=round(layer.kept_bytes * factor),
            )
            for layer in graph.layers
        ),
    )


def captured_arrays(captures: Sequence[str] = CAPTURES) -> list[Activation]:
    """The arrays of float32 that captures have."""
    return [
        activation
        for name in captures
        for activation in load_capture(name).activations
        if activation.array.dtype == np.float32
    ]


def nearest_array(arrays: Sequence[Activation], tensor: Tensor) -> Array:
    """The array whose density is nearest to a tensor's, of its kind if that is about as near."""
    density = tensor.density or 0.0
    nearest = min(
        arrays, key=lambda a: abs(a.density - density) + OTHER_KIND * (a.kind != tensor.kind)
    )
    return nearest.array
