"""The blocks with AXI4-Stream ports: the rules of the ports, and short transfers there and back."""

from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import data, wiring

from cdma.hw.bus.axi import AxiStreamBeat
from cdma.hw.codec.stream.pack import Packer
from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench
from tests.formal.lines import NARROW, TINY, WITH_SHIPPED, sector_item
from tests.formal.order import Order, one
from tests.formal.rules import SectorRules, axis_rules, beat_rules
from tests.formal.sby import check, prove
from tests.lib.shares import configs

COMMAND = {ZvcCompressorAxis: ["length"], ZvcDecompressorAxis: ["length", "crc32", "check_crc"]}
STATUS = ["status", "offset", "out_size", "crc32"]


def port_proof(top: type, config: CodecConfig, *, whole: bool) -> Bench:
    """Any input at all, also torn packets. Unless `whole`, trusts the beats of the inside."""
    bench = Bench()
    block = top(config)
    inside = bench.add(block, trusted=not whole)
    bench.drive_record(block.s_cmd, COMMAND[top])
    bench.drive_axis(block.s_axis)
    axis = bench.watch_axis(block.m_axis, axis_rules)
    bench.watch_record(block.m_sts, STATUS)
    if not whole:
        bench.trust(inside.component("sender").i, beat_rules(config.sector_bytes))
        for name in ("command.buffer", "receiver.port", "sender.port", "status.buffer"):
            bench.implies(inside[f"{name}.spare_valid"], inside[f"{name}.front_valid"])
        layout = AxiStreamBeat(config.sector_bytes)
        for place in ("front", "spare"):
            held = replace(axis, payload=data.View(layout, inside[f"sender.port.{place}"]))
            for premise, conclusion in axis_rules(bench, held):
                bench.implies(inside[f"sender.port.{place}_valid"] & premise, conclusion)
    return bench


@pytest.mark.parametrize("top", COMMAND)
@pytest.mark.parametrize("config", configs(WITH_SHIPPED, quick=()))
def test_ports_keep_the_rules(top, config, tmp_path):
    prove(port_proof(top, config, whole=False), tmp_path, depth=2, cover_depth=30)


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
