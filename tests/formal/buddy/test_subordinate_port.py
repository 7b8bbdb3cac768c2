"""The buddy controller's port towards the GPU keeps AXI's rules."""

import pytest
from amaranth.hdl import Cat
from amaranth.hdl._ast import AnySeq

from cdma.hw.buddy.frontend.subordinate_port import SubordinatePort
from cdma.hw.config import BUDDY_PRESETS, SECTOR_BYTES, BuddyConfig, EntryConfig
from tests.formal.bench import Bench, channel
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

BUFFERS = ("ar", "aw", "w", "r", "b")
ADDRESS = ("id", "addr", "len", "size", "burst")


def config_of(width: int, id_bits: int) -> BuddyConfig:
    return BuddyConfig(entry=EntryConfig(sector_bytes=width), id_bits=id_bits)


CONFIGS = {
    **BUDDY_PRESETS,
    **{
        f"{width}-ID{id_bits}": config_of(width, id_bits)
        for width in SECTOR_BYTES
        for id_bits in (1, 2, 4, 8, 16)
    },
}
"""The presets, and all widths of a beat with a few of IDs."""
SMALL = config_of(32, 4)


def port_proof(config: BuddyConfig) -> Bench:
    """The pins carry what the streams carry, both ways, and no earlier than allowed."""
    bench = Bench()
    port = SubordinatePort(config)
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


@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_pins_keep_the_rules_of_axi(config, tmp_path):
    prove(port_proof(config), tmp_path, depth=2)


FAULTS = {
    "answers in reset": ("axi.bvalid.eq(b.o.valid & ~ResetSignal())", "axi.bvalid.eq(b.o.valid)"),
    "gives beats in reset": (
        *("axi.rvalid.eq(r.o.valid & ~ResetSignal())", "axi.rvalid.eq(r.o.valid)"),
    ),
    "takes what is not offered": ("axi.wready.eq(w.i.ready)", "axi.wready.eq(axi.wvalid)"),
    "changes a beat that waits": ("r.o.ready.eq(axi.rready)", "r.o.ready.eq(1)"),
    "answers under another ID": ("axi.bid.eq(b.o.payload.id)", "axi.bid.eq(axi.awid)"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_port_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, SubordinatePort, *fault)
    find_fault(port_proof(SMALL), tmp_path, depth=6)
