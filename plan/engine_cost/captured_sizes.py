"""Lines of lossy streams, measured on captured arrays, for the tensors of a network.

How small a lossy codec makes a tensor depends on its values beside the bound, and a density says
nothing of them. So the golden model takes the arrays that a tensor has its density of: its own at
the captured epochs around, or, of another network, those of the captured layers of its kind next in
depth. This assumes values as large as the captured ones. Of what no array stands for, as dropout's
and softmax's outputs, every line counts as kept whole: no stream is longer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cdma import golden
from cdma.hw.config import CodecConfig
from cdma.plan.engine_cost.packing import LineSizes
from cdma.plan.workload.capture.capture import Activation
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph

OWN, KIND, WORST = "tensor", "kind", "worst case"
"""What sizes are of: the tensor's own arrays, those of its kind of layer, or none."""


@dataclass(frozen=True)
class TensorSizes:
    """A tensor's lines, and what they are of: `OWN`, `KIND` or `WORST`."""

    lines: LineSizes
    measured_on: str


def captured_sizes(
    graph: Graph,
    source: density.Captured,
    epoch: int,
    epochs: int,
    *,
    codec: CodecConfig,
    parameters: Mapping[str, int],
) -> dict[str, TensorSizes]:
    """The lines of every tensor, by name, in the configuration's first codec.

    Parameters
    ----------
    graph : Graph
        With densities of the same source.
    source : Captured
    epoch, epochs : int
        As of `density.apply`.
    codec : CodecConfig
    parameters : mapping of str to int
        The codec's.

    Raises
    ------
    golden.CodecError
        A captured array is of another type than the codec's.
    """
    entry = codec.entries[0]
    measured: dict[str, LineSizes] = {}

    def lines_of(activation: Activation) -> LineSizes:
        if activation.name not in measured:
            size = golden.element_bytes_of(activation.array.dtype)
            model = entry.model(size, parameters)
            lines = model.line_sizes(activation.array)
            measured[activation.name] = LineSizes.of_lines(lines, codec)
        return measured[activation.name]

    worst = entry.worst_line_bytes(codec) - entry.head_bytes(codec)
    found = {
        tensor.name: TensorSizes(LineSizes((worst,), (1.0,)), WORST) for tensor in graph.tensors
    }
    for name, (own, shares) in density.captured_shares(graph, source, epoch, epochs).items():
        mixed = LineSizes.mixed((share, lines_of(activation)) for share, activation in shares)
        found[name] = TensorSizes(mixed, OWN if own else KIND)
    return found
