"""The digits network trained while its saved activations pass through a scheme's codecs.

A step is that of `cdma.plan.workload.capture.digits_cnn`: the same data, minibatches and optimizer,
and a network of half as many channels. The activation works in place, as Caffe's and TensorFlow's
do, so that a convolution's output is saved once, after it. Everything random is seeded, so runs of
one seed start from the same weights and see the same minibatches and dropout masks, whatever the
scheme.
"""

import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from cdma.golden.formats.interface import Array
from cdma.plan.policies.comet import Collected, law
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.training.saved import ActivationTraffic, DivergedError, SavedActivations
from cdma.plan.training.schemes import Scheme
from cdma.plan.workload.capture import digits_cnn
from cdma.plan.workload.capture.recorder import reproducible, require

ACTIVATIONS = ("relu", "leaky_relu")

CHANNELS, NEURONS = (8, 16, 32), 64
"""Half of the shipped network's, so that a comparison with several seeds takes an hour."""

STEPS = -(-digits_cnn.TRAINING_IMAGES // digits_cnn.BATCH_IMAGES)
"""Iterations of an epoch."""


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """The result of a training.

    Attributes
    ----------
    test_accuracy, training_accuracy : float
        After the last epoch, 0…1; where the training diverged, of what it left.
    diverged : int or None
        The epoch, from 0, in which it did; it has no loss, and none follows.
    losses : tuple of float
        The mean over each epoch's minibatches.
    traffic : ActivationTraffic
        Of all steps.
    weights_crc32 : int
        Of the trained weights, to tell whether two runs are the same, bit for bit.
    """

    test_accuracy: float
    training_accuracy: float
    diverged: int | None
    losses: tuple[float, ...]
    traffic: ActivationTraffic
    weights_crc32: int


def train(scheme: Scheme, activation: str, seed: int, epochs: int) -> TrainingRun:
    """Train the digits network under a scheme.

    Watched are the outputs of activation, pooling and dropout modules, as far as backward reads
    them: dropout works in place in the paper's frameworks, and its output is what a fully connected
    layer's input is.

    Parameters
    ----------
    scheme : Scheme
    activation : str
        Of `ACTIVATIONS`: `relu` leaves zeros, `leaky_relu` leaves none.
    seed : int
        Of weights, minibatches and dropout.
    epochs : int
        1 or more.

    Raises
    ------
    ScheduleError
        There is no such activation or number of epochs.
    CaptureError
        PyTorch is missing.
    """
    if activation not in ACTIVATIONS:
        raise ScheduleError(
            f"unknown activation {activation!r}; choose from {', '.join(ACTIVATIONS)}"
        )
    if epochs < 1:
        raise ScheduleError(f"epochs must be at least 1, not {epochs}")
    torch = require("torch")
    with reproducible(torch, seed):
        # The order of sums must not depend on the number of cores.
        torch.set_num_threads(1)
        return _Training(torch, scheme, activation).run(epochs)


class _Training:
    """A network, its data and its optimizer."""

    def __init__(self, torch: Any, scheme: Scheme, activation: str) -> None:
        nn = torch.nn
        modules = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}
        images, labels = digits_cnn.digits(torch)
        count = digits_cnn.TRAINING_IMAGES
        self._torch = torch
        self._scheme = scheme
        self._training = images[:count], labels[:count]
        self._test = images[count:], labels[count:]
        self._model = digits_cnn.network(
            nn, CHANNELS, NEURONS, partial(modules[activation], inplace=True)
        )
        self._optimizer = torch.optim.SGD(
            self._model.parameters(),
            lr=digits_cnn.LEARNING_RATE,
            momentum=digits_cnn.MOMENTUM,
            weight_decay=digits_cnn.WEIGHT_DECAY,
        )
        self._watched = (modules[activation], nn.MaxPool2d, nn.Dropout)
        self._traffic = ActivationTraffic()
        self._iteration = 0

    def run(self, epochs: int) -> TrainingRun:
        losses: list[float] = []
        diverged = None
        try:
            losses.extend(map(self._epoch, range(epochs)))
        except DivergedError:
            diverged = len(losses)
        crc32 = 0
        for parameter in self._model.parameters():
            crc32 = zlib.crc32(parameter.detach().numpy().tobytes(), crc32)
        return TrainingRun(
            test_accuracy=self._accuracy(*self._test),
            training_accuracy=self._accuracy(*self._training),
            diverged=diverged,
            losses=tuple(losses),
            traffic=self._traffic,
            weights_crc32=crc32,
        )

    def _epoch(self, epoch: int) -> float:
        self._model.train()
        order = self._torch.randperm(digits_cnn.TRAINING_IMAGES)
        losses = [
            self._step(epoch, self._training[0][batch], self._training[1][batch])
            for batch in order.split(digits_cnn.BATCH_IMAGES)
        ]
        return sum(losses) / len(losses)

    def _step(self, epoch: int, images: Any, labels: Any) -> float:
        self._iteration += 1
        self._optimizer.zero_grad()
        saved = SavedActivations(
            self._model,
            self._watched,
            lambda name: self._scheme.codec(name, epoch),
            self._traffic,
        )
        due = self._scheme.due(self._iteration)
        with saved, _Collector(self._torch, self._model, saved, enabled=due) as collector:
            loss = self._torch.nn.functional.cross_entropy(self._model(images), labels)
            loss.backward()
        self._optimizer.step()
        if due:
            self._scheme.update(self._iteration, len(images), collector.collected(self._optimizer))
        return float(loss.item())

    def _accuracy(self, images: Any, labels: Any) -> float:
        self._model.eval()
        with self._torch.no_grad():
            return float((self._model(images).argmax(1) == labels).float().mean())


class _Collector:
    """A context that watches convolutions whose inputs are activations, for one pass."""

    def __init__(self, torch: Any, model: Any, saved: SavedActivations, *, enabled: bool) -> None:
        convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
        self._convolutions = convolutions if enabled else []
        self._saved = saved
        self._handles: list[Any] = []
        self._seen: dict[str, tuple[Any, float]] = {}
        self._losses: dict[str, Array] = {}

    def __enter__(self) -> Self:
        self._handles = [m.register_forward_hook(self._watch) for m in self._convolutions]
        return self

    def __exit__(self, *_error: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def _watch(self, module: Any, inputs: Any, output: Any) -> None:
        name = self._saved.name_of(inputs[0])
        if name is None:
            return

        def keep(gradient: Any) -> None:
            self._losses[name] = gradient.detach().numpy()

        self._seen[name] = module.weight, float((inputs[0] != 0).float().mean())
        output.register_hook(keep)

    def collected(self, optimizer: Any) -> dict[str, Collected]:
        """Collect figures after the optimizer's step, by the names of the convolutions' inputs."""
        return {
            name: Collected(
                momentum=float(optimizer.state[weight]["momentum_buffer"].abs().mean()),
                loss=law.average_loss(self._losses[name]),
                norm=float(np.sqrt((law.channel_norms(self._losses[name]) ** 2).mean())),
                nonzero=nonzero,
            )
            for name, (weight, nonzero) in self._seen.items()
        }
