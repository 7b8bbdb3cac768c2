"""The metadata cache: each lookup of an entry gives what was last written to it."""

from dataclasses import replace

import pytest

from cdma.hw.buddy.metadata.tags import MetadataTags, TagArray
from cdma.hw.config import METADATA_CACHES
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.cached_entry import CachedEntry
from tests.formal.buddy.metadata_parts import narrow_rows, open_slices
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs

TINY = replace(METADATA_CACHES["tiny"], capacity_bytes=64, lookups=4, misses=1)
USE_CYCLES = 50

SLICES = {
    "one set": TINY,
    "two sets": replace(TINY, capacity_bytes=128),
    "four ways": replace(TINY, ways=4, capacity_bytes=128),
    "two misses": replace(TINY, misses=2),
    "tiny": METADATA_CACHES["tiny"],
}
LINE_BITS = 4
"""A bit of them is a set's, if there are two."""


def slice_proof(config) -> Bench:
    entry = CachedEntry(config)
    entry.require_invariants()
    return entry.bench


def uses(config) -> Bench:
    """The contract alone, while the slice is used in some ways that matter."""
    entry = CachedEntry(config)
    entry.reach_uses()
    return entry.bench


@pytest.fixture(autouse=True)
def _slices_are_open(monkeypatch):
    open_slices(monkeypatch)


@pytest.fixture
def _narrow(monkeypatch):
    narrow_rows(monkeypatch, line_bits=LINE_BITS)


@pytest.mark.verify
@pytest.mark.usefixtures("_narrow")
@pytest.mark.parametrize("config", configs(SLICES, quick=()))
def test_lookups_of_an_entry_give_what_was_written_last(config, tmp_path):
    # There is nothing to cover: what lookups have found is covered below, of the same proof.
    prove(slice_proof(config), tmp_path, depth=1, cover_depth=1, timeout_s=800)


@pytest.mark.verify
def test_entries_of_whole_rows_are_what_was_written_last(tmp_path):
    prove(slice_proof(TINY), tmp_path, depth=1, cover_depth=1, timeout_s=800)


@pytest.mark.verify
@pytest.mark.usefixtures("_narrow")
def test_the_contract_is_about_updates_evictions_and_flushes(tmp_path):
    check(uses(TINY), tmp_path, depth=1, cover_depth=USE_CYCLES)


FAULTS = {
    "misses do not make a line dirty": (
        MetadataTags,
        "lookup.write | (access.hit & word.dirty)",
        "access.hit & (lookup.write | word.dirty)",
    ),
    "takes the wrong way": (MetadataTags, "task.way.eq(way)", "task.way.eq(plru.victim)"),
    "fetches what is not written yet": (MetadataTags, " & ~self.conflict", ""),
    "fills a line again, over its update": (
        TagArray,
        "same_set & self.write[way]",
        "same_set & self.write[way] & ~valid",
    ),
}


@pytest.mark.verify
@pytest.mark.usefixtures("_narrow")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_slice_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, *FAULTS[fault])
    find_fault(uses(TINY), tmp_path, depth=32)
