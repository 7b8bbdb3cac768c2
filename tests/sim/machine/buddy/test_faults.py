"""Memories that refuse or fall silent under the buddy controller: errors, but never wrong data."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.config import BuddyConfig, buddy_preset
from cdma.sim.driver import BuddyDriver
from cdma.sim.machine import Access, BuddyMachine, BuddyMachineConfig, BusFault
from cdma.sim.machine.buddy.trace import OKAY, SLVERR
from cdma.sim.machine.build.rtl import generated_buddy
from tests.golden.buddy.entries import mixed_entries
from tests.sim.driver.test_buddy_driver import MEMORY, QUIET, read, write
from tests.sim.machine.buddy.test_places import MIRRORED, SLICES, SLOW

CONFIG = buddy_preset("tiny")
PAGE = CONFIG.page_bytes
ENTRIES = 24
"""Few, so that the same ones are read and written again and again; in lines that get evicted."""
ROUNDS = 6
TIMEOUT_CYCLES = 400


class Subject:
    """Entries of all targets, so many pages of each, and what each of them may hold."""

    def __init__(
        self,
        seed: int,
        config: BuddyConfig = CONFIG,
        pages: int = 1,
        memory: BuddyMachineConfig = QUIET,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.data = mixed_entries(4000)
        self.machine = BuddyMachine(
            generated_buddy(config),
            memory,
            device_bytes=MEMORY,
            buddy_bytes=MEMORY,
            buddy_base=1 << 40,
            stalls=float(self.rng.choice([0.0, 0.3])),
            seed=seed,
        )
        self.driver = BuddyDriver(self.machine, timeout_cycles=TIMEOUT_CYCLES)
        self.targets = [*Target] * pages
        starts = [self.driver.allocate(PAGE, target) for target in self.targets]
        places = self.rng.integers(0, PAGE // ENTRY_BYTES, ENTRIES) * ENTRY_BYTES
        self.places = np.unique(self.rng.choice(starts, ENTRIES) + places)
        self.contents = {int(place): {bytes(ENTRY_BYTES)} for place in self.places}

    def faults(self) -> list[BusFault]:
        """One or two, of any kind that the ports have."""
        made = []
        for _ in range(self.rng.integers(1, 3)):
            channel = str(self.rng.choice(["r", "r", "b", "b", "ar", "aw", "w"]))
            kinds = ["hang"] if channel in ("ar", "aw", "w") else ["slverr", "decerr", "hang"]
            kinds += ["early-last", "late-last"] if channel == "r" else []
            port = str(self.rng.choice(["device", "buddy"]))
            nth = int(self.rng.integers(0, 20))
            made.append(BusFault(port, channel, str(self.rng.choice(kinds)), nth=nth))
        return made

    def accesses(self, count: int) -> list[Access]:
        made = []
        for k in range(count):
            place = int(self.rng.choice(self.places))
            data = self.data[self.rng.integers(0, len(self.data))]
            first = int(self.rng.integers(0, ENTRY_BYTES))
            kind = self.rng.integers(0, 4)
            if kind < 2:
                made.append(Access(place, ENTRY_BYTES, id=k % 16))
            elif kind == 2:
                made.append(Access(place, ENTRY_BYTES, data, id=k % 16))
            else:
                made.append(Access(place + first, ENTRY_BYTES - first, data[first:], id=k % 16))
        return made

    def play(self, accesses: list[Access], *, outstanding: int) -> None:
        played = self.machine.play(
            accesses, most_reads=outstanding, most_writes=outstanding, budget=200_000
        )
        assert set(played.responses.tolist()) <= {OKAY, SLVERR}
        for i, access in enumerate(accesses):
            place = access.address // ENTRY_BYTES * ENTRY_BYTES
            skip = access.address - place
            known = self.contents[place]
            if access.data is None:
                if played.responses[i] == OKAY:
                    assert played.bytes_of(i).tobytes() in known, f"access {i} at {place:#x}"
                continue
            new = {old[:skip] + access.data.tobytes() for old in known}
            # A write that has failed may have come about nevertheless.
            self.contents[place] = new if played.responses[i] == OKAY else known | new

    def recover(self) -> None:
        """Take the faults away, and write everything anew."""
        self.machine.set_faults([])
        self.machine.run(4 * TIMEOUT_CYCLES)
        if self.driver.lost:
            self.driver.reset()
            for number, target in enumerate(self.targets):
                assert self.driver.allocate(PAGE, target) == number * PAGE
        rows = self.data[self.rng.integers(0, len(self.data), self.places.size)]
        writes = [
            Access(int(place), ENTRY_BYTES, row)
            for place, row in zip(self.places, rows, strict=True)
        ]
        played = self.machine.play(writes)
        assert not played.failed(), self.driver.first_error()
        self.contents = {w.address: {row.tobytes()} for w, row in zip(writes, rows, strict=True)}
        reads = self.machine.play([Access(place, ENTRY_BYTES) for place in self.contents])
        assert not reads.failed(), self.driver.first_error()
        for i, (known,) in enumerate(self.contents.values()):
            assert reads.bytes_of(i).tobytes() == known
        self.driver.clear_error()


@pytest.mark.parametrize("outstanding", [1, 16])
@pytest.mark.parametrize(
    "seed",
    [
        # With 8, memory does not take a line of metadata that is wanted again at once.
        *(0, 1, 2, 3, 8),
        *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(20, 100)),
    ],
)
def test_errors_but_never_wrong_data(seed, outstanding):
    run(Subject(seed), outstanding)


@pytest.mark.verify
@pytest.mark.parametrize("seed", list(range(12)))
def test_errors_but_never_wrong_data_with_metadata_in_slices(seed):
    run(Subject(seed, SLICES, pages=3), 16)


def run(subject: Subject, outstanding: int) -> None:
    with subject.machine:
        for _ in range(ROUNDS):
            subject.machine.set_faults(subject.faults())
            subject.play(subject.accesses(40), outstanding=outstanding)
            subject.recover()


@pytest.mark.parametrize("failing", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_an_entry_in_two_bursts_fails_with_either(failing):
    """Its buddy sectors lie on both sides of a boundary that no burst crosses."""
    subject = Subject(4)
    machine, driver = subject.machine, subject.driver
    first = list(Target).index(Target.X4) * PAGE
    data = subject.rng.integers(0, 256, ENTRY_BYTES, np.uint8)
    with machine:
        crossing = []
        for place in range(first, first + PAGE, ENTRY_BYTES):
            before = machine.counters().buddy.write_bursts
            assert write(driver, place, data) == OKAY
            if machine.counters().buddy.write_bursts - before == 2:
                crossing.append(place)
        assert crossing
        for place in crossing:
            machine.set_faults([BusFault("buddy", "b", "slverr", nth=nth) for nth in failing])
            assert write(driver, place, ~data) == SLVERR
            machine.set_faults([])
            assert read(driver, place)[0] == SLVERR
            assert write(driver, place, data) == OKAY
            status, got = read(driver, place)
            assert status == OKAY
            np.testing.assert_array_equal(got, data)


@pytest.mark.verify
def test_a_line_of_metadata_is_refused_with_any_of_its_beats_in_slices():
    """Lines of a set one behind the other, so that one makes room while it is still fetched."""
    with BuddyMachine(
        generated_buddy(SLICES), SLOW, device_bytes=MIRRORED, buddy_bytes=MIRRORED, seed=5
    ) as machine:
        driver = BuddyDriver(machine)
        driver.allocate(SLICES.pages * PAGE, Target.X4)
        line_bytes = SLICES.cache.line_bytes
        beats = line_bytes // machine.sector_bytes
        count = driver.map.metadata_bytes // line_bytes
        sets = SLICES.cache.capacity_bytes // line_bytes // SLICES.cache.ways
        order = np.arange(count).reshape(-1, sets).T.reshape(-1)
        entries = order * SLICES.metadata_line_entries
        data = np.random.default_rng(6).integers(0, 256, (count, ENTRY_BYTES), np.uint8)
        writes = [
            Access(int(entry) * ENTRY_BYTES, ENTRY_BYTES, row)
            for entry, row in zip(entries, data, strict=True)
        ]
        reads = [Access(write.address, ENTRY_BYTES) for write in writes]
        base = MIRRORED - driver.map.metadata_bytes
        refused = []
        for number, line in enumerate(order.tolist()):
            beat = base + line * line_bytes + number % beats * machine.sector_bytes
            refused.append(BusFault("device", "r", "slverr", addresses=(beat, beat + 1)))
        for _ in range(2):
            machine.set_faults(refused)
            assert (machine.play(writes).responses == SLVERR).all()
            assert (machine.play(reads).responses == SLVERR).all()
            machine.set_faults([])
            assert not driver.lost
            assert not machine.play(writes).failed()
            driver.invalidate()
            back = machine.play(reads)
            assert not back.failed()
            for number, row in enumerate(data):
                np.testing.assert_array_equal(back.bytes_of(number), row)


def test_reads_whose_metadata_are_refused_by_a_memory_of_one_burst_at_a_time():
    """Their requests wait while the line is fetched."""
    subject = Subject(6, memory=replace(QUIET, device_outstanding=1))
    machine, driver = subject.machine, subject.driver
    reads = [Access(place, ENTRY_BYTES) for place in range(0, 40 * ENTRY_BYTES, ENTRY_BYTES)]
    metadata = (MEMORY - driver.map.metadata_bytes, MEMORY)
    with machine:
        for _ in range(4):
            driver.invalidate()
            machine.set_faults([BusFault("device", "r", "slverr", addresses=metadata)])
            assert (machine.play(reads).responses == SLVERR).all()
            machine.set_faults([])
            assert not machine.play(reads).failed()
