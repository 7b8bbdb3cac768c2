"""The blocks with AXI4-Stream ports: the rules of the ports, and short transfers there and back."""

from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import data, wiring

from cdma.hw.codec.stream.checker import StreamChecker
from cdma.hw.codec.stream.pack import ElementPacker, Packer
from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.ports import RecordSender
from tests.formal.bench import Bench, CutOut
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.lines import NARROW, SHIPPED, TINY, sector_item
from tests.formal.order import Order, one
from tests.formal.rules import SectorRules, axis_rules, beat_sizes
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs

COMMAND = {ZvcCompressorAxis: ["length"], ZvcDecompressorAxis: ["length", "crc32", "check_crc"]}
STATUS = ["status", "offset", "out_size", "crc32"]
CODEC = {ZvcCompressorAxis: ["_compressor"], ZvcDecompressorAxis: ["_unpacker", "_decompressor"]}
"""What may do anything in proofs of the ports."""
SHAPES = {
    **NARROW,
    **{name: SHIPPED[name] for name in ("E4-S32", "E2-S32", "E1-S32")},
    **{name: SHIPPED[name] for name in ("E4-S64", "E4-S128", "E1-S128")},
}
SOURCES = {ZvcCompressorAxis: ["packer", "meter"], ZvcDecompressorAxis: ["checker"]}
"""What beats pass behind it."""


@pytest.fixture
def any_checksums(monkeypatch):
    """Nothing at a port but a value depends on a checksum, and its parities take solvers long."""
    monkeypatch.setattr(
        "cdma.hw.lib.codes.crc.shared_parities",
        lambda m, matrices, vector, name: [AnySeq(32) for _ in matrices],
    )


def port_proof(top: type, config: CodecConfig, *, whole: bool) -> Bench:
    """Any input at all, also torn packets. Unless `whole`, the codec itself may do anything.

    All beats pass the components behind the codec, which give whole ones but for a packet's last,
    whatever comes in. So nothing is trusted.
    """
    bench = Bench()
    block = top(config)
    if not whole:
        for name in CODEC[top]:
            setattr(block, name, CutOut(getattr(block, name)))
    inside = bench.add(block, ignored=not whole)
    bench.drive_record(block.s_cmd, COMMAND[top])
    bench.drive_axis(block.s_axis)
    axis = bench.watch_axis(block.m_axis, axis_rules)
    bench.watch_record(block.m_sts, STATUS)
    if not whole:
        for path in SOURCES[top]:
            beat = inside.component(path).o
            for premise, conclusion in beat_sizes(config.sector_bytes)(bench, beat):
                bench.implies(beat.valid & premise, conclusion)
        if top is ZvcDecompressorAxis:
            space_left = inside["checker.checked_space_left"]
            bench.implies(
                inside["checker.checked.o_valid"],
                space_left <= config.sector_bytes,
                inside["checker.checked_final"] | (space_left == config.sector_bytes),
                inside["checker.checked_is_wrong"] == inside["checker.checked_wrong"].any(),
            )
        if top is ZvcCompressorAxis:
            bench.implies(inside["receiver.port.spare_valid"], inside["receiver.port.front_valid"])
        held = replace(
            axis, payload=data.View(Beat(config.sector_bytes), inside["sender.port.spare"])
        )
        for premise, conclusion in beat_sizes(config.sector_bytes)(bench, held):
            bench.implies(inside["sender.port.spare_valid"] & premise, conclusion)
    return bench


@pytest.mark.parametrize("top", COMMAND)
@pytest.mark.parametrize("config", configs(SHAPES, quick=()))
def test_ports_keep_the_rules(top, config, tmp_path, any_checksums):
    prove(port_proof(top, config, whole=False), tmp_path, depth=2, cover_depth=30)


FAULTS = {
    "a packet that goes on behind its error": (
        *(ZvcDecompressorAxis, StreamChecker),
        *("beat.last.eq(checked.is_final | checked.fails)", "beat.last.eq(checked.is_final)"),
    ),
    "beats that are not full": (
        *(ZvcCompressorAxis, ElementPacker),
        *("self.o.valid.eq(full | ending)", "self.o.valid.eq((fill != 0) | ending)"),
    ),
    "a status in reset": (
        *(ZvcCompressorAxis, RecordSender),
        *("buffer.o.valid & ~ResetSignal()", "buffer.o.valid"),
    ),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_ports_with_a_fault_are_found(fault, tmp_path, monkeypatch, any_checksums):
    top, *change = fault
    break_elaborate(monkeypatch, *change)
    find_fault(port_proof(top, TINY, whole=False), tmp_path, depth=10)


@pytest.mark.verify
@pytest.mark.parametrize(("top", "depth"), [(ZvcCompressorAxis, 24), (ZvcDecompressorAxis, 12)])
def test_ports_of_the_whole_block_keep_the_rules_for_a_while(top, depth, tmp_path):
    check(port_proof(top, TINY, whole=True), tmp_path, depth=depth, cover_depth=30, timeout_s=1500)


def chain_proof(config: CodecConfig) -> Bench:
    """Compressor, packer, unpacker and decompressor in a row; transfers of 1 or 2 lines."""
    bench = Bench()
    m = bench.m
    compressor, packer = ZvcCompressor(config), Packer(config)
    unpacker, decompressor = Unpacker(config), ZvcDecompressor(config)
    for component in (compressor, packer, unpacker, decompressor):
        bench.add(component)
    lines = Signal(2)
    m.d.comb += lines.eq(AnyConst(2))
    bench.assume((lines == 1) | (lines == 2))
    sector_rules = SectorRules(config)
    i = bench.drive(compressor.i, sector_rules)
    o = bench.watch(decompressor.o)
    wiring.connect(m, compressor.o, packer.i)
    wiring.connect(m, unpacker.o, decompressor.i)
    m.d.comb += [
        unpacker.i.valid.eq(packer.o.valid),
        packer.o.ready.eq(unpacker.i.ready),
        unpacker.i.payload.data.eq(packer.o.payload.data),
        unpacker.i.payload.size.eq(packer.o.payload.size),
        unpacker.i.payload.last.eq(packer.o.payload.last),
        unpacker.command.valid.eq(1),
        unpacker.command.payload.eq(lines),
        unpacker.tail.ready.eq(AnySeq(1)),
    ]
    done = Signal(2)
    ends = sector_rules.place == config.sectors - 1
    with m.If(i.moves):
        m.d.sync += done.eq(Mux(i.payload.last, 0, done + ends))
    bench.assume(~i.payload.empty)
    bench.assume(i.payload.last == (ends & (done + 1 == lines)))

    bits = len(Cat(*i.payload.elements)) + 2
    order = Order(bench, bits, count_bits=5)
    order.comes(one(i.moves, sector_item(i.payload)))
    order.leaves(one(o.moves, sector_item(o.payload)))
    bench.implies(unpacker.tail.valid, ~unpacker.tail.payload.trailing)
    bench.cover(o.moves & o.payload.last & (lines == 2) & o.payload.present.all())
    return bench


@pytest.mark.verify
@pytest.mark.parametrize(("name", "depth"), [("4x2", 12), ("8x1", 10)])
def test_chain_gives_back_what_went_in(name, depth, tmp_path):
    check(chain_proof(NARROW[name]), tmp_path, depth=depth, cover_depth=25, timeout_s=1500)
