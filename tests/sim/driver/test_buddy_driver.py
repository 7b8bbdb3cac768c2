"""The buddy controller's driver, on the controller's RTL."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import BuddyError, MapStatus, PageFields, Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.buddy.memory import BuddyMemory
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.config import buddy_preset
from cdma.sim.driver import AccessError, BuddyDriver, ConcurrentUseError, DriverError, IdentityError
from cdma.sim.driver.buddy.shape import read_buddy_shape
from cdma.sim.machine import Access, BuddyMachine, BuddyMachineConfig, BusFault
from cdma.sim.machine.buddy.trace import OKAY, SLVERR
from cdma.sim.machine.build.rtl import generated_buddy
from tests.golden.buddy.entries import mixed_entries
from tests.plan.engine_cost.passthrough import passthrough_rtl

CONFIG = buddy_preset("tiny")
PAGE = CONFIG.page_bytes
MEMORY = 1 << 18
QUIET = BuddyMachineConfig(
    clock_hz=1e9,
    device_bytes_per_s=32e9,
    device_latency_ns=20,
    link_bytes_per_s=32e9,
    channels=1,
    link_latency_ns=20,
)
NOISE = np.random.default_rng(5).integers(0, 256, PAGE, np.uint8)
"""Entries that stay as they are: with any target but 1x they spill."""


@pytest.fixture
def machine():
    made = []

    def make(rtl=None, **options):
        sizes = {"device_bytes": MEMORY, "buddy_bytes": MEMORY, "buddy_base": 1 << 40}
        rtl = rtl or generated_buddy(CONFIG)
        made.append(BuddyMachine(rtl, QUIET, **{**sizes, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def driver(machine):
    return BuddyDriver(machine())


def write(driver, address, data):
    """Bytes to logical memory, an entry at a time."""
    pieces = np.asarray(data, np.uint8).reshape(-1, ENTRY_BYTES)
    accesses = [Access(address + i * ENTRY_BYTES, ENTRY_BYTES, row) for i, row in enumerate(pieces)]
    return driver.machine.play(accesses).responses


def read(driver, address, nbytes=ENTRY_BYTES):
    played = driver.machine.play([Access(address, nbytes)])
    return int(played.responses[0]), played.bytes_of(0)


class TestSetup:
    def test_the_shape_is_the_configurations(self, driver):
        shape = driver.shape
        assert (shape.mode, shape.element_bytes) == (CONFIG.entry.mode, CONFIG.entry.element_bytes)
        assert shape.sector_bytes == driver.machine.sector_bytes == CONFIG.entry.sector_bytes
        assert (shape.page_bytes, shape.pages) == (PAGE, CONFIG.pages)
        assert shape.cache_bytes == CONFIG.cache.capacity_bytes
        assert shape.cache_slices == CONFIG.cache.slices
        assert (shape.cache_ways, shape.cache_line_bytes) == (
            CONFIG.cache.ways,
            CONFIG.cache.line_bytes,
        )
        assert shape.codec.mode == CONFIG.entry.mode

    @pytest.mark.verify
    def test_another_block_is_refused(self, machine):
        with pytest.raises(IdentityError, match="not a buddy controller's: ID must be 0x42554459"):
            BuddyDriver(machine(passthrough_rtl()))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"logical_bytes": 17 * PAGE}, "logical_bytes must be at most the page table's"),
            ({"logical_bytes": PAGE + 1}, "logical_bytes must be whole pages"),
            ({"timeout_cycles": -1}, "timeout_cycles must be 0 to"),
            ({"timeout_cycles": 1e3}, "timeout_cycles must be an integer, 0 to 4294967295, not 10"),
            ({"logical_bytes": 13.7}, r"logical_bytes must be an integer, at least 1, not 13\.7"),
            ({"logical_bytes": "1"}, "logical_bytes must be an integer, at least 1, not '1'"),
            ({"logical_bytes": -PAGE}, "logical_bytes must be at least 1, not"),
            ({"interrupts": 1}, "interrupts must be True or False, not 1"),
        ],
    )
    def test_arguments_that_cannot_be(self, machine, options, message):
        with pytest.raises(DriverError, match=message):
            BuddyDriver(machine(), **options)

    def test_lines_hold_nothing_but_metadata(self, machine, monkeypatch):
        def with_long_lines(registers):
            return replace(read_buddy_shape(registers), cache_line_bytes=128)

        monkeypatch.setattr("cdma.sim.driver.buddy.driver.read_buddy_shape", with_long_lines)
        with pytest.raises(DriverError, match="logical_bytes must be a multiple of 32768, so that"):
            BuddyDriver(machine(), logical_bytes=3 * PAGE)
        assert BuddyDriver(machine(), logical_bytes=4 * PAGE).map.logical_bytes == 4 * PAGE

    def test_metadata_of_whatever_was_there_are_zeroed(self, machine):
        made = machine()
        made.device[:] = 0xFF
        driver = BuddyDriver(made)
        address = driver.allocate(PAGE, Target.X2)
        response, data = read(driver, address)
        assert response == OKAY
        assert not data.any()


class TestOneAtATime:
    def test_a_machine_has_one_driver(self, machine):
        made = machine()
        first = BuddyDriver(made)
        with pytest.raises(DriverError, match="has a driver already; use this buddy controller's"):
            BuddyDriver(made)
        address = first.allocate(PAGE, Target.X2)
        assert write(first, address, NOISE).tolist() == [OKAY] * (PAGE // ENTRY_BYTES)
        first.close()
        assert BuddyDriver(made).allocate(PAGE, Target.X2) == 0
        with pytest.raises(DriverError, match="this buddy controller's driver is closed; make"):
            first.allocate(PAGE, Target.X2)

    def test_a_driver_that_could_not_start_makes_room_for_another(self, machine):
        made = machine()
        with pytest.raises(DriverError, match="at most the page table's") as kept:
            BuddyDriver(made, logical_bytes=17 * PAGE)
        assert BuddyDriver(made).shape.pages
        assert kept.value

    def test_a_second_thread_is_refused(self, machine):
        made = machine()
        driver = BuddyDriver(made, interrupts=True)
        inside, go_on = threading.Event(), threading.Event()
        run_until_irq = made.run_until_irq

        def stopped(budget):
            inside.set()
            assert go_on.wait(60)
            run_until_irq(budget)

        made.run_until_irq = stopped
        ended = []
        thread = threading.Thread(target=lambda: ended.append(driver.flush()))
        thread.start()
        try:
            assert inside.wait(60)
            calls = (
                driver.flush,
                driver.invalidate,
                driver.reset,
                driver.enable,
                driver.disable,
                driver.counters,
                driver.clear_counters,
                driver.first_error,
                driver.clear_error,
                driver.close,
                lambda: driver.lost,
                lambda: driver.allocate(PAGE, Target.X2),
                lambda: driver.unmap_page(0),
            )
            for call in calls:
                with pytest.raises(ConcurrentUseError, match="let one thread call it at a time"):
                    call()
        finally:
            go_on.set()
            thread.join(60)
        assert ended == [None]
        assert driver.allocate(PAGE, Target.X2) == 0


class TestPages:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((13.7, Target.X2), r"nbytes must be an integer, at least 1, not 13\.7"),
            (("64", Target.X2), "nbytes must be an integer, at least 1, not '64'"),
            ((0, Target.X2), "nbytes must be at least 1, not 0"),
            ((-PAGE, Target.X2), "nbytes must be at least 1, not -"),
            ((PAGE, "2x"), "target must be one of Target.X1, .*, not '2x'"),
            ((PAGE, 99), "target must be one of Target.X1, .*, not 99"),
            ((PAGE, Target.X2, 1), "centre must be 0, not 1: entries of XC need a controller of"),
            ((PAGE, Target.X2, 256), "centre must be 0 to 255, not 256"),
            ((PAGE, Target.X2, 126, 4), "pattern must be 0 to 3, not 4"),
            ((PAGE, Target.X2, 0, 1), "pattern must be 0 to 0, not 1"),
        ],
    )
    def test_allocations_that_cannot_be(self, driver, arguments, message):
        nbytes, target, *xc = arguments
        parameters = dict(zip(("centre", "pattern"), xc, strict=False))
        with pytest.raises(DriverError, match=message):
            driver.allocate(nbytes, target, **parameters)
        assert driver.allocate(PAGE, Target.X2) == 0

    def test_page_table_entries_that_cannot_be(self, driver):
        fields = PageFields(compressed=True, target=Target.X2)
        for arguments, message in (
            ((CONFIG.pages, fields, 0), f"page must be 0 to {CONFIG.pages - 1}, not"),
            ((1.0, fields, 0), "page must be an integer, 0 to"),
            ((0, fields, -1), r"frame must be 0 to \d+, not -1"),
            ((0, 5, 0), "fields must be PageFields, not 5"),
            (
                (0, PageFields(compressed=True, centre=126), 0),
                "centre must be 0, not 126: entries of XC need a controller of the mode",
            ),
        ):
            with pytest.raises(DriverError, match=message):
                driver.map_page(*arguments)
        with pytest.raises(DriverError, match="page must be 0 to"):
            driver.unmap_page(-1)

    @pytest.mark.parametrize("interrupts", [False, True])
    def test_memories_are_the_golden_models_after_a_flush(self, machine, interrupts):
        rng = np.random.default_rng(3)
        driver = BuddyDriver(machine(stalls=0.2, seed=4), interrupts=interrupts)
        golden = BuddyMemory(driver.map, driver.shape.codec)
        entries = mixed_entries(4000)
        for target, compressed in [*((target, True) for target in Target), (Target.X1, False)]:
            address = driver.allocate(PAGE + 1, target, compressed=compressed)
            assert golden.allocate(PAGE + 1, target, compressed=compressed) == address
            for _ in range(2):
                data = entries[rng.integers(0, len(entries), PAGE // ENTRY_BYTES)]
                assert not write(driver, address, data).any()
                golden.write(address, data)
        driver.flush()
        np.testing.assert_array_equal(driver.machine.device, golden.device)
        np.testing.assert_array_equal(driver.machine.buddy, golden.buddy)

    def test_metadata_stay_in_the_cache_until_a_flush(self, driver):
        address = driver.allocate(PAGE, Target.X4)
        base = driver.map.metadata_base
        write(driver, address, NOISE[:ENTRY_BYTES])
        assert not driver.machine.device[base:].any()
        driver.flush()
        assert driver.machine.device[base] == 7
        # What software does to them behind the cache's back, it sees after an invalidation.
        driver.machine.device[base] = 0
        assert read(driver, address)[1].any()
        driver.invalidate()
        assert not read(driver, address)[1].any()

    @pytest.mark.parametrize(
        ("nbytes", "target", "status"),
        [
            (17 * PAGE, Target.X16, MapStatus.OUT_OF_REGION),
            (9 * PAGE, Target.X1, MapStatus.OUT_OF_REGION),
            (11 * PAGE, Target.X16, MapStatus.CARVE_OUT_OVERFLOW),
        ],
    )
    def test_memory_that_is_used_up(self, machine, nbytes, target, status):
        driver = BuddyDriver(machine(device_bytes=9 * PAGE, buddy_bytes=10 * PAGE))
        golden = BuddyMemory(driver.map, driver.shape.codec)
        for memory in (driver, golden):
            with pytest.raises(BuddyError) as caught:
                memory.allocate(nbytes, target)
            assert (caught.value.status, caught.value.address) == (status, 0)
        assert driver.allocate(PAGE, Target.X2) == 0

    def test_a_reset_forgets_everything(self, driver):
        address = driver.allocate(2 * PAGE, Target.X2)
        write(driver, address + PAGE, NOISE)
        driver.reset()
        assert read(driver, address + PAGE)[0] == SLVERR
        assert driver.first_error().status == AccessStatus.OUT_OF_REGION
        assert driver.allocate(2 * PAGE, Target.X4) == address
        response, data = read(driver, address + PAGE)
        assert response == OKAY
        assert not data.any()


class TestErrors:
    def refused(self, driver, address, status, *, wrote=False):
        """The access that has failed, and that it is no longer told of afterwards."""
        assert driver.first_error() == AccessError(status, wrote, address)
        driver.clear_error()
        assert driver.first_error() is None

    def test_pages_that_are_wrong(self, driver):
        address = driver.allocate(4 * PAGE, Target.X2)
        driver.unmap_page(0)
        driver.map_page(1, PageFields(compressed=True, target=6), 0)
        far = PageFields(compressed=True, target=Target.X4, buddy_page=(1 << 20) - 1)
        driver.map_page(2, far, 0)
        driver.map_page(3, PageFields(compressed=True, target=Target.X2), (1 << 28) - 1)
        for page, status in enumerate(
            (
                AccessStatus.OUT_OF_REGION,
                AccessStatus.BAD_TARGET,
                AccessStatus.CARVE_OUT_OVERFLOW,
                AccessStatus.OUT_OF_REGION,
            )
        ):
            place = address + page * PAGE + 3 * ENTRY_BYTES
            assert read(driver, place)[0] == SLVERR
            self.refused(driver, place, status)
            assert write(driver, place, NOISE[:ENTRY_BYTES]).tolist() == [SLVERR]
            self.refused(driver, place, status, wrote=True)

    def test_bursts_that_are_not_supported(self, driver):
        address = driver.allocate(PAGE, Target.X2)
        for burst in (0, 2):
            played = driver.machine.play([Access(address, 64, burst=burst)])
            assert played.responses.tolist() == [SLVERR]
            self.refused(driver, address, AccessStatus.UNSUPPORTED_BURST)

    def test_a_controller_that_is_disabled(self, driver):
        address = driver.allocate(PAGE, Target.X2)
        driver.disable()
        assert read(driver, address)[0] == SLVERR
        self.refused(driver, address, AccessStatus.DISABLED)
        driver.enable()
        assert read(driver, address)[0] == OKAY

    @pytest.mark.parametrize(
        ("fault", "status"),
        [
            (BusFault("device", "r", "slverr", addresses=(0, 32)), AccessStatus.DEVICE_READ),
            (BusFault("buddy", "r", "decerr", addresses=(1 << 40, (1 << 40) + 32)), None),
            (BusFault("buddy", "r", "hang", nth=0), AccessStatus.TIMEOUT),
            (BusFault("device", "r", "hang", nth=0), AccessStatus.TIMEOUT),
        ],
    )
    def test_memories_that_refuse(self, machine, fault, status):
        driver = BuddyDriver(machine(), timeout_cycles=500)
        address = driver.allocate(PAGE, Target.X2)
        write(driver, address, NOISE[:ENTRY_BYTES])
        driver.machine.set_faults([fault])
        assert read(driver, address)[0] == SLVERR
        self.refused(driver, address, status or AccessStatus.BUDDY_READ)
        driver.machine.set_faults([])
        driver.machine.run(2000)
        np.testing.assert_array_equal(read(driver, address)[1], NOISE[:ENTRY_BYTES])

    def test_the_first_of_several_is_kept(self, driver):
        driver.allocate(PAGE, Target.X2)
        places = [3 * PAGE, 2 * PAGE + ENTRY_BYTES, 5 * PAGE]
        driver.machine.play([Access(place, 32) for place in places])
        self.refused(driver, places[0], AccessStatus.OUT_OF_REGION)

    def test_damage_is_told_and_not_given_out(self, driver):
        address = driver.allocate(PAGE, Target.X1)
        # A ramp compresses into 8 B; what is damaged of it is no code.
        write(driver, address, np.arange(32, dtype=np.int32).view(np.uint8))
        driver.machine.device[:32] = 0xFF
        response, data = read(driver, address)
        assert response == SLVERR
        assert not data.any()
        self.refused(driver, address, AccessStatus.CORRUPT_ENTRY)

    def test_metadata_that_are_lost(self, driver):
        address = driver.allocate(PAGE, Target.X2)
        write(driver, address, NOISE[:ENTRY_BYTES])
        base = driver.map.metadata_base
        driver.machine.set_faults([BusFault("device", "b", "slverr", addresses=(base, base + 32))])
        assert not driver.lost
        driver.flush()
        assert driver.lost
        assert read(driver, address)[0] == SLVERR
        self.refused(driver, address, AccessStatus.METADATA_LOST)
        driver.machine.set_faults([])
        driver.reset()
        assert not driver.lost
        address = driver.allocate(PAGE, Target.X2)
        write(driver, address, NOISE[:ENTRY_BYTES])
        np.testing.assert_array_equal(read(driver, address)[1], NOISE[:ENTRY_BYTES])

    def test_an_error_reads_as_a_sentence(self):
        error = AccessError(AccessStatus.BUDDY_READ, False, 0x1280)
        assert str(error) == "buddy read in a read at 0x1280"


class TestCounters:
    def test_they_count_what_moves(self, driver):
        address = driver.allocate(PAGE, Target.X2)
        write(driver, address, NOISE[: 2 * ENTRY_BYTES])
        driver.machine.play([Access(address, ENTRY_BYTES), Access(address + 200, 8)])
        counted = driver.counters()
        assert (counted["writes"], counted["reads"], counted["spilled"]) == (2, 2, 4)
        assert counted["device_sectors_written"] == counted["device_sectors_read"] == 4
        assert counted["buddy_sectors_written"] == counted["buddy_sectors_read"] == 4
        assert (counted["metadata_hits"], counted["metadata_misses"]) == (3, 1)
        driver.clear_counters()
        assert not any(driver.counters().values())
