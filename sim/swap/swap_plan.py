"""The plan of which tensors that autograd saves are swapped out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from cdma.hw.codec.registry import compressing_codecs
from cdma.hw.config import DEFAULT_CODECS
from cdma.plan.timeline.placement import RETAIN, Choice, Placement, Plan
from cdma.plan.workload.graph import Graph

HOST_SUFFIX = "-host"
"""Of a codec that runs on the host: the engine moves the data as it is."""


class SwapPlanError(ValueError):
    """A plan that the engine cannot carry out: "cause; mend"."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A tensor that autograd saves, as far as a plan may know it.

    Attributes
    ----------
    nbytes : int
        Of what it occupies.
    shape : tuple of int
    dtype : str
        As `float32`.
    activation : bool
        A layer has computed it, in floating point; otherwise it is an input, a mask, indices.
    """

    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    activation: bool


class SwapPlan:
    """Decides about each saved tensor.

    Parameters
    ----------
    begin : callable
        Is called at the start of each forward pass, and returns the function that gives each
        tensor, in the order in which they are saved, its choice: a swap, raw or with the codec
        of that name. Whatever else it gives stays on the device.
    """

    def __init__(self, begin: Callable[[], Callable[[Saved], Choice]]) -> None:
        self.begin = begin

    @classmethod
    def everything(cls, codec: str | None = DEFAULT_CODECS[0]) -> Self:
        """Plan that swaps every tensor, with a codec or, with None, as it is."""
        return cls.where(lambda saved: True, codec)

    @classmethod
    def where(cls, wanted: Callable[[Saved], bool], codec: str | None = DEFAULT_CODECS[0]) -> Self:
        """Plan that swaps the tensors of which `wanted` is true."""
        swap = _checked(Choice(Placement.SWAP, codec))
        return cls(lambda: lambda saved: swap if wanted(saved) else RETAIN)

    @classmethod
    def from_plan(cls, graph: Graph, plan: Plan) -> Self:
        """Make the swap plan that a schedule's plan asks for.

        Autograd does not tell names, so tensors of the graph are known by size and order: the k-th
        activation of a size that is saved is the k-th of `graph.managed` that has it. What the
        graph does not have stays on the device, and so does what the plan keeps compressed or would
        recompute.

        Raises
        ------
        SwapPlanError
            The plan is not of this graph, or swaps with a codec that the engine has not got.
        """
        if len(plan.choices) != len(graph.managed):
            raise SwapPlanError(
                f"the plan of {plan.policy} has {len(plan.choices)} choices, and {graph.name} "
                f"{len(graph.managed)} tensors to decide about; make the plan from this graph"
            )
        by_size: dict[int, list[Choice]] = {}
        for t, choice in zip(graph.managed, plan.choices, strict=True):
            by_size.setdefault(graph.tensors[t].nbytes, []).append(_checked(choice))

        def begin() -> Callable[[Saved], Choice]:
            left: dict[int, Iterator[Choice]] = {n: iter(of) for n, of in by_size.items()}
            none: Iterator[Choice] = iter(())
            return lambda saved: (
                next(left.get(saved.nbytes, none), RETAIN) if saved.activation else RETAIN
            )

        return cls(begin)


def _checked(choice: Choice) -> Choice:
    names = [entry.name for entry in compressing_codecs()]
    known = (None, *names, *(f"{name}{HOST_SUFFIX}" for name in names))
    if choice.placement is Placement.SWAP and choice.codec not in known:
        raise SwapPlanError(
            f"the engine cannot swap with codec {choice.codec!r}; choose from "
            f"{', '.join(map(str, known))}"
        )
    return choice


def engine_codec(codec: str | None) -> str | None:
    """Name of the engine's codec for a plan's codec; None is a plain copy."""
    return None if codec is None or codec.endswith(HOST_SUFFIX) else codec
