"""Named constants of the DMA engine's RTL, for software too: this loads without Amaranth."""

ENTRY_BYTES = 64
"""Size and alignment of a descriptor and of a completion record."""

QUEUED_LINES = 4
"""Lines of the worst case that may wait at a unit, and as many others as these have beats: those
that are split off the stream faster than one unit expands them."""

HOST_BURST_BEATS = 16
"""The most beats of a burst to or from the host."""

RATE_BITS = 20
RATE_FRACTION_BITS = 8
"""Rates of throttles are in 1/256 byte per cycle."""

BURST_BITS = 20
"""Width of a throttle's burst, in bytes."""
