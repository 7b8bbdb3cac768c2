"""The checker: every way in which a descriptor can be bad, and every end of its windows."""

import random
from itertools import product

import pytest
from amaranth.hdl import Signal

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.checker import DescriptorChecker
from cdma.hw.dma.control.descriptor import (
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    Opcode,
    Status,
    WindowDetail,
)
from cdma.hw.dma.control.windows import Window
from cdma.sim.driver import DescriptorError, Windows
from cdma.sim.driver.ring.descriptor import OUTWARD
from cdma.sim.driver.ring.descriptor import check as expected_of
from tests.hw.dma.control.test_descriptor import (
    BAD,
    COPY_IN,
    COPY_OUT,
    DEVICE_END,
    FENCE,
    GOOD,
    HOST_END,
    IN,
    OUT,
)
from tests.lib.rtl.bench import STALLS, Bench, stalls
from tests.lib.simulator import Simulator

PORTS = {
    "records": ("record_window", HOST_ADDRESS_BITS),
    "host": ("host_window", HOST_ADDRESS_BITS),
    "device": ("device_window", DEVICE_ADDRESS_BITS),
}


def checker(windows=None, config=None):
    """A checker whose windows are these, or open."""
    made = DescriptorChecker(config or EngineConfig())
    for name, (port, bits) in PORTS.items():
        base, last = (windows or Windows()).ends(name)
        pages = {"base": base // PAGE_BYTES, "last": last // PAGE_BYTES}
        setattr(made, port, Signal(Window(bits), init=pages))
    return made


@pytest.fixture(scope="module")
def bench():
    return Bench(checker())


def check(bench, descriptors, *, probability=(0.0, 0.0)):
    payloads = [{"descriptor": d, "index": i} for i, d in enumerate(descriptors)]
    given = bench.source(bench.component.i, payloads, willing=stalls(probability[0], 1))
    out = bench.sink(bench.component.o, len(payloads), willing=stalls(probability[1], 2))
    bench.run()
    assert [checked["index"] for checked in out.payloads] == list(range(len(descriptors)))
    return given, out


@pytest.mark.parametrize("probability", STALLS)
def test_good_and_bad_descriptors_are_told_apart(bench, probability):
    cases = [(Status.OK, descriptor) for descriptor in GOOD] + BAD
    _, out = check(bench, [descriptor for _, descriptor in cases], probability=probability)
    for (status, descriptor), checked in zip(cases, out.payloads, strict=True):
        assert Status(checked["status"]) is status, descriptor
        assert checked["detail"] == 0
        assert {key: checked["descriptor"][key] for key in descriptor} == descriptor


def test_check_takes_two_cycles_and_each_descriptor_three(bench):
    given, out = check(bench, GOOD)
    assert out.cycles == [cycle + 2 for cycle in given.cycles]
    assert given.cycles == [3 * k for k in range(len(GOOD))]


@pytest.mark.parametrize(
    ("length", "worst"), [(1, 136), (128, 136), (129, 268), ((1 << 32) - 1, (1 << 25) * 132 + 4)]
)
def test_worst_length_is_an_element_more_than_any_stream_has(bench, length, worst):
    _, out = check(bench, [{**OUT, "length": length}])
    assert out.payloads[0]["worst_length"] == worst


@pytest.mark.parametrize("address", ["src", "dst"])
def test_element_aligned_addresses_are_enough(bench, address):
    _, out = check(bench, [{**OUT, address: OUT[address] + 4 * k} for k in range(8)])
    assert {checked["status"] for checked in out.payloads} == {Status.OK}


@pytest.mark.parametrize("codecs", [("zvc", "raw"), ("xc", "raw"), ("zvc", "xc", "raw")])
def test_codecs_of_the_engine_are_taken_and_no_others(codecs):
    config = EngineConfig(codec=CodecConfig(element_bytes=1, codecs=codecs))
    numbers = {line_codec(name).number for name in codecs}
    out = {**OUT, "element_bytes": 1}
    _, checked = check(Bench(checker(config=config)), [{**out, "codec": k} for k in range(8)])
    taken = {k for k, found in enumerate(checked.payloads) if found["status"] == Status.OK}
    assert taken == numbers - {None}


# Windows.


def pages(first, count):
    return range(first, first + count * PAGE_BYTES)


HOST_PAGE, DEVICE_PAGE = 0x2_0000_0000, 0x5000
ELSEWHERE = HOST_PAGE + (1 << 40)
NARROW = Windows(host=pages(HOST_PAGE, 2), device=pages(DEVICE_PAGE, 2))
HERE = {"src": HOST_PAGE, "dst": DEVICE_PAGE}
THERE = {"src": DEVICE_PAGE, "dst": HOST_PAGE}
WINDOW_BYTES = 2 * PAGE_BYTES

EDGES = [
    # All of both windows, and a byte or an element more.
    (None, {**COPY_OUT, **THERE, "length": WINDOW_BYTES, "dst_capacity": WINDOW_BYTES}),
    (WindowDetail.SOURCE, {**COPY_OUT, **THERE, "length": WINDOW_BYTES + 1}),
    (WindowDetail.DESTINATION, {**COPY_OUT, **THERE, "dst_capacity": WINDOW_BYTES + 1}),
    (None, {**COPY_IN, **HERE, "length": WINDOW_BYTES, "dst_capacity": WINDOW_BYTES}),
    (WindowDetail.SOURCE, {**COPY_IN, **HERE, "length": WINDOW_BYTES + 1}),
    (WindowDetail.DESTINATION, {**COPY_IN, **HERE, "dst_capacity": WINDOW_BYTES + 1}),
    # The last byte, the one behind it, the element before the first.
    (None, {**OUT, **THERE, "src": DEVICE_PAGE + WINDOW_BYTES - 4, "length": 4}),
    (WindowDetail.SOURCE, {**OUT, **THERE, "src": DEVICE_PAGE + WINDOW_BYTES - 4, "length": 5}),
    (WindowDetail.SOURCE, {**OUT, **THERE, "src": DEVICE_PAGE + WINDOW_BYTES, "length": 1}),
    (WindowDetail.SOURCE, {**OUT, **THERE, "src": DEVICE_PAGE - 4, "length": 4}),
    (WindowDetail.SOURCE, {**OUT, **THERE, "src": DEVICE_PAGE - 4, "length": 8}),
    (WindowDetail.DESTINATION, {**OUT, **THERE, "dst": HOST_PAGE - 4, "dst_capacity": 4}),
    (WindowDetail.DESTINATION, {**OUT, **THERE, "dst": ELSEWHERE}),
    # A stream is as long as it says, whatever comes out of it.
    (None, {**IN, **HERE, "src_length": WINDOW_BYTES, "length": 1 << 20}),
    (WindowDetail.SOURCE, {**IN, **HERE, "src_length": WINDOW_BYTES + 1}),
    (WindowDetail.SOURCE, {**IN, **HERE, "src_length": 1 << 50}),
    (WindowDetail.DESTINATION, {**IN, **HERE, "dst_capacity": WINDOW_BYTES + 1}),
    # What is not written needs no window; the source is named first; a fence touches nothing.
    (None, {**OUT, **THERE, "dst": ELSEWHERE, "dst_capacity": 0}),
    (None, {**IN, **HERE, "dst": 0, "dst_capacity": 0}),
    (WindowDetail.SOURCE, {**OUT, "src": 0, "dst": ELSEWHERE}),
    (None, FENCE),
]


def outcome(detail):
    return (Status.OK, 0) if detail is None else (Status.OUTSIDE_WINDOW, detail)


def test_window_ends_at_its_last_byte():
    _, out = check(Bench(checker(NARROW)), [descriptor for _, descriptor in EDGES])
    for (detail, descriptor), checked in zip(EDGES, out.payloads, strict=True):
        assert (checked["status"], checked["detail"]) == outcome(detail), descriptor


@pytest.mark.parametrize(
    ("windows", "descriptor", "detail"),
    [
        # An empty window has no byte, but a destination of no bytes is in it.
        (Windows(host=range(0)), {**COPY_OUT, "dst_capacity": 1}, WindowDetail.DESTINATION),
        (Windows(host=range(0)), {**COPY_OUT, "dst": 0, "dst_capacity": 0}, None),
        (Windows(host=range(0)), COPY_IN, WindowDetail.SOURCE),
        (Windows(device=range(0)), {**COPY_OUT, "length": 1}, WindowDetail.SOURCE),
        (Windows(device=range(0)), COPY_IN, WindowDetail.DESTINATION),
        # The last page of all; behind it there is nothing to wrap to.
        (
            Windows(host=pages(HOST_END - PAGE_BYTES, 1)),
            {**COPY_OUT, "dst": HOST_END - PAGE_BYTES, "dst_capacity": PAGE_BYTES},
            None,
        ),
        (
            Windows(host=pages(HOST_END - PAGE_BYTES, 1)),
            {**COPY_OUT, "dst": HOST_END - PAGE_BYTES - 4, "dst_capacity": PAGE_BYTES},
            WindowDetail.DESTINATION,
        ),
        (
            Windows(device=pages(DEVICE_END - PAGE_BYTES, 1)),
            {**COPY_OUT, "src": DEVICE_END - PAGE_BYTES, "length": PAGE_BYTES},
            None,
        ),
        (
            Windows(host=pages(0, 1)),
            {**COPY_OUT, "dst": HOST_END - 8, "dst_capacity": 8},
            WindowDetail.DESTINATION,
        ),
        # The first page of all.
        (Windows(device=pages(0, 1)), {**COPY_OUT, "src": 0, "length": PAGE_BYTES}, None),
        (
            Windows(device=pages(0, 1)),
            {**COPY_OUT, "src": 0, "length": PAGE_BYTES + 1},
            WindowDetail.SOURCE,
        ),
    ],
)
def test_windows_without_bytes_and_at_the_ends_of_all_addresses(windows, descriptor, detail):
    _, out = check(Bench(checker(windows)), [descriptor])
    assert (out.payloads[0]["status"], out.payloads[0]["detail"]) == outcome(detail)


def test_other_errors_are_told_first():
    """All these are outside of both windows, too, but for a fence."""
    nowhere = Windows(host=range(0), device=range(0))
    _, out = check(Bench(checker(nowhere)), [descriptor for _, descriptor in BAD])
    assert [checked["status"] for checked in out.payloads] == [status for status, _ in BAD]
    assert {checked["detail"] for checked in out.payloads} == {0}


def around(window):
    """Addresses and sizes at both ends of a window, one of them behind the other's."""
    starts = [at + k for at in (window.start, window.stop) for k in (-PAGE_BYTES, -8, -4, 0, 4)]
    sizes = [1, 3, 4, 5, 8, 12, PAGE_BYTES - 4, PAGE_BYTES, len(window), len(window) + 1]
    return [(start, size) for start in starts for size in sizes if start >= 0]


def test_whatever_lies_at_the_ends_of_windows_is_judged_as_the_driver_does():
    generator = random.Random(1)
    cases = []
    for inner in (COPY_OUT, COPY_IN, OUT, IN):
        outward = inner["opcode"] in OUTWARD
        ranges = [around(NARROW.device), around(NARROW.host)]
        sources, targets = ranges if outward else reversed(ranges)
        for (src, size), (dst, capacity) in generator.sample(list(product(sources, targets)), 300):
            streams = {"src_length": size} if inner["opcode"] == Opcode.DECOMPRESS_IN else {}
            place = {"src": src, "dst": dst, "dst_capacity": capacity, "length": size}
            cases.append({**inner, **place, **streams})
    _, out = check(Bench(checker(NARROW)), cases)
    seen: set[tuple[Status | None, int]] = set()
    for descriptor, checked in zip(cases, out.payloads, strict=True):
        try:
            expected_of(descriptor, 4, windows=NARROW)
            expected: tuple[Status | None, int] = (Status.OK, 0)
        except DescriptorError as refused:
            details = {"src": WindowDetail.SOURCE, "dst": WindowDetail.DESTINATION}
            expected = (refused.status, details[refused.field])
        assert (checked["status"], checked["detail"]) == expected, descriptor
        seen.add(expected)
    assert seen == {outcome(None), outcome(WindowDetail.SOURCE), outcome(WindowDetail.DESTINATION)}


class Dropping:
    """A checker whose records have one page, under descriptors with these records, in order.

    Attributes
    ----------
    came : list of int
        Numbers of descriptors that came out.
    faults : dict of int to int
        The address at fault, by the number of descriptors that had been accepted.
    """

    PAGE = 0x100_0000

    def __init__(self, records, *, clear_after=None, stall=0.0):
        component = checker(Windows(records=pages(self.PAGE, 1)))
        generator = random.Random(len(records))
        self.came = []
        self.faults = {}

        async def body(ctx):
            accepted = 0
            cleared = clear_after is None
            for _cycle in range(12 * len(records) + 20):
                waits = not cleared and accepted == clear_after
                ctx.set(component.i.valid, accepted < len(records) and not waits)
                if accepted < len(records):
                    descriptor = {**OUT, "record": records[accepted]}
                    ctx.set(component.i.payload, {"descriptor": descriptor, "index": accepted})
                ctx.set(component.o.ready, generator.random() >= stall)
                may_clear = waits and bool(ctx.get(component.idle))
                ctx.set(component.clear, may_clear)
                cleared |= may_clear
                await ctx.delay(1e-10)
                if ctx.get(component.faulty):
                    self.faults.setdefault(accepted, ctx.get(component.fault_address))
                if ctx.get(component.o.valid) and ctx.get(component.o.ready):
                    self.came.append(ctx.get(component.o.payload.index))
                if ctx.get(component.i.valid) and ctx.get(component.i.ready):
                    accepted += 1
                await ctx.tick()
            assert accepted == len(records)
            self.idle = ctx.get(component.idle)
            self.faulty = ctx.get(component.faulty)

        simulator = Simulator(component)
        simulator.add_clock(1e-9)
        simulator.add_testbench(body)
        simulator.run()


INSIDE = (Dropping.PAGE, Dropping.PAGE + PAGE_BYTES - 64)
BEYOND = (Dropping.PAGE - 64, Dropping.PAGE + PAGE_BYTES, 0, HOST_END - 64)


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("record", [*BEYOND, BEYOND[0] + 8])
def test_record_outside_of_its_window_ends_with_it_and_all_behind_it_dropped(record, stall):
    run = Dropping([*INSIDE, record, *INSIDE], stall=stall)
    assert run.came == [0, 1]
    assert set(run.faults.values()) == {record // 64 * 64}
    assert (run.idle, run.faulty) == (1, 1)


def test_records_at_both_ends_of_their_window_pass():
    run = Dropping([*INSIDE, INSIDE[1] + 63], stall=0.3)
    assert run.came == [0, 1, 2]
    assert not run.faults


def test_first_fault_is_the_one_that_is_told():
    run = Dropping([INSIDE[0], BEYOND[1], BEYOND[2], INSIDE[1]])
    assert run.came == [0]
    assert set(run.faults.values()) == {BEYOND[1]}


def test_cleared_checker_begins_again():
    run = Dropping([INSIDE[0], BEYOND[0], INSIDE[1], INSIDE[0]], clear_after=3)
    assert run.came == [0, 3]
    assert not run.faulty
