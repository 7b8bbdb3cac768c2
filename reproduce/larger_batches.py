"""Throughput by minibatch, and what the room for larger ones is worth (Buddy Compression, Fig. 13).

The paper's model is like Paleo's and DeLTA's: a layer's products are tiles that fill the
multiprocessors in waves, and a small minibatch leaves the last wave empty, or a tile in part. So is
this one. Layers without products, and all memory traffic, take what the device's model says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil, prod

from cdma.plan.platform.device import Device, device
from cdma.plan.platform.link import link
from cdma.plan.timeline.placement import RETAIN, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer

NETWORKS = ("alexnet", "vgg16", "resnet50", "squeezenet", "inceptionv3", "biglstm")
"""The paper's (Table 1)."""

DEVICE = "titanxp"
MULTIPROCESSORS = 30
"""Of a Titan Xp (NVIDIA)."""

TILES: Mapping[tuple[int, int], float] = {
    (128, 128): 1.0,
    (128, 64): 0.9,
    (64, 64): 0.75,
    (32, 128): 0.65,
    (32, 32): 0.4,
}
"""Rows and columns of a product that a thread block makes, and the part of the speed that blocks of
the first size reach. The sizes are those of libraries, the parts are ours: smaller tiles read their
operands more often."""

PRODUCTS = {"conv": 1, "fc": 1, "lstm": 4}
"""Kinds of layers that are products, and how many times their outputs' columns these have."""

STEP = 8
"""Minibatches are multiples of it."""

MOST = 4096


@dataclass(frozen=True, kw_only=True)
class Batches:
    """A network's largest minibatch without and with compression.

    Attributes
    ----------
    plain, compressed : int
        The largest that fits the device's memory, and as many times that memory as the ratio.
    gain : float
        Throughput of the larger one over that of the other, less one.
    """

    plain: int
    compressed: int
    gain: float


def utilization(rows: int, columns: int) -> float:
    """The part of the multiprocessors' speed that a product reaches, with the best of `TILES`."""
    best = 0.0
    for (height, width), speed in TILES.items():
        waves = ceil(ceil(rows / height) * ceil(columns / width) / MULTIPROCESSORS)
        best = max(best, rows * columns / MULTIPROCESSORS / (waves * height * width) * speed)
    return best


def throughput(network: str, batch: int) -> float:
    """Elements of a minibatch per second of a training step, with memory without end."""
    graph, found = _graph(network, batch), device(DEVICE)
    return batch / sum(_layer_seconds(graph, layer, found) for layer in graph.layers)


def footprint(network: str, batch: int) -> int:
    """Bytes of device memory that a step takes if all is kept (Fig. 13a)."""
    graph = _graph(network, batch)
    scenario = Scenario(
        graph=graph, device=device(DEVICE), link=link("pcie3x16"), memory_bytes=1 << 60
    )
    kept = Plan(policy="keep", choices=(RETAIN,) * len(graph.managed))
    return simulate(scenario, kept).least_bytes


def larger_batches(network: str, ratio: float) -> Batches:
    """Find the minibatches that fit without compression and with it, and their speeds (Fig. 13c).

    Where the largest minibatch is not the fastest, as its last wave is emptier, a smaller one is
    taken.
    """
    capacity = device(DEVICE).capacity_bytes
    plain = _largest(network, capacity)
    compressed = _largest(network, ratio * capacity)
    speeds = [_fastest(network, batch) for batch in (plain, compressed)]
    return Batches(plain=plain, compressed=compressed, gain=speeds[1] / speeds[0] - 1)


@cache
def _graph(network: str, batch: int) -> Graph:
    return density.apply(Graph.from_table(network, batch))


def _layer_seconds(graph: Graph, layer: Layer, found: Device) -> float:
    """Both passes: products wait for their waves, all for their accesses."""
    part = 1.0
    if layer.kind in PRODUCTS:
        shape = graph.tensors[layer.output].shape
        # Of a convolution, images and places are the rows, channels the columns.
        columns = shape[1] * PRODUCTS[layer.kind]
        part = utilization(prod(shape) // shape[1], columns)
    total = 0.0
    for backward in (False, True):
        arithmetic, memory = found.layer_seconds(layer, backward=backward)
        total += max(arithmetic / part, memory)
    return total


def _largest(network: str, nbytes: float) -> int:
    """The largest minibatch of a footprint."""
    low, high = STEP, MOST
    while high - low > STEP:
        middle = (low + high) // (2 * STEP) * STEP
        if footprint(network, middle) <= nbytes:
            low = middle
        else:
            high = middle
    return low


def _fastest(network: str, largest: int) -> float:
    """The best throughput of a few minibatches up to one."""
    sizes = {max(STEP, largest * eighths // 8 // STEP * STEP) for eighths in (4, 5, 6, 7, 8)}
    return max(throughput(network, batch) for batch in sizes)
