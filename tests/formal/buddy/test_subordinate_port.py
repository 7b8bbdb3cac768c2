"""The buddy controller's port towards the GPU keeps AXI's rules."""

import pytest
from amaranth.hdl import Cat
from amaranth.hdl._ast import AnySeq

from cdma.hw.buddy.frontend.subordinate_port import SubordinatePort
from cdma.hw.config import BuddyConfig, EntryConfig
from tests.formal.bench import Bench, channel
from tests.formal.broken import break_elaborate
from tests.formal.sby import ProofError, check, prove

BUFFERS = ("ar", "aw", "w", "r", "b")
ADDRESS = ("id", "addr", "len", "size", "burst")


def port_proof(width: int) -> Bench:
    """The pins carry what the streams carry, both ways, and no earlier than allowed."""
    bench = Bench()
    port = SubordinatePort(BuddyConfig(entry=EntryConfig(sector_bytes=width)))
    inside = bench.add(port)
    axi = port.s_axi
    for name, target in (("ar", port.read), ("aw", port.write)):
        taken = bench.drive_record(*channel(axi, name, *ADDRESS))
        given = bench.watch(target)
        bench.cover(taken.moves & given.waiting)
        for pin in ("lock", "cache", "prot", "qos"):
            wire = getattr(axi, name + pin)
            bench.m.d.comb += wire.eq(AnySeq(len(wire)))
    bench.drive_record(*channel(axi, "w", "data", "strb", "last"))
    bench.watch(port.write_beats)
    bench.drive(port.read_beats)
    bench.drive(port.response)
    beats = bench.watch_record(*channel(axi, "r", "id", "data", "resp", "last"))
    responses = bench.watch_record(*channel(axi, "b", "id", "resp"))
    # Nothing at a pin follows from another in the same cycle: READY from the buffers alone.
    for name in ("ar", "aw", "w"):
        bench.require(getattr(axi, f"{name}ready") == ~inside[f"{name}.spare_valid"])
    for name in BUFFERS:
        bench.implies(inside[f"{name}.spare_valid"], inside[f"{name}.front_valid"])
    bench.cover(Cat(beats.moves, responses.moves).all())
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("width", [32, 128])
def test_pins_keep_the_rules_of_axi(width, tmp_path):
    prove(port_proof(width), tmp_path, depth=2)


@pytest.mark.verify
def test_port_that_is_valid_in_reset_is_found(tmp_path, monkeypatch):
    break_elaborate(
        monkeypatch,
        SubordinatePort,
        "axi.bvalid.eq(b.o.valid & ~ResetSignal())",
        "axi.bvalid.eq(b.o.valid)",
    )
    with pytest.raises(ProofError, match=r"(?s)FAIL.*Assert failed in top"):
        check(port_proof(32), tmp_path, depth=4, planted=True)
