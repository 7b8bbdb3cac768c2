"""What a descriptor becomes for the stages that carry it out, and what they tell in the end."""

from amaranth.lib import data

from hw.config import EngineConfig
from hw.dma.descriptor import DEVICE_ADDRESS_BITS

LENGTH_BITS = 32
LINE_COUNT_BITS = LENGTH_BITS - 6
"""Bits of a number of lines in a transfer."""


class ReadJob(data.StructLayout):
    """What to read from device memory.

    Members
    -------
    src, length
        Where, and how many bytes.
    dense
        Not to be compressed.
    throttle_class
        Which token bucket limits the reads.
    first_unit
        The unit at the memory controller of the first line; the lines go round from there.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "src": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "dense": 1,
                "throttle_class": 1,
                "first_unit": range(config.units),
            }
        )


class IssuedLines(data.StructLayout):
    """The end of a job's issue.

    Members
    -------
    lines
        How many of its lines were issued.
    cut
        Not all, since the engine was told to abort.
    """

    def __init__(self) -> None:
        super().__init__({"lines": LINE_COUNT_BITS, "cut": 1})
