"""A network's training step as a scheduler sees it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from cdma.plan.workload.layers import GraphError, Layer, Tensor
from cdma.plan.workload.module_graph import trace
from cdma.plan.workload.networks import Network, find
from cdma.plan.workload.optimizer import parameter_copies


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Layers in an order in which they can run, and the tensors between them.

    Backward runs the layers the other way round.

    Parameters
    ----------
    name : str
    batch : int
        Images, or sequences, of the minibatch.
    tensors : tuple of Tensor
    layers : tuple of Layer
    parameter_copies : int
        How many arrays of the weights' size stay on the device: weights, their gradients and the
        momentum, or what else the optimizer has (`cdma.plan.workload.optimizer`).
    passes : int
        How many such passes, forward and backward, add up their gradients before the optimizer
        steps. All figures are of one pass, `batch` too.
    saved_values : tuple of str
        Names of all that autograd saves in a traced step but parameters and inputs: tensors'
        `values`, and what no plan decides about, as masks.

    Raises
    ------
    GraphError
        A layer reads what is not there yet (so, a circle) or not at all; two tensors or two layers
        have one name; a tensor is nobody's output and no input; a size or a count is negative, a
        density outside 0…1. The message names layer or tensor.
    """

    name: str
    batch: int
    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    parameter_copies: int = 3
    passes: int = 1
    saved_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_tensors(self)
        _check_layers(self)

    @classmethod
    def from_table(
        cls,
        name: str,
        batch: int | None = None,
        dataset: str | None = None,
        activation: str = "relu",
        precision: str | None = None,
        optimizer: str | None = None,
    ) -> Self:
        """A network of `cdma.plan.workload.networks`, at the shape of `imagenet`, `cifar`, ….

        Batch, dataset, precision and optimizer are the network's usual ones if not given;
        `activation="leaky_relu"` is its variant with dense activations. `GraphError` if there is no
        such network, shape, activation, precision or optimizer; the message lists those there are.
        """
        return cls.from_network(name, find(name), batch, dataset, activation, precision, optimizer)

    @classmethod
    def from_network(
        cls,
        name: str,
        network: Network,
        batch: int | None = None,
        dataset: str | None = None,
        activation: str = "relu",
        precision: str | None = None,
        optimizer: str | None = None,
    ) -> Self:
        """Any network that a function writes; the other arguments are those of `from_table`."""
        table = network.table(name, batch, dataset, activation, precision)
        return cls(
            name=name,
            batch=table.batch,
            tensors=table.tensors,
            layers=table.layers,
            parameter_copies=parameter_copies(
                optimizer or network.optimizer, precision or network.precision
            ),
        )

    @classmethod
    def from_module(
        cls,
        module: Any,
        example_input: Any,
        name: str = "module",
        *,
        target: str = "gpu",
        autocast: Any = None,
    ) -> Self:
        """The training step of a `torch.nn.Module`, traced by `cdma.plan.workload.module_graph`,
        which describes the arguments."""
        table = trace(module, example_input, target=target, autocast=autocast)
        return cls(
            name=name,
            batch=table.batch,
            tensors=table.tensors,
            layers=table.layers,
            saved_values=table.saved_values,
        )

    @cached_property
    def index(self) -> dict[str, int]:
        """Tensors' places by their names."""
        return {tensor.name: i for i, tensor in enumerate(self.tensors)}

    @cached_property
    def first_writers(self) -> tuple[int, ...]:
        """For each tensor, the layer that makes it; -1 for inputs."""
        writers = [-1] * len(self.tensors)
        for i, layer in reversed(list(enumerate(self.layers))):
            writers[layer.output] = i
        return tuple(writers)

    @cached_property
    def last_writers(self) -> tuple[int, ...]:
        """For each tensor, the layer that gives it its final values; -1 for inputs."""
        writers = [-1] * len(self.tensors)
        for i, layer in enumerate(self.layers):
            writers[layer.output] = i
        return tuple(writers)

    @cached_property
    def forward_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each tensor, the layers whose forward pass reads its final values, ascending."""
        uses: list[list[int]] = [[] for _ in self.tensors]
        for i, layer in enumerate(self.layers):
            for t in dict.fromkeys(layer.inputs):
                if i > self.last_writers[t]:
                    uses[t].append(i)
        return tuple(map(tuple, uses))

    @cached_property
    def backward_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each tensor, the layers whose backward pass reads it, descending: as they run."""
        uses: list[list[int]] = [[] for _ in self.tensors]
        for i, layer in reversed(list(enumerate(self.layers))):
            for t in dict.fromkeys(layer.saved):
                uses[t].append(i)
        return tuple(map(tuple, uses))

    @cached_property
    def managed(self) -> tuple[int, ...]:
        """Tensors that a plan decides about: what backward reads, but for inputs; ascending by
        their final writers."""
        chosen = [
            t
            for t in range(len(self.tensors))
            if self.backward_uses[t] and self.tensors[t].kind != "input"
        ]
        return tuple(sorted(chosen, key=lambda t: self.last_writers[t]))

    @cached_property
    def saved_bytes(self) -> int:
        """Bytes that the forward pass leaves for backward, parameters not counted."""
        saved = {t for layer in self.layers for t in layer.saved}
        kept = sum(layer.kept_bytes for layer in self.layers)
        return sum(self.tensors[t].nbytes for t in saved) + kept

    @cached_property
    def conv_inputs(self) -> tuple[int, ...]:
        """The managed tensors that a convolution reads: those vDNN offloads (CSWAP+, HOME)."""
        read = {
            t for layer in self.layers if layer.kind in ("conv", "dwconv") for t in layer.inputs
        }
        return tuple(t for t in self.managed if t in read)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the weights, counted once."""
        return sum(layer.parameter_bytes for layer in self.layers)

    def accumulated(self, passes: int) -> Self:
        """One of so many passes whose gradients are added up, each with a part of the batch.

        In all but the first one, backward adds its gradients to those of the passes before: it
        reads both and writes the sum. The graph has the mean of all passes.

        Raises
        ------
        GraphError
            The graph is of several passes already, or the number is not positive.
        """
        if passes < 1:
            raise GraphError(f"passes must be at least 1, not {passes}")
        if self.passes > 1:
            raise GraphError(f"{self.name} is one of {self.passes} passes already")
        part = 3 * (passes - 1) / passes
        layers = (
            replace(layer, bytes_backward=layer.bytes_backward + part * layer.parameter_bytes)
            for layer in self.layers
        )
        return replace(self, layers=tuple(layers), passes=passes)

    def with_densities(self, densities: dict[str, float]) -> Self:
        """The graph with these tensors' densities. `GraphError` for a name that there is not."""
        for name in densities:
            if name not in self.index:
                raise GraphError(
                    f"{self.name} has no tensor {name!r}; it has {', '.join(self.index)}"
                )
        return replace(
            self,
            tensors=tuple(
                replace(tensor, density=densities.get(tensor.name, tensor.density))
                for tensor in self.tensors
            ),
        )


def _check_tensors(graph: Graph) -> None:
    names: set[str] = set()
    for tensor in graph.tensors:
        if tensor.name in names:
            raise GraphError(f"{graph.name} has two tensors {tensor.name!r}; rename one")
        names.add(tensor.name)
        if tensor.nbytes <= 0:
            raise GraphError(f"tensor {tensor.name}: nbytes must be positive, not {tensor.nbytes}")
        if tensor.density is not None and not 0 <= tensor.density <= 1:
            raise GraphError(f"tensor {tensor.name}: density must be 0 to 1, not {tensor.density}")
    if not graph.layers:
        raise GraphError(f"{graph.name} has no layers; add one")
    if graph.batch < 1:
        raise GraphError(f"{graph.name}: batch must be at least 1, not {graph.batch}")


def _check_layers(graph: Graph) -> None:
    there = {t for t, tensor in enumerate(graph.tensors) if tensor.kind == "input"}
    names: set[str] = set()
    for layer in graph.layers:
        if layer.name in names:
            raise GraphError(f"{graph.name} has two layers {layer.name!r}; rename one")
        names.add(layer.name)
        for t in (*layer.inputs, layer.output, *layer.saved, *layer.gradients):
            if not 0 <= t < len(graph.tensors):
                raise GraphError(f"layer {layer.name} names tensor {t}, which does not exist")
        for t in layer.inputs:
            if t not in there:
                raise GraphError(
                    f"layer {layer.name} reads {graph.tensors[t].name}, which no layer before it "
                    "makes: the graph has a circle, or is not in order"
                )
        if layer.output in there and not layer.in_place:
            raise GraphError(
                f"layer {layer.name} makes {graph.tensors[layer.output].name} a second time"
            )
        there.add(layer.output)
        for t in layer.saved:
            if t not in layer.inputs and t != layer.output:
                raise GraphError(
                    f"layer {layer.name} saves {graph.tensors[t].name}, which it neither reads nor "
                    "makes"
                )
        for field in (
            "flops_forward",
            "flops_backward",
            "bytes_forward",
            "bytes_backward",
            "parameter_bytes",
            "workspace_bytes",
            "kept_bytes",
        ):
            value = getattr(layer, field)
            if not 0 <= value < float("inf"):
                raise GraphError(f"layer {layer.name}: {field} must be 0 or more, not {value}")
        if not 0 <= layer.keeps <= 1:
            raise GraphError(f"layer {layer.name}: keeps must be 0 to 1, not {layer.keeps}")
    for t, tensor in enumerate(graph.tensors):
        if t not in there:
            raise GraphError(f"tensor {tensor.name} dangles: no layer makes it; remove it")
    _check_final_values(graph)


def _check_final_values(graph: Graph) -> None:
    """A tensor can be moved once it has its final values, so nothing else may have been read."""
    for i, layer in enumerate(graph.layers):
        for t in layer.inputs:
            if i < graph.last_writers[t] and t != layer.output:
                writer = graph.layers[graph.last_writers[t]].name
                raise GraphError(
                    f"layer {layer.name} reads {graph.tensors[t].name} before {writer} writes it "
                    "in place; give that an output of its own"
                )
