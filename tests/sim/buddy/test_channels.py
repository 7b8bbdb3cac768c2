"""Several channels of compressed memory at the same time, behind one link."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.hw.config import ConfigError, buddy_preset
from cdma.sim.buddy import ReplayError, expect, pattern_trace, replay_trace, spilling_content
from cdma.sim.buddy.channels import replay_channels, split
from cdma.sim.buddy.replay import open_replay
from cdma.sim.machine import AccessTrace, BuddyMachineConfig
from cdma.sim.machine.buddy.machine import play_together
from cdma.sim.machine.errors import HangError
from tests.sim.buddy.test_replay import content, random_trace

__all__ = ["content"]

CONFIG = buddy_preset("tiny")
PAGE = CONFIG.page_bytes
SLOW = BuddyMachineConfig(link_bytes_per_s=8e9, channels=32)
"""Of whose link a channel has 0.25 GB/s, 0.29 bytes per cycle: all wait for it."""


def spilling(pages: int, fraction: float = 1.0):
    return spilling_content(pages * PAGE, fraction, Target.X4, CONFIG)


def test_one_channel_is_the_machine_by_itself(content):
    trace = random_trace(content, 200, seed=1)
    alone = replay_trace(CONFIG, expect(content, trace))
    (channel,) = replay_channels(CONFIG, split(content, trace, 1)).channels
    assert np.array_equal(channel.playback.records, alone.playback.records)
    assert channel.counters == alone.counters
    assert (channel.link_in_busy, channel.link_out_busy) == (
        alone.link_in_busy,
        alone.link_out_busy,
    )
    assert not channel.faults


@pytest.mark.parametrize("channels", [2, 3])
def test_every_access_is_in_the_channel_of_its_page(content, channels):
    trace = random_trace(content, 300, seed=2)
    parts = split(content, trace, channels)
    assert sum(len(part.trace) for part in parts) == len(trace)
    whole = expect(content, trace)
    pages = trace.address // PAGE
    for number, part in enumerate(parts):
        own = np.flatnonzero(pages % channels == number)
        assert np.array_equal(part.trace.nbytes, trace.nbytes[own])
        assert np.array_equal(part.trace.write, trace.write[own])
        # What reads find is the same wherever the page lies.
        bytes_of = [trace.bytes_of(i, whole.data) for i in own]
        assert np.array_equal(part.data, np.concatenate(bytes_of))


@pytest.mark.parametrize("channels", [2, 3])
def test_all_channels_are_bit_exact(content, channels):
    trace = random_trace(content, 300, seed=3)
    done = replay_channels(CONFIG, split(content, trace, channels), most_reads=8)
    assert done.faults == ()
    together = done.together
    assert together.nbytes == trace.nbytes.sum()
    assert together.cycles == max(channel.cycles for channel in done.channels)
    for name, count in together.counters.items():
        assert count == sum(channel.counters[name] for channel in done.channels)


def test_what_differs_is_told_with_its_channel(content):
    parts = split(content, random_trace(content, 60, seed=4), 2)
    data = parts[1].data.copy()
    data[np.flatnonzero(np.repeat(~parts[1].trace.write, parts[1].trace.nbytes))[0]] ^= 1
    parts[1] = replace(parts[1], data=data)
    (fault,) = replay_channels(CONFIG, parts).faults
    assert fault.startswith("channel 1: ")


def test_a_channel_has_the_link_that_others_leave():
    """All accesses go to the first of two channels: it gets twice its share."""
    content = spilling(4)
    trace = pattern_trace(content, "stream", accesses=PAGE // 128)
    assert {*(trace.address // PAGE)} == {0}
    first, second = split(content, trace, 2)
    assert len(second.trace) == 0
    alone = replay_trace(CONFIG, first, SLOW)
    beside = replay_channels(CONFIG, [first, second], SLOW).channels[0]
    assert beside.cycles == pytest.approx(alone.cycles / 2, rel=0.1)
    assert beside.link_in_busy > 0.9


def test_channels_that_ask_for_the_same_share_it_evenly():
    content = spilling(4)
    trace = pattern_trace(content, "stream", accesses=4 * PAGE // 128)
    parts = split(content, trace, 2)
    alone = [replay_trace(CONFIG, part, SLOW).cycles for part in parts]
    beside = replay_channels(CONFIG, parts, SLOW).channels
    for one, other in zip(beside, alone, strict=True):
        assert one.cycles == pytest.approx(other, rel=0.05)


def test_more_channels_than_pages_are_refused():
    content = spilling(2)
    trace = pattern_trace(content, "stream", accesses=8)
    with pytest.raises(ReplayError, match="3 channels have not a page each; give more data"):
        split(content, trace, 3)


def test_other_environments_are_refused(content):
    trace = AccessTrace.uniform(write=[False], address=[0], nbytes=128)
    part = expect(content, trace)
    with open_replay(CONFIG, part) as one, open_replay(CONFIG, part, SLOW) as other:
        machines = [one.machine, other.machine]
        with pytest.raises(ConfigError, match="must have the same environment"):
            play_together(machines, [trace, trace])


def test_a_budget_that_runs_out_is_told_of_the_channel():
    content = spilling(4)
    parts = split(content, pattern_trace(content, "stream", accesses=4 * PAGE // 128), 2)
    with open_replay(CONFIG, parts[0]) as one, open_replay(CONFIG, parts[1]) as other:
        machines = [one.machine, other.machine]
        traces = [part.trace for part in parts]
        with pytest.raises(HangError, match=r"\d+ of \d+ accesses are answered after 300 cycles"):
            play_together(machines, traces, budget=300)
        for machine in machines:
            machine.reset()
        assert all(played.cycles > 300 for played in play_together(machines, traces))
