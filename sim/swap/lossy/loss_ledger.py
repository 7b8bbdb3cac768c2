"""The errors of tensors that came back changed, by name and bound."""

from dataclasses import dataclass

from cdma.sim.swap.loss import Loss


@dataclass(frozen=True, kw_only=True)
class LossyTensors:
    """Tensors of one name that went out under one bound, in one step or in several.

    Attributes
    ----------
    name : str
        The value's, or the tensors' type and shape if the module is not known.
    tensors : int
    nbytes, stream_bytes : int
        Of all of them.
    loss : Loss
        The bound, the largest error measured, and the values that were kept exactly.
    """

    name: str
    tensors: int
    nbytes: int
    stream_bytes: int
    loss: Loss

    def __str__(self) -> str:
        loss = self.loss
        return (
            f"{self.name}: {self.tensors} tensors, {self.nbytes:,} B as {self.stream_bytes:,} B "
            f"({self.nbytes / self.stream_bytes:.2f}x), bound {loss.bound:g}, largest error "
            f"{loss.largest_error:g}, {loss.exact_values:,} of {self.nbytes // 4:,} values exact"
        )


class LossLedger:
    """Collects the losses of tensors as they go out."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, float], LossyTensors] = {}

    def add(self, name: str, nbytes: int, stream_bytes: int, loss: Loss) -> None:
        """Count a tensor."""
        one = LossyTensors(
            name=name, tensors=1, nbytes=nbytes, stream_bytes=stream_bytes, loss=loss
        )
        before = self._found.get((name, loss.bound))
        self._found[name, loss.bound] = one if before is None else _joined(before, one)

    def tensors(self) -> tuple[LossyTensors, ...]:
        """All of them, in the order in which names and bounds first came."""
        return tuple(self._found.values())


def _joined(before: LossyTensors, one: LossyTensors) -> LossyTensors:
    loss = Loss.joined((before.loss, one.loss))
    assert loss is not None
    return LossyTensors(
        name=one.name,
        tensors=before.tensors + one.tensors,
        nbytes=before.nbytes + one.nbytes,
        stream_bytes=before.stream_bytes + one.stream_bytes,
        loss=loss,
    )
