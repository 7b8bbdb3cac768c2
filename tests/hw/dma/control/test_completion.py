"""Descriptors end with one status of several that could be told, and the counts beside it."""

import pytest
from amaranth.hdl import Signal

from cdma.golden import StreamStatus
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.completion import RetireUnit
from cdma.hw.dma.control.descriptor import Flag, Status, TimeoutDetail, WindowDetail
from cdma.hw.dma.control.dispatch import Way
from tests.lib.rtl.bench import STALLS, Bench, stalls

SRC = 0x1000
DST = 0x5_0000_0040
OUT = {
    "way": Way.OUT.value,
    "length": 1000,
    "capacity": 1100,
    "src": SRC,
    "dst": DST,
    "tag": 77,
    "record": 0x40,
    "index": 5,
}
IN = {**OUT, "way": Way.IN.value, "capacity": 1000}
READ = {"lines": 8, "whole_lines": 8, "whole_size": 600, "crc32": 0xC0FFEE}
WRITE = {"size": 600}
RECEIVED = {"receive": {"size": 600}, "lines": {"offset": 600, "size": 1000, "crc32": 0xC0FFEE}}
DONE = {"src_done": 1000, "out_size": 600, "crc32": 0xC0FFEE}


def out(read=(), write=()):
    return {"read": {**READ, **dict(read)}, "write": {**WRITE, **dict(write)}}


def come(receive=(), gather=(), tail=()):
    return {
        "receive": {**RECEIVED["receive"], **dict(receive)},
        "lines": {**RECEIVED["lines"], **dict(gather)},
        "tail": dict(tail),
    }


def bus(error, address=0x1234):
    return {"error": error.value, "address": address}


def beat(error, address=0x1240):
    """An error of device memory, told by the number of its beat from the source on."""
    return {"error": error.value, "faulty_beat": (address - SRC) // 32}


SLVERR, DECERR, FRAMING, TIMEOUT = (
    BusError.SLVERR,
    BusError.DECERR,
    BusError.FRAMING,
    BusError.TIMEOUT,
)
CASES_OUT = {
    "ok": (OUT, out(), {"status": Status.OK, **DONE}),
    "expanded": (
        OUT,
        out(write={"size": 1032}),
        {"status": Status.OK_EXPANDED, **DONE, "out_size": 1032},
    ),
    "as long as before": (
        OUT,
        out(write={"size": 1000}),
        {"status": Status.OK, **DONE, "out_size": 1000},
    ),
    "overflow": (
        OUT,
        out({"whole_lines": 3, "whole_size": 222}, {"overflow": 1, "size": 300}),
        {
            "status": Status.DESTINATION_OVERFLOW,
            "src_done": 384,
            "out_size": 300,
            "fault_address": 222,
        },
    ),
    "overflow of a copy": (
        {**OUT, "codec": 1},
        out(write={"overflow": 1, "size": 300}),
        {
            "status": Status.DESTINATION_OVERFLOW,
            "src_done": 300,
            "out_size": 300,
            "fault_address": 300,
        },
    ),
    "read error": (
        OUT,
        out({"whole_lines": 2, **beat(SLVERR)}, {"size": 99}),
        {
            "status": Status.READ_ERROR,
            "detail": SLVERR.value,
            "src_done": 256,
            "out_size": 99,
            "fault_address": 0x1240,
        },
    ),
    "framing before a write error and an overflow": (
        OUT,
        out({"whole_lines": 2, **beat(FRAMING)}, {**bus(SLVERR, DST), "overflow": 1}),
        {
            "status": Status.READ_ERROR,
            "detail": FRAMING.value,
            "fault_address": 0x1240,
        },
    ),
    "read time-out": (
        OUT,
        out({"whole_lines": 0, **beat(TIMEOUT)}, {"size": 0}),
        {"status": Status.TIMEOUT, "detail": TimeoutDetail.READ, "fault_address": 0x1240},
    ),
    "write error": (
        OUT,
        out(write=bus(DECERR, DST + 200)),
        {
            "status": Status.WRITE_ERROR,
            "detail": DECERR.value,
            "out_size": 200,
            "fault_address": DST + 200,
        },
    ),
    "error of the first write": (
        OUT,
        out(write=bus(SLVERR, DST - 32)),
        {
            "status": Status.WRITE_ERROR,
            "detail": SLVERR.value,
            "out_size": 0,
            "fault_address": DST - 32,
        },
    ),
    "write error of a copy": (
        {**OUT, "codec": 1},
        out(write=bus(DECERR, DST + 200)),
        {
            "status": Status.WRITE_ERROR,
            "detail": DECERR.value,
            "src_done": 200,
            "out_size": 200,
            "fault_address": DST + 200,
        },
    ),
    "write time-out": (
        OUT,
        out(write=bus(TIMEOUT, DST + 512)),
        {
            "status": Status.TIMEOUT,
            "detail": TimeoutDetail.WRITE,
            "out_size": 512,
            "fault_address": DST + 512,
        },
    ),
    "aborted": (
        OUT,
        out({"cut": 1, "whole_lines": 1}, {"size": 70}),
        {"status": Status.ABORTED, "src_done": 128, "out_size": 70},
    ),
    "an overflow after which not all was read": (
        OUT,
        out({"cut": 1, "whole_lines": 3, "whole_size": 222}, {"overflow": 1, "size": 300}),
        {
            "status": Status.DESTINATION_OVERFLOW,
            "src_done": 384,
            "out_size": 300,
            "fault_address": 222,
        },
    ),
    "a write error after which not all was read": (
        OUT,
        out({"cut": 1, "whole_lines": 3}, {**bus(DECERR, DST + 200), "overflow": 1}),
        {
            "status": Status.WRITE_ERROR,
            "detail": DECERR.value,
            "out_size": 200,
            "fault_address": DST + 200,
        },
    ),
}
CASES_IN = {
    "ok": (IN, come(), {"status": Status.OK, "src_done": 600, "out_size": 1000, "crc32": 0xC0FFEE}),
    "read error before what came of it": (
        IN,
        come({"size": 64, **bus(DECERR)}, {"line_error": LineError.MASK_MISSING, "size": 128}),
        {
            "status": Status.READ_ERROR,
            "detail": DECERR.value,
            "src_done": 64,
            "out_size": 128,
            "fault_address": 0x1234,
        },
    ),
    "read time-out": (
        IN,
        come({"size": 64, **bus(TIMEOUT)}, {"line_error": LineError.ELEMENT_MISSING, "size": 128}),
        {
            "status": Status.TIMEOUT,
            "detail": TimeoutDetail.READ,
            "src_done": 64,
            "out_size": 128,
            "fault_address": 0x1234,
        },
    ),
    "aborted": (
        IN,
        come({"aborted": 1, "size": 32}, {"line_error": LineError.MASK_MISSING, "size": 40}),
        {"status": Status.ABORTED, "src_done": 32, "out_size": 40},
    ),
    **{
        line_error.name: (
            IN,
            come(
                gather={"line_error": line_error, "offset": 123, "size": 256}, tail={"trailing": 1}
            ),
            {
                "status": status,
                "detail": detail,
                "src_done": 600,
                "out_size": 256,
                "fault_address": 123,
            },
        )
        for line_error, status, detail in [
            (LineError.MASK_MISSING, Status.STREAM_TRUNCATED, StreamStatus.MASK_TRUNCATED),
            (LineError.ELEMENT_MISSING, Status.STREAM_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED),
            (LineError.ELEMENT_ZERO, Status.STREAM_CORRUPT, StreamStatus.ZERO_ELEMENT),
            (LineError.FILL_NONZERO, Status.STREAM_CORRUPT, StreamStatus.NONZERO_FILL),
        ]
    },
    "trailing bytes": (
        IN,
        come(tail={"trailing": 1}, gather={"offset": 596}),
        {
            "status": Status.STREAM_CORRUPT,
            "detail": StreamStatus.TRAILING_BYTES,
            "src_done": 600,
            "out_size": 1000,
            "fault_address": 596,
        },
    ),
    "write error": (
        IN,
        come(gather={"size": 256, **bus(SLVERR, 0x888)}),
        {
            "status": Status.WRITE_ERROR,
            "detail": SLVERR.value,
            "src_done": 600,
            "out_size": 256,
            "fault_address": 0x888,
        },
    ),
    "write time-out": (
        IN,
        come(gather={"size": 256, **bus(TIMEOUT, 0x888)}),
        {
            "status": Status.TIMEOUT,
            "detail": TimeoutDetail.WRITE,
            "src_done": 600,
            "out_size": 256,
            "fault_address": 0x888,
        },
    ),
    "another checksum": (
        {**IN, "flags": Flag.CHECK_CRC, "crc32": 1},
        come(),
        {"status": Status.CRC_MISMATCH, "src_done": 600, "out_size": 1000, "crc32": 0xC0FFEE},
    ),
    "another checksum, unasked": (
        {**IN, "crc32": 1},
        come(),
        {"status": Status.OK, "src_done": 600, "out_size": 1000, "crc32": 0xC0FFEE},
    ),
    "the checksum": (
        {**IN, "flags": Flag.CHECK_CRC, "crc32": 0xC0FFEE},
        come(),
        {"status": Status.OK, "src_done": 600, "out_size": 1000, "crc32": 0xC0FFEE},
    ),
    "overflow": (
        {**IN, "capacity": 999},
        come(),
        {
            "status": Status.DESTINATION_OVERFLOW,
            "src_done": 600,
            "out_size": 999,
            "fault_address": 999,
            "crc32": 0xC0FFEE,
        },
    ),
    "lines left out behind the capacity": (
        {**IN, "capacity": 200, "flags": Flag.CHECK_CRC, "crc32": 1},
        come(gather={"cut": 1, "size": 256}, tail={"trailing": 1}),
        {
            "status": Status.DESTINATION_OVERFLOW,
            "src_done": 600,
            "out_size": 200,
            "fault_address": 200,
        },
    ),
    "lines left out behind a write error": (
        {**IN, "flags": Flag.CHECK_CRC, "crc32": 1},
        come(gather={"cut": 1, "size": 256, **bus(SLVERR, 0x888)}, tail={"trailing": 1}),
        {
            "status": Status.WRITE_ERROR,
            "detail": SLVERR.value,
            "src_done": 600,
            "out_size": 256,
            "fault_address": 0x888,
        },
    ),
}
VERIFIED = {**OUT, "flags": Flag.VERIFY}
# A transfer that is verified has both outcomes.
CASES_VERIFY = {
    "the same": (come(), {"status": Status.OK}),
    "another checksum": (come(gather={"crc32": 1}), {"status": Status.VERIFY_MISMATCH}),
    "a stream error": (
        come(gather={"line_error": LineError.ELEMENT_ZERO, "offset": 9}),
        {
            "status": Status.VERIFY_MISMATCH,
            "detail": StreamStatus.ZERO_ELEMENT,
            "fault_address": 9,
        },
    ),
    "a read error": (
        come(bus(SLVERR)),
        {"status": Status.READ_ERROR, "detail": SLVERR.value, "fault_address": 0x1234},
    ),
    "a time-out": (
        come(bus(TIMEOUT)),
        {"status": Status.TIMEOUT, "detail": TimeoutDetail.READ, "fault_address": 0x1234},
    ),
    "an abort": (come({"aborted": 1}), {"status": Status.ABORTED}),
}


def records(cases, *, outs=(), ins=(), verifies=0, probability=(0.0, 0.0), log2_entries=1):
    completer = RetireUnit(EngineConfig())
    completer.log2_entries = Signal(4, init=log2_entries)
    bench = Bench(completer)
    bench.source(completer.started, cases, willing=stalls(probability[0], 1))
    bench.source(completer.outcome_out, list(outs), willing=stalls(probability[0], 2))
    bench.source(completer.outcome_in, list(ins), willing=stalls(probability[0], 3))
    asked = bench.sink(completer.verify, verifies, willing=stalls(probability[1], 4))
    told = bench.sink(completer.o, len(cases), willing=stalls(probability[1], 5))
    bench.run()
    return told.payloads, asked.payloads


def assert_record(got, started, expected):
    assert got["address"] == started["record"]
    record = dict(got["record"])
    assert record.pop("cycles") < 1000
    assert Status(record.pop("status")) is expected["status"]
    names = ("detail", "src_done", "out_size", "fault_address", "crc32")
    assert {n: record[n] for n in names} == {n: expected.get(n, 0) for n in names}
    assert (record["tag"], record["index"], record["reserved"]) == (
        started["tag"],
        started["index"],
        0,
    )


@pytest.mark.parametrize("name", CASES_OUT)
def test_way_out_ends(name):
    started, outcome, expected = CASES_OUT[name]
    (got,), _ = records([started], outs=[outcome])
    assert_record(got, started, expected)


@pytest.mark.parametrize("name", CASES_IN)
def test_way_in_ends(name):
    started, outcome, expected = CASES_IN[name]
    (got,), _ = records([started], ins=[outcome])
    assert_record(got, started, expected)


@pytest.mark.parametrize("name", CASES_VERIFY)
def test_verification_ends(name):
    back, expected = CASES_VERIFY[name]
    (got,), (job,) = records([VERIFIED], outs=[out()], ins=[back], verifies=1)
    assert_record(got, VERIFIED, {**DONE, **expected})
    assert {k: job[k] for k in ("src", "src_length", "length", "capacity", "codec")} == {
        "src": DST,
        "src_length": 600,
        "length": 1000,
        "capacity": 0,
        "codec": 0,
    }


def test_what_failed_is_not_verified():
    (got,), _ = records([VERIFIED], outs=[out(write={"overflow": 1, "size": 1100})])
    assert Status(got["record"]["status"]) is Status.DESTINATION_OVERFLOW


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (Status.OK, 0),
        (Status.BAD_FLAG, 0),
        (Status.ABORTED, 0),
        (Status.OUTSIDE_WINDOW, WindowDetail.SOURCE),
        (Status.OUTSIDE_WINDOW, WindowDetail.DESTINATION),
    ],
)
def test_what_moves_nothing_ends_with_its_own_status(status, detail):
    started = {**OUT, "way": Way.NONE.value, "status": status, "detail": detail}
    (got,), _ = records([started])
    assert_record(got, started, {"status": status, "detail": detail})


@pytest.mark.parametrize("probability", STALLS)
def test_records_come_in_the_ring_s_order_with_its_phase(probability):
    started, outs, ins = [], [], []
    for index, way in enumerate([Way.OUT, Way.IN, Way.NONE, Way.IN, Way.OUT, Way.OUT, Way.NONE]):
        started.append({**OUT, "way": way.value, "status": 1, "index": index, "tag": 100 + index})
        if way is Way.OUT:
            outs.append(out(write={"size": 10 + index}))
        if way is Way.IN:
            ins.append(come(gather={"size": 10 + index}))
    got, _ = records(started, outs=outs, ins=ins, probability=probability)
    assert [g["record"]["tag"] for g in got] == [100 + index for index in range(7)]
    assert [g["record"]["out_size"] for g in got] == [10, 11, 0, 13, 14, 15, 0]
    assert [g["record"]["phase"] for g in got] == [1, 1, 0, 0, 1, 1, 0]
