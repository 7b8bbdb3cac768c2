"""Faults on AXI ports to memories, and counts of the engine's environment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cdma.golden.formats.interface import IntArray
from cdma.sim.machine.bus.library import FAULT

HOST = "host"

BUS_CHANNELS = ("ar", "r", "aw", "w", "b")
FAULT_KINDS = ("slverr", "decerr", "hang", "early-last", "late-last")

_KINDS_OF_CHANNEL = {
    "ar": ("hang",),
    "r": FAULT_KINDS,
    "aw": ("hang",),
    "w": ("hang",),
    "b": ("slverr", "decerr", "hang"),
}
_BY_ADDRESS = 2**64 - 1


class BusFault(NamedTuple):
    """Something that a memory does wrong.

    Attributes
    ----------
    port : int or str
        Of the engine: which memory port, or "host". Of the buddy controller: "device" or "buddy".
    channel : str
        "ar" and "aw" count bursts, "r" and "w" beats, "b" responses.
    kind : str
        "slverr" and "decerr": that response, and a write changes nothing. "hang": from there on
        nothing moves on the channel, until `Machine.set_faults` or `Machine.reset`; a write whose
        response does not come has arrived. "early-last": RLAST on that beat, and the burst ends.
        "late-last": no RLAST on the last beat of that beat's burst, and a beat too many that has
        it. The address and data channels only hang.
    nth : int, optional
        Which transfer on that port and channel, from 0, since the faults were set. Hits once.
    addresses : (int, int), optional
        Instead: every beat (r) or burst (b) that touches bytes from the first address
        up to, not including, the second.
    """

    port: int | str
    channel: str
    kind: str
    nth: int | None = None
    addresses: tuple[int, int] | None = None


class DeliveredFault(NamedTuple):
    """The count of a fault that was set, and its first hit.

    Attributes
    ----------
    times : int
        How often it has hit.
    cycle : int
        When first; -1 for never. Of `Machine.cycles`.
    address : int
        Of the first beat (r, w) or burst (ar, aw, b) that it hit; -1 if none.
    """

    times: int
    cycle: int
    address: int


def fault_array(
    faults: Sequence[BusFault], ports: Sequence[int | str]
) -> np.ndarray[Any, np.dtype[np.void]]:
    """The shim's table of `faults`, for a design with these ports to memories.

    Raises
    ------
    ValueError
        A fault that cannot be; the message names what is wrong with it.
    """
    table = np.zeros(len(faults), FAULT)
    for row, fault in zip(table, faults, strict=True):
        if fault.port not in ports:
            known = f"{', '.join(map(repr, ports[:-1]))} or {ports[-1]!r}"
            raise ValueError(f"port must be {known}, not {fault.port!r}")
        if fault.channel not in BUS_CHANNELS:
            raise ValueError(f"channel must be {', '.join(BUS_CHANNELS)}, not {fault.channel!r}")
        kinds = _KINDS_OF_CHANNEL[fault.channel]
        if fault.kind not in kinds:
            raise ValueError(
                f"kind must be {', '.join(kinds)} on {fault.channel}, not {fault.kind!r}"
            )
        row["port"] = ports.index(fault.port)
        row["channel"] = BUS_CHANNELS.index(fault.channel)
        row["kind"] = FAULT_KINDS.index(fault.kind)
        if (fault.nth is None) == (fault.addresses is None):
            raise ValueError("a fault must have either nth or addresses")
        if fault.nth is not None:
            if fault.nth < 0:
                raise ValueError(f"nth must be at least 0, not {fault.nth}")
            row["index"] = fault.nth
            continue
        assert fault.addresses is not None
        if fault.channel not in ("r", "b"):
            raise ValueError(f"a fault on {fault.channel} must have nth, not addresses")
        row["index"] = _BY_ADDRESS
        row["low"], row["high"] = fault.addresses
        if row["low"] >= row["high"]:
            raise ValueError(f"addresses must be a first and a later one, not {fault.addresses}")
    return table


class BusEvent(NamedTuple):
    """An address that a port's slave accepted, or an answer with an error.

    Attributes
    ----------
    cycle : int
        Of `Machine.cycles`.
    port : int or str
        As of `BusFault`.
    kind : str
        "read" or "write": the address of a burst was accepted. "read failed": a beat was taken
        whose RRESP is an error, or whose RLAST is not where the burst ends. "write failed": a
        response that is an error.
    address : int
        Of the burst, or of the beat that failed.
    beats : int
    """

    cycle: int
    port: int | str
    kind: str
    address: int
    beats: int


EVENT_KINDS = ("read", "write", "read failed", "write failed")
"""By their numbers in the shim."""


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counts of the engine's environment since they were cleared.

    Attributes
    ----------
    cycles : int
    link_out_busy_cycles, link_in_busy_cycles : float
        Cycles in which the link moved something to the host, and from it.
    link_out_bytes, link_in_bytes : int
        Data that it moved, without overhead: bytes that strobes named, and bytes read from the
        first address on.
    dram_read_bytes, dram_written_bytes : int64 array (channels,)
        What each channel moved, in whole beats.
    foreign_bytes : int64 array (channels,)
        Of these, asked of a channel to which the addresses do not belong.
    window_dram_read_bytes, window_dram_written_bytes : int
        The most that all channels together moved in any window of `Machine.window_cycles`.
    read_bursts, write_bursts : int64 array (channels + 1,)
        Per port, the host's last: addresses accepted.
    most_reads, most_writes : int64 array (channels + 1,)
        Most bursts outstanding at once.
    read_wait_cycles : int64 array (channels + 1,)
        Cycles in which a beat was offered and not taken.
    decode_errors : int64 array (channels + 1,)
        Beats read and bursts written where there is no memory.
    first_read_cycle, first_write_cycle, last_response_cycle : int64 array (channels + 1,)
        When the first address was accepted, and the last response taken, of `Machine.cycles`; -1
        if there was none.
    """

    cycles: int
    link_out_busy_cycles: float
    link_in_busy_cycles: float
    link_out_bytes: int
    link_in_bytes: int
    dram_read_bytes: IntArray
    dram_written_bytes: IntArray
    foreign_bytes: IntArray
    window_dram_read_bytes: int
    window_dram_written_bytes: int
    read_bursts: IntArray
    write_bursts: IntArray
    most_reads: IntArray
    most_writes: IntArray
    read_wait_cycles: IntArray
    decode_errors: IntArray
    first_read_cycle: IntArray
    first_write_cycle: IntArray
    last_response_cycle: IntArray

    @property
    def link_utilization_out(self) -> float:
        """The part of the cycles in which the link moved something to the host."""
        return self.link_out_busy_cycles / max(1, self.cycles)

    @property
    def link_utilization_in(self) -> float:
        """The part of the cycles in which the link moved something from the host."""
        return self.link_in_busy_cycles / max(1, self.cycles)
