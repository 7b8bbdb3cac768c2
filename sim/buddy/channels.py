"""A trace on several channels of compressed memory, each with a controller, behind one link.

Pages go round the channels, as a GPU's addresses do at a coarser grain than lines: each channel has
its own device memory, metadata and buddy memory, and the link is the only thing that they share.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import BuddyConfig
from cdma.sim.buddy.content import Content, Region, ReplayError
from cdma.sim.buddy.expected import Expected, expect
from cdma.sim.buddy.replay import Replay, open_replay
from cdma.sim.machine.buddy.config import BuddyMachineConfig
from cdma.sim.machine.buddy.machine import MOST_READS, MOST_WRITES, play_together
from cdma.sim.machine.buddy.trace import AccessTrace, Playback


@dataclass(frozen=True, eq=False)
class ChannelsReplay:
    """A replay on several channels.

    Attributes
    ----------
    channels : tuple of Replay
        In each, `cycles` are from the common begin to the end of its own accesses.
    """

    channels: tuple[Replay, ...]

    @property
    def cycles(self) -> int:
        """Until the last channel has answered all."""
        return max(channel.cycles for channel in self.channels)

    @property
    def faults(self) -> tuple[str, ...]:
        """The differences from the golden model, each with its channel."""
        return tuple(
            f"channel {number}: {fault}"
            for number, channel in enumerate(self.channels)
            for fault in channel.faults
        )

    @property
    def together(self) -> Replay:
        """All channels as one: their accesses behind one another, their counters added up."""
        first, playbacks = self.channels[0], [channel.playback for channel in self.channels]
        last = max(self.channels, key=lambda channel: channel.cycles)
        return replace(
            first,
            playback=Playback(
                trace=AccessTrace.joined([playback.trace for playback in playbacks]),
                data=np.concatenate([playback.data for playback in playbacks]),
                records=np.concatenate([playback.records for playback in playbacks]),
                cycles=self.cycles,
            ),
            counters={
                name: sum(channel.counters[name] for channel in self.channels)
                for name in first.counters
            },
            link_out_busy=last.link_out_busy,
            link_in_busy=last.link_in_busy,
            faults=self.faults,
        )


def split(content: Content, trace: AccessTrace, channels: int) -> list[Expected]:
    """Give each channel its pages and the accesses to them, and say what is to come of these.

    Raises
    ------
    ReplayError
        A channel has no page.
    """
    parts = []
    page_bytes = content.config.page_bytes
    numbers = trace.address // page_bytes
    first_pages = [start // page_bytes for start in content.starts]
    for channel in range(channels):
        regions = [
            piece
            for first, region in zip(first_pages, content.regions, strict=True)
            if (piece := _pages_of(region, first, page_bytes, channel, channels)) is not None
        ]
        if not regions:
            raise ReplayError(f"{channels} channels have not a page each; give more data, or fewer")
        own = np.flatnonzero(numbers % channels == channel)
        local = numbers[own] // channels * page_bytes + trace.address[own] % page_bytes
        accesses = replace(trace.chosen(own), address=local)
        parts.append(expect(Content(tuple(regions), content.config), accesses))
    return parts


def replay_channels(
    config: BuddyConfig,
    parts: Sequence[Expected],
    machine: BuddyMachineConfig | None = None,
    *,
    most_reads: int = MOST_READS,
    most_writes: int = MOST_WRITES,
) -> ChannelsReplay:
    """Play a trace's parts on channels of the RTL at the same time, flush, and compare everything.

    Parameters
    ----------
    config : BuddyConfig
        Of each controller.
    parts : sequence of Expected
        As of `split`.
    machine : BuddyMachineConfig, optional
        With the whole link, of which as many of its channels' shares are there as there are parts.
    most_reads, most_writes : int
        Outstanding at once, in each channel.
    """
    with ExitStack() as open_machines:
        opened = [
            open_machines.enter_context(open_replay(config, part, machine, seed=number))
            for number, part in enumerate(parts)
        ]
        playbacks = play_together(
            [each.machine for each in opened],
            [part.trace for part in parts],
            most_reads=most_reads,
            most_writes=most_writes,
        )
        done = [each.finish(played) for each, played in zip(opened, playbacks, strict=True)]
    return ChannelsReplay(tuple(done))


def _pages_of(
    region: Region, first: int, page_bytes: int, channel: int, channels: int
) -> Region | None:
    """The part of a region that a channel has; None if that is nothing.

    Its pages there follow one another, since those of all regions together go round.
    """
    pages = np.arange(first, first + region.pages(page_bytes))
    mine = pages[pages % channels == channel] - first
    if not mine.size:
        return None
    return replace(
        region,
        before=_taken(region.before, mine, page_bytes),
        after=_taken(region.after, mine, page_bytes),
        parameters=None if region.parameters is None else region.parameters[mine],
    )


def _taken(data: ByteArray, pages: IntArray, page_bytes: int) -> ByteArray:
    """Pages of a region, the last of which may be a part of one."""
    return np.concatenate([data[page * page_bytes :][:page_bytes] for page in pages])
