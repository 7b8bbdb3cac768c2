"""The shipped captures' subjects: a small AlexNet on real handwritten digits. Needs PyTorch.

Three stages of convolution, ReLU and overlapping max pooling (3×3, stride 2, as AlexNet's), then
two fully connected layers with dropout. The 1797 digits of scikit-learn, 8×8 pixels, are enlarged
to 32×32 so that zeros cluster in the activation maps as they do for photographs.

All runs on one thread, since the order of floating-point sums must not depend on how many cores
there are. The random generators are those that `record` has seeded.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cdma.plan.workload.capture.recorder import Subject, require

KEPT_EPOCHS = (0, 2, 12)
PROBE_IMAGES = 16
CHANNELS = (16, 32, 64)
NEURONS = 128

# Of the training's snapshots, which have to fit into 3 MB though weights do not compress.
SNAPSHOT_EPOCHS = (1, 2, 4, 8, 16)
SNAPSHOT_IMAGES = 4
SNAPSHOT_CHANNELS = (16, 32, 32)
SNAPSHOT_NEURONS = 32

TRAINING_IMAGES = 1437
BATCH_IMAGES = 32
LEARNING_RATE = 0.02
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
DROPOUT = 0.5


def subject() -> Subject:
    """Network, minibatch and training of the capture `digits-cnn`."""
    return _Run(CHANNELS, NEURONS, PROBE_IMAGES).subject(KEPT_EPOCHS)


def training_subject() -> Subject:
    """Those of the capture `digits-cnn-training`, a smaller network with all that is in memory.

    Beside the activations (`conv0.relu`) there are `images`, and by layer the `weights`, the
    `gradients` of both weights (`gradients.conv0`) and activations (`gradients.conv0.relu`), and
    the optimizer's `momentum`, as they are in a training step on the probe between its backward
    pass and the optimizer's step.
    """
    run = _Run(SNAPSHOT_CHANNELS, SNAPSHOT_NEURONS, SNAPSHOT_IMAGES)
    return replace(run.subject(SNAPSHOT_EPOCHS), allocations=run.allocations)


class _Run:
    """A network in training."""

    def __init__(self, channels: Sequence[int], neurons: int, probe_images: int) -> None:
        torch = require("torch")
        torch.set_num_threads(1)
        images, labels = digits(torch)
        self._torch = torch
        self._training = images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES]
        self._test = images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]
        self._probe = images[:probe_images], labels[:probe_images]
        self._model = network(torch.nn, channels, neurons, torch.nn.ReLU)
        self._optimizer = torch.optim.SGD(
            self._model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
        )

    def subject(self, epochs: Sequence[int]) -> Subject:
        images = len(self._probe[0])
        return Subject(
            model=self._model,
            probe=self._probe[0],
            train_epoch=self._train_epoch,
            epochs=epochs,
            recipe={
                "network": str(self._model).splitlines(),
                "data": "scikit-learn's digits (8x8), enlarged to 32x32 (bilinear), standardized",
                "scikit_learn": require("sklearn").__version__,
                "training_images": TRAINING_IMAGES,
                "test_images": len(self._test[0]),
                "probe": f"the first {images} training images, in training mode",
                "optimizer": f"SGD, learning rate {LEARNING_RATE}, momentum {MOMENTUM}, "
                f"weight decay {WEIGHT_DECAY}, minibatches of {BATCH_IMAGES}",
            },
        )

    def allocations(self) -> dict[str, Any]:
        """Arrays that a step on the probe has in memory; see `training_subject`. Trains nothing."""
        outputs = {}

        def keep(name: str, output: Any) -> None:
            output.retain_grad()
            outputs[name] = output

        kinds = (self._torch.nn.ReLU, self._torch.nn.MaxPool2d)
        handles = [
            module.register_forward_hook(
                lambda _module, _inputs, output, name=name: keep(name, output)
            )
            for name, module in self._model.named_modules()
            if isinstance(module, kinds)
        ]
        self._optimizer.zero_grad()
        try:
            self._model.train()
            self._loss(*self._probe).backward()
        finally:
            for handle in handles:
                handle.remove()
        parameters = dict(self._model.named_parameters())
        state = self._optimizer.state
        tensors = {
            "weights": {name: p.detach() for name, p in parameters.items()},
            "gradients": {name: p.grad for name, p in parameters.items()},
            "momentum": {name: state[p]["momentum_buffer"] for name, p in parameters.items()},
        }
        kept = {"images": self._probe[0]}
        for kind, by_name in tensors.items():
            # What is small is pooled, as by the allocators of frameworks.
            biases = [tensor for name, tensor in by_name.items() if name.endswith("bias")]
            kept[f"{kind}.biases"] = self._torch.cat(biases)
            kept |= {
                f"{kind}.{name.partition('.')[0]}": tensor.clone()
                for name, tensor in by_name.items()
                if not name.endswith("bias")
            }
        kept |= {f"gradients.{name}": output.grad for name, output in outputs.items()}
        self._optimizer.zero_grad()
        return kept

    def _train_epoch(self, _epoch: int) -> dict[str, float]:
        self._model.train()
        summed_loss = 0.0
        for batch in self._torch.randperm(TRAINING_IMAGES).split(BATCH_IMAGES):
            self._optimizer.zero_grad()
            loss = self._loss(self._training[0][batch], self._training[1][batch])
            loss.backward()
            self._optimizer.step()
            summed_loss += loss.item() * len(batch)
        return {
            "loss": summed_loss / TRAINING_IMAGES,
            "training_accuracy": self._accuracy(*self._training),
            "test_accuracy": self._accuracy(*self._test),
        }

    def _loss(self, images: Any, labels: Any) -> Any:
        return self._torch.nn.functional.cross_entropy(self._model(images), labels)

    def _accuracy(self, images: Any, labels: Any) -> float:
        self._model.eval()
        with self._torch.no_grad():
            return float((self._model(images).argmax(1) == labels).float().mean())


def digits(torch: Any) -> tuple[Any, Any]:
    """The images, N×1×32×32 with mean 0 and deviation 1, and the labels, in a random order."""
    loaded = require("sklearn.datasets").load_digits()
    images = torch.tensor(loaded.images, dtype=torch.float32)[:, None]
    images = torch.nn.functional.interpolate(
        images, size=(32, 32), mode="bilinear", align_corners=False
    )
    images = (images - images.mean()) / images.std()
    order = torch.randperm(len(images))
    return images[order], torch.tensor(loaded.target)[order]


def network(nn: Any, channels: Sequence[int], neurons: int, activation: Callable[[], Any]) -> Any:
    """The untrained network, of `torch.nn`; `activation` makes the modules behind its layers."""

    def convolution(inputs: int, outputs: int, size: int) -> Any:
        weights = nn.Conv2d(inputs, outputs, size, padding=size // 2)
        return nn.Sequential(OrderedDict(weights=weights, relu=activation()))

    first, second, third = channels
    # Of 32×32 pixels, three poolings leave 3×3.
    inputs = 3 * 3 * third
    return nn.Sequential(
        OrderedDict(
            conv0=convolution(1, first, 5),
            pool0=nn.MaxPool2d(3, 2),
            conv1=convolution(first, second, 3),
            pool1=nn.MaxPool2d(3, 2),
            conv2=convolution(second, third, 3),
            pool2=nn.MaxPool2d(3, 2),
            flatten=nn.Flatten(),
            dropout0=nn.Dropout(DROPOUT),
            fc0=nn.Sequential(OrderedDict(weights=nn.Linear(inputs, neurons), relu=activation())),
            dropout1=nn.Dropout(DROPOUT),
            fc1=nn.Linear(neurons, 10),
        )
    )
