"""Symbols of a line of the lossy lane share no bit, nor do they with the line's map.

The proofs of places say where the placer puts the symbols of each sector, and that the reader looks
for them there. Here is what follows from the places alone, by the same formula (`Ghost.place_in`):
of any two sectors of any line, the symbols of one end where those of the next begin. So the bits
that are ORed to a line are those of one sector each.
"""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Mux

from cdma.hw.codec.quantize.forms import RAW
from cdma.hw.codec.quantize.payloads import ELEMENT_BITS, MAP_BITS, lanes_of
from tests.formal.bench import Bench
from tests.formal.broken import break_function, find_fault
from tests.formal.codec import test_quantize_places as quantize_places
from tests.formal.codec.test_quantize_places import config_of, form_of
from tests.formal.codec.xc_lines import any_number
from tests.formal.codec.xc_places import number
from tests.formal.smtbmc import check
from tests.lib.shares import widths


def parts_proof(sector_bytes):
    """Any line, an earlier sector of it and a later one, with any symbols."""
    config = config_of(sector_bytes)
    lanes, sector_bits = lanes_of(config), ELEMENT_BITS * lanes_of(config)
    bench = Bench()
    m = bench.m
    header = any_number(bench, 8, "header")
    raw, mapped, width = form_of(header)
    bench.assume((header[6:8] != RAW) | (header == quantize_places.RAW_HEADER))
    sectors = []
    for name in ("early", "late")[: config.sectors]:
        position = any_number(bench, range(config.sectors), f"{name}_position")
        before = any_number(bench, range(MAP_BITS + 1), f"{name}_before")
        own = any_number(bench, range(lanes + 1), f"{name}_own")
        bench.assume(
            position < config.sectors,
            before <= position * lanes,
            own <= lanes,
            # Without a map each sector has all of its symbols.
            mapped | ((own == lanes) & (before == position * lanes)),
        )
        scope = SimpleNamespace(position=position, before=before, sector_bits=sector_bits)
        begin = number(16, quantize_places.Ghost.place_in(scope, header), f"{name}_begin", m)
        size = Mux(raw, sector_bits, own * width)
        end = number(16, begin + size, f"{name}_end", m)
        # The map's bits of all sectors are before the symbols of any.
        bench.implies(mapped & ~raw, (position + 1) * lanes <= begin)
        sectors.append((position, before + own, begin, end, before))
    # A longer line would be kept raw.
    bench.assume(sectors[-1][3] <= 8 * config.line_bytes)
    if config.sectors > 1:
        (first, until, _, end, _), (second, _, begin, _, before) = sectors
        bench.assume(first < second, until <= before)
        bench.require(end <= begin)
        follows = Mux(raw, second == first + 1, before == until)
        bench.implies(follows, begin == end)
        bench.cover(raw, mapped & ~raw & (width == 3) & (first == 0) & follows)
    bench.cover(mapped & (sectors[0][1] != 0))
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("sector_bytes", widths(32, 64, 128, quick=[]))
def test_symbols_share_no_bit(sector_bytes, tmp_path):
    check(parts_proof(sector_bytes), tmp_path, depth=1, cover_depth=1)


FAULTS = {
    "no room for the map": ("Mux(mapped, MAP_BITS, 0)", "0"),
    "places by sectors": ("self.before * width", "self.position * width"),
    "raw sectors overlap": ("self.position * self.sector_bits", "self.position"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_formula_by_which_symbols_meet_is_found(fault, tmp_path, monkeypatch):
    break_function(monkeypatch, quantize_places, "Ghost", *FAULTS[fault])
    find_fault(parts_proof(32), tmp_path, depth=1)
