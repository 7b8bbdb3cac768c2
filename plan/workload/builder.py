"""A network's table, layer by layer: sizes, arithmetic, and what backward needs."""

from collections.abc import Sequence
from math import prod

from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.sequence_layers import SequenceLayers
from cdma.plan.workload.table import WIDE_BYTES

ACTIVATIONS = ("relu", "leaky_relu")

Pair = int | tuple[int, int]


class Builder(SequenceLayers):
    """Writes a network down as its definition reads.

    A method appends one layer and returns its output's index, which the next method takes:

        net = Builder(batch=256)
        x = net.input("data", 3, 227, 227)
        x = net.relu("relu1", net.conv("conv1", x, 96, 11, stride=4))

    What is counted, per layer:

    - arithmetic: the multiplications and additions of convolutions and matrix products, two per
      multiply-accumulate, without biases, as PyTorch's `FlopCounterMode` does. Backward does them
      twice (gradients by input and by weights), or once where the input is the minibatch. All
      other layers wait for memory, and their arithmetic is not counted;
    - bytes: each array that the layer reads or writes, once per pass over it. Backward reads
      what is saved, the weights and the output's gradient, and writes the gradients by input and
      weights. Batch normalization reads its input twice (statistics, values), and backward reads
      input and gradient twice;
    - saved: the arguments that cuDNN's and Caffe's backward functions take. Convolution and fully
      connected: the input. ReLU: its output. Maximum pooling and LRN: input and output. Batch
      normalization: the input. Softmax: the output. Average pooling, sum and concatenation: none.

    ReLU and dropout work in place where nothing else needs the values that they overwrite.
    Convolutions are computed without scratch memory (implicit matrix product).

    Parameters
    ----------
    batch : int
    activation : str
        What `relu` appends: `relu`, or `leaky_relu` for the dense variant of a network (CSWAP+,
        §6.1).
    precision : str
        One of `cdma.plan.workload.table.PRECISIONS`: of values and weights.

    Raises
    ------
    GraphError
        The batch is not positive, the activation unknown, or, from a method, the layer's shapes
        do not fit; the message names the layer.
    """

    def __init__(self, batch: int, activation: str = "relu", precision: str = "fp32") -> None:
        super().__init__(batch, precision)
        if activation not in ACTIVATIONS:
            raise GraphError(
                f"unknown activation {activation!r}; name one of {', '.join(ACTIVATIONS)}"
            )
        self.activation = activation

    def input(self, name: str, *shape: int) -> int:
        """The minibatch, of this shape per image."""
        return self._tensor(name, "input", (self.batch, *shape), self.weight_bytes)

    def conv(
        self,
        name: str,
        x: int,
        channels: int,
        kernel: Pair,
        *,
        stride: int = 1,
        pad: Pair = 0,
        groups: int = 1,
        bias: bool = True,
    ) -> int:
        """A convolution; of kind `dwconv` when every channel is a group of its own."""
        batch, inputs, *_ = self._image(name, x)
        if inputs % groups or channels % groups:
            raise GraphError(
                f"layer {name}: {inputs} and {channels} channels do not divide into {groups} groups"
            )
        height, width = self._windows(name, x, kernel, stride, pad, ceil=False)
        weights = channels * (inputs // groups) * prod(_pair(kernel))
        return self._product(
            name,
            "dwconv" if groups == inputs > 1 else "conv",
            (x,),
            (batch, channels, height, width),
            flops=2 * weights * batch * height * width,
            parameters=weights + bias * channels,
        )

    def fc(
        self,
        name: str,
        x: int,
        neurons: int,
        *,
        bias: bool = True,
        shared: bool = False,
        tied: bool = False,
        every: int = 1,
    ) -> int:
        """A fully connected layer on each image's values, or on each row of a sequence's.

        Parameters
        ----------
        shared : bool
            Its weights are those of a product before, and count once as parameters.
        tied : bool
            Its weights are those of an embedding, and count once as parameters.
        every : int
            It takes one row of so many, though all of them are saved.
        """
        rows = self.shape(x)[0] // every
        inputs = prod(self.shape(x)[1:])
        if every > 1:
            x = self._narrowed(name, x, (rows, inputs))
        out = self._product(
            name,
            "fc",
            (x,),
            (rows, neurons),
            flops=2 * rows * inputs * neurons,
            parameters=(inputs + bias) * neurons,
            shared=shared,
        )
        return self._amend(out, parameter_bytes=0) if tied else out

    def lstm(
        self,
        name: str,
        x: int,
        state: tuple[int, int] | None,
        units: int,
        *,
        columns: int,
        shared: bool = False,
    ) -> tuple[int, int]:
        """One time step of an LSTM: three layers, `NAME.gates`, `NAME.cell` and `NAME.hidden`.

        The four gates are one matrix product over input and recurrent input, the other two work by
        element. Backward reads the gates' values and both cells (Hochreiter and Schmidhuber 1997).

        Parameters
        ----------
        x : int
            The step's input, N×I.
        state : tuple of int, or None
            The last step's recurrent input N×`columns` (its hidden values, or their projection)
            and its cell N×`units`; None at the first step, where both are zero.
        shared : bool
            The weights are those of the step before, and count once as parameters.

        Returns
        -------
        hidden, cell : int
            Both N×`units`.
        """
        rows, inputs = self.shape(x)
        read = (x, *(state[:1] if state else ()))
        used = sum(self.shape(t)[1] for t in read)
        gates = self._product(
            f"{name}.gates",
            "lstm",
            read,
            (rows, 4 * units),
            flops=2 * rows * used * 4 * units,
            parameters=(inputs + columns + 1) * 4 * units,
            shared=shared,
            saves_output=True,
        )
        before = (gates, *(state[1:] if state else ()))
        cell = self._plain(f"{name}.cell", "lstm", before, (rows, units), saved=before)
        both = (gates, cell)
        return self._plain(f"{name}.hidden", "lstm", both, (rows, units), saved=both), cell

    def embedding(self, name: str, x: int, columns: int, rows: int) -> int:
        """A row of a table for each of the tokens; backward adds to `rows` rows at most."""
        shape = (prod(self.shape(x)), columns)
        out = self._plain(
            name, "embedding", (x,), shape, saved=(x,), element_bytes=self.weight_bytes
        )
        return self._amend(out, parameter_bytes=self.weight_bytes * rows * columns)

    def relu(self, name: str, x: int) -> int:
        """The builder's activation, in place. Backward reads the output: its sign is enough."""
        if self._values_needed(x):
            return self._plain(name, self.activation, (x,), self.shape(x), saves_output=True)
        return self._in_place(name, self.activation, x, saves_output=True)

    def dropout(self, name: str, x: int, p: float = 0.5, *, in_place: bool = True) -> int:
        """Dropout with probability `p`. Keeps a mask on the device, 1 B per element."""
        if not 0 <= p <= 1:
            raise GraphError(f"layer {name}: p must be 0 to 1, not {p}")
        mask = prod(self.shape(x))
        if in_place and not self._values_needed(x):
            out = self._in_place(name, "dropout", x)
        else:
            out = self._plain(name, "dropout", (x,), self.shape(x))
        layer = self._layers[-1]
        return self._amend(
            out,
            bytes_forward=layer.bytes_forward + mask,
            bytes_backward=layer.bytes_backward + mask,
            kept_bytes=mask,
            keeps=1 - p,
        )

    def max_pool(
        self, name: str, x: int, kernel: int, stride: int, *, pad: int = 0, ceil: bool = False
    ) -> int:
        """Maximum pooling; `ceil`: the last window may reach over the edge (Caffe)."""
        shape = self._pooled(name, x, kernel, stride, pad, ceil)
        return self._plain(name, "pool", (x,), shape, saved=(x,), saves_output=True)

    def avg_pool(
        self, name: str, x: int, kernel: int, stride: int, *, pad: int = 0, ceil: bool = False
    ) -> int:
        """Average pooling, which backward needs no values for."""
        return self._plain(name, "pool", (x,), self._pooled(name, x, kernel, stride, pad, ceil))

    def global_pool(self, name: str, x: int) -> int:
        """The average of each channel."""
        batch, channels, _height, _width = self._image(name, x)
        return self._plain(name, "pool", (x,), (batch, channels, 1, 1))

    def bn(self, name: str, x: int) -> int:
        """Batch normalization with scale and shift; keeps each channel's mean and deviation."""
        channels = self.shape(x)[1]
        out = self._plain(name, "bn", (x,), self.shape(x), saved=(x,))
        nbytes = self._tensors[x].nbytes
        return self._amend(
            out,
            bytes_forward=3 * nbytes,
            bytes_backward=5 * nbytes,
            parameter_bytes=2 * self.weight_bytes * channels,
            kept_bytes=2 * WIDE_BYTES * channels,
        )

    def lrn(self, name: str, x: int) -> int:
        """Local response normalization across channels (AlexNet, §3.3)."""
        return self._plain(name, "lrn", (x,), self.shape(x), saved=(x,), saves_output=True)

    def add(self, name: str, *xs: int) -> int:
        """The sum of tensors of one shape."""
        if len({self.shape(x) for x in xs}) != 1:
            raise GraphError(f"layer {name} adds shapes {_shapes(self, xs)}; they must be one")
        return self._plain(name, "add", xs, self.shape(xs[0]))

    def concat(self, name: str, *xs: int) -> int:
        """Tensors behind one another along the channels."""
        batch, _, *rest = self.shape(xs[0])
        if len({(batch, *self.shape(x)[2:]) for x in xs}) != 1:
            raise GraphError(
                f"layer {name} joins shapes {_shapes(self, xs)}; they may differ in channels only"
            )
        channels = sum(self.shape(x)[1] for x in xs)
        return self._plain(name, "concat", xs, (batch, channels, *rest))

    def softmax(self, name: str, x: int) -> int:
        """Softmax and loss, which autocast computes in float32; backward starts from the
        probabilities."""
        element_bytes = WIDE_BYTES if self.precision == "autocast" else None
        return self._plain(
            name,
            "softmax",
            (x,),
            self.shape(x),
            saves_output=True,
            element_bytes=element_bytes,
        )

    def _values_needed(self, x: int) -> bool:
        """Return True if a layer reads the tensor's values as they are, so that none may be
        overwritten.

        A ReLU does not count: where a dropout has put zeros, no gradient comes from behind.
        """
        return self._tensors[x].kind == "input" or any(
            x in (layer.saved if layer.output == x else layer.inputs)
            and layer.kind not in ACTIVATIONS
            for layer in self._layers
        )

    def _image(self, name: str, x: int) -> tuple[int, int, int, int]:
        shape = self.shape(x)
        if len(shape) != 4:
            raise GraphError(f"layer {name} needs N×C×H×W, and {self._tensors[x].name} is {shape}")
        return shape[0], shape[1], shape[2], shape[3]

    def _pooled(
        self, name: str, x: int, kernel: int, stride: int, pad: int, ceil: bool
    ) -> tuple[int, ...]:
        batch, channels, *_ = self._image(name, x)
        return (batch, channels, *self._windows(name, x, kernel, stride, pad, ceil))

    def _windows(
        self, name: str, x: int, kernel: Pair, stride: int, pad: Pair, ceil: bool
    ) -> tuple[int, int]:
        """The numbers of windows along height and width."""
        counts = []
        sizes = self._image(name, x)[2:]
        for size, k, p in zip(sizes, _pair(kernel), _pair(pad), strict=True):
            free = size + 2 * p - k
            if free < 0:
                raise GraphError(
                    f"layer {name}: a window of {k} does not fit into {size} pixels; use a larger "
                    "image"
                )
            count = free // stride + 1
            # A window that the rounding up adds must still begin on the image (Caffe, PyTorch).
            if ceil and free % stride and count * stride < size + p:
                count += 1
            counts.append(count)
        return counts[0], counts[1]


def _pair(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _shapes(net: Builder, xs: Sequence[int]) -> str:
    return ", ".join("×".join(map(str, net.shape(x))) for x in xs)
