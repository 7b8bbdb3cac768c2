"""Accesses let in, and kept in order where they are about the same entry."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import Value

from cdma.hw.buddy.frontend.admission import FETCHES, Admission
from cdma.hw.buddy.frontend.dispatcher import AccessDispatcher
from cdma.hw.buddy.payloads import AccessStatus, WriteKind
from cdma.hw.config import BUDDY_PRESETS
from tests.lib.rtl.bench import STALLS, Bench, Source, stalls

CONFIG = BUDDY_PRESETS["tiny"]
ALL = (1 << 128) - 1


def access(entry, **more):
    return {"id": 0, "address": 128 * entry, "size": 5, "beats": 4, "last": 1, **more}


class Pulses(Source):
    """Drives a plain input for a cycle when something that it stands for has ended."""

    def __init__(self, port):
        self.signal = port
        self.due = []
        super().__init__(_NoPort(port), [], lambda cycle: True, random.Random(0))

    def drive(self, ctx, cycle):
        now = bool(self.due) and self.due[0] <= cycle
        if now:
            self.due.pop(0)
        ctx.set(self.signal, now)

    def observe(self, cycle, valid, ready, payload):
        return False

    @property
    def done(self):
        return not self.due


class _NoPort:
    def __init__(self, signal):
        self.valid = self.ready = self.payload = Value.cast(signal)


def dispatched(accesses, *, hold=30, seed=1, stall=(0.0, 0.0), target=2, compressed=1):
    """Cycles in which each access went on, each ending `hold` cycles later."""
    bench = Bench(AccessDispatcher(CONFIG))
    part = bench.component
    admitted = [
        {
            "access": access(entry),
            "write": int(write),
            "partial": int(partial),
            "status": AccessStatus.OK.value,
        }
        for entry, write, partial in accesses
    ]
    mapping = {"status": 0, "compressed": compressed, "target": target}
    bench.source(part.i, admitted, willing=stalls(stall[0], seed))
    bench.source(part.mapping, [mapping] * len(accesses), willing=stalls(stall[0], seed + 1))
    reads = [a for a in accesses if not a[1] or (a[2] and compressed)]
    writes = [a for a in accesses if a[1]]
    read_sink = bench.sink(part.read, len(reads))
    write_sink = bench.sink(part.write, len(writes))
    for sink, port, kind in ((read_sink, part.read_done, 0), (write_sink, part.write_done, 1)):
        pulses = Pulses(port)
        bench.ends.append(pulses)
        observe = sink.observe

        def heard(
            cycle, valid, ready, payload, *, observe=observe, pulses=pulses, sink=sink, kind=kind
        ):
            moved = observe(cycle, valid, ready, payload)
            # What a write fetches ends with the write.
            if moved and (kind or not sink.payloads[-1]["fetch"]):
                last = pulses.due[-1] + 1 if pulses.due else 0
                pulses.due.append(max(last, cycle + hold))
            return moved

        sink.observe = heard
    bench.run()
    cycles = {}
    read_cycles, write_cycles = iter(read_sink.cycles), iter(write_sink.cycles)
    for number, (_, write, partial) in enumerate(accesses):
        if write:
            cycles[number] = next(write_cycles)
            if partial and compressed:
                assert next(read_cycles) == cycles[number]
        else:
            cycles[number] = next(read_cycles)
    return [cycles[number] for number in range(len(accesses))], write_sink


def test_reads_of_an_entry_do_not_wait_for_each_other():
    cycles, _ = dispatched([(5, 0, 0)] * CONFIG.reads)
    assert cycles == list(range(CONFIG.reads))


@pytest.mark.parametrize(
    "accesses",
    [
        [(5, 1, 0), (5, 0, 0)],
        [(5, 0, 0), (5, 1, 0)],
        [(5, 1, 0), (5, 1, 0)],
        [(5, 1, 1), (5, 0, 0)],
        [(5, 0, 0), (5, 1, 1)],
    ],
)
def test_write_and_what_is_of_its_entry_keep_their_order(accesses):
    cycles, _ = dispatched(accesses)
    assert cycles[1] > cycles[0] + 30
    others = [(entry + index, write, part) for index, (entry, write, part) in enumerate(accesses)]
    cycles, _ = dispatched(others)
    assert cycles[1] == cycles[0] + 1


@pytest.mark.parametrize("stall", STALLS)
def test_no_access_meets_another_of_its_entry(stall):
    draw = random.Random(3)
    accesses = [(draw.randrange(4), draw.random() < 0.5, draw.random() < 0.5) for _ in range(120)]
    accesses = [(entry, write, write and partial) for entry, write, partial in accesses]
    cycles, _ = dispatched(accesses, hold=9, stall=stall)
    assert cycles == sorted(cycles)
    met = 0
    for later, (entry, write, _) in enumerate(accesses):
        for earlier in range(later):
            if accesses[earlier][0] == entry and (write or accesses[earlier][1]):
                met += 1
                assert cycles[later] > cycles[earlier] + 9
    assert met > 1000


def test_kind_of_a_write_follows_from_its_page():
    kinds = {}
    for compressed in (0, 1):
        for partial in (0, 1):
            _, sink = dispatched([(5, 1, partial)], compressed=compressed)
            kinds[compressed, partial] = sink.payloads[0]["kind"]
    assert kinds == {
        (0, 0): WriteKind.UNCOMPRESSED,
        (0, 1): WriteKind.UNCOMPRESSED,
        (1, 0): WriteKind.FULL,
        (1, 1): WriteKind.PARTIAL,
    }


def admitted(reads, writes, strobe=ALL, config=CONFIG):
    bench = Bench(Admission(config))
    part = bench.component
    supported = {"unsupported": 0}
    bench.source(part.read, [access(k, **supported) for k in range(reads)])
    bench.source(
        part.write,
        [
            {"access": access(100 + k, **supported), "data": k, "strobe": strobe}
            for k in range(writes)
        ],
    )
    return bench, part


@pytest.mark.parametrize("strobe", [ALL, 1])
def test_reads_that_have_no_room_do_not_stop_writes(strobe):
    places = FETCHES if strobe == 1 else CONFIG.writes
    bench, part = admitted(CONFIG.reads, places, strobe)
    out = bench.sink(part.o, CONFIG.reads + places)
    bench.sink(part.data, places)
    bench.run()
    kinds = [payload["write"] for payload in out.payloads]
    # In turn while there are both.
    assert kinds[: 2 * places] == [kinds[0], 1 - kinds[0]] * places
    assert {payload["partial"] for payload in out.payloads if payload["write"]} == {strobe == 1}


def test_no_more_are_let_in_than_there_is_room_for():
    bench, part = admitted(CONFIG.reads + 1, CONFIG.writes + 1)
    bench.sink(part.o, CONFIG.reads + CONFIG.writes + 2)
    bench.sink(part.data, CONFIG.writes + 1)
    with pytest.raises(AssertionError, match="nothing has moved"):
        bench.run()


@pytest.mark.parametrize("more", [0, 1])
def test_no_more_partial_writes_are_let_in_than_may_fetch(more):
    config = replace(CONFIG, writes=2 * FETCHES)
    bench, part = admitted(0, FETCHES + more, strobe=1, config=config)
    out = bench.sink(part.o, FETCHES + more)
    bench.sink(part.data, FETCHES + more)
    if more:
        with pytest.raises(AssertionError, match="nothing has moved"):
            bench.run()
    else:
        bench.run()
    assert len(out.received) == FETCHES
