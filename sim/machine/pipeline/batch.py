"""A pipeline call's input and output packets: flat arrays with offsets."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cdma.golden.formats.interface import Array, IntArray, as_bytes
from cdma.golden.formats.stream import ByteArray


class Packets(NamedTuple):
    """Packets of any sizes, one after the other.

    Attributes
    ----------
    data : uint8 array
        The bytes of all packets.
    offsets : int64 array (n + 1,)
        Packet i is `data[offsets[i] : offsets[i + 1]]`.
    """

    data: ByteArray
    offsets: IntArray

    @classmethod
    def of(cls, arrays: Iterable[Array]) -> "Packets":
        """One packet per array: its bytes in C order."""
        pieces = [as_bytes(array) for array in arrays]
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([piece.size for piece in pieces], out=offsets[1:])
        return cls(np.concatenate([np.empty(0, np.uint8), *pieces]), offsets)

    @property
    def sizes(self) -> IntArray:
        """Bytes per packet, int64 (n,)."""
        return np.diff(self.offsets)

    def packet(self, index: int) -> ByteArray:
        """The bytes of a packet, uint8 (bytes,); a view."""
        count = len(self.offsets) - 1
        if not -count <= index < count:
            raise IndexError(f"there are {count} packets, and none is number {index}")
        index %= count
        return self.data[self.offsets[index] : self.offsets[index + 1]]


class Fault(NamedTuple):
    """One input beat whose framing breaks the rules of the stream.

    The beats before and after it are full as usual; the packet may so take more of them.

    Attributes
    ----------
    transfer, beat : int
        Which beat, both from 0. The packet must have that many.
    keep : int
        What is sent as tkeep, lane 0 in bit 0. The packet's next bytes go into the lanes that it
        names, lowest first; lanes for which there is no byte left are cleared.
    null_end : bool
        If the beat carries the packet's last byte, tlast follows on a beat without bytes.
    """

    transfer: int
    beat: int
    keep: int
    null_end: bool = False


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The output of a pipeline.

    Attributes
    ----------
    packets : Packets
        The output packets.
    records : structured array (n,)
        Per transfer the fields of its status record, `status`, `offset`, `out_size` and `crc32`,
        and the cycles, counted from the start of the batch, in which its command, the first and
        last beat of its packets, and its status were accepted: `command_cycle`,
        `input_first_cycle`, `input_last_cycle`, `output_first_cycle`, `output_last_cycle`,
        `status_cycle`.
    cycles : int
        From the start of the batch to its last handshake.
    input_beats, output_beats : int
        Accepted ones.
    input_stall_cycles : int
        Cycles in which an input beat was offered and not accepted.
    output_idle_cycles : int
        Cycles in which an output beat would have been accepted, a packet was in flight, and none
        was offered.
    """

    packets: Packets
    records: np.ndarray[Any, np.dtype[np.void]]
    cycles: int
    input_beats: int
    output_beats: int
    input_stall_cycles: int
    output_idle_cycles: int

    def __len__(self) -> int:
        return len(self.records)

    @property
    def output(self) -> ByteArray:
        """The bytes of all output packets, uint8."""
        return self.packets.data

    @property
    def offsets(self) -> IntArray:
        """The start of each packet in `output`, and the end of all, int64 (n + 1,)."""
        return self.packets.offsets

    def packet(self, index: int) -> ByteArray:
        """The bytes of an output packet, uint8 (bytes,); a view."""
        return self.packets.packet(index)
