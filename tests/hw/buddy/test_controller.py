"""The whole controller at random bursts, in Amaranth's simulator, against the golden model."""

import random
from functools import cache

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BuddyConfig, EntryConfig, MetadataCacheConfig
from tests.golden.buddy.entries import mixed_entries
from tests.golden.buddy.xc_entries import CENTRE, PATTERN, bf16_entries
from tests.hw.buddy.address.pages import PLAIN
from tests.hw.buddy.frontend.test_bursts import split
from tests.hw.buddy.logical_memory import Burst, LogicalMemory, beats_of
from tests.lib.rtl.axi4_bus import Behavior

CONFIG = BuddyConfig(
    # Small, so that lines of metadata are evicted.
    cache=MetadataCacheConfig(capacity_bytes=128, slices=2, ways=2, line_bytes=32, misses=2),
    entry=EntryConfig(mode="best-of-three"),
    page_bytes=8192,
    pages=16,
    reads=8,
    writes=4,
)
WIDTH = CONFIG.entry.sector_bytes
FULL_SIZE = WIDTH.bit_length() - 1
PAGES = (*Target, PLAIN)
FILLED = 24
"""Entries at the start of each page that have data before a scene."""
NARROW, FIXED, WRAP = 2, 0, 2


@cache
def controller():
    return LogicalMemory(CONFIG)


def stocked():
    """Golden memory with a page of each target, and two places in each page that bursts go to.

    One is at the start of its metadata, the other far from it, so that both take lines of their
    own.
    """
    memory = controller().golden()
    generator = np.random.default_rng(1)
    starts = []
    for target in PAGES:
        start = memory.allocate(
            CONFIG.page_bytes,
            target or Target.X1,
            compressed=target is not PLAIN,
            centre=CENTRE if target in (Target.X1_33, Target.X2) else 0,
            pattern=PATTERN if target in (Target.X1_33, Target.X2) else 0,
        )
        rows = np.concatenate([mixed_entries(FILLED), bf16_entries(FILLED, spread=0.2)])
        rows = generator.permutation(rows)[:FILLED]
        starts += [start, start + CONFIG.page_bytes - FILLED * ENTRY_BYTES]
        for place in starts[-2:]:
            memory.write(place, rows.reshape(-1))
    return memory, starts


def drawn_burst(draw, memory, start):
    """A burst within four entries, and the bytes of these that a write of it covers."""
    size = draw.choice([FULL_SIZE, FULL_SIZE, NARROW])
    first = draw.choice([0, 0, 128, draw.randrange(256)])
    most = min(512 - first, 16 << size)
    nbytes = draw.choice([most, min(most, 128), draw.randrange(1, most + 1)])
    write = draw.random() < 0.5
    if write:
        generator = np.random.default_rng(draw.getrandbits(32))
        kinds = np.concatenate([mixed_entries(11, draw.randrange(99)), bf16_entries(8, spread=0.2)])
        row = generator.permutation(kinds)[:4].reshape(-1)[first : first + nbytes]
        covered = generator.random(nbytes) < draw.choice([1.0, 1.0, 0.7])
        beats = beats_of(WIDTH, start + first, size, row, covered)
        entries = np.zeros(512, np.uint8), np.zeros(512, np.bool_)
        for whole, part in zip(entries, (row, covered), strict=True):
            whole[first : first + nbytes] = part
        rows, named = (each.reshape(4, ENTRY_BYTES) for each in entries)
        touched = np.arange(first // 128, (first + nbytes - 1) // 128 + 1)
        memory.write_entries(start + 128 * touched, rows[touched], named[touched])
    else:
        row = memory.read(start + first, nbytes)
        beats = beats_of(WIDTH, start + first, size, row, np.ones(nbytes, np.bool_))
    return Burst(write, draw.randrange(4), start + first, size, beats)


def drawn_rounds(memory, starts, rounds, seed):
    """Rounds of bursts, no two of a round about the same entries; `memory` serves them all."""
    draw = random.Random(seed)
    places = [start + 512 * k for start in starts for k in range(FILLED // 4)]
    return [
        [drawn_burst(draw, memory, start) for start in draw.sample(places, 10)]
        for _ in range(rounds)
    ]


def entries_in(bursts, *, write):
    """Number of accesses to entries in these bursts."""
    fields = ("id", "address", "size", "burst")
    given = [
        {name: getattr(burst, name) for name in fields} | {"beats": len(burst.beats) - 1}
        for burst in bursts
        if burst.write == write
    ]
    return sum(len(split(burst)) for burst in given)


def played(rounds, memory, starts, **options):
    """Play rounds on what memory was before; the memories as they are then, and the ends."""
    before, _ = stocked()
    device, buddy = before.device.copy(), before.buddy.copy()
    pages = [start // CONFIG.page_bytes for start in starts[::2]]
    ends = controller().play(memory, pages, rounds, device=device, buddy=buddy, **options)
    return device, buddy, ends


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_bursts_leave_and_read_what_the_golden_model_has(stall):
    memory, starts = stocked()
    before = vars(memory.traffic).copy()
    rounds = drawn_rounds(memory, starts, 10, seed=3)
    device, buddy, ends = played(rounds, memory, starts, stall=stall)
    np.testing.assert_array_equal(device, memory.device)
    np.testing.assert_array_equal(buddy, memory.buddy)
    moved = {name: count - before[name] for name, count in vars(memory.traffic).items()}
    counted = ends.counters
    bursts = [burst for each in rounds for burst in each]
    assert counted["reads"] == entries_in(bursts, write=False)
    assert counted["writes"] == entries_in(bursts, write=True)
    assert 0 < counted["partial_writes"] < counted["writes"]
    assert counted["device_sectors_written"] == moved["device_written"]
    assert counted["buddy_sectors_written"] == moved["buddy_written"]
    assert counted["buddy_sectors_read"] == moved["buddy_read"]
    assert (
        counted["device_sectors_read"] == moved["device_read"] + counted["overfetched_sectors"] > 0
    )
    for name in ("cycles_busy", "spilled", "metadata_hits", "metadata_misses"):
        assert counted[name] > 0
    assert counted["metadata_evictions"] > 0
    assert counted["metadata_corrected"] == counted["metadata_uncorrectable"] == 0
    assert (ends.error["status"], ends.irq, ends.lost) == (0, 0, 0)


def test_accesses_of_one_entry_are_in_order():
    """A write, a read and writes of parts of the same entry, all of one ID, under way at once."""
    memory, starts = stocked()
    start = starts[2 * PAGES.index(Target.X2)]
    rounds = []
    for k in range(6):
        data = np.full(128, 16 * k + 1, np.uint8)
        data[k::7] = 99
        whole = np.ones(128, np.bool_)
        bursts = []
        for covered in (whole, np.arange(128) % 3 == k % 3, np.arange(128) >= 64):
            beats = beats_of(WIDTH, start, FULL_SIZE, data, covered)
            bursts.append(Burst(True, 1, start, FULL_SIZE, beats))
            memory.write_entries(np.array([start]), data[None], covered[None])
            data = data + 1
        rounds.append(bursts)
        row = memory.read(start, 128)
        beats = beats_of(WIDTH, start, FULL_SIZE, row, whole)
        rounds.append([Burst(False, 1, start, FULL_SIZE, beats)] * 2)
    device, buddy, ends = played(rounds, memory, starts)
    np.testing.assert_array_equal(device, memory.device)
    np.testing.assert_array_equal(buddy, memory.buddy)
    assert ends.counters["stall_hazard"] > 0


def refused(write, address, burst=1):
    """A burst of an entry that is answered with an error."""
    beats = [(0, 2**WIDTH - 1)] * (ENTRY_BYTES // WIDTH)
    return Burst(write, 2, address, FULL_SIZE, beats, AxiResponse.SLVERR, burst)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(
    ("status", "options"),
    [
        (AccessStatus.OUT_OF_REGION, {}),
        (AccessStatus.UNSUPPORTED_BURST, {"burst": FIXED}),
        (AccessStatus.UNSUPPORTED_BURST, {"burst": WRAP}),
        (AccessStatus.DISABLED, {"enable": 0}),
    ],
)
def test_what_is_refused_is_answered_and_changes_nothing(write, status, options):
    memory, starts = stocked()
    outside = status == AccessStatus.OUT_OF_REGION
    address = len(PAGES) * CONFIG.page_bytes if outside else starts[0]
    bursts = [refused(write, address, options.get("burst", 1))]
    device, buddy, ends = played([bursts], memory, starts, enable=options.get("enable", 1), seed=2)
    np.testing.assert_array_equal(device, memory.device)
    np.testing.assert_array_equal(buddy, memory.buddy)
    assert ends.error == {"write": int(write), "status": status.value, "address": address}
    assert ends.irq == 1


def spilling(memory, starts, write):
    """A burst of an entry of which all is in use, in both memories, in a page of target 2x."""
    start = starts[2 * PAGES.index(Target.X2)]
    row = np.random.default_rng(7).integers(0, 256, 128).astype(np.uint8)
    beats = beats_of(WIDTH, start, FULL_SIZE, row, np.ones(128, np.bool_))
    return Burst(write, 2, start, FULL_SIZE, beats)


def test_entry_that_buddy_memory_refuses_is_poisoned_and_can_be_written_again():
    memory, starts = stocked()
    good = [spilling(memory, starts, write) for write in (True, False)]
    bad = [refused(write, good[0].address) for write in (True, False)]
    bad[0].beats = good[0].beats
    rounds = [[bad[0]], [bad[1]], [good[0]], [good[1]]]
    refuses = Behavior(write_errors={0: BusError.SLVERR})
    _, _, ends = played(rounds, memory, starts, at_buddy=refuses)
    assert ends.error == {
        "write": 1,
        "status": AccessStatus.BUDDY_WRITE.value,
        "address": good[0].address,
    }
    assert ends.lost == 0


@pytest.mark.parametrize(
    ("status", "behavior"),
    [
        (AccessStatus.BUDDY_READ, {"at_buddy": Behavior(read_errors={0: BusError.SLVERR})}),
        (AccessStatus.TIMEOUT, {"at_buddy": Behavior(hangs={"r": 0}, lift=900)}),
        (AccessStatus.METADATA_READ, {"at_device": Behavior(read_errors={0: BusError.DECERR})}),
    ],
)
def test_reads_that_a_memory_refuses(status, behavior):
    memory, starts = stocked()
    row = np.random.default_rng(7).integers(0, 256, 128).astype(np.uint8)
    start = starts[2 * PAGES.index(Target.X2)]
    memory.write(start, row)
    device, buddy = memory.device.copy(), memory.buddy.copy()
    beats = beats_of(WIDTH, start, FULL_SIZE, row, np.ones(128, np.bool_))
    rounds = [[refused(False, start)], [Burst(False, 1, start, FULL_SIZE, beats)]]
    if status == AccessStatus.TIMEOUT:
        # A port that has been silent refuses what follows until what it owes has come.
        rounds = rounds[:1]
    pages = [each // CONFIG.page_bytes for each in starts[::2]]
    ends = controller().play(
        memory, pages, rounds, device=device, buddy=buddy, timeout=200, **behavior
    )
    assert ends.error == {"write": 0, "status": status.value, "address": start}


def test_metadata_that_cannot_be_written_back_are_told():
    memory, starts = stocked()
    burst = spilling(memory, starts, True)
    # Two runs of sectors' bursts come before the line of metadata, which the flush writes.
    refuses = Behavior(write_errors={1: BusError.SLVERR})
    _, _, ends = played([[burst]], memory, starts, at_device=refuses)
    assert (ends.lost, ends.irq) == (1, 1)
