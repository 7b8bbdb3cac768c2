"""The choice of the tensors that are worth compressing (CSWAP+, §5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from cdma.plan.policies.cswap.cost import Cost, CostModel
from cdma.plan.timeline.placement import SWAP, Choice, Placement


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Decision about a tensor: its best codec, if any, and the costs that decide.

    Attributes
    ----------
    tensor : int
        Index into `Graph.tensors`.
    plain : Cost
        The cost T' of swapping the tensor plain.
    codec : str or None
        The one with the least T, and its `compressed` cost; None if there is none to choose from.
    compressed : Cost or None
    """

    tensor: int
    plain: Cost
    codec: str | None = None
    compressed: Cost | None = None

    @property
    def worth_it(self) -> bool:
        """Compress if T' > T (§5.3)."""
        return self.compressed is not None and self.plain.seconds > self.compressed.seconds

    @property
    def choice(self) -> Choice:
        """Swap, compressed or as it is."""
        return Choice(Placement.SWAP, self.codec) if self.worth_it else SWAP


def decide(costs: CostModel, tensors: Sequence[int], codecs: Sequence[str]) -> list[Decision]:
    """Choose for each tensor the codec with the least T, and compare with T'. The first of equals
    wins.
    """
    decisions = []
    for tensor in tensors:
        options = [(codec, costs.compressed(tensor, codec)) for codec in codecs]
        codec, best = min(options, key=lambda option: option[1].seconds, default=(None, None))
        decisions.append(
            Decision(tensor=tensor, plain=costs.plain(tensor), codec=codec, compressed=best)
        )
    return decisions
