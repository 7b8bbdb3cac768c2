"""XC's trees: what is merged is split again, whatever stands behind it, for all widths."""

import pytest
from amaranth.hdl import Cat, Signal
from amaranth.hdl._ast import AnyConst

from cdma.hw.codec.xc.classes import INDEX_BITS, WIDTH_BITS
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.lib.fields import merge_level, split_level
from tests.formal.bench import Bench
from tests.formal.smtbmc import check
from tests.lib.shares import widths


def tree_proof(lanes: int) -> Bench:
    """The trees have no state: the first cycle is all there is."""
    bench = Bench()
    m = bench.m
    sizes = [Signal(WIDTH_BITS, name=f"size_{i}") for i in range(lanes)]
    fields = [Signal(INDEX_BITS, name=f"field_{i}") for i in range(lanes)]
    behind = Signal(INDEX_BITS * lanes)
    for free in (*sizes, *fields, behind):
        m.d.comb += free.eq(AnyConst(len(free)))
    masks = [Cat(k < size for k in range(INDEX_BITS)) for size in sizes]
    for size, field, mask in zip(sizes, fields, masks, strict=True):
        bench.assume(size <= INDEX_BITS, (field & ~mask) == 0)
    sums = block_sums(m, sizes, name="sum")
    merged = list(fields)
    for level in range(len(sums) - 1):
        merged = merge_level(m, merged, sums[level], name=f"merge_{level}")
    total = sums[-1][0]
    field = Signal(INDEX_BITS * lanes)
    m.d.comb += field.eq(merged[0] | (behind << total))
    # Nothing above its end.
    bench.require((merged[0] >> total) == 0)
    pieces = [field]
    for level in reversed(range(len(sums) - 1)):
        pieces = split_level(m, pieces, sums[level], name=f"split_{level}")
    for piece, own, mask in zip(pieces, fields, masks, strict=True):
        bench.require((piece & mask) == own)
    bench.cover(total == 0, total == INDEX_BITS * lanes, total == lanes + 1)
    return bench


@pytest.mark.parametrize("lanes", widths(2, 4, 8, 16, quick=()))
def test_trees_are_inverse_of_each_other(lanes, tmp_path):
    check(tree_proof(lanes), tmp_path, depth=1, cover_depth=1, timeout_s=1500)
