"""The plan of which tensors that autograd saves are swapped out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from cdma.hw.codec.registry import lossless_codecs, lossy_codecs
from cdma.hw.config import DEFAULT_CODECS
from cdma.plan.timeline.placement import RETAIN, Choice, Placement, Plan
from cdma.plan.workload.graph import Graph
from cdma.sim.swap.encoding import AUTO

HOST_SUFFIX = "-host"
"""Of a codec that runs on the host: the engine moves the data as it is."""


SM_SUFFIX = "-sm"
"""Of a codec that runs on the device's multiprocessors."""

KEPT = (f"{DEFAULT_CODECS[0]}{SM_SUFFIX}",)
"""Codecs with which tensors may stay on the device: those without loss that have a format."""


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
    name : str or None
        The value's (`cdma.plan.workload.value_names`), if the module is known.
    """

    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    activation: bool
    name: str | None = None

    @property
    def label(self) -> str:
        """The name or, without one, type and shape."""
        return self.name or f"{self.dtype} {self.shape}"


class SwapPlan:
    """Decides about each saved tensor, as they come or by their names.

    Parameters
    ----------
    begin : callable
        Is called at the start of each forward pass, and returns the function that gives each
        tensor, in the order in which they are saved, its choice: a swap, raw or with the codec
        of that name. Whatever else it gives stays on the device.
    choices : mapping of str to Choice, optional
        By the names of values; what has a name but no choice stays on the device.
    known : iterable of str, optional
        The names of all values that the step saves.
    codecs : iterable of (str or None), optional
        The codecs that a plan without names may choose, if they are known.

    Attributes
    ----------
    choices : dict or None
        None of a plan without names, which `swap_to` carries out; `planned_step` does all others.
    known : dict with None for values
    codecs : tuple
    """

    def __init__(
        self,
        begin: Callable[[], Callable[[Saved], Choice]],
        choices: Mapping[str, Choice] | None = None,
        known: Iterable[str] = (),
        codecs: Iterable[str | None] = (),
    ) -> None:
        self.begin = begin
        self.codecs = tuple(codecs)
        self.choices = None if choices is None else dict(choices)
        self.known = dict.fromkeys(known)

    @classmethod
    def everything(cls, codec: str | None = DEFAULT_CODECS[0]) -> Self:
        """Plan that swaps every tensor, with a codec or, with None, as it is.

        A lossy codec is for what has a bound (`swap_to`), and all else goes without loss; `AUTO`
        is for each tensor the lossless codec that a sample of it is smallest in.
        """
        return cls.where(lambda saved: True, codec)

    @classmethod
    def where(cls, wanted: Callable[[Saved], bool], codec: str | None = DEFAULT_CODECS[0]) -> Self:
        """Plan that swaps the tensors of which `wanted` is true, with codecs as `everything`."""
        also = (AUTO, *(entry.name for entry in lossy_codecs()))
        swap = _checked(Choice(Placement.SWAP, codec), also)
        return cls(lambda: lambda saved: swap if wanted(saved) else RETAIN, codecs=(codec,))

    @classmethod
    def from_plan(cls, graph: Graph, plan: Plan) -> Self:
        """Make the swap plan that a schedule's plan asks for; `planned_step` carries it out.

        Values have the names that the graph's trace gave them: module path, call, operator and
        ordinal (`cdma.plan.workload.value_names`). What autograd saves beside the graph's tensors,
        as masks, stays on the device.

        Raises
        ------
        SwapPlanError
            The plan is not of this graph; the graph is not traced (`Graph.from_module` with
            `target="cpu"`); or the plan has a codec that the engine has not got, or that loses
            something.
        """
        if len(plan.choices) != len(graph.managed):
            raise SwapPlanError(
                f"the plan of {plan.policy} has {len(plan.choices)} choices, and {graph.name} "
                f"{len(graph.managed)} tensors to decide about; make the plan from this graph"
            )
        choices: dict[str, Choice] = {}
        for t, choice in zip(graph.managed, plan.choices, strict=True):
            tensor = graph.tensors[t]
            if not tensor.values:
                raise SwapPlanError(
                    f"tensor {tensor.name} of {graph.name} has no name in a step; trace the module "
                    "that runs, by Graph.from_module"
                )
            choices |= dict.fromkeys(tensor.values, _checked(choice))
        return cls.of_names(choices, graph.saved_values)

    @classmethod
    def of_names(cls, choices: Mapping[str, Choice], known: Iterable[str]) -> Self:
        """Plan of values by their names, among all those `known` to be saved."""
        for choice in choices.values():
            _checked(choice)

        def refuse() -> Callable[[Saved], Choice]:
            raise SwapPlanError(
                "a plan of names needs the module; carry it out by planned_step(module, plan, …)"
            )

        return cls(refuse, choices, known)


def _checked(choice: Choice, also: Sequence[str] = ()) -> Choice:
    """The choice, if a step can make it; `also` are further codecs that it may swap with."""
    names = [entry.name for entry in lossless_codecs()]
    known = (None, *names, *(f"{name}{HOST_SUFFIX}" for name in names), *KEPT, *also)
    if choice.placement is Placement.SWAP and choice.codec not in known:
        raise SwapPlanError(
            f"the engine cannot swap with codec {choice.codec!r}; choose from "
            f"{', '.join(map(str, known))}"
        )
    if choice.placement is Placement.COMPRESS and choice.codec not in KEPT:
        raise SwapPlanError(
            f"a step cannot keep tensors compressed with codec {choice.codec!r}; choose from "
            f"{', '.join(KEPT)}"
        )
    return choice


def engine_codec(codec: str | None) -> str | None:
    """Name of the engine's codec for a plan's codec; None is a plain copy.

    The engine stands in for the multiprocessors, too: what they compress before it leaves, the
    engine compresses on its way, with the same bytes.
    """
    if codec is None or codec.endswith(HOST_SUFFIX):
        return None
    return codec.removesuffix(SM_SUFFIX)


def kept_format(codec: str | None) -> str:
    """Name of the golden format in which a tensor is kept on the device."""
    assert codec in KEPT
    return codec.removesuffix(SM_SUFFIX)
