"""Writes encoded: what is merged, what is compressed or goes beside the compressor, and order."""

import random
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, EntryCodec
from cdma.hw.buddy.payloads import AccessStatus, WriteKind
from cdma.hw.buddy.write.encoder import WriteEncoder
from cdma.hw.config import BUDDY_PRESETS, EntryConfig
from tests.golden.buddy.entries import mixed_entries
from tests.golden.buddy.xc_entries import bf16_entries, xc
from tests.hw.codec.entry.cases import number, sectors_of
from tests.lib.rtl.bench import STALLS, Bench, stalls

TINY = BUDDY_PRESETS["tiny"]
CONFIGS = {
    "32": TINY,
    "64-bpc": replace(TINY, entry=EntryConfig(sector_bytes=64, mode="bpc")),
    # Entries wait for as long as the compressor takes: fewer than that would slow it down.
    "128-best-of-three": replace(
        TINY, entry=EntryConfig(sector_bytes=128, mode="best-of-three"), writes=16
    ),
}
ALL = (1 << ENTRY_BYTES) - 1
FULL, PARTIAL = WriteKind.FULL, WriteKind.PARTIAL
UNCOMPRESSED, FAILED = WriteKind.UNCOMPRESSED, WriteKind.FAILED


@cache
def shared_bench(name):
    return Bench(WriteEncoder(CONFIGS[name]))


def some_writes(count, seed, *, kinds=tuple(WriteKind), errors=0.3):
    """Writes with all that comes beside them: new bytes, those in memory, a page's parameters."""
    draw = random.Random(seed)
    generator = np.random.default_rng(seed)
    half = -(-count // 2)
    entries = np.concatenate([mixed_entries(half, seed), bf16_entries(half, seed)])
    entries = generator.permutation(entries)
    writes = []
    for k in range(count):
        kind = draw.choice(kinds)
        first = draw.randrange(ENTRY_BYTES)
        end = draw.randrange(first, ENTRY_BYTES + 1)
        covered = np.zeros(ENTRY_BYTES, bool)
        covered[first:end] = True
        if draw.random() < 0.2:
            covered ^= True
        status = AccessStatus.OK
        if kind == PARTIAL and draw.random() < errors:
            status = draw.choice([AccessStatus.CORRUPT_ENTRY, AccessStatus.DEVICE_READ])
        new = generator.permutation(entries[k]) if draw.random() < 0.3 else entries[k]
        writes.append(
            {
                "kind": kind,
                "covered": covered,
                # Bytes that are not written are zero in what the collector hands on.
                "data": new * covered if kind != FULL else new,
                "before": entries[draw.randrange(count)],
                "fetch": status,
                "page": draw.choice([0, xc()]),
                "write": {
                    "id": draw.randrange(16),
                    "last": draw.randrange(2),
                    "address": draw.getrandbits(33) << 7,
                    "status": AccessStatus.TIMEOUT.value if kind == FAILED else 0,
                },
            }
        )
    return writes


def written(config, write):
    """The payload for the encoder, of one of `some_writes`."""
    mapping = dict.fromkeys(("status", "compressed", "target", "device_address"), 0)
    mapping |= dict.fromkeys(("buddy_address", "metadata_address", "metadata_upper"), 1)
    if config.entry.has_parameters:
        page = write["page"]
        mapping["parameters"] = {"centre": page & 0xFF, "pattern": page >> 8}
    return {**write["write"], "kind": write["kind"].value, "mapping": mapping}


def strobe_of(write):
    if write["kind"] == FULL:
        return ALL
    return sum(1 << int(j) for j in np.flatnonzero(write["covered"]))


def encoded(config, write):
    """The right payload that comes out: the golden codec's code, or the data as they came."""
    payload, kind = written(config, write), write["kind"]
    if kind == PARTIAL and write["fetch"] != AccessStatus.OK:
        payload["kind"], payload["status"] = FAILED.value, write["fetch"].value
        kind = FAILED
    if kind in (UNCOMPRESSED, FAILED):
        data, metadata, strobe = write["data"], AS_IT_IS, strobe_of(write)
    else:
        entry = write["data"]
        if kind == PARTIAL:
            entry = np.where(write["covered"], write["data"], write["before"]).astype(np.uint8)
        codec = EntryCodec(config.entry.mode, config.entry.element_bytes)
        many, kept = codec.encode(entry, write["page"])
        data, metadata, strobe = kept[0], int(many[0]), ALL
    return {
        "write": payload,
        "metadata": metadata,
        "data": number(data),
        "strobe": strobe,
    }


def encode(name, writes, *, stall=(0.0, 0.0), seed=1):
    """Check what comes out, and give the cycles of what goes in and of what comes out."""
    bench, config = shared_bench(name), CONFIGS[name]
    encoder = bench.component
    fetched = []
    for write in writes:
        if write["kind"] == PARTIAL:
            before = write["before"] * np.uint8(write["fetch"] == AccessStatus.OK)
            sectors = sectors_of(config.entry, before)
            fetched += [{**sector, "status": write["fetch"].value} for sector in sectors]
    accesses = {"id": 0, "address": 0, "size": 0, "beats": 0, "last": 0, "unsupported": 0}
    data = [
        {"access": accesses, "data": number(write["data"]), "strobe": strobe_of(write)}
        for write in writes
    ]
    writes_in = [written(config, write) for write in writes]
    given = bench.source(encoder.i, writes_in, willing=stalls(stall[0], seed))
    bench.source(encoder.data, data, willing=stalls(stall[0], seed + 1))
    bench.source(encoder.fetched, fetched, willing=stalls(stall[0], seed + 2))
    out = bench.sink(encoder.o, len(writes), willing=stalls(stall[1], seed + 3))
    bench.run()
    out.assert_received([encoded(config, write) for write in writes])
    return given.cycles, out.cycles


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_stored_is_the_golden_code_of_what_was_merged_in_order(name, stall):
    encode(name, some_writes(120, seed=1), stall=stall)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", WriteKind)
def test_writes_of_one_kind(name, kind):
    encode(name, some_writes(24, seed=2, kinds=(kind,)))


@pytest.mark.parametrize("name", CONFIGS)
def test_failed_fetches_alone(name):
    encode(name, some_writes(12, seed=3, kinds=(PARTIAL,), errors=1.0))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kinds", [(FULL,), (PARTIAL,), (UNCOMPRESSED,)])
def test_sector_per_cycle(name, kinds):
    given, out = encode(name, some_writes(40, seed=4, kinds=kinds, errors=0.0))
    sectors = 1 if kinds == (UNCOMPRESSED,) else CONFIGS[name].entry.sectors
    for cycles in (given, out):
        assert {later - sooner for sooner, later in pairwise(cycles)} == {sectors}


@pytest.mark.parametrize("name", CONFIGS)
def test_nothing_is_taken_while_nothing_leaves(name):
    """As many writes wait as their queue has room for, and none is lost."""
    given, out = encode(name, some_writes(30, seed=5), stall=(0.0, 0.95))
    for taken, cycle in enumerate(given):
        gone = sum(left <= cycle for left in out)
        assert taken - gone <= CONFIGS[name].writes
