"""The shipped capture's subject: a small AlexNet on real handwritten digits. Needs PyTorch.

Three stages of convolution, ReLU and overlapping max pooling (3×3, stride 2, as AlexNet's), then
two fully connected layers with dropout. The 1797 digits of scikit-learn, 8×8 pixels, are enlarged
to 32×32 so that zeros cluster in the activation maps as they do for photographs.
"""

from collections import OrderedDict
from typing import Any

from sim.workload.recorder import Subject, require

KEPT_EPOCHS = (0, 2, 12)
PROBE_IMAGES = 16
TRAINING_IMAGES = 1437
BATCH_IMAGES = 32
LEARNING_RATE = 0.02
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
DROPOUT = 0.5


def subject() -> Subject:
    """Network, minibatch and training of the capture `digits-cnn`.

    Runs on one thread, since the order of floating-point sums must not depend on how many cores
    there are. The random generators are those that `record` has seeded.
    """
    torch = require("torch")
    torch.set_num_threads(1)
    images, labels = _digits(torch)
    training = images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES]
    test = images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]
    model = _network(torch.nn)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )

    def train_epoch(_epoch: int) -> dict[str, float]:
        model.train()
        summed_loss = 0.0
        for batch in torch.randperm(TRAINING_IMAGES).split(BATCH_IMAGES):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(training[0][batch]), training[1][batch])
            loss.backward()
            optimizer.step()
            summed_loss += loss.item() * len(batch)
        return {
            "loss": summed_loss / TRAINING_IMAGES,
            "training_accuracy": _accuracy(torch, model, *training),
            "test_accuracy": _accuracy(torch, model, *test),
        }

    return Subject(
        model=model,
        probe=training[0][:PROBE_IMAGES],
        train_epoch=train_epoch,
        epochs=KEPT_EPOCHS,
        recipe={
            "network": str(model).splitlines(),
            "data": "scikit-learn's digits (8x8), enlarged to 32x32 (bilinear), standardized",
            "scikit_learn": require("sklearn").__version__,
            "training_images": TRAINING_IMAGES,
            "test_images": len(test[0]),
            "probe": f"the first {PROBE_IMAGES} training images, in training mode",
            "optimizer": f"SGD, learning rate {LEARNING_RATE}, momentum {MOMENTUM}, "
            f"weight decay {WEIGHT_DECAY}, minibatches of {BATCH_IMAGES}",
        },
    )


def _digits(torch: Any) -> tuple[Any, Any]:
    """The images, N×1×32×32 with mean 0 and deviation 1, and the labels, in a random order."""
    digits = require("sklearn.datasets").load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None]
    images = torch.nn.functional.interpolate(
        images, size=(32, 32), mode="bilinear", align_corners=False
    )
    images = (images - images.mean()) / images.std()
    order = torch.randperm(len(images))
    return images[order], torch.tensor(digits.target)[order]


def _network(nn: Any) -> Any:
    def convolution(inputs: int, outputs: int, size: int) -> Any:
        weights = nn.Conv2d(inputs, outputs, size, padding=size // 2)
        return nn.Sequential(OrderedDict(weights=weights, relu=nn.ReLU()))

    return nn.Sequential(
        OrderedDict(
            conv0=convolution(1, 16, 5),
            pool0=nn.MaxPool2d(3, 2),
            conv1=convolution(16, 32, 3),
            pool1=nn.MaxPool2d(3, 2),
            conv2=convolution(32, 64, 3),
            pool2=nn.MaxPool2d(3, 2),
            flatten=nn.Flatten(),
            dropout0=nn.Dropout(DROPOUT),
            fc0=nn.Sequential(OrderedDict(weights=nn.Linear(576, 128), relu=nn.ReLU())),
            dropout1=nn.Dropout(DROPOUT),
            fc1=nn.Linear(128, 10),
        )
    )


def _accuracy(torch: Any, model: Any, images: Any, labels: Any) -> float:
    model.eval()
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())
