"""The report of what swapping saved tensors has moved, and what memory it has spared."""

from dataclasses import dataclass
from typing import Any

from cdma.sim.swap.lossy.loss_ledger import LossyTensors
from cdma.sim.swap.stash import SwapTotals


@dataclass(frozen=True, kw_only=True)
class SwapReport:
    """Report of a swapping context so far. Parameters of the model are not counted.

    Attributes
    ----------
    out, back : SwapTotals
        The totals to the host, and from it.
    waiting_tensors, waiting_bytes, waiting_stream_bytes : int
        The tensors that are out now, their bytes, and their bytes in host memory. If it is not 0
        after a step, something still holds what autograd saved: a loss without a backward pass.
    kept_bytes : int
        Most bytes of saved tensors that stayed on the device at once.
    peak_bytes : int
        Most bytes of saved tensors that were held on the device at once: while they were computed,
        after they were fetched, because they stayed, or because the program holds them itself.
    peak_bytes_without : int
        The same bytes if nothing had gone out.
    peak_out_bytes : int
        Most bytes that were out at once, uncompressed: what could be spared at best.
    lossy : tuple of LossyTensors
        What has come back, or will, with errors: by name and bound.
    """

    out: SwapTotals
    back: SwapTotals
    waiting_tensors: int
    waiting_bytes: int
    waiting_stream_bytes: int
    kept_bytes: int
    peak_bytes: int
    peak_bytes_without: int
    peak_out_bytes: int
    lossy: tuple[LossyTensors, ...] = ()

    @property
    def saving_ratio(self) -> float:
        """Bytes that were spared, over those that could be (Megatron's R), at most 1; 0 if none was
        out.
        """
        if not self.peak_out_bytes:
            return 0.0
        return (self.peak_bytes_without - self.peak_bytes) / self.peak_out_bytes

    def __str__(self) -> str:
        return "\n".join(
            (
                f"out   {_described(self.out)}",
                f"back  {_described(self.back)}",
                f"peak  {self.peak_bytes:,} B on the device instead of "
                f"{self.peak_bytes_without:,} B, {self.saving_ratio:.1%} of what was out",
                f"left  {self.waiting_tensors} tensors out, {self.waiting_bytes:,} B",
                *(f"lossy {tensors}" for tensors in self.lossy),
            )
        )


class Ledger:
    """Memory of saved tensors over time.

    Attributes
    ----------
    peaks : dict
        Most bytes at once: `device`, in storages that there are; `saved`, of all that autograd can
        still ask for; of this, `kept` on the device and `out`.
    waiting : int
        Tensors that are out.
    """

    def __init__(self) -> None:
        self.peaks = dict.fromkeys(("device", "saved", "kept", "out"), 0)
        self.waiting = 0
        self._now = dict.fromkeys(("saved", "kept", "out"), 0)
        self._storages: dict[int, tuple[Any, dict[int, int]]] = {}

    def watch(self, storage: Any, first: int, nbytes: int) -> None:
        """Count these bytes of a storage from now on, until the storage has no memory any more.

        Parameters
        ----------
        storage : torch.multiprocessing.reductions.StorageWeakRef
        first, nbytes : int
        """
        _, parts = self._storages.setdefault(storage.cdata, (storage, {}))
        parts[first] = nbytes
        self.look()

    def look(self) -> None:
        """Take note of the storages that there are at this moment."""
        self._storages = {k: of for k, of in self._storages.items() if not of[0].expired()}
        held = sum(sum(parts.values()) for _, parts in self._storages.values())
        self.peaks["device"] = max(self.peaks["device"], held)

    def add(self, nbytes: int, *, out: bool) -> None:
        """Count a tensor that autograd has saved."""
        self.waiting += out
        for what in ("saved", "out" if out else "kept"):
            self._now[what] += nbytes
            self.peaks[what] = max(self.peaks[what], self._now[what])

    def remove(self, nbytes: int, *, out: bool) -> None:
        """Uncount a tensor that autograd has let go of."""
        self.waiting -= out
        for what in ("saved", "out" if out else "kept"):
            self._now[what] -= nbytes


def _described(traffic: SwapTotals) -> str:
    ratio = traffic.nbytes / traffic.stream_bytes if traffic.stream_bytes else 1.0
    return (
        f"{traffic.arrays} tensors, {traffic.nbytes:,} B as {traffic.stream_bytes:,} B "
        f"({ratio:.2f}x), {traffic.cycles:,} cycles"
    )
