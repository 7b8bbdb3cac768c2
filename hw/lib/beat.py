"""Byte streams: packets of beats, dense but for the last one."""

from amaranth.hdl import unsigned
from amaranth.lib import data


class Beat(data.StructLayout):
    """A beat of a byte stream.

    Members
    -------
    data
        Bytes, the first in the low bits.
    size
        The number of bytes that count, from the first; all of them on every beat but the last.
    last
        End of the packet.
    """

    def __init__(self, data_bytes: int) -> None:
        super().__init__(
            {"data": unsigned(8 * data_bytes), "size": range(data_bytes + 1), "last": 1}
        )


class ReceivedBeat(data.StructLayout):
    """A beat from a source that may break the rules.

    Members
    -------
    data, size, last
        As in `Beat`.
    framing_error
        The beat broke the rule for `size`, or had holes; `size` then counts the bytes before the
        first hole.
    """

    def __init__(self, data_bytes: int) -> None:
        super().__init__(
            {
                "data": unsigned(8 * data_bytes),
                "size": range(data_bytes + 1),
                "last": 1,
                "framing_error": 1,
            }
        )
