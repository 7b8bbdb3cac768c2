"""The queue whose memory corrects flipped bits: what it gives, tells, and when."""

import random

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.codes.ecc import codeword_bits
from cdma.hw.lib.protected_fifo import COPIES, ProtectedFifo
from cdma.hw.lib.ram import Ram
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, fields, from_cycle, stalls

PAYLOAD = data.StructLayout({"eol": 1, "first": 64, "count": 5, "second": 58, "sol": 1})
FRAMING = ("sol", "eol")
WORDS = [codeword_bits(64), codeword_bits(63)]
"""Bits of the two words that all but the framing is cut into; its copies are behind them."""

STORED_BITS = sum(WORDS) + COPIES * len(FRAMING)


class FlippedRam(Ram):
    """A memory in which some bits turn over, others in each word that is written."""

    masks: tuple[int, ...] = ()

    def elaborate(self, platform):
        m = super().elaborate(platform)
        assert self.width == STORED_BITS
        words, _src_loc = m._named_submodules["words"]
        written = Signal(range(len(self.masks)))
        flips = Signal(self.width)
        with m.Switch(written):
            for place, mask in enumerate(self.masks):
                with m.Case(place):
                    m.d.comb += flips.eq(mask)
        with m.If(self.write_enable):
            m.d.sync += written.eq(written + 1)
        m.d.comb += words.write_ports[0].data.eq(self.write_data ^ flips)
        return m


class Telling(wiring.Component):
    """A queue, with a stream of what it tells of errors."""

    i: In(stream.Signature(PAYLOAD))
    o: Out(stream.Signature(PAYLOAD))
    tells: Out(stream.Signature(2))

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = ProtectedFifo(PAYLOAD, 8, FRAMING)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        m.d.comb += [
            self.tells.valid.eq(queue.corrected | queue.uncorrectable),
            self.tells.payload.eq(Cat(queue.corrected, queue.uncorrectable)),
        ]
        return m


def expected(payload, mask):
    """The payload that comes, and whether something was corrected or could not be."""
    flips = []
    for bits in WORDS:
        flips.append((mask & ((1 << bits) - 1)).bit_count())
        mask >>= bits
    framing = dict(payload)
    for name in FRAMING:
        flips.append((mask & ((1 << COPIES) - 1)).bit_count())
        mask >>= COPIES
        framing[name] ^= flips[-1] > COPIES // 2
    assert max(flips) <= 2
    lost = max(flips[: len(WORDS)]) > 1
    given = {name: framing[name] if name in FRAMING or not lost else 0 for name in payload}
    return given, not lost and any(flips), lost


def run(monkeypatch, masks, willing=(0.0, 0.0)):
    """Payloads through a queue whose memory turns over these bits of each; what was counted.

    Returns
    -------
    list of int
        Payloads that were corrected, and those that were lost.
    """
    monkeypatch.setattr(FlippedRam, "masks", tuple(masks))
    monkeypatch.setattr("cdma.hw.lib.fifo.Ram", FlippedRam)
    choose = random.Random(len(masks))
    payloads = [fields(PAYLOAD, choose.getrandbits(PAYLOAD.size)) for _ in masks]
    outcomes = [expected(*pair) for pair in zip(payloads, masks, strict=True)]
    told = [(corrected, lost) for _, corrected, lost in outcomes if corrected or lost]
    bench = Bench(Telling())
    bench.source(bench.component.i, payloads, willing=stalls(willing[0], seed=1))
    sink = bench.sink(bench.component.o, len(payloads), willing=stalls(willing[1], seed=2))
    tells = bench.sink(bench.component.tells, len(told), willing=always)
    bench.run()
    assert sink.payloads == [g for g, _, _ in outcomes]
    assert tells.payloads == [corrected + 2 * lost for corrected, lost in told]
    return [sum(column) for column in zip(*told, strict=True)]


def test_every_flip_is_corrected(monkeypatch):
    masks = [0, *(1 << bit for bit in range(STORED_BITS)), 0]
    assert run(monkeypatch, masks) == [STORED_BITS, 0]


@pytest.mark.parametrize("willing", STALLS)
def test_two_flips_lose_a_payload_but_not_its_framing(monkeypatch, willing):
    choose = random.Random(7)
    pairs = [sum(1 << bit for bit in choose.sample(range(STORED_BITS), 2)) for _ in range(150)]
    pairs += [3 << bit for bit in range(sum(WORDS), STORED_BITS - 1)]
    assert min(run(monkeypatch, pairs, willing)) > 20


def test_keeps_the_rate_and_its_latency():
    bench = Bench(ProtectedFifo(8, 8))
    values = list(range(40))
    source = bench.source(bench.component.i, values, willing=always)
    sink = bench.sink(bench.component.o, len(values), willing=always)
    bench.run()
    assert sink.payloads == values
    assert {o - i for i, o in zip(source.cycles, sink.cycles, strict=True)} == {3}
    assert_no_bubble(sink.cycles)


def test_holds_its_depth_and_two_more():
    bench = Bench(ProtectedFifo(8, 4))
    source = bench.source(bench.component.i, list(range(12)), willing=always)
    bench.sink(bench.component.o, 12, willing=from_cycle(40))
    bench.run()
    assert sum(cycle < 40 for cycle in source.cycles) == 6
