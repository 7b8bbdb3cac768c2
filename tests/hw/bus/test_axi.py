"""The ports: flat AMBA and record ports to streams inside, and back; what reset does to them."""

import pytest
from amaranth.hdl import ClockDomain, Module, Shape

from cdma.hw.bus.axi import (
    Axi4Signature,
    AxiLiteSignature,
    AxiResponse,
    AxiStreamReceiver,
    AxiStreamSender,
)
from cdma.hw.codec.stream.status import TransferStatus
from cdma.hw.lib.ports import RecordReceiver, RecordSender
from tests.lib.rtl.bench import STALLS, Bench, FlatPort, assert_no_bubble, stalls
from tests.lib.rtl.payloads import beats_of
from tests.lib.rtl.transfers import axis_packet
from tests.lib.simulator import Simulator

WIDTH = 32
FULL = (1 << WIDTH) - 1
CONTENT = bytes(range(1, WIDTH + 1))


ATTRIBUTE_BITS = {"len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4, "prot": 3, "qos": 4}
"""Of the address channels, as Arm IHI 0022 has them."""


def bits_of(signature, prefix):
    """The widths of a channel's wires, without valid and ready, by name."""
    handshake = (f"{prefix}valid", f"{prefix}ready")
    return {
        name.removeprefix(prefix): Shape.cast(member.shape).width
        for name, member in signature.members.items()
        if name.startswith(prefix) and name not in handshake
    }


@pytest.mark.parametrize("data_bytes", [1, 2, 4, 8, 16, 32, 64, 128])
def test_axi4_has_the_widths_of_its_specification(data_bytes):
    signature = Axi4Signature(data_bytes, 40, 5, user_bits=7)
    for channel in ("aw", "ar"):
        assert bits_of(signature, channel) == {"id": 5, "addr": 40, "user": 7, **ATTRIBUTE_BITS}
    assert bits_of(signature, "w") == {"data": 8 * data_bytes, "strb": data_bytes, "last": 1}
    assert bits_of(signature, "r") == {"id": 5, "data": 8 * data_bytes, "resp": 2, "last": 1}
    assert bits_of(signature, "b") == {"id": 5, "resp": 2}


@pytest.mark.parametrize("data_bytes", [0, 3, 33, 256])
def test_axi4_of_other_widths_is_refused(data_bytes):
    message = f"data_bytes must be a power of two, 1 to 128, not {data_bytes}"
    with pytest.raises(ValueError, match=message):
        Axi4Signature(data_bytes, 40, 5)


@pytest.mark.parametrize("data_bits", [32, 64])
def test_axi4_lite_has_the_widths_of_its_specification(data_bits):
    signature = AxiLiteSignature(12, data_bits)
    for channel in ("aw", "ar"):
        assert bits_of(signature, channel) == {"addr": 12, "prot": 3}
    assert bits_of(signature, "w") == {"data": data_bits, "strb": data_bits // 8}
    assert bits_of(signature, "r") == {"data": data_bits, "resp": 2}
    assert bits_of(signature, "b") == {"resp": 2}


def test_responses_have_the_numbers_of_the_specification():
    numbers = {response.name: response.value for response in AxiResponse}
    assert numbers == {"OKAY": 0, "EXOKAY": 1, "SLVERR": 2, "DECERR": 3}


def axis_beats(beats):
    return [
        {"tdata": int.from_bytes(data, "little"), "tkeep": keep, "tlast": last}
        for data, keep, last in beats
    ]


def receive(beats, *, cuts_ready=True, **willing):
    bench = Bench(AxiStreamReceiver(WIDTH, cuts_ready=cuts_ready))
    given = bench.source(FlatPort.axis(bench.component.axis), axis_beats(beats))
    out = bench.sink(bench.component.o, len(beats), **willing)
    bench.run()
    return given, out


@pytest.mark.parametrize("cuts_ready", [True, False])
def test_receiver_takes_a_beat_per_cycle_and_gives_it_in_the_next(cuts_ready):
    given, out = receive([(CONTENT, FULL, 0)] * 10, cuts_ready=cuts_ready)
    assert_no_bubble(given.cycles)
    assert out.cycles == [cycle + 1 for cycle in given.cycles]


@pytest.mark.parametrize("last", [0, 1])
def test_receiver_tells_size_and_tears(last):
    keeps = {
        # Runs from the first byte: whole only on the last beat, unless all are kept.
        **{(1 << size) - 1: (size, not last and size < WIDTH) for size in range(WIDTH + 1)},
        # Holes: the bytes before the first one count.
        FULL & ~1: (0, True),
        FULL & ~(1 << 5): (5, True),
        1 << WIDTH - 1: (0, True),
        0b1011: (2, True),
    }
    _, out = receive([(CONTENT, keep, last) for keep in keeps])
    got = [(beat["size"], bool(beat["framing_error"])) for beat in out.payloads]
    assert got == [(size, bool(framing_error)) for size, framing_error in keeps.values()]
    assert all(beat["last"] == last for beat in out.payloads)
    assert all(beat["data"] == int.from_bytes(CONTENT, "little") for beat in out.payloads)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_sender_keeps_the_bytes_of_its_beats(source, sink):
    packets = [CONTENT * 3, b"", CONTENT[:1], CONTENT[:31], CONTENT]
    bench = Bench(AxiStreamSender(WIDTH))
    beats = [beat for packet in packets for beat in beats_of(packet, WIDTH)]
    given = bench.source(bench.component.i, beats, willing=stalls(source, 1))
    out = bench.sink(FlatPort.axis(bench.component.axis), len(beats), willing=stalls(sink, 2))
    bench.run()
    expected = [axis_packet(packet, WIDTH) for packet in packets]
    assert [beat["tkeep"] for beat in out.payloads] == [k for p in expected for _, k in p]
    assert [beat["tlast"] for beat in out.payloads] == [beat["last"] for beat in beats]
    assert [beat["tdata"] for beat in out.payloads] == [beat["data"] for beat in beats]
    if not source and not sink:
        assert out.cycles == given.cycles


@pytest.mark.parametrize("end", [RecordReceiver, RecordSender])
@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_records_pass_flat_ports(end, source, sink):
    bench = Bench(end(TransferStatus()))
    records = [
        {"status": i % 10, "offset": i << 36 | i, "out_size": i << 38, "crc32": 0xFFFFFFFF - i}
        for i in (0, 1, 2, 1, 0, 1)
    ]
    part = bench.component
    into, out_of = (
        (FlatPort.record(part.port), part.o)
        if end is RecordReceiver
        else (part.i, FlatPort.record(part.port))
    )
    given = bench.source(into, records, willing=stalls(source, 1))
    out = bench.sink(out_of, len(records), willing=stalls(sink, 2))
    bench.run()
    assert out.payloads == records
    if not source and not sink:
        latency = 0 if end is RecordReceiver else 1
        assert out.cycles == [cycle + latency for cycle in given.cycles]


@pytest.mark.parametrize("end", [AxiStreamSender, RecordSender])
def test_valid_is_low_from_the_first_cycle_of_reset(end):
    sender = end(WIDTH if end is AxiStreamSender else TransferStatus())
    valid = sender.axis.tvalid if end is AxiStreamSender else sender.port.valid
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.sender = sender
    simulator = Simulator(m)
    simulator.add_clock(1e-9)

    async def bench(ctx):
        ctx.set(sender.i.valid, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(valid)
        ctx.set(domain.rst, 1)
        assert not ctx.get(valid), "a synchronous reset comes a cycle too late"
        ctx.set(sender.i.valid, 0)
        await ctx.tick()
        ctx.set(domain.rst, 0)
        assert not ctx.get(valid), "what was sent before the reset must not come after it"

    simulator.add_testbench(bench)
    simulator.run()
