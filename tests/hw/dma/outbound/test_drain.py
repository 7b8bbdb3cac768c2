"""The drain: lines of all units in the order of the transfer, the units' CRCs, and faults."""

import random

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from cdma import golden
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.pack import ElementPacker
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.outbound.drain import LineDrain
from tests.hw.dma.outbound.unit_crcs import unit_crcs
from tests.lib.rtl.bench import STALLS, Bench, stalls
from tests.lib.rtl.loads import netlist_of, unloaded_that_count
from tests.lib.shares import widths

LINE_BYTES = 128
WIDTH = 32
FAULTY_BEAT = 4
"""Of a line that lies in five beats."""


class PackedDrain(Elaboratable):
    """A drain with a packer, so that its chunks can be compared as bytes."""

    def __init__(self, units, beats=1):
        self.drain = LineDrain(EngineConfig(units=units, drain_beats=beats))
        self.packer = ElementPacker(self.drain.config.codec, chunk_beats=beats)
        self.o = self.packer.o

    def elaborate(self, platform):
        m = Module()
        m.submodules.drain = self.drain
        m.submodules.packer = self.packer
        wiring.connect(m, self.drain.o, self.packer.i)
        return m


def line_beats(elements, dense):
    """A line as the units give it: sixteen-bit patterns would do, these are words."""
    nonzero = [e for e in elements if e or dense]
    mask = sum(1 << i for i, e in enumerate(elements) if e or dense)
    pieces = [nonzero[i : i + 8] for i in range(0, max(1, len(nonzero)), 8)]
    return [
        {
            "mask": mask if index == 0 else 0,
            "elements": piece + [0] * (8 - len(piece)),
            "count": len(piece),
            "sol": index == 0,
            "eol": index == len(pieces) - 1,
        }
        for index, piece in enumerate(pieces)
    ]


class Job:
    def __init__(
        self,
        units,
        length,
        *,
        density,
        first_unit=0,
        head_pad=0,
        dense=False,
        issued=None,
        fault_at=None,
        capacity=1 << 30,
        seed=0,
    ):
        rng = np.random.default_rng(seed)
        elements = -(-length // 4)
        data = rng.integers(1, 1 << 32, elements, dtype=np.uint32)
        data *= rng.random(elements) < density
        self.content = data.tobytes()[:length]
        padded = self.content.ljust(-(-length // LINE_BYTES) * LINE_BYTES, b"\0")
        lines = [padded[at : at + LINE_BYTES] for at in range(0, len(padded), LINE_BYTES)]
        self.aborted = issued is not None
        self.count = len(lines)
        self.lines = lines[: len(lines) if issued is None else issued]
        self.fault_at = fault_at
        self.settings = {
            "first_unit": first_unit,
            "head_pad": head_pad,
            "codec": dense,
            "tail_pad": len(padded) - length,
            "capacity": capacity,
        }
        good = self.lines if fault_at is None else self.lines[:fault_at]
        stream = bytes(4 * head_pad)
        self.whole = (0, 0)
        for index, line in enumerate(good):
            words = np.frombuffer(line, np.uint32)
            stream += line if dense else golden.codec("zvc").compress(words).tobytes()
            if len(stream) - 4 * head_pad <= capacity:
                self.whole = (index + 1, len(stream) - 4 * head_pad)
        self.stream = stream

    @property
    def beats(self):
        pieces = [self.stream[at : at + WIDTH] for at in range(0, len(self.stream), WIDTH)]
        pieces = pieces or [b""]
        return [(piece, len(piece), index == len(pieces) - 1) for index, piece in enumerate(pieces)]


def drain(units, jobs, *, probability=(0.0, 0.0), beats=1):
    bench = Bench(PackedDrain(units, beats))
    component = bench.component.drain
    lines = [[] for _ in range(units)]
    reports = [[] for _ in range(units)]
    crcs = [[] for _ in range(units)]
    for job in jobs:
        unit = job.settings["first_unit"]
        combined = unit_crcs(job.lines, units)
        for index, line in enumerate(job.lines):
            words = np.frombuffer(line, np.uint32).tolist()
            lines[unit] += line_beats(words, job.settings["codec"])
            report = {"error": BusError.NONE.value, "last": index + units >= job.count}
            if job.fault_at == index:
                report |= {"error": BusError.SLVERR.value, "beat": FAULTY_BEAT}
            reports[unit].append(report)
            if report["last"]:
                crcs[unit].append(combined[index])
            unit = (unit + 1) % units
    bench.source(component.job, [job.settings for job in jobs])
    bench.source(component.ends, [{"lines": len(j.lines), "cut": j.aborted} for j in jobs])
    for k in range(units):
        bench.source(component.lines[k], lines[k], willing=stalls(probability[0], 2 * k + 1))
        bench.source(component.reports[k], reports[k])
        bench.source(component.crcs[k], crcs[k])
    expected = [beat for job in jobs for beat in job.beats]
    out = bench.sink(bench.component.o, len(expected), willing=stalls(probability[1], 99))
    outcomes = bench.sink(component.outcome, len(jobs), willing=stalls(probability[1], 98))
    bench.run()
    got = [
        (b["data"].to_bytes(WIDTH, "little")[: b["size"]], b["size"], b["last"])
        for b in out.payloads
    ]
    assert got == expected
    for job, outcome in zip(jobs, outcomes.payloads, strict=True):
        assert outcome["lines"] == len(job.lines)
        assert outcome["cut"] == job.aborted
        assert (outcome["whole_lines"], outcome["whole_size"]) == job.whole
        if job.fault_at is None:
            assert BusError(outcome["error"]) is BusError.NONE
            if not job.aborted:
                assert outcome["crc32"] == golden.crc32(np.frombuffer(job.content, np.uint8))
        else:
            assert BusError(outcome["error"]) is BusError.SLVERR
            assert outcome["faulty_beat"] == 4 * job.fault_at + FAULTY_BEAT
    return out


DENSITIES = (0.0, 0.05, 0.2, 0.5, 0.9, 1.0)


BOTH = pytest.mark.parametrize("beats", [1, 2])


@BOTH
@pytest.mark.parametrize("units", widths(1, 2, 3, 6, quick=[1, 3]))
@pytest.mark.parametrize("probability", STALLS)
def test_lines_of_all_units_make_the_golden_stream(units, probability, beats):
    rng = random.Random(units)
    lengths = [1, 4, 127, 128, 129, 300, 1500, 640, 1024]
    jobs = [
        Job(
            units,
            length,
            density=rng.choice(DENSITIES),
            first_unit=rng.randrange(units),
            head_pad=rng.randrange(8),
            dense=rng.random() < 0.3,
            seed=index,
        )
        for index, length in enumerate(lengths)
    ]
    drain(units, jobs, probability=probability, beats=beats)


@BOTH
def test_sparse_lines_leave_two_a_cycle(beats):
    lines = 120
    job = Job(6, lines * LINE_BYTES, density=0.05)
    out = drain(6, [job], beats=beats)
    assert out.cycles[-1] - out.cycles[0] < 0.62 * lines


@BOTH
def test_dense_lines_leave_as_fast_as_the_output_takes_them(beats):
    out = drain(6, [Job(6, 60 * LINE_BYTES, density=1.0)], beats=beats)
    assert out.cycles == list(range(out.cycles[0], out.cycles[0] + 60 * 132 // 32 + 1))


@pytest.mark.parametrize("density", [0.85, 0.7, 0.5, 0.35, 0.25])
def test_two_beats_a_cycle_are_as_wide_as_the_output_whatever_the_lines_sizes(density):
    job = Job(6, 400 * LINE_BYTES, density=density)
    out = drain(6, [job], beats=2)
    busy = len(out.cycles) / (out.cycles[-1] - out.cycles[0] + 1)
    assert busy >= 0.99
    one = drain(6, [job], beats=1)
    assert len(one.cycles) / (one.cycles[-1] - one.cycles[0] + 1) < 0.93


@BOTH
@pytest.mark.parametrize("fault_at", [0, 1, 4, 9])
@pytest.mark.parametrize("density", [0.1, 0.6])
@pytest.mark.parametrize("probability", [STALLS[0], STALLS[3]])
def test_stream_ends_before_the_line_with_a_fault(fault_at, density, probability, beats):
    jobs = [
        Job(3, 10 * LINE_BYTES, density=density, fault_at=fault_at, head_pad=3),
        Job(3, 1000, density=0.4, first_unit=2, seed=5),
    ]
    drain(3, jobs, probability=probability, beats=beats)


@BOTH
@pytest.mark.parametrize("issued", [0, 1, 4, 5])
def test_job_that_was_cut_ends_with_what_was_issued(issued, beats):
    jobs = [
        Job(2, 10 * LINE_BYTES, density=0.1, issued=issued),
        Job(2, 500, density=0.4, issued=0),
        Job(2, 500, density=0.4, first_unit=1),
    ]
    drain(2, jobs, beats=beats)


@BOTH
@pytest.mark.parametrize("density", [0.1, 0.5])
@pytest.mark.parametrize("probability", [STALLS[0], STALLS[3]])
def test_lines_that_end_within_the_capacity_are_whole(probability, density, beats):
    sizes = golden.codec("zvc").line_sizes(
        np.frombuffer(Job(3, 900, density=density).content, np.uint8)
    )
    ends = np.cumsum(sizes).tolist()
    jobs = [
        Job(3, 900, density=density, capacity=end + off)
        for end in [0, *ends[:3], *ends[-2:]]
        for off in (-4, -1, 0, 1)
        if end + off >= 0
    ]
    drain(3, jobs, probability=probability, beats=beats)


def test_no_result_follows_from_a_register_that_nothing_loads():
    # Transfers of codecs without a result are drained beside those of one that has.
    codec = CodecConfig(element_bytes=1, codecs=("zvc", "raw", "xc"))
    drain = LineDrain(EngineConfig(units=1, codec=codec))
    assert unloaded_that_count(netlist_of(drain)) == []
