"""Latencies of the engine and the buddy controller themselves: the constants in their JSON."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.hw.buddy.controller import BuddyController
from cdma.hw.config import PRESETS, buddy_preset
from cdma.hw.dma.engine import DmaEngine
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.buddy import expect, replay_trace, spilling_content
from cdma.sim.machine import AccessTrace
from cdma.sim.machine.buddy.config import buddy_machine_config
from tests.bench.engine.rig import NEAR, Rig


@pytest.mark.parametrize("name", ["titanx_gen3", pytest.param("wide", marks=pytest.mark.verify)])
def test_engine_from_the_doorbell_to_the_first_read(name):
    config = PRESETS[name]
    link = config.host_bytes * 1e9
    around = replace(
        NEAR, channels=config.units, link_out_bytes_per_s=link, link_in_bytes_per_s=link
    )
    data = np.random.default_rng(1).integers(1, 256, 512, np.uint8)
    with Rig(config, around) as rig:
        for codec in (None, "zvc"):
            for size in (64, 512):
                round_trip = rig.out(data[:size], codec=codec)
                # When the descriptor's last beat is offered.
                arrival = round_trip.fetch_cycles + 2 * around.link_latency_cycles
                arrival += max(1, ENTRY_BYTES // config.host_bytes)
                assert round_trip.fetch_cycles == DmaEngine.descriptor_read_latency
                assert round_trip.read_cycles - arrival == DmaEngine.data_read_latency


def test_buddy_controller_from_a_read_to_its_first_beat():
    config, machine = buddy_preset("tiny"), buddy_machine_config("channel")
    memory = machine.environment.dram_latency_cycles
    fits = spilling_content(1 << 16, 0.0, Target.X2, config)

    def latency(content, addresses):
        trace = AccessTrace.uniform(write=False, address=addresses, nbytes=128)
        done = replay_trace(config, expect(content, trace), machine, most_reads=1)
        last = done.playback.records[-1]
        return int(last["first"] - last["offered"]) - memory

    assert latency(fits.uncompressed(), [0]) == BuddyController.read_latency
    # The first read brings the metadata.
    assert latency(fits, [0, 128]) == BuddyController.compressed_read_latency
