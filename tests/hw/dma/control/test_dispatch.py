"""Descriptors start in order; what waits is behind a fence, or behind a verification."""

import pytest
from amaranth.hdl import Signal

from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import Flag, Status, WindowDetail
from cdma.hw.dma.control.dispatch import Dispatcher, Way
from cdma.hw.dma.control.supervisor import Supervisor
from tests.hw.dma.control.test_descriptor import COPY_IN, COPY_OUT, FENCE, IN, OUT
from tests.lib.rtl.bench import STALLS, Bench, stalls
from tests.lib.simulator import Simulator

VERIFIED = {**OUT, "flags": Flag.VERIFY}


def checked(descriptors):
    return [
        {
            "descriptor": {"tag": 10 + index, **d},
            "status": Status.OK,
            "index": index,
            # An element more than lines of at most 132 bytes for each 128.
            "worst_length": -(-d.get("length", 0) // 128) * 132 + 4,
        }
        for index, d in enumerate(descriptors)
    ]


def dispatch(items, *, outs=0, ins=0, probability=(0.0, 0.0), all_retired=1, abort=0):
    dispatcher = Dispatcher(EngineConfig())
    dispatcher.all_retired = Signal(init=all_retired)
    dispatcher.abort = Signal(init=abort)
    bench = Bench(dispatcher)
    bench.source(dispatcher.i, items, willing=stalls(probability[0], 1))
    started = bench.sink(dispatcher.started, len(items), willing=stalls(probability[1], 2))
    job_out = bench.sink(dispatcher.job_out, outs, willing=stalls(probability[1], 3))
    job_in = bench.sink(dispatcher.job_in, ins, willing=stalls(probability[1], 4))
    bench.run()
    return started.payloads, job_out.payloads, job_in.payloads


@pytest.mark.parametrize("probability", STALLS)
def test_every_descriptor_starts_once_and_goes_its_way(probability):
    throttled = {**COPY_OUT, "flags": Flag.THROTTLE_CLASS}
    items = checked([OUT, IN, COPY_IN, FENCE, throttled, IN, OUT])
    started, outs, ins = dispatch(items, outs=3, ins=3, probability=probability)
    assert [s["index"] for s in started] == list(range(7))
    assert [Way(s["way"]).name for s in started] == ["OUT", "IN", "IN", "NONE", "OUT", "IN", "OUT"]
    assert [s["codec"] for s in started] == [0, 0, 1, 0, 1, 0, 0]
    assert [(o["codec"], o["throttle_class"]) for o in outs] == [(0, 0), (1, 1), (0, 0)]
    assert {o["src"] for o in outs} == {OUT["src"]}
    assert {o["dst"] for o in outs} == {OUT["dst"]}
    assert {o["capacity"] for o in outs} == {OUT["dst_capacity"]}
    assert [i["src_length"] for i in ins] == [300, 4096, 300]
    assert [i["codec"] for i in ins] == [0, 1, 0]


def test_refused_descriptor_starts_nothing():
    items = checked([OUT])
    items[0]["status"] = Status.OUTSIDE_WINDOW
    items[0]["detail"] = WindowDetail.DESTINATION
    (started,), _, _ = dispatch(items)
    assert (Way(started["way"]), started["status"]) == (Way.NONE, Status.OUTSIDE_WINDOW)
    assert started["detail"] == WindowDetail.DESTINATION


def test_descriptors_end_unstarted_while_the_engine_aborts():
    items = checked([OUT, IN, FENCE])
    started, _, _ = dispatch(items, abort=1, all_retired=0)
    assert [(Way(s["way"]), s["status"]) for s in started] == [(Way.NONE, Status.ABORTED)] * 3


def test_stream_is_read_no_further_than_it_could_be_valid():
    # 4096 bytes are 32 lines of at most 132 bytes; an element more tells that it is too long.
    items = checked([{**IN, "src_length": 1 << 50}, {**IN, "src_length": 32 * 132}])
    _, _, ins = dispatch(items, ins=2)
    assert [i["src_length"] for i in ins] == [32 * 132 + 4, 32 * 132]


def test_largest_capacity_is_kept():
    items = checked([{**OUT, "dst_capacity": 1 << 50}])
    (started,), (out,), _ = dispatch(items, outs=1)
    assert started["capacity"] == out["capacity"] == (1 << 40) - 1


def starts(items, script, cycles=40):
    """When which descriptor starts; `script(cycle)` gives `all_retired` and `verified`."""
    dispatcher = Dispatcher(EngineConfig())
    when = {}

    async def body(ctx):
        queue = list(items)
        for port in (dispatcher.started, dispatcher.job_out, dispatcher.job_in):
            ctx.set(port.ready, 1)
        for cycle in range(cycles):
            all_retired, verified = script(cycle)
            ctx.set(dispatcher.all_retired, all_retired)
            ctx.set(dispatcher.verified, verified)
            ctx.set(dispatcher.i.valid, bool(queue))
            if queue:
                ctx.set(dispatcher.i.payload, queue[0])
            await ctx.delay(1e-10)
            if queue and ctx.get(dispatcher.i.ready):
                when[queue.pop(0)["index"]] = cycle
            await ctx.tick()

    simulator = Simulator(dispatcher)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return when


def test_fence_waits_for_all_before_it_and_holds_all_behind_it():
    when = starts(checked([OUT, FENCE, IN]), lambda cycle: (cycle >= 20, 0))
    assert when[0] < 5
    assert when[1] >= 20
    assert when[2] > when[1]


def test_nothing_goes_in_while_something_is_verified():
    items = checked([VERIFIED, OUT, IN, OUT])
    when = starts(items, lambda cycle: (1, cycle == 25))
    assert when[1] < 10
    assert when[2] > 25
    assert when[3] > when[2]


class Control:
    """The supervisor under a script of its inputs; what it says is recorded."""

    WATCHED = (
        "fetch",
        "abort",
        "resetting",
        "clear",
        "all_retired",
        "idle",
        "ring_error",
        "error_valid",
    )

    def __init__(self, cycles, **inputs):
        """Each input is a set of cycles in which it is high."""
        self.supervisor = Supervisor()
        self.log = {name: [] for name in self.WATCHED}
        self.errors = {}

        async def body(ctx):
            ctx.set(self.supervisor.enabled, 1)
            for cycle in range(cycles):
                for name, high in inputs.items():
                    value = high.get(cycle) if isinstance(high, dict) else int(cycle in high)
                    if value is not None:
                        ctx.set(getattr(self.supervisor, name), value)
                await ctx.delay(1e-10)
                for name, log in self.log.items():
                    log.append(ctx.get(getattr(self.supervisor, name)))
                if self.log["error_valid"][-1]:
                    error = ctx.get(self.supervisor.error)
                    self.errors[cycle] = (error.status, error.detail, error.tag, error.address)
                await ctx.tick()

        simulator = Simulator(self.supervisor)
        simulator.add_clock(1e-9)
        simulator.add_testbench(body)
        simulator.run()

    def when(self, name):
        return {cycle for cycle, value in enumerate(self.log[name]) if value}


ALWAYS = set(range(100))


def test_abort_lasts_until_what_was_fetched_has_its_record():
    control = Control(
        40,
        start_fire={2, 3},
        record_done={20, 30},
        abort_request={10},
        fetched=ALWAYS - {10, 11},
        buses_idle=ALWAYS,
    )
    assert control.when("abort") == set(range(11, 32))
    assert control.when("fetch") == set(range(40)) - set(range(11, 32))
    assert control.when("all_retired") == {0, 1, 2} | set(range(31, 40))
    assert control.when("idle") == {0, 1, 2} | set(range(32, 40))
    assert not control.when("clear")


def test_reset_clears_the_ring_at_its_end():
    control = Control(
        30, start_fire={2}, record_done={20}, reset_request={5}, fetched=ALWAYS, buses_idle=ALWAYS
    )
    assert control.when("resetting") == set(range(6, 22))
    assert control.when("clear") == {21}


def test_engine_is_not_idle_while_a_bus_is_not():
    control = Control(10, fetched=ALWAYS, buses_idle=ALWAYS - {4, 5})
    assert control.when("idle") == set(range(10)) - {4, 5}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BusError.NONE, (Status.BAD_LENGTH, 0)),
        (BusError.SLVERR, (Status.READ_ERROR, 2)),
        (BusError.FRAMING, (Status.READ_ERROR, 1)),
        (BusError.TIMEOUT, (Status.TIMEOUT, 1)),
    ],
)
def test_ring_s_fault_stops_it_until_a_reset(error, expected):
    fault = {"error": error, "address": 0x1240}
    control = Control(
        30,
        ring_faulty=set(range(5, 20)),
        ring_fault={0: fault},
        reset_request={18},
        fetched=ALWAYS,
        buses_idle=ALWAYS,
    )
    assert control.errors == {5: (*expected, 0, 0x1240)}
    assert control.when("fetch").isdisjoint(range(6, 20))
    assert control.when("ring_error") == set(range(6, 20))


@pytest.mark.parametrize("answered", [False, True])
def test_ring_outside_of_its_window_stops(answered):
    """What was read before has no part in it."""
    fault = {"error": BusError.NONE, "outside": 1, "address": 0x1240}
    control = Control(
        20,
        start_fire={2},
        record_done={4} if answered else set(),
        record_info={4: {"address": 0x80}},
        ring_faulty=set(range(5, 20)),
        ring_fault={0: fault},
        fetched=ALWAYS,
        buses_idle=ALWAYS,
    )
    assert control.errors == {5: (Status.OUTSIDE_WINDOW, WindowDetail.RING, 0, 0x1240)}


def test_record_outside_of_its_window_stops_the_ring_until_a_reset():
    control = Control(
        30,
        record_outside=set(range(5, 19)),
        record_address={0: 0xFC0},
        reset_request={17},
        fetched=ALWAYS,
        buses_idle=ALWAYS,
    )
    assert control.errors == {5: (Status.OUTSIDE_WINDOW, WindowDetail.RECORD, 0, 0xFC0)}
    assert control.when("ring_error") == set(range(6, 19))
    assert control.when("fetch").isdisjoint(range(6, 19))


@pytest.mark.parametrize(
    ("error", "expected"),
    [(BusError.DECERR, (Status.WRITE_ERROR, 3)), (BusError.TIMEOUT, (Status.TIMEOUT, 2))],
)
def test_record_that_was_not_written_stops_the_ring(error, expected):
    control = Control(
        20,
        start_fire={2},
        record_done={8},
        record_info={8: {"address": 0x80}},
        record_error={9: error},
        fetched=ALWAYS,
        buses_idle=ALWAYS,
    )
    assert control.errors == {9: (*expected, 0, 0x80)}


def test_descriptor_s_error_is_told_with_its_tag():
    info = {"failed": 1, "status": 7, "detail": 2, "tag": 0xABCD, "fault_address": 0x77}
    control = Control(
        20,
        start_fire={2},
        record_done={8},
        record_info={8: info},
        fetched=ALWAYS,
        buses_idle=ALWAYS,
    )
    assert control.errors == {8: (7, 2, 0xABCD, 0x77)}
    assert not control.when("ring_error")
