"""Damaged memory under the controller's RTL: data or errors as golden gives them."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.formats.stream import StreamError, StreamStatus
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.config import BuddyConfig, EntryConfig
from cdma.sim.machine import Access
from cdma.sim.machine.buddy.trace import OKAY, SLVERR
from tests.sim.buddy.test_entries import CONFIG, THREE, Rig, entries_for, rig_of

BPC = replace(CONFIG, entry=EntryConfig(sector_bytes=64, mode="bpc"))
ROUNDS = 4
BYTES_PER_FLIP = 48
"""So that of an entry often one bit has flipped, sometimes several have, and of some none."""
WORD_BYTES = 8
BYTES_PER_LOST_WORD = 512


def damage(rig: Rig, rng: np.random.Generator) -> None:
    """Turn bits over and clear words, in both memories and the golden model's, metadata as well."""
    rig.driver.invalidate()
    for memory, model in (
        (rig.machine.device, rig.golden.device),
        (rig.machine.buddy, rig.golden.buddy),
    ):
        places = rng.integers(0, memory.size, memory.size // BYTES_PER_FLIP)
        flips = (1 << rng.integers(0, 8, places.size)).astype(np.uint8)
        np.bitwise_xor.at(memory, places, flips)
        words = memory.reshape(-1, WORD_BYTES)
        words[rng.integers(0, len(words), memory.size // BYTES_PER_LOST_WORD)] = 0
        model[:] = memory


def check_reads(rig: Rig) -> np.ndarray:
    """All entries: their data, or an error; how often golden finds each status."""
    found = np.zeros(16, np.int64)
    starts = range(0, rig.nbytes, ENTRY_BYTES)
    played = rig.machine.play([Access(start, ENTRY_BYTES) for start in starts])
    first = None
    for number, start in enumerate(starts):
        try:
            want = rig.golden.read(start, ENTRY_BYTES)
            status = StreamStatus.OK
        except StreamError as error:
            status = error.status
            first = start if first is None else first
        found[status] += 1
        assert played.responses[number] == (OKAY if status == StreamStatus.OK else SLVERR), start
        if status == StreamStatus.OK:
            np.testing.assert_array_equal(played.bytes_of(number), want)
    told = rig.driver.first_error()
    assert (told.status, told.write, told.address) == (AccessStatus.CORRUPT_ENTRY, False, first)
    rig.driver.clear_error()
    return found


@pytest.mark.parametrize(
    ("config", "statuses"),
    [
        (CONFIG, "PAYLOAD_TRUNCATED BAD_TOKEN NONZERO_FILL ZERO_ELEMENT"),
        pytest.param(BPC, "PAYLOAD_TRUNCATED BAD_TOKEN NONZERO_FILL", marks=pytest.mark.verify),
        (THREE, "PAYLOAD_TRUNCATED BAD_TOKEN NONZERO_FILL ZERO_ELEMENT"),
    ],
    ids=["two", "bpc", "three"],
)
def test_damage_is_found_where_golden_finds_it(config: BuddyConfig, statuses: str) -> None:
    rng = np.random.default_rng(11)
    found = np.zeros(16, np.int64)
    with rig_of(config, stalls=0.5) as rig:
        for seed in range(ROUNDS):
            rig.check(entries_for(config, seed))
            rig.check_parts(rng)
            damage(rig, rng)
            found += check_reads(rig)
    assert found[StreamStatus.OK] > 1000
    for status in statuses.split():
        assert found[StreamStatus[status]] > 5, status
