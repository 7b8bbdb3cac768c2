"""Layers of networks for sequences: tensors of tokens × columns, a sequence behind the other."""

from math import prod

from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.table import INDEX_BYTES, WIDE_BYTES, TableWriter

BACKWARD_PRODUCTS = 2.5
"""Products of attention's backward pass for one of forward's: it computes the weights again, and
has four for gradients where forward has two (FlashAttention, §3.1)."""


class SequenceLayers(TableWriter):
    """The methods of `cdma.plan.workload.builder.Builder` for transformers.

    Operators are those that PyTorch runs on a GPU: one for each normalization, one for attention,
    and activations and products by element of their own, nothing fused.
    """

    def tokens(self, name: str, length: int) -> int:
        """The minibatch of token numbers, batch × length."""
        return self._tensor(name, "input", (self.batch, length), INDEX_BYTES)

    def patches(self, name: str, rows: int, columns: int) -> int:
        """The minibatch of images cut into patches, or of what else comes as rows of values."""
        return self._tensor(name, "input", (self.batch * rows, columns), self.weight_bytes)

    def learned(self, name: str, x: int, rows: int) -> int:
        """The sum of a tensor and of weights that are as long as a sequence: positions."""
        out = self._plain(name, "add", (x,), self.shape(x), element_bytes=self._beside_weights(x))
        weights = self.weight_bytes * rows * self._columns(name, x)
        return self._amend(out, parameter_bytes=weights)

    def with_token(self, name: str, x: int, rows: int) -> int:
        """Sequences of `rows` with a learned row before each."""
        columns = self._columns(name, x)
        sequences = self.shape(x)[0] // rows
        shape = (sequences * (rows + 1), columns)
        out = self._plain(name, "concat", (x,), shape, element_bytes=self._beside_weights(x))
        return self._amend(out, parameter_bytes=self.weight_bytes * columns)

    def increment(self, name: str, x: int, columns: int) -> int:
        """One more than each value of some columns."""
        return self._plain(name, "add", (x,), (self.shape(x)[0], columns))

    def top(self, name: str, x: int, columns: int) -> int:
        """The largest values of each row. Keeps their places."""
        rows = self.shape(x)[0]
        out = self._plain(name, "other", (x,), (rows, columns))
        return self._amend(out, kept_bytes=INDEX_BYTES * rows * columns)

    def layer_norm(self, name: str, x: int, *, affine: bool = True) -> int:
        """Layer normalization; keeps each row's mean and deviation."""
        parameters = 2 * self._columns(name, x) if affine else 0
        return self._row_norm(name, x, kept_per_row=2, parameters=parameters)

    def rms_norm(self, name: str, x: int) -> int:
        """RMS normalization; keeps a number per row."""
        return self._row_norm(name, x, kept_per_row=1, parameters=self._columns(name, x))

    def gelu(self, name: str, x: int) -> int:
        """Gaussian error linear unit; backward reads the input. Dense: no value is zero."""
        return self._plain(name, "gelu", (x,), self.shape(x), saved=(x,))

    def silu(self, name: str, x: int) -> int:
        """Sigmoid linear unit; backward reads the input. Dense: no value is zero."""
        return self._plain(name, "silu", (x,), self.shape(x), saved=(x,))

    def multiply(self, name: str, x: int, factor: int) -> int:
        """The product by element with a tensor, or with columns of one whose rows are repeated.
        Backward reads both."""
        return self._plain(name, "other", (x, factor), self.shape(x), saved=(x, factor))

    def shift(self, name: str, x: int, summand: int) -> int:
        """The sum with columns of a tensor whose rows are repeated."""
        return self._plain(name, "add", (x, summand), self.shape(x))

    def rotary(self, name: str, x: int) -> int:
        """Rotary position embedding; backward needs angles only."""
        return self._plain(name, "other", (x,), self.shape(x))

    def attention(self, name: str, *tensors: int, heads: int, elements: int, length: int) -> int:
        """Scaled dot-product attention that keeps no matrix of length × length.

        Backward reads query, key, value and output, and one float32 number per query and head, the
        logarithm of its sum of exponentials (FlashAttention, §3.1). Its arithmetic is that of whole
        squares, as PyTorch counts it, also where a causal mask makes half of it superfluous.

        Parameters
        ----------
        tensors : int
            Query, key and value, each rows × columns; or one tensor that has all three.
        heads : int
            Of the query; grouped keys and values have fewer columns.
        elements : int
            Of a head.
        length : int
            Of a sequence.
        """
        tensors = tuple(self._narrowed(name, x) for x in tensors)
        rows, columns = self.shape(tensors[0])[0], heads * elements
        if rows % length:
            raise GraphError(f"layer {name}: {rows} rows are no sequences of {length}")
        out = self._plain(
            name, "attention", tensors, (rows, columns), saved=tensors, saves_output=True
        )
        flops = 2 * 2 * rows * length * columns
        return self._amend(
            out,
            flops_forward=float(flops),
            flops_backward=BACKWARD_PRODUCTS * flops,
            kept_bytes=WIDE_BYTES * rows * heads,
            narrow=self.precision != "fp32",
        )

    def routed(self, name: str, x: int, copies: int) -> int:
        """Rows sorted by the experts that they go to, each as often as it goes to one. Keeps each
        one's place."""
        rows, columns = self.shape(x)
        out = self._plain(name, "other", (x,), (copies * rows, columns))
        return self._amend(out, kept_bytes=INDEX_BYTES * copies * rows)

    def expert_fc(self, name: str, x: int, neurons: int, experts: int) -> int:
        """A fully connected layer, without bias, whose weights each row's expert has."""
        rows, inputs = self.shape(x)
        return self._product(
            name,
            "fc",
            (x,),
            (rows, neurons),
            flops=2 * rows * inputs * neurons,
            parameters=experts * inputs * neurons,
        )

    def gathered(self, name: str, x: int, copies: int) -> int:
        """The sums of each row's copies, from all its experts."""
        rows, columns = self.shape(x)
        return self._plain(name, "add", (x,), (rows // copies, columns))

    def _row_norm(self, name: str, x: int, *, kept_per_row: int, parameters: int) -> int:
        out = self._plain(
            name, "bn", (x,), self.shape(x), saved=(x,), element_bytes=self._beside_weights(x)
        )
        rows = prod(self.shape(x)[:-1])
        return self._amend(
            out,
            parameter_bytes=self.weight_bytes * parameters,
            kept_bytes=WIDE_BYTES * kept_per_row * rows,
        )

    def _beside_weights(self, x: int) -> int:
        """Bytes of an element of what is computed from a tensor and weights, but for products."""
        return max(self._tensors[x].element_bytes, self.weight_bytes)

    def _columns(self, name: str, x: int) -> int:
        shape = self.shape(x)
        if len(shape) != 2:
            raise GraphError(f"layer {name} needs rows × columns, not {shape}")
        return shape[1]
