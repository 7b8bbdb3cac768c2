"""Compression for bandwidth alone, on the smallest controller."""

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.hw.config import buddy_preset
from cdma.reproduce import bandwidth_compression
from cdma.reproduce.bandwidth_compression import bandwidth_gain, for_bandwidth, reads, step_gains
from cdma.sim.buddy import Content, spilling_content
from cdma.sim.machine import BuddyMachineConfig

CONFIG = buddy_preset("tiny")
MACHINE = BuddyMachineConfig(device_bytes_per_s=7e9, device_latency_ns=20)
"""8 bytes per cycle, and hardly a latency: even few reads have to wait for its bandwidth."""
BYTES = 16 << 10


def content(fraction: float) -> Content:
    """Entries of two sectors, but for a fraction of them that does not compress."""
    return for_bandwidth(spilling_content(BYTES, fraction, Target.X2, CONFIG))


@pytest.mark.parametrize("access_bytes", [128, 32])
@pytest.mark.parametrize("passes", [1, 2])
def test_every_entry_is_read_once_in_a_pass(access_bytes, passes, monkeypatch):
    monkeypatch.setattr(bandwidth_compression, "WINDOW_BYTES", 4096)
    trace = reads(content(0.0), access_bytes, passes=passes)
    entries = trace.address // 128
    assert np.array_equal(np.bincount(entries), np.full(BYTES // 128, passes))
    # A window again before the next one.
    windows = trace.address // 4096
    assert np.all(np.diff(windows) >= 0)
    for window in range(BYTES // 4096):
        again = trace.address[windows == window].reshape(passes, -1)
        assert np.all(again == again[0])
        assert np.all(np.diff(again[0]) == 128) == (access_bytes == 128)


def test_nothing_spills_where_compression_is_for_bandwidth_alone():
    assert all(region.target is Target.X1 for region in content(1.0).regions)
    assert content(1.0).address_map.carve_out_bytes <= 4096


def test_whole_entries_are_read_faster_and_single_sectors_slower():
    assert bandwidth_gain(content(0.0), MACHINE, 128) > 0.5
    assert bandwidth_gain(content(0.0), MACHINE, 32) < -0.2


def test_what_does_not_compress_gains_nothing():
    assert -0.1 < bandwidth_gain(content(1.0), MACHINE, 128) <= 0.01


def test_less_is_gained_where_metadata_come_from_memory():
    at_hand = bandwidth_gain(content(0.0), MACHINE, 128)
    assert bandwidth_gain(content(0.0), MACHINE, 128, at_hand=False) < at_hand - 0.1


def test_nothing_is_gained_where_latency_is_all_that_counts():
    far = BuddyMachineConfig(device_bytes_per_s=7e9, device_latency_ns=2000)
    assert abs(bandwidth_gain(content(0.0), far, 128)) < 0.01


def test_steps_gain_less_than_the_memory():
    none, some, more = (step_gains(gain) for gain in (0.0, 0.5, 1.0))
    for name, gain in none.items():
        assert gain == 0 < some[name] < more[name] < 1
        assert some[name] < 0.5
    assert max(step_gains(-0.2).values()) < 0
