"""Shares of tensors through the engine and back, each part in a machine of its own."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden import LINE_BYTES
from cdma.plan.platform.device import device
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, SWAP, Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.layers import Tensor
from cdma.sim.driver import DriverError, Engine
from cdma.sim.execute import content_check
from cdma.sim.execute.carried_tensor import carried
from cdma.sim.execute.content_check import check_part, joined, parts_of
from cdma.sim.execute.execution_error import ExecutionError
from cdma.sim.execute.scaled import captured_arrays, nearest_array
from tests.lib.shares import configs
from tests.sim.execute.test_execute import LINK, row

ZVC = Choice(Placement.SWAP, "zvc")
BYTES = 24 << 10


@pytest.fixture
def scenario():
    graph = row((64, 32, 16), (0.5, 1.0, 0.2))
    return Scenario(graph=graph, device=device("titanx"), link=LINK, memory_bytes=1 << 30)


def plan(*choices):
    return Plan(policy="test", choices=choices, mode=ASYNCHRONOUS, throttle="none")


class TestParts:
    def test_every_swapped_tensor_has_its_share(self, scenario):
        parts = list(parts_of(scenario, plan(ZVC, RECOMPUTE, SWAP), BYTES))
        assert [(part.tensor, part.model is None) for part in parts] == [
            ("t0", False),
            ("t2", True),
        ]
        assert [part.nbytes for part in parts] == pytest.approx(
            [BYTES * 64 / 80, BYTES * 16 / 80], abs=LINE_BYTES
        )

    def test_tensors_are_cut_and_parts_have_data_of_their_own(self, scenario, monkeypatch):
        whole = list(parts_of(scenario, plan(ZVC, ZVC, ZVC), BYTES))
        monkeypatch.setattr(content_check, "PART_BYTES", 4096)
        parts = list(parts_of(scenario, plan(ZVC, ZVC, ZVC), BYTES))
        for tensor in whole:
            cut = [part for part in parts if part.tensor == tensor.tensor]
            assert all(part.nbytes == 4096 for part in cut[:-1])
            assert sum(part.nbytes for part in cut) == tensor.nbytes
            # Behind each other they are the tensor.
            data = [carried(p.values, p.nbytes, p.model, p.engine).raw for p in cut]
            undivided = carried(tensor.values, tensor.nbytes, tensor.model, tensor.engine).raw
            assert np.array_equal(np.concatenate(data), undivided)
        assert len(parts) > len(whole)

    def test_never_more_than_there_is(self, scenario):
        small = replace(
            scenario.graph, tensors=tuple(replace(t, nbytes=640) for t in scenario.graph.tensors)
        )
        parts = parts_of(replace(scenario, graph=small), plan(SWAP, SWAP, SWAP), 1 << 30)
        assert [part.nbytes for part in parts] == [640] * 3

    def test_the_nearest_array_has_about_the_density(self):
        arrays = captured_arrays()
        for density in (0.2, 0.5, 1.0):
            tensor = Tensor(name="t", nbytes=128, kind="relu", density=density)
            values = nearest_array(arrays, tensor)
            assert np.count_nonzero(values) / values.size == pytest.approx(density, abs=0.15)


class TestChecked:
    @pytest.mark.parametrize(
        "codec",
        configs(
            {str(name): name for name in (None, "zvc", "zvc-sm", "zfp-32", "zvc-host")},
            quick=["None", "zvc", "zfp-32"],
        ),
    )
    def test_parts_come_back(self, scenario, codec):
        choice = Choice(Placement.SWAP, codec)
        parts = list(parts_of(scenario, plan(choice, choice, choice), BYTES))
        content = joined(scenario, [check_part(part) for part in parts])
        assert [tensor.name for tensor in content.tensors] == ["t0", "t1", "t2"]
        assert content.nbytes == pytest.approx(BYTES, abs=3 * LINE_BYTES)
        assert content.share == pytest.approx(BYTES / (112 << 20), rel=0.05)
        golden = sum(carried(p.values, p.nbytes, p.model, p.engine).stream_bytes for p in parts)
        assert content.stream_bytes == golden
        if codec in (None, "zvc-host"):
            assert golden == content.nbytes
        else:
            assert golden < content.nbytes

    def test_a_part_is_the_same_wherever_it_is_carried(self, scenario):
        parts = list(parts_of(scenario, plan(ZVC, ZVC, ZVC), BYTES))
        assert [check_part(part) for part in parts] == [
            check_part(part) for part in reversed(parts)
        ][::-1]


class TestFailures:
    @staticmethod
    def part(scenario):
        return next(parts_of(scenario, plan(ZVC, ZVC, ZVC), BYTES))

    def test_a_stream_that_is_not_golden_is_found(self, scenario, monkeypatch):
        """Even if it is restored to what it was."""
        made = content_check.carried

        def differs(*args):
            job = made(*args)
            stream = job.stream.copy()
            stream[9] ^= 1
            return replace(job, stream=stream)

        monkeypatch.setattr(content_check, "carried", differs)
        with pytest.raises(ExecutionError, match="t0 left as no golden stream, first at byte 9"):
            check_part(self.part(scenario))

    def test_a_stream_of_another_length_is_found(self, scenario, monkeypatch):
        made = content_check.carried
        monkeypatch.setattr(
            content_check,
            "carried",
            lambda *args: replace(made(*args), stream=made(*args).stream[:-4]),
        )
        with pytest.raises(
            ExecutionError, match=r"t0 left as no golden stream: it has [\d,]+ bytes"
        ):
            check_part(self.part(scenario))

    def test_what_comes_back_changed_is_found(self, scenario, monkeypatch):
        copy = Engine.memcpy_compressed

        def spoils(self, dst, *args, **others):
            record = copy(self, dst, *args, **others)
            if dst.memory.name == "device":
                dst.array[7] ^= 1
            return record

        monkeypatch.setattr(Engine, "memcpy_compressed", spoils)
        with pytest.raises(ExecutionError, match="t0 came back changed, first at byte 7"):
            check_part(self.part(scenario))

    def test_an_error_of_the_engine_names_the_tensor(self, scenario, monkeypatch):
        def fails(*_args, **_others):
            raise DriverError("the bus is on fire")

        monkeypatch.setattr(Engine, "memcpy_compressed", fails)
        with pytest.raises(ExecutionError, match="the bus is on fire; a part of t0 was out"):
            check_part(self.part(scenario))
