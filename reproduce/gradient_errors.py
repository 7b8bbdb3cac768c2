"""Weight gradients' errors from activations' errors, on layers of a real training (COMET, §4).

Activations and the loss's gradients by them are those of the capture `digits-cnn-training`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from cdma.golden.formats.interface import Array
from cdma.plan.policies.comet import law
from cdma.plan.workload import load_capture

BOUND = 1e-3
DRAWS = 4

_CONVOLUTIONS = (("images", "conv0", 5), ("pool0", "conv1", 3), ("pool1", "conv2", 3))
"""Their inputs, their names, and their windows."""
_EPOCHS = (1, 16)


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution:
    """A convolution at one moment of the training.

    Attributes
    ----------
    name : str
    activations, loss : numpy.ndarray
        float32 (images, channels, height, width): its input, and the loss's gradient by its output.
    window : int
    """

    name: str
    activations: Array
    loss: Array
    window: int

    @property
    def nonzero(self) -> float:
        """R: the share of activations that are not zero."""
        return np.count_nonzero(self.activations) / self.activations.size

    @property
    def norm(self) -> float:
        """‖L‖₂, the root mean square over channels."""
        return float(np.sqrt((law.channel_norms(self.loss) ** 2).mean()))

    @property
    def coefficient(self) -> float:
        """The paper's a for which its law is exact here."""
        return law.coefficient(
            norm=self.norm, loss=law.average_loss(self.loss), batch=len(self.loss)
        )

    def gradient(self, errors: Array) -> Array:
        """The part of the weights' gradient that such input errors add, (outputs, inputs, y, x)."""
        edge = self.window // 2
        padded = np.pad(errors, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        windows = np.lib.stride_tricks.sliding_window_view(
            padded, (self.window, self.window), axis=(2, 3)
        )
        loss = np.tile(self.loss, (len(errors) // len(self.loss), 1, 1, 1)).astype(np.float64)
        return np.tensordot(loss, windows, axes=((0, 2, 3), (0, 2, 3)))

    def measured_sigma(self, *, zeros_kept: bool, times: int = 1) -> float:
        """The gradient errors' deviation under uniform errors, of `times` as many images."""
        rng = np.random.default_rng(0)
        mask = np.tile(self.activations != 0, (times, 1, 1, 1)) if zeros_kept else 1.0
        shape = (times * len(self.activations), *self.activations.shape[1:])
        found = [
            self.gradient(rng.uniform(-BOUND, BOUND, shape) * mask).ravel() for _ in range(DRAWS)
        ]
        return float(np.std(found))

    def exact_sigma(self, nonzero: float) -> float:
        return law.exact_sigma(BOUND, norm=self.norm, nonzero=nonzero)


@cache
def convolutions() -> tuple[Convolution, ...]:
    """Convolutions of three layers in two epochs."""
    arrays = {a.name: a.array for a in load_capture("digits-cnn-training").activations}
    return tuple(
        Convolution(
            name=f"{name}@epoch{epoch}",
            activations=arrays[f"{source}@epoch{epoch}"],
            loss=arrays[f"gradients.{name}.relu@epoch{epoch}"]
            * (arrays[f"{name}.relu@epoch{epoch}"] > 0),
            window=window,
        )
        for source, name, window in _CONVOLUTIONS
        for epoch in _EPOCHS
    )


@cache
def normalized_errors() -> Array:
    """Errors of single weights' gradients over the exact σ of their channels, float64 (n,).

    Of weights in the middle of the window, where padding never falls, and of channels whose sums
    have many terms that count.
    """
    rng = np.random.default_rng(0)
    found = []
    for layer in convolutions():
        squares = np.moveaxis(layer.loss.astype(np.float64) ** 2, 1, 0)
        squares = squares.reshape(len(squares), -1)
        many = squares.sum(1) ** 2 > 8 * (squares**2).sum(1)
        sigma = law.exact_sigma(BOUND, norm=1.0, nonzero=1.0) * law.channel_norms(layer.loss)[many]
        middle = layer.window // 2
        for _ in range(DRAWS):
            errors = rng.uniform(-BOUND, BOUND, layer.activations.shape)
            gradient = layer.gradient(errors)[many, :, middle, middle]
            found.append((gradient / sigma[:, None]).ravel())
    return np.concatenate(found)


def regression_coded(array: Array, bound: float, block: int = 128) -> Array:
    """The output of an error-bounded coder with SZ's linear regression, float64.

    Each block is predicted by a straight line, and the difference is quantized in steps of twice
    the bound.

    Parameters
    ----------
    array
        float32, of any shape; what is left of whole blocks is dropped.
    """
    values = array.reshape(-1)[: array.size // block * block].reshape(-1, block).astype(np.float64)
    place = np.arange(block) - (block - 1) / 2
    slope = values @ place / (place @ place)
    predicted = values.mean(axis=1, keepdims=True) + slope[:, None] * place
    step = 2 * bound
    return predicted + np.rint((values - predicted) / step) * step


def worst_error(coded: Callable[[Array], Array], arrays: list[Array], bound: float) -> float:
    """The largest error over the bound."""
    return max(float(np.abs(coded(array) - array).max()) / bound for array in arrays)
