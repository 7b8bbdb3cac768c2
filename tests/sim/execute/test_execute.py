"""Plans carried out by the engine's RTL, beside the timeline."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import Link
from cdma.plan.platform.placed_engine import PlacedEngine
from cdma.plan.policies import joint
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    SYNCHRONOUS,
    Choice,
    Placement,
    Plan,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer, Tensor
from cdma.sim.driver import DriverError, Engine
from cdma.sim.execute import copier as copier_module
from cdma.sim.execute.copier import CopyError
from cdma.sim.execute.device_memory import DeviceMemory
from cdma.sim.execute.execute import execute
from cdma.sim.execute.execution_error import ExecutionError
from cdma.sim.execute.scaled import scaled
from tests.lib.paths import ROOT
from tests.lib.shares import configs
from tests.plan.timeline.small_graphs import MANY_OPTIONS, random_graph

DOCUMENT = ROOT / "docs" / "guide" / "plan" / "schedule-run.md"
TOLERANCE = 0.05
SHORT_TOLERANCE = 0.07
"""Of a direction whose pieces are short on the link: a boundary of XC's takes 46 cycles."""
TOTAL_BYTES = 400 << 10
FEW_BYTES = 64 << 10
ZVC = Choice(Placement.SWAP, "zvc")
GIB = 1 << 30

LINK = Link("test", 16e9, "the tests")


def row(megabytes, densities):
    """Layers behind each other, each of which takes as long as 16 GB/s take for its output."""
    tensors = [Tensor(name="images", nbytes=4 << 20, kind="input", density=1.0)]
    layers = []
    for k, (size, density) in enumerate(zip(megabytes, densities, strict=True)):
        nbytes = size << 20
        tensors.append(Tensor(name=f"t{k}", nbytes=nbytes, kind="relu", density=density))
        seconds = nbytes / 16e9
        layers.append(
            Layer(
                name=f"layer{k}",
                kind="conv",
                inputs=(k,),
                output=k + 1,
                saved=(k, k + 1),
                gradients=(k,) if k else (),
                flops_forward=seconds * device("titanx").peak_flops,
                flops_backward=2 * seconds * device("titanx").peak_flops,
            )
        )
    return Graph(name="row", batch=1, tensors=tuple(tensors), layers=tuple(layers))


def memory_bound(graph):
    """The graph, each of whose layers takes as long for its accesses as it took for arithmetic."""
    found = device("titanx")
    layers = tuple(
        replace(
            layer,
            flops_forward=0,
            flops_backward=0,
            bytes_forward=layer.flops_forward / found.peak_flops * found.dram_bytes_per_s,
            bytes_backward=layer.flops_backward / found.peak_flops * found.dram_bytes_per_s,
        )
        for layer in graph.layers
    )
    return replace(graph, layers=layers)


@pytest.fixture
def scenario():
    graph = row((64, 32, 48, 16, 80, 8), (0.5, 0.3, 1.0, 0.45, 0.2, 0.9))
    return Scenario(graph=graph, device=device("titanx"), link=LINK, memory_bytes=GIB)


def plan(*choices, mode=ASYNCHRONOUS, throttle="none"):
    return Plan(policy="test", choices=choices, mode=mode, throttle=throttle)


def agree(execution, tolerance=TOLERANCE):
    assert execution.cycles == pytest.approx(execution.timeline_cycles, rel=TOLERANCE)
    for way in ("out", "in"):
        measured = execution.in_flight_cycles(way)
        assert measured == pytest.approx(
            execution.in_flight_cycles(way, timeline=True), rel=tolerance
        )


class TestAgainstTheTimeline:
    @pytest.mark.parametrize(
        "mode", configs({"sync": SYNCHRONOUS, "async": ASYNCHRONOUS}, quick=["async"])
    )
    @pytest.mark.parametrize("choice", [SWAP, ZVC], ids=str)
    def test_everything_swapped(self, scenario, choice, mode):
        execution = execute(scenario, plan(*[choice] * 6, mode=mode), total_bytes=TOTAL_BYTES)
        agree(execution)
        assert len(execution.copies) == 12
        stream = sum(copy.stream_bytes for copy in execution.copies if copy.way == "out")
        raw = sum(copy.nbytes for copy in execution.copies if copy.way == "out")
        assert raw == pytest.approx(TOTAL_BYTES, rel=0.01)
        assert stream == raw if choice is SWAP else 0.3 < stream / raw < 0.6
        assert execution.link_out_cycles == pytest.approx(stream / 12.8, rel=0.02)

    def test_mixed_placements_with_little_memory(self, scenario):
        mixed = plan(ZVC, SWAP, RECOMPUTE, Choice(Placement.SWAP, "zvc-sm"), ZVC, RETAIN)
        least = simulate(scenario, mixed).least_bytes
        tight = replace(scenario, memory_bytes=least + (1 << 20))
        execution = execute(tight, mixed, total_bytes=TOTAL_BYTES)
        agree(execution)
        assert {copy.name for copy in execution.copies} == {"t0", "t1", "t3", "t4"}

    @pytest.mark.parametrize(
        "codec",
        configs(
            {
                name: name
                for name in ("csr-sm", "rle-sm", "lz4-sm", "zfp-32", "quantize-sm", "zvc-host")
            },
            quick=["zfp-32", "quantize-sm"],
        ),
    )
    def test_codecs_of_multiprocessors_and_host(self, scenario, codec):
        """Streams are what golden models make of the data, in the timeline, too."""
        choice = Choice(Placement.SWAP, codec)
        execution = execute(scenario, plan(*[choice] * 6), total_bytes=TOTAL_BYTES)
        agree(execution)
        small = scaled(scenario, plan(*[choice] * 6), TOTAL_BYTES)
        for copy in execution.copies:
            assert copy.stream_bytes == copy.nbytes
        moved = sum(copy.stream_bytes for copy in execution.copies if copy.way == "out")
        assert moved == sum(
            small.scenario.stream_bytes(t, choice) for t in small.scenario.graph.managed
        )

    @pytest.mark.parametrize("choice", [SWAP, ZVC], ids=str)
    def test_layers_that_wait_for_the_memory_take_longer_beside_copies(self, scenario, choice):
        """The engine's reads and writes are the simulated memory's, and so are the layers'."""
        bound = replace(scenario, graph=memory_bound(scenario.graph))
        alone = execute(bound, plan(*[RETAIN] * 6), total_bytes=TOTAL_BYTES)
        assert alone.compute_cycles == pytest.approx(alone.timeline_compute_cycles, rel=1e-3)
        beside = execute(bound, plan(*[choice] * 6), total_bytes=TOTAL_BYTES)
        agree(beside)
        assert beside.compute_cycles > 1.01 * alone.compute_cycles
        assert abs(beside.compute_error) < 0.01

    def test_memory_is_reserved_within_the_limit(self, scenario):
        """The same plan with more and more memory has the peak that the timeline has."""
        swapped = plan(*[ZVC] * 6)
        least = simulate(scenario, swapped).least_bytes
        peaks = []
        for memory_bytes in (least, least + (40 << 20), 2 * least):
            run = execute(
                replace(scenario, memory_bytes=memory_bytes), swapped, total_bytes=TOTAL_BYTES
            )
            assert run.peak_bytes <= run.trace.memory_bytes
            assert run.peak_bytes == pytest.approx(run.trace.peak_bytes, rel=0.05)
            peaks.append(run.peak_bytes)
        assert peaks[0] < peaks[1]

    def test_throttled(self, scenario):
        fast = replace(scenario, link=replace(LINK, efficiency=1.0))
        sparse = replace(fast, graph=fast.graph.with_densities({f"t{k}": 0.0 for k in range(6)}))
        slow = plan(*[ZVC] * 6, mode=SYNCHRONOUS, throttle="bandwidth-aware")
        free = plan(*[ZVC] * 6, mode=SYNCHRONOUS)
        limited = execute(sparse, slow, total_bytes=TOTAL_BYTES)
        agree(limited)
        small = scaled(sparse, free, TOTAL_BYTES).scenario
        assert limited.timeline_cycles > 1.01 * simulate(small, free).seconds * limited.clock_hz

    def test_one_way_at_a_time(self, scenario):
        half = replace(scenario, link=replace(LINK, duplex=False))
        agree(execute(half, plan(*[SWAP] * 6), total_bytes=TOTAL_BYTES))

    def test_nothing_to_move(self, scenario):
        execution = execute(scenario, plan(*[RETAIN] * 6), total_bytes=TOTAL_BYTES)
        assert execution.copies == ()
        assert execution.cycles == pytest.approx(execution.timeline_cycles, abs=2)


def waits_of(trace, kind):
    """For each event of a kind in order: its name, and its waits as (reason, name)."""

    def name(wait):
        return None if wait.event is None else trace.events[wait.event].name

    return [
        (event.name, {(wait.reason, name(wait)) for wait in event.waits})
        for event in trace.events
        if event.kind == kind
    ]


@pytest.mark.verify
class TestEnginesCodecs:
    """Engines with XC and the lossy lane beside ZVC."""

    @pytest.fixture
    def equipped(self, scenario):
        """Returns the scenario, with an engine with all codecs, and values of so many bytes."""
        shipped = scenario.placed_engine
        codecs = ("zvc", "raw", "xc", "quantize")
        codec = replace(shipped.config.codec, element_bytes=1, codecs=codecs)
        own = replace(shipped, name="own", config=replace(shipped.config, codec=codec))

        def make(element_bytes):
            graph = scenario.graph
            tensors = tuple(replace(t, element_bytes=element_bytes) for t in graph.tensors)
            return replace(scenario, graph=replace(graph, tensors=tensors), own_engine=own)

        return make

    @pytest.mark.parametrize(("codec", "element_bytes"), [("xc", 2), ("quantize", 4), ("zvc", 4)])
    def test_everything_swapped(self, equipped, codec, element_bytes):
        made = equipped(element_bytes)
        choice = Choice(Placement.SWAP, codec)
        execution = execute(made, plan(*[choice] * 6), total_bytes=TOTAL_BYTES)
        agree(execution, SHORT_TOLERANCE)
        small = scaled(made, plan(*[choice] * 6), TOTAL_BYTES)
        found = {tensor.name: t for t, tensor in enumerate(small.scenario.graph.tensors)}
        for copy in execution.copies:
            tensor = small.tensors[found[copy.name]]
            assert copy.stream_bytes == tensor.stream_bytes
            assert copy.stream_bytes == small.scenario.stream_bytes(found[copy.name], choice)
            assert np.array_equal(tensor.raw, tensor.restored) == (codec != "quantize")
        total = sum(tensor.stream_bytes for tensor in small.tensors.values())
        assert total < {"zvc": 0.7, "xc": 0.5, "quantize": 0.2}[codec] * TOTAL_BYTES

    @pytest.mark.parametrize(
        ("element_bytes", "lossy", "codec"), [(2, False, "xc"), (4, True, "quantize")]
    )
    def test_plans_that_choose_them(self, equipped, element_bytes, lossy, codec):
        made = equipped(element_bytes)
        dense = made.graph.with_densities({f"t{k}": 1.0 for k in range(6)})
        tight = replace(made, graph=dense, memory_bytes=200 << 20)
        options = [c for c in joint.means(tight, lossy=lossy) if c != RECOMPUTE]
        best = joint.plan(tight, options=options, lossy=lossy)
        assert codec in {choice.codec for choice in best.choices}
        agree(execute(tight, best, total_bytes=TOTAL_BYTES), SHORT_TOLERANCE)


class TestReasons:
    """The waits that the execution keeps to."""

    def test_synchronous_computation_waits_for_each_offload(self, scenario):
        trace = simulate(scenario, plan(*[SWAP] * 6, mode=SYNCHRONOUS))
        forward = [waits for _, waits in waits_of(trace, "forward")]
        # A tensor's last forward use is in the layer behind its own; short ones hide behind it.
        for k, name in ((2, "t0"), (4, "t2")):
            assert ("staging", name) in forward[k]
        for k in (1, 3, 5):
            assert {reason for reason, _ in forward[k]} == {"computed"}
        assert ("staging", "t4") in waits_of(trace, "backward")[0][1]
        free = simulate(scenario, plan(*[SWAP] * 6))
        for _, waits in waits_of(free, "forward"):
            assert {reason for reason, _ in waits} <= {"start", "computed"}
        for name, waits in waits_of(free, "offload"):
            assert ("computed", name) in waits

    def test_a_prefetch_waits_for_its_own_offload(self, scenario):
        trace = simulate(scenario, plan(*[SWAP] * 6))
        for name, waits in waits_of(trace, "prefetch"):
            assert ("offloaded", name) in waits
            assert "computed" in {reason for reason, _ in waits}

    def test_what_backward_reads_is_there(self, scenario):
        trace = simulate(scenario, plan(*[SWAP] * 6))
        arrived = set()
        for (name, waits), k in zip(waits_of(trace, "backward"), range(5, 0, -1), strict=False):
            arrived |= {tensor for reason, tensor in waits if reason == "arrived"}
            assert name == f"t{k}"
            assert {f"t{k}", f"t{k - 1}"} <= arrived


class TestScaled:
    def test_bytes_and_work_have_one_factor(self, scenario):
        small = scaled(scenario, plan(*[SWAP] * 6), TOTAL_BYTES)
        assert small.scenario.compute_seconds == pytest.approx(
            scenario.compute_seconds * small.factor
        )
        for mine, whole in zip(small.scenario.graph.tensors, scenario.graph.tensors, strict=True):
            assert mine.nbytes % 128 == 0
            assert mine.nbytes == pytest.approx(whole.nbytes * small.factor, abs=64)

    def test_data_is_real_and_its_density_is_known(self, scenario):
        small = scaled(scenario, plan(*[ZVC] * 6), TOTAL_BYTES)
        graph = small.scenario.graph
        for t, tensor in small.tensors.items():
            assert tensor.raw.size == graph.tensors[t].nbytes
            words = tensor.raw.view(np.uint32)
            assert graph.tensors[t].density == pytest.approx(np.count_nonzero(words) / words.size)
            assert graph.tensors[t].density == pytest.approx(
                scenario.graph.tensors[t].density, abs=0.15
            )

    def test_never_larger_than_it_was(self, scenario):
        assert scaled(scenario, plan(*[SWAP] * 6), 1 << 40).factor == 1


class TestRefused:
    @pytest.mark.parametrize("codec", ["xc", "quantize"])
    def test_codecs_that_the_engine_has_not_got(self, scenario, codec):
        message = f"engine titanx_gen3 has not got codec '{codec}'; it has zvc, raw: choose one"
        with pytest.raises(ScheduleError, match=message):
            execute(scenario, plan(*[Choice(Placement.SWAP, codec)] * 6))

    def test_several_engines(self, scenario):
        two = replace(scenario, own_engine=PlacedEngine.named("pcie6x16"))
        message = "a step runs on one engine, and pcie6x16 has 2 side by side; choose another one"
        with pytest.raises(ScheduleError, match=message):
            execute(two, plan(*[SWAP] * 6))

    def test_plans_that_do_not_fit(self, scenario):
        tight = replace(scenario, memory_bytes=100 << 20)
        with pytest.raises(ScheduleError, match=r"needs [\d,]+ bytes"):
            execute(tight, plan(*[SWAP] * 6))


class TestFailures:
    @staticmethod
    def fail_at_the_third_copy(monkeypatch, error):
        submit = Engine.submit
        calls = []

        def fails(self, *args, **kwargs):
            calls.append(args)
            if len(calls) > 2:
                raise error
            return submit(self, *args, **kwargs)

        monkeypatch.setattr(Engine, "submit", fails)

    def test_an_interrupted_run_names_what_is_out(self, scenario, monkeypatch):
        self.fail_at_the_third_copy(monkeypatch, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt) as caught:
            execute(scenario, plan(*[SWAP] * 6), total_bytes=FEW_BYTES)
        (note,) = caught.value.__notes__
        assert note.endswith("bytes, are out: t0, t1")

    def test_an_error_of_the_engine_names_what_is_out(self, scenario, monkeypatch):
        self.fail_at_the_third_copy(monkeypatch, DriverError("the bus is on fire"))
        message = r"the bus is on fire; 2 tensors, [\d,]+ bytes, are out: t0, t1"
        with pytest.raises(ExecutionError, match=message):
            execute(scenario, plan(*[SWAP] * 6), total_bytes=FEW_BYTES)

    def test_what_comes_back_changed_is_found(self, scenario, monkeypatch):
        end = copier_module.Copier._end

        def spoils(self, way, piece, transfer, begin):
            end(self, way, piece, transfer, begin)
            if way == "in" and piece.name == "t3":
                piece.device.array[7] ^= 1

        monkeypatch.setattr(copier_module.Copier, "_end", spoils)
        with pytest.raises(ExecutionError, match="t3 came back changed, first at byte 7") as caught:
            execute(scenario, plan(*[SWAP] * 6), total_bytes=FEW_BYTES)
        assert isinstance(caught.value.__cause__, CopyError)

    def test_what_is_written_beside_a_destination_is_found(self, scenario, monkeypatch):
        """Tensors that stay have bytes of their own in the same memory."""
        end = copier_module.Copier._end

        def spoils(self, way, piece, transfer, begin):
            end(self, way, piece, transfer, begin)
            memory = piece.device.memory
            if way == "in" and piece.name == "t3":
                # The first bytes are those of the first tensor, which is kept.
                memory.at(memory.base, 1)[0] ^= 1

        monkeypatch.setattr(copier_module.Copier, "_end", spoils)
        with pytest.raises(ExecutionError, match="t0 was changed where it stayed"):
            execute(scenario, plan(RETAIN, *[SWAP] * 5), total_bytes=FEW_BYTES)

    def test_a_step_that_needs_more_than_the_limit_ends_with_an_error(self, scenario, monkeypatch):
        """As it would if the timeline told of less memory than there has to be."""
        room = DeviceMemory.__init__

        def smaller(self, memory, limit):
            room(self, memory, limit * 9 // 10)

        monkeypatch.setattr(DeviceMemory, "__init__", smaller)
        swapped = plan(*[SWAP] * 6)
        least = simulate(scenario, swapped).least_bytes
        with pytest.raises(ExecutionError, match=r"there is no room for [\d,]+ bytes"):
            execute(replace(scenario, memory_bytes=least), swapped, total_bytes=FEW_BYTES)


@pytest.mark.parametrize("seed", configs({str(seed): seed for seed in range(12)}, quick="12"))
def test_random_steps_with_little_memory_agree_with_the_timeline(seed):
    """Skips, layers in place, all placements and codecs, layers bound by either."""
    rng = np.random.default_rng(seed)
    scenario = Scenario(
        graph=random_graph(rng, 6),
        device=device("titanx").with_efficiency(0.7),
        link=replace(LINK, duplex=bool(rng.random() < 0.7)),
        memory_bytes=1 << 60,
    )
    choices = plan(*(MANY_OPTIONS[i] for i in rng.integers(0, len(MANY_OPTIONS), 6)))
    least = simulate(scenario, choices).least_bytes
    tight = replace(scenario, memory_bytes=round(least * rng.choice([1.0, 1.1, 1.4])))
    run = execute(tight, choices, total_bytes=2 * TOTAL_BYTES)
    assert run.cycles == pytest.approx(run.timeline_cycles, rel=TOLERANCE)
    assert run.peak_bytes <= run.trace.memory_bytes
    assert abs(run.compute_error) < 0.02


def test_documents_examples(capsys):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    examples = [text for language, text in blocks if language == "python"]
    exec("".join(examples), {})
    documented = [text for language, text in blocks if not language and not text.startswith("$")]
    assert capsys.readouterr().out == "".join(documented)
    assert len(documented) == len(examples) == 2
