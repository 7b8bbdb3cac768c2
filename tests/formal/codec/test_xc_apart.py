"""Parts of a line of XC share no bit, and fields end where the next one begins.

The proofs of places say where the compressor puts each sector's part of each field, and that the
decompressor looks for it there. Here is what follows from the places alone, by the same formulas:
of any counts of a line and of two of its sectors, no two parts overlap, all of them are within the
line, and behind a field's last part there is nothing but its padding. So the bits that are ORed to
a line are those of one part each, and what is picked from a place is what was put there.
"""

from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace

import pytest
from amaranth.hdl import Mux, Signal

from cdma.hw.codec.xc.payloads import LineShape
from tests.formal.bench import Bench
from tests.formal.broken import break_function, find_fault
from tests.formal.codec import xc_lines, xc_places
from tests.formal.codec.xc_lines import (
    LINE_BYTES,
    MOST_BEHIND,
    SHAPES,
    any_number,
    padded,
    shape_of,
)
from tests.formal.codec.xc_places import number
from tests.formal.smtbmc import check
from tests.lib.shares import names


@dataclass(frozen=True)
class Counts:
    """Numbers of elements, bits of extras, and escapes."""

    kept: Signal
    bits: Signal
    escapes: Signal

    @classmethod
    def any(cls, bench, shape, name):
        """Counts that the solver picks: an index has four bits at most, an escape's has them."""
        counts = cls(
            any_number(bench, range(shape.elements + 1), f"{name}_kept"),
            any_number(bench, range(shape.bits + 1), f"{name}_bits"),
            any_number(bench, range(shape.elements + 1), f"{name}_escapes"),
        )
        bench.assume(
            counts.kept <= shape.elements,
            counts.bits <= 4 * counts.kept,
            4 * counts.escapes <= counts.bits,
        )
        return counts

    def with_those(self, bench, shape, other, name):
        """The sums of these and others, which are of a line as well."""
        m = bench.m
        return Counts(
            number(len(self.kept) + 1, self.kept + other.kept, f"{name}_kept", m),
            number(len(self.bits) + 1, self.bits + other.bits, f"{name}_bits", m),
            number(len(self.escapes) + 1, self.escapes + other.escapes, f"{name}_escapes", m),
        )

    def are_within(self, other):
        return (
            (self.kept <= other.kept) & (self.bits <= other.bits) & (self.escapes <= other.escapes)
        )

    def are(self, other):
        return (
            (self.kept == other.kept) & (self.bits == other.bits) & (self.escapes == other.escapes)
        )


class Parts:
    """The first bit of each field's part of a sector, and that behind it."""

    def __init__(self, bench, shape, line, position, before, own, behind):
        form, lanes = shape.format, shape.lanes
        m = bench.m
        scope = SimpleNamespace(position=position, **vars(before))
        places = xc_places.Places(
            bench,
            shape,
            scope,
            raw=line.raw,
            rest_at=line.layout.rest_at,
            rest_width=line.rest_width,
            extras_at=line.layout.extras_at,
            escapes_at=line.escapes_at,
        )
        classes = 2 * (Mux(line.sparse, 4 * shape.mask_bytes, 0) + before.kept)
        rest = Mux(line.raw, lanes * shape.rest.width, own.kept * line.rest_width)
        escapes = Mux(line.raw, lanes * form.exponent_bits, own.escapes * form.exponent_bits)
        self.of = {
            "mask": (position * lanes, Mux(line.sparse, lanes, 0)),
            "classes": (classes, Mux(line.raw, 0, 2 * own.kept)),
            "rest": (places.rest, rest),
            "extras": (places.extras, Mux(line.raw, 0, own.bits)),
            "escapes": (places.escapes, escapes),
        }
        self.before, self.behind, self.position = before, behind, position
        self.begin = {k: number(16, first, f"{k}_begins", m) for k, (first, _) in self.of.items()}
        self.size = {k: number(16, bits, f"{k}_takes", m) for k, (_, bits) in self.of.items()}
        self.end = {k: number(16, self.begin[k] + self.size[k], f"{k}_ends", m) for k in self.of}


def parts_proof(shape_name):
    """Any line of any counts; an earlier sector of it and a later one."""
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    bench = Bench()
    m = bench.m
    total = Counts.any(bench, shape, "line")
    dropped = any_number(bench, range(form.mantissa_bits + 1), "dropped") if form.trims else 0
    if form.trims:
        bench.assume(dropped <= form.mantissa_bits)
    extra_bytes = number(16, padded(total.bits), "extra_bytes", m)
    escape_bytes = number(16, padded(form.exponent_bits * total.escapes), "escape_bytes", m)
    behind = number(16, extra_bytes + escape_bytes, "behind", m)
    layout = xc_lines.layout_of(m, form, total.kept, dropped, behind, name="line")
    fits = number(
        1, (behind <= MOST_BEHIND) & (layout.size + form.header_bytes <= LINE_BYTES), "fits", m
    )
    line = SimpleNamespace(
        layout=layout,
        raw=number(1, ~fits, "raw", m),
        sparse=number(1, fits & (total.kept != form.line_elements), "sparse", m),
        rest_width=number(8, form.mantissa_bits + 1 - dropped, "rest_width", m),
        escapes_at=number(16, layout.extras_at + extra_bytes, "escapes_at", m),
    )
    bench.assume(total.kept != 0)

    # An earlier sector's own counts and those before it, and of a later one, too.
    sectors = []
    last = None
    for name in ("early", "late")[: config.sectors]:
        before, own = (Counts.any(bench, shape, f"{name}_{part}") for part in ("before", "own"))
        after = before.with_those(bench, shape, own, f"{name}_after")
        position = any_number(bench, range(config.sectors), f"{name}_position")
        bench.assume(
            own.kept <= shape.lanes,
            before.kept <= shape.lanes * position,
            after.are_within(total),
            (position != config.sectors - 1) | after.are(total),
            position < config.sectors,
        )
        if last is not None:
            bench.assume(last.behind.are_within(before), last.position < position)
        last = Parts(bench, shape, line, position, before, own, after)
        sectors.append(last)

    def are_apart(one, first, other, second):
        return (
            (one.size[first] == 0)
            | (other.size[second] == 0)
            | (one.end[first] <= other.begin[second])
            | (other.end[second] <= one.begin[first])
        )

    fields = list(sectors[0].of)
    for parts in sectors:
        bench.require(*(are_apart(parts, a, parts, b) for a, b in combinations(fields, 2)))
        bench.require(
            *(
                (parts.size[k] == 0) | (parts.end[k] <= 8 * Mux(line.raw, LINE_BYTES, layout.size))
                for k in fields
            )
        )
        # Behind all of a field there is its padding, and then the next one.
        is_all = parts.behind.are(total) & fits
        nexts = {
            "classes": layout.rest_at,
            "rest": layout.extras_at,
            "extras": line.escapes_at,
            "escapes": layout.size,
        }
        for field, place in nexts.items():
            gap = number(16, 8 * place - parts.end[field], f"gap_{field}", m)
            bench.implies(is_all, gap < 8)
    if len(sectors) == 2:
        early, late = sectors
        bench.require(*(are_apart(early, a, late, b) for a in fields for b in fields))
        # Of sectors between which nothing is, parts of a field follow one another without a gap.
        for field in nexts:
            bench.implies(
                fits & late.before.are(early.behind),
                late.begin[field] == early.end[field],
            )
        bench.cover(line.raw & (early.size["rest"] != 0))
        bench.cover(fits & (early.size["escapes"] != 0) & (late.size["escapes"] != 0))
    bench.cover(line.sparse & (sectors[0].size["extras"] != 0), line.raw)
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("shape", names(SHAPES, quick=()))
def test_parts_of_a_line_share_no_bit(shape, tmp_path):
    check(parts_proof(shape), tmp_path, depth=1, cover_depth=1, timeout_s=1200)


FAULTS = {
    "rests are not padded": (
        xc_lines,
        "layout_of",
        "padded(layout.rest_bits)",
        "(layout.rest_bits >> 3)",
    ),
    "no room for classes": (xc_lines, "layout_of", "padded(2 * kept)", "padded(kept)"),
    "rests by sectors": (xc_places, "Places", "ghosts.kept * rest_width", "ghosts.position * 8"),
    "extras by elements": (xc_places, "Places", "+ ghosts.bits", "+ ghosts.kept"),
    "escapes begin with the extras": (xc_places, "Places", "8 * escapes_at", "8 * extras_at"),
    "raw escapes among rests": (xc_places, "Places", "raw_at + field", "raw_at"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_formulas_by_which_parts_meet_are_found(fault, tmp_path, monkeypatch):
    break_function(monkeypatch, *FAULTS[fault])
    find_fault(parts_proof("fp16-S64"), tmp_path, depth=1)
