"""Layers of all kinds to be timed: as PyTorch runs them, and as the planner counts them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.layers import Layer

LSTM_LAYERS = 3
"""Of a time step, as `Builder.lstm` writes it."""


@dataclass(frozen=True, kw_only=True)
class LayerSample:
    """A layer of one size.

    Attributes
    ----------
    name : str
    layers : tuple of Layer
        As the planner counts it (`cdma.plan.workload.builder.Builder`): one, or an LSTM's three.
    run : callable
        Forward, of the tensors below.
    tensors : tuple of tensor
        Inputs and weights. Backward is by those that need a gradient.
    """

    name: str
    layers: tuple[Layer, ...]
    run: Callable[..., Any]
    tensors: tuple[Any, ...]

    @property
    def kind(self) -> str:
        """The kind of its layers."""
        return self.layers[0].kind


@dataclass(frozen=True)
class _Maker:
    """Makes samples on a device.

    Attributes
    ----------
    torch : module
    device : str
    scale : int
        What batches are multiplied by.
    precision : str
        As of `Builder`: `fp32` or `bf16`.
    """

    torch: Any
    device: str
    scale: int
    precision: str

    def values(self, *shape: int, gradient: bool = True) -> Any:
        dtype = self.torch.bfloat16 if self.precision == "bf16" else self.torch.float32
        made = self.torch.randn(*shape, device=self.device, dtype=dtype)
        return made.requires_grad_(gradient)

    def image(self, batch: int, channels: int, size: int) -> tuple[Builder, int, Any]:
        """A network with a tensor that has a gradient, and the tensor's values."""
        batch *= self.scale
        net = Builder(batch=batch, precision=self.precision)
        x = net.bn("before", net.input("data", channels, size, size))
        return net, x, self.values(batch, channels, size, size)

    def rows(self, rows: int, columns: int) -> tuple[Builder, int, Any]:
        """The same of rows × columns."""
        rows *= self.scale
        net = Builder(batch=1, precision=self.precision)
        x = net.layer_norm("before", net.patches("data", rows, columns))
        return net, x, self.values(rows, columns)

    def sample(
        self, name: str, net: Builder, run: Callable[..., Any], *tensors: Any, layers: int = 1
    ) -> LayerSample:
        """The sample of the network's last layers."""
        return LayerSample(
            name=f"{name} {'×'.join(map(str, tensors[0].shape))}",
            layers=net.table().layers[-layers:],
            run=run,
            tensors=tensors,
        )


def layer_samples(
    torch: Any, device: str, *, scale: int = 1, precision: str = "fp32"
) -> Iterator[LayerSample]:
    """Samples of each kind of layer in `cdma.plan.workload.layers.KINDS`, one after the other.

    Parameters
    ----------
    torch : module
    device : str
        As PyTorch names it.
    scale : int
        What batches are multiplied by; 1 is for CPUs.
    precision : str
        `fp32`; or `bf16`, then only layers that multiply matrices.
    """
    make = _Maker(torch, device, scale, precision)
    products = (_convolutions, _products, _lstm, _attention)
    others = (_embedding, _by_element, _pools, _norms, _several)
    for of_kind in products if precision == "bf16" else (*products, *others):
        yield from of_kind(make)


def _convolutions(make: _Maker) -> Iterator[LayerSample]:
    functional = make.torch.nn.functional
    shapes = ((8, 64, 56, 64, 3, 1), (8, 128, 28, 256, 3, 1), (8, 256, 28, 128, 1, 1))
    depthwise = ((8, 128, 56, 128, 3, 128), (8, 256, 28, 256, 3, 256))
    for batch, channels, size, out, kernel, groups in (*shapes, *depthwise):
        net, x, values = make.image(batch, channels, size)
        pad = kernel // 2
        net.conv("conv", x, out, kernel, pad=pad, groups=groups, bias=False)
        weights = make.values(out, channels // groups, kernel, kernel)

        def run(x: Any, w: Any, pad: int = pad, groups: int = groups) -> Any:
            return functional.conv2d(x, w, padding=pad, groups=groups)

        name = f"{kernel}×{kernel} to {out}" + (" by channel" if groups > 1 else "")
        yield make.sample(name, net, run, values, weights)


def _products(make: _Maker) -> Iterator[LayerSample]:
    for rows, columns, neurons in ((512, 1024, 1024), (256, 2048, 1024), (512, 512, 2048)):
        net, x, values = make.rows(rows, columns)
        net.fc("fc", x, neurons, bias=False)
        weights = make.values(neurons, columns)
        run = make.torch.nn.functional.linear
        yield make.sample(f"to {neurons} of", net, run, values, weights)


def _lstm(make: _Maker) -> Iterator[LayerSample]:
    for rows, units in ((128, 512), (256, 256)):
        net, x, values = make.rows(rows, units)
        hidden, cell = net.lstm("first", x, None, units, columns=units)
        net.lstm("second", x, (hidden, cell), units, columns=units)
        rows *= make.scale
        state = (make.values(rows, units), make.values(rows, units))
        weights = (make.values(4 * units, units), make.values(4 * units, units))
        # GPUs take no cell with one of the two.
        biases = (make.values(4 * units), make.values(4 * units))

        def run(x: Any, h: Any, c: Any, *parameters: Any) -> Any:
            return make.torch.lstm_cell(x, (h, c), *parameters)[0]

        tensors = (values, *state, *weights, *biases)
        yield make.sample("a step of", net, run, *tensors, layers=LSTM_LAYERS)


def _attention(make: _Maker) -> Iterator[LayerSample]:
    run = make.torch.nn.functional.scaled_dot_product_attention
    for batch, heads, length, elements in ((4, 8, 512, 64), (1, 8, 1024, 64)):
        batch *= make.scale
        net = Builder(batch=batch, precision=make.precision)
        columns = heads * elements
        x = net.layer_norm("before", net.patches("data", length, columns))
        three = [net.fc(name, x, columns) for name in ("query", "key", "value")]
        net.attention("attention", *three, heads=heads, elements=elements, length=length)
        values = [make.values(batch, heads, length, elements) for _ in three]
        yield make.sample(f"{heads} heads of", net, run, *values)


def _embedding(make: _Maker) -> Iterator[LayerSample]:
    for length, columns, words in ((2048, 512, 8192), (4096, 256, 8192)):
        net = Builder(batch=make.scale)
        net.embedding("embedding", net.tokens("data", length), columns, words)
        tokens = make.torch.randint(words, (make.scale, length), device=make.device)
        run = make.torch.nn.functional.embedding
        yield make.sample(f"{words} words for", net, run, tokens, make.values(words, columns))


def _by_element(make: _Maker) -> Iterator[LayerSample]:
    functional = make.torch.nn.functional
    for shape in ((8, 64, 112), (8, 128, 56)):
        net, x, values = make.image(*shape)
        net.relu("relu", x)
        yield make.sample("ReLU of", net, functional.relu, values)
        net, x, values = make.image(*shape)
        net = Builder(batch=net.batch, activation="leaky_relu")
        net.relu("relu", net.bn("before", net.input("data", *values.shape[1:])))
        yield make.sample("leaky ReLU of", net, functional.leaky_relu, values)
        net, x, values = make.image(*shape)
        net.gelu("gelu", x)
        yield make.sample("GELU of", net, functional.gelu, values)
        net, x, values = make.image(*shape)
        net.silu("silu", x)
        yield make.sample("SiLU of", net, functional.silu, values)
        net, x, values = make.image(*shape)
        net.dropout("dropout", x)
        yield make.sample("dropout of", net, functional.dropout, values)


def _pools(make: _Maker) -> Iterator[LayerSample]:
    functional = make.torch.nn.functional

    def largest(x: Any) -> Any:
        return functional.max_pool2d(x, 3, 2)

    def mean(x: Any) -> Any:
        return functional.avg_pool2d(x, 2, 2)

    net, x, values = make.image(8, 64, 112)
    net.max_pool("pool", x, 3, 2)
    yield make.sample("maximum of 3×3 of", net, largest, values)
    net, x, values = make.image(8, 128, 56)
    net.avg_pool("pool", x, 2, 2)
    yield make.sample("mean of 2×2 of", net, mean, values)


def _norms(make: _Maker) -> Iterator[LayerSample]:
    functional = make.torch.nn.functional
    for shape in ((8, 64, 56), (8, 256, 28)):
        net, x, values = make.image(*shape)
        net.bn("bn", x)
        affine = (make.values(shape[1]), make.values(shape[1]))

        def batch_norm(x: Any, w: Any, b: Any) -> Any:
            return functional.batch_norm(x, None, None, w, b, training=True)

        yield make.sample("by batch of", net, batch_norm, values, *affine)
        net, x, values = make.image(*shape)
        net.lrn("lrn", x)

        def local(x: Any) -> Any:
            return functional.local_response_norm(x, 5)

        yield make.sample("of 5 channels of", net, local, values)
    for rows, columns in ((4096, 512), (1024, 1024)):
        net, x, values = make.rows(rows, columns)
        net.layer_norm("norm", x)
        affine = (make.values(columns), make.values(columns))

        def layer_norm(x: Any, w: Any, b: Any, columns: int = columns) -> Any:
            return functional.layer_norm(x, (columns,), w, b)

        yield make.sample("by row of", net, layer_norm, values, *affine)


def _several(make: _Maker) -> Iterator[LayerSample]:
    """Layers of two inputs, and softmax."""
    torch = make.torch

    def joined(x: Any, y: Any) -> Any:
        return torch.cat((x, y), 1)

    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    for shape in ((8, 64, 112), (8, 128, 56)):
        for name, run in (("add", torch.add), ("concat", joined), ("multiply", torch.mul)):
            net, x, values = make.image(*shape)
            # A second tensor with a gradient.
            y = net.lrn("other", x)
            getattr(net, name)(name, x, y)
            yield make.sample(f"{name} two of", net, run, values, make.values(*values.shape))
    for rows, columns in ((4096, 1024), (1024, 2048)):
        net, x, values = make.rows(rows, columns)
        net.softmax("softmax", x)
        yield make.sample("of", net, softmax, values)


def passes(torch: Any, sample: LayerSample) -> Mapping[str, Callable[[], Any]]:
    """What is to be timed of a sample: `forward`, and `backward` for its gradients."""
    output = sample.run(*sample.tensors)
    gradient = torch.randn_like(output)
    by = _with_gradient(sample.tensors)
    return {
        "forward": lambda: sample.run(*sample.tensors),
        "backward": lambda: torch.autograd.grad(output, by, gradient, retain_graph=True),
    }


def _with_gradient(tensors: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tensor for tensor in tensors if tensor.requires_grad)
