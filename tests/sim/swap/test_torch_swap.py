"""Training steps of PyTorch whose saved tensors wait in host memory: `make test-torch`."""

import gc
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cdma.hw.config import preset
from cdma.plan.workload.capture import digits_cnn
from cdma.sim.driver import Engine
from cdma.sim.machine import Machine, machine_config
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap import SavedTensorError, StashError, swap_to
from tests.lib.paths import ROOT
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

IMAGES = 8
DOCUMENT = ROOT / "docs" / "guide" / "swap" / "torch-swap.md"


@pytest.fixture
def torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


@pytest.fixture
def engine() -> Engine:
    """The driver on a model of the engine, which is quick."""
    return Engine(ModelMachine())


@pytest.fixture(scope="module")
def rtl_engine() -> Iterator[Engine]:
    rtl, around = generated_engine(preset("titanx_gen3")), machine_config("titanx_gen3")
    with Machine(rtl, around, device_bytes=4 << 20, host_bytes=4 << 20) as machine:
        yield Engine(machine)


def free(engine: Engine) -> tuple[int, int]:
    return engine.device.free_bytes, engine.host.free_bytes


def gradients_of(torch: Any, model: Any, loss: Any) -> dict[str, bytes]:
    loss.backward()
    return {name: p.grad.numpy().tobytes() for name, p in model.named_parameters()}


def digits_step(torch: Any, images: int = IMAGES) -> tuple[Any, Any]:
    """The shipped CNN in training mode, and a function that computes its loss, always the same."""
    torch.manual_seed(0)
    model = digits_cnn.network(torch.nn, digits_cnn.CHANNELS, digits_cnn.NEURONS, torch.nn.ReLU)
    pictures, labels = digits_cnn.digits(torch)
    pictures, labels = pictures[:images], labels[:images]

    def loss() -> Any:
        torch.manual_seed(1)
        return torch.nn.functional.cross_entropy(model(pictures), labels)

    return model, loss


class TestOnTheRtl:
    def test_gradients_of_the_shipped_cnn_are_bit_identical(self, torch, rtl_engine):
        model, loss = digits_step(torch)
        plain = gradients_of(torch, model, loss())
        model, loss = digits_step(torch)
        before = free(rtl_engine)
        with swap_to(rtl_engine) as swapped:
            assert gradients_of(torch, model, loss()) == plain
        report = swapped.report()
        assert free(rtl_engine) == before
        assert report.out.nbytes == report.back.nbytes > 100_000 * IMAGES
        assert report.out.stream_bytes < report.out.nbytes / 1.4
        assert report.waiting_tensors == report.waiting_bytes == 0
        # A cycle is 16 bytes on the link.
        assert report.out.cycles > report.out.stream_bytes / 16
        assert report.back.cycles > report.back.stream_bytes / 16
        assert report.peak_bytes < report.peak_bytes_without
        assert 0 < report.saving_ratio < 1

    def test_verified_streams(self, torch, rtl_engine):
        x = torch.randn(64, 64, requires_grad=True)
        with swap_to(rtl_engine, verify=True) as swapped:
            (x * 2).relu().square().sum().backward()
        assert swapped.report().out.arrays
        relu = (x.detach() * 2).relu()
        assert torch.equal(x.grad, 4 * relu * (relu > 0))


class TestSteps:
    def test_several_steps_in_one_context(self, torch, engine):
        model, loss = digits_step(torch, 2)
        before = free(engine)
        with swap_to(engine) as swapped:
            for _ in range(2):
                model.zero_grad()
                steps = gradients_of(torch, model, loss())
        model, loss = digits_step(torch, 2)
        assert steps == gradients_of(torch, model, loss())
        report = swapped.report()
        assert report.out.nbytes == 2 * report.peak_out_bytes
        assert free(engine) == before

    def test_backward_behind_the_context(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine) as swapped:
            loss = x.exp().sum()
        assert swapped.report().waiting_bytes == 4 * 4096
        loss.backward()
        assert torch.equal(x.grad, x.detach().exp())
        assert swapped.report().waiting_bytes == 0

    def test_saved_tensors_outside_are_left_alone(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine) as swapped:
            pass
        x.exp().sum().backward()
        assert swapped.report().out.arrays == 0


class TestWhatMoves:
    def test_parameters_and_small_tensors_stay(self, torch, engine):
        model = torch.nn.Linear(64, 64)
        x = torch.randn(32, 64)
        with swap_to(engine) as swapped:
            # The layer saves its input and a transposed view of its weights, `square` 8192 bytes.
            model(x).square().sum().backward()
            (torch.randn(100, requires_grad=True)).exp().sum().backward()
        report = swapped.report()
        assert (report.out.arrays, report.out.nbytes) == (2, 2 * 4 * 32 * 64)
        assert report.kept_bytes == 400

    def test_least_size(self, torch, engine):
        with swap_to(engine, min_bytes=401) as swapped:
            torch.randn(100, requires_grad=True).exp().sum().backward()
            torch.randn(101, requires_grad=True).exp().sum().backward()
        assert swapped.report().out.nbytes == 404

    def test_a_storage_saved_twice_moves_once_each_way(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine) as swapped:
            y = x.exp()  # Saves its result, and so do the others their argument.
            (y.sin() + y.cos() + y.square()).sum().backward()
        report = swapped.report()
        assert report.out.arrays == report.back.arrays == 1
        e = x.detach().exp()
        torch.testing.assert_close(x.grad, (e.cos() - e.sin() + 2 * e) * e)

    def test_a_part_of_what_is_out_moves_with_it(self, torch, engine):
        x = torch.randn(64, 64, requires_grad=True)
        with swap_to(engine) as swapped:
            y = x.exp()
            (y.sin().sum() + y[8:24, ::2].t().cos().sum()).backward()
        report = swapped.report()
        assert report.out.arrays == report.back.arrays == 1
        e = x.detach().exp()
        factor = e.cos()
        factor[8:24, ::2] -= e[8:24, ::2].sin()
        torch.testing.assert_close(x.grad, factor * e)

    def test_a_part_alone_moves_alone(self, torch, engine):
        data = torch.randn(1000, 64)
        weight = torch.ones(16, 64, requires_grad=True)
        with swap_to(engine) as swapped:
            (data[100:116] * weight).sum().backward()
        assert swapped.report().out.nbytes == 16 * 64 * 4
        assert torch.equal(weight.grad, data[100:116])

    def test_what_was_changed_in_between_moves_again(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        data = torch.randn(4096)
        first = data.clone()
        with swap_to(engine) as swapped:
            y = (x * data).sum()
            data.mul_(3)
            (y + (x * data).sum()).backward()
        assert swapped.report().out.arrays == 2
        # Both come back as they were when they were saved.
        torch.testing.assert_close(x.grad, 4 * first)

    @pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "complex64"])
    def test_types(self, torch, engine, dtype):
        x = torch.randn(600).to(getattr(torch, dtype)).requires_grad_()
        with swap_to(engine) as swapped:
            x.sin().abs().sum().backward()
        assert swapped.report().out.arrays
        swapping, x.grad = x.grad, None
        x.sin().abs().sum().backward()
        assert torch.equal(swapping, x.grad)

    def test_masks_and_indices(self, torch, engine):
        x = torch.randn(64, 64, requires_grad=True)
        index = torch.randint(64, (64, 64))
        mask = torch.rand(64, 64) > 0.5
        with swap_to(engine) as swapped:
            x.gather(1, index).masked_fill(mask, 0).sum().backward()
        assert swapped.report().out.nbytes == 64 * 64 * (8 + 1)
        swapping, x.grad = x.grad, None
        x.gather(1, index).masked_fill(mask, 0).sum().backward()
        assert torch.equal(swapping, x.grad)

    def test_negative_zeros_and_nans(self, torch, engine):
        x = torch.full((2048,), -0.0)
        x[::3] = float("nan")
        with swap_to(engine) as swapped:
            weight = torch.ones(2048, requires_grad=True)
            (x * weight).sum().backward()
        assert swapped.report().out.arrays == 1
        assert weight.grad.numpy().tobytes() == x.numpy().tobytes()

    def test_expanded_and_transposed_views(self, torch, engine):
        x = torch.randn(512, 1)
        weight = torch.randn(48, 512, requires_grad=True)
        with swap_to(engine) as swapped:
            (x.t().expand(48, 512) * weight).sum().backward()
        assert swapped.report().out.nbytes == 512 * 4
        assert torch.equal(weight.grad, x.t().expand(48, 512))

    def test_sparse_tensors_stay(self, torch, engine):
        dense = torch.randn(64, 64, requires_grad=True)
        sparse = torch.eye(64).to_sparse()
        with swap_to(engine):
            torch.sparse.mm(sparse, dense).sum().backward()
        assert torch.equal(dense.grad, torch.ones(64, 64))


class TestGraphs:
    def test_a_second_backward_pass_fetches_again(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine) as swapped:
            y = x.exp()
            loss = (y.sin() + y.cos()).sum()
            loss.backward(retain_graph=True)
            once, x.grad = x.grad, None
            loss.backward()
        assert torch.equal(x.grad, once)
        assert swapped.report().back.arrays == 2 * swapped.report().out.arrays

    def test_second_derivatives(self, torch, engine):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine):
            (slope,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
            slope.sum().backward()
        assert torch.equal(x.grad, x.detach().exp())

    def test_changing_what_stayed_is_found(self, torch, engine):
        x = torch.randn(100, requires_grad=True)
        with swap_to(engine):
            y = x.exp()
            y.mul_(2)
            with pytest.raises(SavedTensorError, match=r"shape \(100,\) was changed in place"):
                y.sum().backward()


class TestNothingIsLost:
    def test_without_a_backward_pass(self, torch, engine):
        before = free(engine)
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine) as swapped:
            loss = x.exp().sin().sum()
        report = swapped.report()
        assert (report.waiting_tensors, report.waiting_bytes) == (1, 4 * 4096)
        assert before[1] - engine.host.free_bytes == report.waiting_stream_bytes
        del loss
        assert swapped.report().waiting_tensors == 0
        assert free(engine) == before

    def test_an_error_in_forward(self, torch, engine):
        before = free(engine)

        def step():
            with swap_to(engine) as swapped:
                spoiled.append(swapped)
                torch.randn(4096, requires_grad=True).exp()
                raise RuntimeError("a layer fails")

        spoiled: list[Any] = []
        with pytest.raises(RuntimeError, match="a layer fails"):
            step()
        gc.collect()
        assert spoiled[0].report().waiting_tensors == 0
        assert free(engine) == before

    def test_no_room_at_the_host(self, torch, engine):
        before = free(engine)
        x = torch.randn(400_000, requires_grad=True)

        def step():
            with swap_to(engine) as swapped:
                kept.append(swapped)
                # Less than the memory holds, and more than it holds.
                (x[:100_000].exp().sum() + x.exp().sum()).backward()

        kept: list[Any] = []
        with pytest.raises(StashError, match="400000 bytes are out"):
            step()
        gc.collect()
        assert kept[0].report().waiting_tensors == 0
        assert free(engine) == before
        # The next step goes as if nothing had been.
        with swap_to(engine):
            x[:1000].exp().sum().backward()
        assert torch.equal(x.grad[:1000], x.detach()[:1000].exp())

    def test_lost_on_the_way_back_can_be_fetched_again(self, torch, engine, monkeypatch):
        x = torch.randn(4096, requires_grad=True)
        with swap_to(engine) as swapped:
            loss = x.exp().sum()
            submit = engine.submit

            def fails(*args, **kwargs):
                raise RuntimeError("the engine fails")

            monkeypatch.setattr(engine, "submit", fails)
            with pytest.raises(RuntimeError, match="the engine fails"):
                loss.backward()
            assert swapped.report().waiting_tensors == 1
            monkeypatch.setattr(engine, "submit", submit)
            loss.backward()
        assert torch.equal(x.grad, x.detach().exp())


def test_report_in_words(torch, engine):
    with swap_to(engine) as swapped:
        torch.randn(4096, requires_grad=True).exp().sum().backward()
    text = str(swapped.report())
    assert text.startswith("out   1 tensors, 16,384 B as 16,896 B (0.97x), ")
    assert "left  0 tensors out, 0 B" in text


def test_documents_examples(capsys):
    """The figures depend on the processor's arithmetic, a little."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    exec("".join(text for language, text in blocks if language == "python"), {})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    printed = "".join(text for language, text in blocks if not language)
    documented = [line.split() for line in printed.splitlines()]
    assert len(lines) == len(documented) == 4
    for line, shown in zip(lines, documented, strict=True):
        for word, expected in zip(line, shown, strict=True):
            number, wanted = (re.sub(r"[,()x%]", "", one) for one in (word, expected))
            if wanted.replace(".", "").isdigit():
                assert float(number) == pytest.approx(float(wanted), rel=0.02)
            else:
                assert word == expected
