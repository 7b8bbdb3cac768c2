"""Channels of cocotbext-axi that pause at random."""

import heapq
import itertools
import random
from collections.abc import Sequence
from typing import Any

from cocotb.triggers import RisingEdge


async def stall(
    clock: Any, channels: Sequence[Any], probability: float, draw: random.Random
) -> None:
    """Pauses all channels at random; one coroutine, since each costs time in every cycle."""
    flips = [(0, number) for number in range(len(channels))]
    edge = RisingEdge(clock)
    for cycle in itertools.count():
        await edge
        while flips[0][0] <= cycle:
            _, number = flips[0]
            channel = channels[number]
            channel.pause = not channel.pause
            # Long pauses fill and drain the buffers.
            length = draw.choice((1, 1, 1, 2, 7, 30))
            if not channel.pause:
                length *= (1 - probability) / probability
            heapq.heapreplace(flips, (cycle + max(1, round(length)), number))


def channels_of(*ports: Any) -> list[Any]:
    """All channels of these ports."""
    return [
        getattr(half, f"{channel}_channel")
        for port in ports
        for half, names in ((port.write_if, ("aw", "w", "b")), (port.read_if, ("ar", "r")))
        for channel in names
    ]
