"""Entries of every kind through the controller's RTL, into memory and back, by the ten thousand."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import AddressMap, Target
from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, XC_METADATA, ZVC_FLAG, EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.hw.config import BuddyConfig, EntryConfig, buddy_preset
from cdma.sim.driver.buddy.driver import BuddyDriver
from cdma.sim.machine.buddy.config import BuddyMachineConfig
from cdma.sim.machine.buddy.machine import BuddyMachine
from cdma.sim.machine.buddy.trace import MOST_BYTES, Access, AccessTrace
from cdma.sim.machine.build.rtl import generated_buddy
from tests.golden.buddy.entries import all_planes_raw, mixed_entries
from tests.golden.buddy.xc_entries import CENTRE, PATTERN, bf16_entries

CONFIG = buddy_preset("tiny")
THREE = replace(CONFIG, entry=EntryConfig(mode="best-of-three"))
PAGE_ENTRIES = CONFIG.page_bytes // 128
TARGETS = (Target.X1, Target.X1_33, Target.X2, Target.X4, Target.X16)
ACCESS_BYTES = 1024
PARTS = 100
PARAMETERS = ((CENTRE, PATTERN), (255, 3), (CENTRE, PATTERN), (0, 0), (124, 1), (127, 0))
"""Centre and pattern of pages, in turn, where entries may be of XC."""


class Rig:
    """The controller in its machine beside the golden memory, with pages of every target."""

    def __init__(self, machine: BuddyMachine, address_map: AddressMap, config: BuddyConfig) -> None:
        self.machine = machine
        self.driver = BuddyDriver(machine, logical_bytes=address_map.logical_bytes)
        codec = EntryCodec(config.entry.mode, config.entry.element_bytes)
        self.golden = BuddyMemory(address_map, codec)
        self.nbytes = address_map.logical_bytes
        pages = self.nbytes // CONFIG.page_bytes
        for page in range(pages):
            target = TARGETS[page % len(TARGETS)]
            centre, pattern = (0, 0)
            if config.entry.has_parameters:
                centre, pattern = PARAMETERS[page // len(TARGETS) % len(PARAMETERS)]
            xc = {"centre": centre, "pattern": pattern}
            address = self.driver.allocate(CONFIG.page_bytes, target, **xc)
            assert self.golden.allocate(CONFIG.page_bytes, target, **xc) == address

    def check(self, data: np.ndarray) -> None:
        """All of it, written and read: data, metadata and sectors are the golden model's."""
        flat = data.reshape(-1)
        self.golden.write(0, flat)
        addresses = np.arange(0, flat.size, ACCESS_BYTES)
        written = self.machine.play(
            AccessTrace.uniform(write=True, address=addresses, nbytes=ACCESS_BYTES, data=flat)
        )
        assert not written.responses.any()
        read = self.machine.play(
            AccessTrace.uniform(write=False, address=addresses, nbytes=ACCESS_BYTES)
        )
        assert not read.responses.any()
        np.testing.assert_array_equal(read.data, flat)
        self._check_memories()

    def check_parts(self, rng: np.random.Generator) -> None:
        """Some bytes here and there are written: the rest of their entries stays."""
        blocks = rng.integers(0, self.nbytes // MOST_BYTES, PARTS) * MOST_BYTES
        places = rng.integers(0, MOST_BYTES - ENTRY_BYTES, PARTS)
        for address in (blocks + places).tolist():
            data = rng.integers(0, 256, rng.integers(1, ENTRY_BYTES), np.uint8)
            self.golden.write(address, data)
            written = self.machine.play([Access(address, data.size, data)])
            assert not written.failed()
        self._check_memories()

    def _check_memories(self) -> None:
        self.driver.flush()
        np.testing.assert_array_equal(self.machine.device, self.golden.device)
        np.testing.assert_array_equal(self.machine.buddy, self.golden.buddy)


@contextmanager
def rig_of(config: BuddyConfig, *, stalls: float = 0.0) -> Iterator[Rig]:
    pages = CONFIG.pages
    address_map = AddressMap(
        device_bytes=pages * CONFIG.page_bytes * 2,
        logical_bytes=pages * CONFIG.page_bytes,
        carve_out_bytes=pages * CONFIG.page_bytes * 2,
        gbbr=1 << 44,
        page_bytes=CONFIG.page_bytes,
    )
    machine = BuddyMachine(
        generated_buddy(config),
        # What takes long is to be at the codecs, not in memory.
        BuddyMachineConfig(device_latency_ns=10, link_latency_ns=10, channels=1),
        device_bytes=address_map.device_bytes,
        buddy_bytes=address_map.carve_out_bytes,
        buddy_base=address_map.gbbr,
        id_bits=CONFIG.id_bits,
        stalls=stalls,
    )
    with machine:
        yield Rig(machine, address_map, config)


def entries_for(config: BuddyConfig, seed: int) -> np.ndarray:
    """Entries of all kinds that the codec tells apart, for all pages; uint8 (n, 128)."""
    room = CONFIG.pages * PAGE_ENTRIES
    data = mixed_entries(room, seed=seed)[:room]
    data[seed % room] = all_planes_raw(seed)
    if config.entry.has_parameters:
        data[::2] = bf16_entries(room // 2, seed=seed, spread=0.5)
        # Some are sparse for XC alone, whose elements are half as wide as ZVC's.
        halves = data.view(np.uint16)[::16]
        halves[np.random.default_rng(seed).random(halves.shape) < 0.5] = 0
    return data


def run(count: int, config: BuddyConfig = CONFIG) -> int:
    """Through all pages again and again; how many entries were checked."""
    done = 0
    seen = np.zeros(16, np.int64)
    with rig_of(config) as rig:
        while done < count:
            data = entries_for(config, done)
            rig.check(data)
            metadata = rig.golden.metadata(np.arange(0, rig.nbytes, 128))
            seen += np.bincount(metadata, minlength=16)
            done += len(data)
    assert seen[: AS_IT_IS + 1].all(), "a class was missing"
    assert seen[ZVC_FLAG + 1 : ZVC_FLAG + AS_IT_IS].all(), "a class of ZVC was missing"
    assert bool(seen[XC_METADATA]) == config.entry.has_parameters
    return done


def test_entries_are_the_golden_model_s():
    assert run(20_000) >= 20_000


def test_entries_of_three_codes_are_the_golden_model_s():
    assert run(20_000, THREE) >= 20_000


@pytest.mark.verify
@pytest.mark.timeout(3600)
def test_a_million_entries_are_the_golden_model_s():
    assert run(1_000_000) >= 1_000_000


@pytest.mark.verify
@pytest.mark.timeout(3600)
def test_a_million_entries_of_three_codes_are_the_golden_model_s():
    assert run(1_000_000, THREE) >= 1_000_000
