"""Traces of a GPU's memory accesses, and their results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import Array, IntArray, as_bytes
from cdma.golden.formats.stream import ByteArray
from cdma.sim.machine.buddy import library as lib

MOST_BYTES = 4096
MOST_BEATS = 256
ADDRESS_BITS = 40
INCR = 1
OKAY, SLVERR, DECERR = 0, 2, 3
"""Responses."""

_COLUMNS = ("write", "address", "nbytes", "id", "earliest", "beat_bytes", "burst")
"""The fields of a trace that have a row for each access."""


class Access(NamedTuple):
    """One burst of a GPU's accesses.

    Attributes
    ----------
    address : int
        Of its first byte; any alignment.
    nbytes : int
        1 to 4096, within a boundary of 4 KiB.
    data : uint8 array (nbytes,), optional
        What is written. A read if there is none.
    id : int
        Answers to accesses of one direction with the same ID come in order.
    earliest : int
        Cycle in which it may be offered, from the start of the play.
    beat_bytes : int
        A power of two, at most the port's width, which 0 stands for.
    mask : bool array (nbytes,), optional
        Which bytes to write: all if not given.
    burst : int
        As AxBURST: 0 FIXED, 1 INCR, 2 WRAP.
    """

    address: int
    nbytes: int
    data: Array | None = None
    id: int = 0
    earliest: int = 0
    beat_bytes: int = 0
    mask: Array | None = None
    burst: int = INCR


@dataclass(frozen=True, eq=False, kw_only=True)
class AccessTrace:
    """n accesses, in the order in which they are issued.

    Attributes
    ----------
    write : bool array (n,)
    address, nbytes, id, earliest, beat_bytes, burst : int64 arrays (n,)
        As of `Access`.
    data : uint8 array
        The bytes of all accesses, one after the other; those of reads mean nothing.
    mask : bool array, optional
        Of each byte of `data`: write it. All if not given.
    """

    write: npt.NDArray[np.bool_]
    address: IntArray
    nbytes: IntArray
    id: IntArray
    earliest: IntArray
    beat_bytes: IntArray
    burst: IntArray
    data: ByteArray
    mask: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, accesses: Iterable[Access]) -> "AccessTrace":
        """A trace of single accesses."""
        rows = list(accesses)
        data, mask = [], []
        for row in rows:
            payload = np.zeros(row.nbytes, np.uint8) if row.data is None else as_bytes(row.data)
            if payload.size != row.nbytes:
                raise ValueError(f"data must have {row.nbytes} bytes, not {payload.size}")
            data.append(payload)
            mask.append(np.ones(row.nbytes, np.bool_) if row.mask is None else row.mask)
        return cls.uniform(
            write=np.array([row.data is not None for row in rows], np.bool_),
            address=[row.address for row in rows],
            nbytes=[row.nbytes for row in rows],
            id=[row.id for row in rows],
            earliest=[row.earliest for row in rows],
            beat_bytes=[row.beat_bytes for row in rows],
            burst=[row.burst for row in rows],
            data=np.concatenate([np.empty(0, np.uint8), *data]),
            mask=None
            if all(row.mask is None for row in rows)
            else np.concatenate([np.empty(0, np.bool_), *mask]).astype(np.bool_),
        )

    @classmethod
    def uniform(
        cls,
        *,
        write: npt.ArrayLike,
        address: npt.ArrayLike,
        nbytes: npt.ArrayLike,
        data: ByteArray | None = None,
        mask: npt.NDArray[np.bool_] | None = None,
        **others: npt.ArrayLike,
    ) -> "AccessTrace":
        """A trace of columns; what is one number is the same for all.

        Without `data`, writes write zeros. IDs and earliest cycles are 0, beats as wide as the
        port and bursts INCR, unless given.
        """
        addresses = np.atleast_1d(np.asarray(address, np.int64))

        def column(values: npt.ArrayLike) -> IntArray:
            return np.ascontiguousarray(np.broadcast_to(values, addresses.shape), np.int64)

        sizes = column(nbytes)
        return cls(
            write=column(write).astype(np.bool_),
            address=addresses,
            nbytes=sizes,
            id=column(others.pop("id", 0)),
            earliest=column(others.pop("earliest", 0)),
            beat_bytes=column(others.pop("beat_bytes", 0)),
            burst=column(others.pop("burst", INCR)),
            data=np.zeros(int(sizes.sum()), np.uint8) if data is None else data,
            mask=mask,
            **others,
        )

    @classmethod
    def joined(cls, traces: Sequence["AccessTrace"]) -> "AccessTrace":
        """Traces behind one another; masks are there if any has one."""
        masks = None
        if any(trace.mask is not None for trace in traces):
            masks = [
                np.ones(trace.data.size, np.bool_) if trace.mask is None else trace.mask
                for trace in traces
            ]
        return cls(
            **{
                name: np.concatenate([getattr(trace, name) for trace in traces])
                for name in (*_COLUMNS, "data")
            },
            mask=None if masks is None else np.concatenate(masks),
        )

    def chosen(self, accesses: IntArray) -> "AccessTrace":
        """Some of the accesses, by their numbers, with their data and masks."""
        columns = {name: getattr(self, name)[accesses] for name in _COLUMNS}
        nbytes = columns["nbytes"]
        starts = np.cumsum(nbytes) - nbytes
        place = np.repeat(self.offsets[accesses] - starts, nbytes) + np.arange(int(nbytes.sum()))
        return AccessTrace(
            **columns,
            data=self.data[place],
            mask=None if self.mask is None else self.mask[place],
        )

    def __len__(self) -> int:
        return len(self.address)

    @property
    def offsets(self) -> IntArray:
        """Offsets of each access's bytes in `data`, and their end, int64 (n + 1,)."""
        return np.concatenate([[0], np.cumsum(self.nbytes)])

    def bytes_of(self, index: int, data: ByteArray | None = None) -> ByteArray:
        """An access's bytes, or those in another array of the same shape as `data`; a view."""
        whole = self.data if data is None else data
        return whole[self.offsets[index] : self.offsets[index + 1]]

    def table(self, port_bytes: int, id_bits: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """The shim's table of the accesses, for a port of so many bytes.

        Raises
        ------
        ValueError
            An access that AXI does not have; the message names it and what is wrong with it.
        """
        width = np.where(self.beat_bytes == 0, port_bytes, self.beat_bytes)
        beats = (self.address % np.maximum(width, 1) + self.nbytes - 1) // np.maximum(width, 1) + 1
        last = self.address + self.nbytes - 1
        for bad, what in (
            ((self.nbytes < 1) | (self.nbytes > MOST_BYTES), "must have 1 to 4096 bytes"),
            ((self.address < 0) | (last >> ADDRESS_BITS > 0), "must have an address of 40 bits"),
            (self.address // MOST_BYTES != last // MOST_BYTES, "must not cross 4 KiB"),
            ((self.id < 0) | (self.id >> id_bits > 0), f"must have an ID of {id_bits} bits"),
            (
                (width < 1) | (width & (width - 1) > 0) | (width > port_bytes),
                f"must have beats of a power of two of bytes, at most {port_bytes}",
            ),
            (beats > MOST_BEATS, "must have 256 beats at most"),
            (self.earliest < 0, "must have an earliest cycle of at least 0"),
            ((self.burst < 0) | (self.burst > 2), "must be FIXED, INCR or WRAP"),
        ):
            if np.any(bad):
                raise ValueError(f"access {int(np.argmax(bad))} {what}")
        for name, array in (("data", self.data), ("mask", self.mask)):
            if array is not None and array.size != self.nbytes.sum():
                raise ValueError(f"{name} must have {self.nbytes.sum()} bytes, not {array.size}")
        table = np.zeros(len(self), lib.ACCESS)
        for name, values in (
            ("write", self.write),
            ("address", self.address),
            ("bytes", self.nbytes),
            ("id", self.id),
            ("size", np.log2(width).astype(np.int64)),
            ("burst", self.burst),
            ("earliest", self.earliest),
            ("offset", self.offsets[:-1]),
        ):
            table[name] = values
        return table


@dataclass(frozen=True, eq=False, kw_only=True)
class Playback:
    """The result of a trace.

    Attributes
    ----------
    trace : AccessTrace
    data : uint8 array
        As the trace's, with what was read in the place of reads.
    records : structured array (n,)
        `offered` and `accepted`: when the address was; `first`: a read's first beat; `end`: its
        last one, or the response of a write; in cycles from the start. `response`: the worst of
        its beats'.
    cycles : int
        From the start to the last answer.
    """

    trace: AccessTrace
    data: ByteArray
    records: np.ndarray[Any, np.dtype[np.void]]
    cycles: int

    def bytes_of(self, index: int) -> ByteArray:
        """The bytes that an access read or wrote, uint8 (nbytes,); a view."""
        return self.trace.bytes_of(index, self.data)

    @property
    def responses(self) -> IntArray:
        """0 OKAY, 2 SLVERR, 3 DECERR, int64 (n,)."""
        return np.ascontiguousarray(self.records["response"])

    @property
    def latencies(self) -> IntArray:
        """Cycles from an address's acceptance to its last beat or response, int64 (n,)."""
        return np.asarray(self.records["end"] - self.records["accepted"])

    def failed(self) -> Sequence[int]:
        """Accesses whose response is an error."""
        return [int(i) for i in np.flatnonzero(self.responses)]
