"""COMET's bounds in a training whose tensors are swapped: `make test-torch`."""

import re
from typing import Any

import numpy as np
import pytest

from cdma.hw.config import CodecConfig, EngineConfig
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.capture import digits_cnn
from cdma.sim.driver import Engine
from cdma.sim.swap import CometController, Saved, SwapPlan, SwapPlanError, swap_to
from tests.lib.paths import ROOT
from tests.lib.shares import configs
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

PAGE = ROOT / "docs" / "guide" / "swap" / "comet-bounds.md"
CODECS = ("zvc", "raw", "quantize")
MEMORY = 4 << 20
BATCH = 32
PERIOD = 8
POOLS = SwapPlan.where(lambda saved: "max_pool2d" in (saved.name or ""), "quantize")
"""What the convolutions read, but for the images, and what the classifier does."""


class Training:
    """The shipped CNN at half its size, always with the same weights and minibatches."""

    def __init__(self, torch: Any, *, momentum: float = digits_cnn.MOMENTUM) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.torch = torch
        self.model = digits_cnn.network(torch.nn, (8, 16, 32), 64, torch.nn.ReLU)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=digits_cnn.LEARNING_RATE, momentum=momentum
        )
        self.images, self.labels = digits_cnn.digits(torch)
        self.losses: list[float] = []

    def loss(self, step: int) -> Any:
        batch = slice(BATCH * (step % 40), BATCH * (step % 40 + 1))
        self.torch.manual_seed(step)
        output = self.model(self.images[batch])
        return self.torch.nn.functional.cross_entropy(output, self.labels[batch])

    def step(self) -> None:
        loss = self.loss(len(self.losses))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(float(loss.item()))

    def gradients(self) -> dict[str, Any]:
        """The convolutions' weight gradients of the last step's minibatch, by their paths."""
        self.model.zero_grad()
        self.loss(len(self.losses) - 1).backward()
        return {
            path: one.weight.grad.numpy().copy()
            for path, one in self.model.named_modules()
            if isinstance(one, self.torch.nn.Conv2d)
        }


@pytest.fixture
def torch() -> Any:
    import torch

    return torch


@pytest.fixture
def engine() -> Engine:
    config = EngineConfig(codec=CodecConfig(element_bytes=1, codecs=CODECS))
    return Engine(ModelMachine(config, memory_bytes=MEMORY), codecs=CODECS)


def trained(torch: Any, engine: Engine, steps: int, period: int = PERIOD):
    """A training of so many steps with the controller, and what was swapped."""
    training = Training(torch)
    controller = CometController(training.model, training.optimizer, period=period)
    with swap_to(engine, POOLS, module=training.model, bounds=controller) as swapped:
        for _ in range(steps):
            training.step()
    return training, controller, swapped


def test_nothing_is_lost_in_the_first_period_and_then_convolutions_inputs_are(torch, engine):
    training, controller, swapped = trained(torch, engine, PERIOD)
    assert swapped.report().lossy == ()
    plain = Training(torch)
    for _ in range(PERIOD):
        plain.step()
    assert training.losses == plain.losses
    assert controller.iteration == PERIOD + 1
    # The first convolution reads the images.
    convolutions = [path for path in plain.gradients() if path in controller.predicted_sigmas]
    assert len(convolutions) == len(controller.bounds) == 2
    for bound in controller.bounds.values():
        assert np.log2(bound).is_integer()
    with swap_to(engine, POOLS, module=training.model, bounds=controller) as swapped:
        training.step()
    found = {each.name: each.loss.bound for each in swapped.report().lossy}
    assert found == controller.bounds
    assert all(each.loss.within_bound for each in swapped.report().lossy)


def test_bounds_are_those_of_the_papers_equations_rounded_down(torch, engine):
    _, controller, _ = trained(torch, engine, PERIOD)
    exact = controller.controller.bounds
    assert len(exact) == 2
    for bound, rounded in zip(exact.values(), controller.bounds.values(), strict=True):
        assert bound / 2 < rounded <= bound


@pytest.mark.parametrize("steps", configs({"early": 8, "later": 48}, quick=["early"]))
def test_the_gradients_error_is_normal_with_the_predicted_sigma(torch, engine, steps):
    """COMET, Figure 5 and eq. 11, with the exact law."""
    training, controller, _ = trained(torch, engine, steps)
    with swap_to(engine, POOLS, module=training.model, bounds=controller):
        while not controller.controller.due(controller.iteration):
            training.step()
        weights = {name: value.clone() for name, value in training.model.state_dict().items()}
        training.step()
    # With the weights, the minibatch and the dropout that the bounds were found with.
    training.model.load_state_dict(weights)
    exact = training.gradients()
    with swap_to(engine, POOLS, module=training.model, bounds=controller):
        lossy = training.gradients()
    assert controller.predicted_sigmas
    for path, predicted in controller.predicted_sigmas.items():
        errors = lossy[path].astype(np.float64) - exact[path]
        assert 0.85 < errors.std() / predicted < 1.05, path
        # Output channels have sigmas of their own, and one that nothing flows through has none.
        errors = errors.reshape(len(errors), -1)
        errors = errors[errors.any(axis=1)]
        normal = errors / errors.std(axis=1, keepdims=True)
        # Few terms count where few images have any loss: they are nearer to the middle.
        assert np.mean(np.abs(normal) < 1) == pytest.approx(0.68, abs=0.06), path
        assert np.mean(np.abs(normal) < 2) == pytest.approx(0.95, abs=0.02), path
        assert abs(normal.mean()) < 0.15, path


@pytest.mark.verify
def test_training_is_as_good_as_without_loss(torch, engine):
    """The mean loss of the last 20 of 160 steps, and each step's, beside the lossless ones."""
    steps = 160
    training, controller, swapped = trained(torch, engine, steps, period=20)
    plain = Training(torch)
    for _ in range(steps):
        plain.step()
    last, wanted = np.mean(training.losses[-20:]), np.mean(plain.losses[-20:])
    assert wanted < 0.7 * plain.losses[0]
    assert last == pytest.approx(wanted, rel=0.1)
    assert training.losses != plain.losses
    names = {each.name for each in swapped.report().lossy}
    assert names == set(controller.bounds)
    nbytes = sum(each.nbytes for each in swapped.report().lossy)
    assert nbytes > 4 * sum(each.stream_bytes for each in swapped.report().lossy)


class TestRefused:
    def test_without_names(self, torch, engine):
        training = Training(torch)
        controller = CometController(training.model, training.optimizer)
        with pytest.raises(SwapPlanError, match="give swap_to the controller's module, module="):
            with swap_to(engine, POOLS, bounds=controller):
                pass

    def test_another_module(self, torch, engine):
        training = Training(torch)
        controller = CometController(training.model, training.optimizer)
        with pytest.raises(SwapPlanError, match="give swap_to the controller's module"):
            with swap_to(engine, POOLS, module=Training(torch).model, bounds=controller):
                pass

    def test_an_optimizer_without_momentum(self, torch, engine):
        training = Training(torch, momentum=0)
        controller = CometController(training.model, training.optimizer, period=1)
        with swap_to(engine, POOLS, module=training.model, bounds=controller):
            with pytest.raises(ScheduleError, match=r"keeps no momentum of conv\d"):
                training.step()

    def test_two_passes_before_a_step(self, torch, engine):
        training = Training(torch)
        controller = CometController(training.model, training.optimizer, period=1)
        with swap_to(engine, POOLS, module=training.model, bounds=controller):
            training.loss(0).backward()
            with pytest.raises(ScheduleError, match="runs twice before the optimizer's step"):
                training.loss(1)

    def test_a_period_of_nothing(self, torch):
        training = Training(torch)
        with pytest.raises(ScheduleError, match="the period must be 1 iteration or more, not 0"):
            CometController(training.model, training.optimizer, period=0)


def test_a_pass_without_gradients_is_not_collected(torch, engine):
    training = Training(torch)
    controller = CometController(training.model, training.optimizer, period=1)
    with swap_to(engine, POOLS, module=training.model, bounds=controller):
        with torch.no_grad():
            training.loss(0)
        training.step()
    assert len(controller.bounds) == 2


def test_adams_momentum_counts(torch, engine):
    training = Training(torch)
    training.optimizer = torch.optim.Adam(training.model.parameters())
    controller = CometController(training.model, training.optimizer, period=1)
    with swap_to(engine, POOLS, module=training.model, bounds=controller):
        training.step()
    assert len(controller.bounds) == 2


def test_what_no_convolution_reads_has_no_bound(torch):
    training = Training(torch)
    controller = CometController(training.model, training.optimizer)
    controller.bounds["pool0#0:max_pool2d_with_indices@0.0"] = 0.5
    shape = {"nbytes": 4096, "shape": (1024,), "dtype": "float32", "activation": True}
    assert controller(Saved(**shape, name="pool0#0:max_pool2d_with_indices@0.0")) == 0.5
    assert controller(Saved(**shape, name="pool1#0:max_pool2d_with_indices@0.0")) is None
    assert controller(Saved(**shape)) is None


@pytest.mark.verify
def test_the_pages_example_prints_what_it_shows(capsys):
    """The figures depend on the processor's arithmetic, a little."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = (text for language, text in blocks if language == "python")
    (shown,) = (text for language, text in blocks if not language)
    exec(code, {})
    printed = capsys.readouterr().out.split()
    assert len(printed) == len(shown.split())
    for word, expected in zip(printed, shown.split(), strict=True):
        number, wanted = (re.sub(r"[,()x%:]", "", one) for one in (word, expected))
        if re.fullmatch(r"[\d.]+", wanted):
            assert float(number) == pytest.approx(float(wanted), rel=0.03)
        else:
            assert word == expected
