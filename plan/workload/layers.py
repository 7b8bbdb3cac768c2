"""Parts of a training step: layers, and the tensors between them."""

from dataclasses import dataclass


class GraphError(ValueError):
    """A graph that no training step has, or an unknown network; fit to print, names the layer."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A feature map that the forward pass leaves, or the minibatch.

    Attributes
    ----------
    name : str
        That of the layer which gives it its final values: a ReLU in place, not its convolution.
    nbytes : int
    kind : str
        That layer's kind: `conv`, `relu`, `pool`, `bn`, …; `input` for the minibatch.
    shape : tuple of int
        As of NCHW, or tokens × columns; for reading only.
    element_bytes : int
        4 of float32, 2 of bfloat16 and float16, …: what codecs take for an element.
    density : float or None
        The share of elements that are not zero, 0…1; None where nobody has said yet
        (`cdma.plan.workload.density.density`).
    values : tuple of str
        Names by which a step finds what autograd saves of it (`cdma.plan.workload.value_names`);
        only a traced graph has them.
    """

    name: str
    nbytes: int
    kind: str
    shape: tuple[int, ...] = ()
    density: float | None = None
    element_bytes: int = 4
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layer:
    """An operator, and what its forward and backward passes need.

    Attributes
    ----------
    name, kind : str
        The kind finds an efficiency (`cdma.plan.platform.device`): one of `KINDS`.
    inputs : tuple of int
        Tensors that forward reads, by index into `Graph.tensors`.
    output : int
        The tensor that forward writes. A layer in place writes one of its inputs.
    saved : tuple of int
        Tensors that backward reads: of its inputs, and its output.
    gradients : tuple of int
        Tensors by which backward computes the loss's gradient: the inputs, but for the minibatch.
    flops_forward, flops_backward : float
        A multiplication and an addition are two.
    bytes_forward, bytes_backward : float
        What the operator moves between device memory and the processor.
    parameter_bytes : int
        Of weights.
    workspace_bytes : int
        Scratch memory while it runs.
    kept_bytes : int
        What else stays on the device from its forward to its backward pass, as a dropout's mask;
        never moved.
    keeps : float
        The share of elements that a dropout does not zero, 1 - p; 1 of all other layers.
    narrow : bool
        Whether it multiplies values of two bytes (bfloat16, float16), for which devices have more
        arithmetic.
    """

    name: str
    kind: str
    inputs: tuple[int, ...]
    output: int
    saved: tuple[int, ...] = ()
    gradients: tuple[int, ...] = ()
    flops_forward: float = 0.0
    flops_backward: float = 0.0
    bytes_forward: float = 0.0
    bytes_backward: float = 0.0
    parameter_bytes: int = 0
    workspace_bytes: int = 0
    kept_bytes: int = 0
    keeps: float = 1.0
    narrow: bool = False

    @property
    def in_place(self) -> bool:
        """True if the layer writes over an input."""
        return self.output in self.inputs


KINDS = (
    "conv",
    "dwconv",
    "fc",
    "lstm",
    "attention",
    "embedding",
    "relu",
    "leaky_relu",
    "gelu",
    "silu",
    "pool",
    "bn",
    "lrn",
    "dropout",
    "add",
    "concat",
    "softmax",
    "other",
)
"""Kinds of layers; `dwconv` is a depthwise convolution, `bn` a normalization of any sort,
`attention` one operation that keeps no T × T matrix, and `other` what has no kind of its own."""
