"""Training steps of PyTorch whose activations come back within bounds: `make test-torch`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdma.golden.formats.lossy.power_of_two import rounded_down
from cdma.hw.config import CodecConfig, EngineConfig, preset
from cdma.plan.workload.capture import digits_cnn
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import Machine, machine_config
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap import SavedTensorError, StashError, SwapPlan, SwapPlanError, swap_to
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

CODECS = ("zvc", "raw", "xc", "quantize")
LOSSY = SwapPlan.everything("quantize")
BOUND = 2.0**-7
MEMORY = 4 << 20


@pytest.fixture
def torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


def made(*codecs: str) -> Engine:
    """The driver on a model of an engine with these codecs."""
    config = EngineConfig(codec=CodecConfig(element_bytes=1, codecs=codecs))
    return Engine(ModelMachine(config, memory_bytes=MEMORY), codecs=codecs)


@pytest.fixture
def engine() -> Engine:
    return made(*CODECS)


def network(torch: Any, images: int = 4) -> tuple[Any, Any]:
    """The shipped CNN, and a function that computes its loss, always the same."""
    torch.manual_seed(0)
    model = digits_cnn.network(torch.nn, (8, 16, 32), 64, torch.nn.ReLU)
    pictures, labels = (part[:images].clone() for part in digits_cnn.digits(torch))

    def loss() -> Any:
        torch.manual_seed(1)
        return torch.nn.functional.cross_entropy(model(pictures), labels)

    return model, loss


def gradients(torch: Any, model: Any, loss: Any) -> dict[str, Any]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


class TestValues:
    def test_they_come_back_within_the_bound_and_the_report_says_how_far(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            y = x * 3
            (y * y).sum().backward()
        error = (x.grad / 6 - 3 * x.detach()).abs().max() / 3
        (tensors,) = swapped.report().lossy
        assert 0 < error <= BOUND
        assert tensors.loss.bound == BOUND
        assert BOUND / 2 < tensors.loss.largest_error <= BOUND
        assert tensors.loss.exact_values == 0
        assert (tensors.name, tensors.tensors, tensors.nbytes) == ("float32 (4096,)", 1, 4 * 4096)
        assert tensors.stream_bytes == swapped.report().out.stream_bytes < 4096 * 4 / 2

    def test_lines_with_nan_are_kept_and_counted(self, torch, engine):
        x = torch.randn(4096)
        x[100] = float("nan")
        weight = torch.ones(4096, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            y = x * weight
            (y * y).sum().backward()
        (tensors,) = swapped.report().lossy
        assert tensors.loss.exact_values == 32
        assert tensors.loss.not_finite_values == 1

    def test_free_bounds_are_rounded_only_if_that_is_asked_for(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with pytest.raises(SwapPlanError, match=r"0\.01 is no power of two.*power_of_two=True"):
            with swap_to(engine, LOSSY, bounds=0.01):
                pass
        with swap_to(engine, LOSSY, bounds=np.float32(0.01), power_of_two=True) as swapped:
            (x * 3).square().sum().backward()
        (tensors,) = swapped.report().lossy
        assert tensors.loss.bound == rounded_down(0.01)

    def test_a_step_is_near_the_exact_one(self, torch, engine):
        model, loss = network(torch)
        exact = gradients(torch, model, loss())
        with swap_to(engine, LOSSY, bounds=2.0**-14) as swapped:
            lossy = gradients(torch, model, loss())
        assert any(not torch.equal(lossy[name], exact[name]) for name in exact)
        for name, gradient in exact.items():
            assert (lossy[name] - gradient).norm() < 0.05 * gradient.norm(), name
        assert swapped.report().out.stream_bytes < swapped.report().out.nbytes / 1.5

    def test_the_report_in_words(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            (x * 3).square().sum().backward()
        last = str(swapped.report()).splitlines()[-1]
        assert last.startswith("lossy float32 (4096,): 1 tensors, 16,384 B as ")
        assert "bound 0.0078125, largest error 0.0078" in last
        assert last.endswith("0 of 4,096 values exact")


class TestExact:
    """What never comes back with errors, though the plan's codec is lossy and a bound is given."""

    def test_indices_masks_and_inputs(self, torch, engine):
        x = torch.randn(64, 64, requires_grad=True)
        index = torch.randint(64, (64, 64))
        mask = torch.rand(64, 64) > 0.5
        data = torch.randn(64, 64)
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            (x.gather(1, index).masked_fill(mask, 0) * data).sum().backward()
        assert swapped.report().out.nbytes == 64 * 64 * (8 + 1 + 4)
        assert swapped.report().lossy == ()
        wanted = torch.zeros(64, 64).scatter_add_(1, index, data.masked_fill(mask, 0))
        torch.testing.assert_close(x.grad, wanted)

    def test_masks_of_dropout(self, torch, engine):
        x = torch.randn(64, 64, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=0.5) as swapped:
            y = torch.nn.functional.dropout(x * 2, 0.3)
            y.sum().backward()
        # Elements are 1 / 0.7 or nothing: a bound of a half would have made ones of them.
        assert swapped.report().lossy == ()
        assert x.grad.unique().tolist() == pytest.approx([0, 2 / 0.7])

    @pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
    def test_other_types(self, torch, engine, dtype):
        x = torch.randn(4096).to(getattr(torch, dtype)).requires_grad_()
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            (x * 3).square().sum().backward()
        assert (swapped.report().out.arrays, swapped.report().lossy) == (1, ())
        assert torch.equal(x.grad, (x.detach() * 3) * 2 * 3)

    def test_statistics_of_normalization(self, torch, engine):
        x = torch.randn(8, 512, 4, requires_grad=True)
        norm = torch.nn.BatchNorm1d(512)
        with swap_to(engine, LOSSY, bounds=0.25) as swapped:
            norm(x * 2).square().sum().backward()
        shapes = {tensors.name for tensors in swapped.report().lossy}
        assert shapes == {"float32 (8, 512, 4)"}
        assert swapped.report().out.arrays > len(shapes)

    def test_bits_of_a_lossy_tensor_go_by_themselves(self, torch, engine):
        kept = []

        class Bits(torch.autograd.Function):
            @staticmethod
            def forward(ctx, value):
                ctx.save_for_backward(value.view(torch.int32))
                return value.clone()

            @staticmethod
            def backward(ctx, gradient):
                kept.append(ctx.saved_tensors[0])
                return gradient

        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            y = x * 3
            (y.sin() + Bits.apply(y)).sum().backward()
        assert swapped.report().out.arrays == 2
        assert torch.equal(kept[0].view(torch.float32), x.detach() * 3)

    @pytest.mark.parametrize(
        ("operation", "node"),
        [
            (lambda y: y.log(), "LogBackward0"),
            (lambda y: y.sqrt(), "SqrtBackward0"),
            (lambda y: y.amax(), "AmaxBackward0"),
            (lambda y: y**0.5, "PowBackward0"),
            (lambda y: 1 / y / y, "DivBackward0"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_operations_that_divide_or_compare_are_refused(self, torch, engine, operation, node):
        x = torch.rand(4096, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=BOUND):
            loss = operation(x * 2).sum()
            with pytest.raises(SavedTensorError, match=rf"{node} needs float32 \(4096,\) to the"):
                loss.backward()

    def test_powers_of_two_and_more_are_not(self, torch, engine):
        x = torch.rand(4096, requires_grad=True)
        with swap_to(engine, LOSSY, bounds=BOUND) as swapped:
            ((x * 2) ** 2).sum().backward()
        assert len(swapped.report().lossy) == 1


class TestNames:
    def test_bounds_by_module_operator_and_value(self, torch, engine):
        model, loss = network(torch)
        modules = [path for path, one in model.named_modules() if isinstance(one, torch.nn.ReLU)]
        pools = [path for path, one in model.named_modules() if isinstance(one, torch.nn.MaxPool2d)]
        value = f"{modules[1]}#0:relu@0.0"
        bounds = {
            modules[0]: 2.0**-6,
            value: 2.0**-8,
            f"{pools[0]}:max_pool2d_with_indices": 2.0**-9,
        }
        with swap_to(engine, LOSSY, module=model, bounds=bounds) as swapped:
            for _ in range(2):
                gradients(torch, model, loss())
        found = {each.name: (each.tensors, each.loss.bound) for each in swapped.report().lossy}
        assert found == {
            f"{modules[0]}#0:relu@0.0": (2, 2.0**-6),
            f"{pools[0]}#0:max_pool2d_with_indices@0.0": (2, 2.0**-9),
            value: (2, 2.0**-8),
        }

    def test_the_most_specific_key_counts(self, torch, engine):
        model, loss = network(torch)
        relu = next(path for path, one in model.named_modules() if isinstance(one, torch.nn.ReLU))
        bounds = {"": 2.0**-4, ":relu": 2.0**-5, relu: 2.0**-6}
        with swap_to(engine, LOSSY, module=model, bounds=bounds) as swapped:
            gradients(torch, model, loss())
        by_name = {each.name: each.loss.bound for each in swapped.report().lossy}
        assert by_name.pop(f"{relu}#0:relu@0.0") == 2.0**-6
        for name, bound in by_name.items():
            assert bound == (2.0**-5 if ":relu@" in name else 2.0**-4)
        assert set(by_name.values()) == {2.0**-4, 2.0**-5}

    def test_a_function_of_what_is_saved(self, torch, engine):
        model, loss = network(torch)

        def bounds(saved):
            return 2.0**-6 if saved.name is not None and "max_pool" in saved.name else None

        with swap_to(engine, LOSSY, module=model, bounds=bounds) as swapped:
            gradients(torch, model, loss())
        assert swapped.report().lossy
        assert all("max_pool" in each.name for each in swapped.report().lossy)

    def test_names_are_those_of_a_traced_graph(self, torch, engine):
        from cdma.plan.workload.graph import Graph

        model = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(inplace=True), torch.nn.Linear(64, 64)
        )
        x = torch.randn(128, 64)
        graph = Graph.from_module(model, x, target="cpu")
        seen = []

        def bounds(saved):
            seen.append(saved.name)

        with swap_to(engine, LOSSY, module=model, bounds=bounds):
            model(x).square().sum().backward()
        assert "1#0:relu_@0.0" in seen
        assert set(seen) & set(graph.saved_values) == {"1#0:relu_@0.0"}


class TestAuto:
    def test_each_tensor_has_its_own_codec(self, torch, engine, monkeypatch):
        chosen = []
        submit = engine.submit

        def watched(*args, **kwargs):
            if args[3] is CopyKind.DEVICE_TO_HOST:
                chosen.append(args[4])
            return submit(*args, **kwargs)

        monkeypatch.setattr(engine, "submit", watched)
        sparse = torch.randn(4096).relu().requires_grad_()
        dense = torch.randn(4096, requires_grad=True)
        half = torch.randn(4096).bfloat16().requires_grad_()
        with swap_to(engine, SwapPlan.everything("auto")) as swapped:
            sum(x.clone().sin().sum().float() for x in (sparse, dense, half)).backward()
        assert chosen == ["zvc", None, "xc"]
        assert swapped.report().lossy == ()
        for x in (sparse, dense, half):
            assert torch.equal(x.grad, x.detach().cos())


class TestRefused:
    def test_a_codec_that_the_engine_has_not_got(self):
        with pytest.raises(SwapPlanError, match=r"'quantize', which .* it has zvc, raw$"):
            with swap_to(made("zvc", "raw"), LOSSY, bounds=BOUND):
                pass

    def test_a_lossy_codec_without_bounds(self, engine):
        with pytest.raises(SwapPlanError, match=r"needs to know how far .* give swap_to bounds="):
            with swap_to(engine, LOSSY):
                pass

    def test_bounds_for_a_lossless_codec(self, engine):
        with pytest.raises(SwapPlanError, match=r"plan's is zvc; leave them out, .* with quantize"):
            with swap_to(engine, bounds=BOUND):
                pass

    def test_bounds_by_name_without_a_module(self, engine):
        with pytest.raises(SwapPlanError, match=r"need the names; give module="):
            with swap_to(engine, LOSSY, bounds={"0": BOUND}):
                pass

    def test_a_module_that_is_not_there(self, torch, engine):
        model = torch.nn.Sequential(torch.nn.ReLU())
        with pytest.raises(SwapPlanError, match=r"key 'relu:x', but .* no 'relu'; choose from"):
            with swap_to(engine, LOSSY, module=model, bounds={"relu:x": BOUND}):
                pass

    def test_a_value_that_no_step_saves(self, torch, engine):
        model, loss = network(torch)
        with pytest.raises(SwapPlanError, match=r"has these names of bounds: :gelu; leave"):
            with swap_to(engine, LOSSY, module=model, bounds={":gelu": BOUND, ":relu": BOUND}):
                gradients(torch, model, loss())

    @pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf"), True, "0.5"])
    def test_what_is_no_bound(self, engine, bound):
        with pytest.raises(SwapPlanError, match="the bound"):
            with swap_to(engine, LOSSY, bounds=bound):
                pass

    def test_a_function_that_gives_no_number(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with pytest.raises(SwapPlanError, match=r"bound of float32 \(4096,\) must be a number"):
            with swap_to(engine, LOSSY, bounds=lambda saved: "small"):
                (x * 3).square().sum().backward()

    def test_an_engine_that_restores_other_values(self, torch, monkeypatch):
        engine = made(*CODECS)
        submit = engine.submit

        def coarser(*args, **kwargs):
            kwargs["parameters"] = {"k": kwargs["parameters"]["k"] + 1}
            return submit(*args, **kwargs)

        monkeypatch.setattr(engine, "submit", coarser)
        x = torch.randn(4096, requires_grad=True)
        free = engine.host.free_bytes
        with pytest.raises(StashError, match="and the golden model restores"):
            with swap_to(engine, LOSSY, bounds=BOUND):
                (x * 3).square().sum().backward()
        assert engine.host.free_bytes == free


@pytest.mark.verify
def test_a_step_on_the_rtl_is_that_of_the_golden_models(torch, engine):
    config = preset("titanx_gen3")
    config = replace(
        config, codec=replace(config.codec, element_bytes=1, codecs=("zvc", "raw", "quantize"))
    )
    model, loss = network(torch)
    with swap_to(engine, LOSSY, bounds=2.0**-8):
        wanted = gradients(torch, model, loss())
    around = machine_config("titanx_gen3")
    with Machine(
        generated_engine(config), around, device_bytes=MEMORY, host_bytes=MEMORY
    ) as machine:
        driver = Engine(machine, codecs=config.codec.codecs)
        with swap_to(driver, LOSSY, module=model, bounds=2.0**-8, verify=True) as swapped:
            found = gradients(torch, model, loss())
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert all(each.loss.within_bound for each in swapped.report().lossy)
    assert swapped.report().lossy
