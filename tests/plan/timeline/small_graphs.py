"""Random small training steps, to hold plans, searches and bounds to the exact optimum."""

import numpy as np

from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, Choice, Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, with_memory
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer, Tensor

HOME_OPTIONS = (RETAIN, SWAP, RECOMPUTE)

MANY_OPTIONS = (
    RETAIN,
    SWAP,
    RECOMPUTE,
    Choice(Placement.SWAP, "zvc"),
    Choice(Placement.SWAP, "zvc-sm"),
    Choice(Placement.COMPRESS, "zvc-sm"),
)

KINDS = ("conv", "bn", "relu", "pool", "add", "concat")

DEVICE = Device(
    name="toy",
    peak_flops=1e12,
    dram_bytes_per_s=100e9,
    capacity_bytes=10**12,
    engine="titanx_gen3",
    source="made up",
)


def random_graph(rng: np.random.Generator, managed: int) -> Graph:
    """A chain with skips, layers in place, and tensors that backward does not need.

    Exactly `managed` tensors are to be decided about.
    """
    tensors = [Tensor(name="image", nbytes=int(rng.integers(1, 20)) * 10**6, kind="input")]
    layers: list[Layer] = []
    decided = 0
    while decided < managed:
        i = len(layers)
        newest = len(tensors) - 1
        inputs = [newest]
        if len(tensors) > 3 and rng.random() < 0.25:
            # Made lately, as of a skip connection.
            inputs.append(int(rng.integers(max(1, newest - 3), newest)))
        in_place = newest > 0 and rng.random() < 0.2
        kept = rng.random() < 0.75
        if in_place:
            inputs, output = [newest], newest
        else:
            output = len(tensors)
            tensors.append(
                Tensor(
                    name=f"t{output}",
                    nbytes=int(rng.integers(1, 100)) * 10**6,
                    kind="conv",
                    density=float(rng.random()),
                )
            )
        work = float(rng.integers(1, 200)) * 1e8
        traffic = float(rng.integers(1, 200)) * 1e6
        saved = {output} if in_place or not kept else set(inputs)
        if rng.random() < 0.1:
            saved = set()
        layers.append(
            Layer(
                name=f"l{i}",
                kind=str(rng.choice(KINDS)),
                inputs=tuple(inputs),
                output=output,
                saved=tuple(sorted(saved)),
                gradients=tuple(t for t in inputs if t),
                flops_forward=work,
                flops_backward=2 * work,
                bytes_forward=traffic,
                bytes_backward=2 * traffic,
                workspace_bytes=int(rng.integers(0, 5)) * 10**6,
                kept_bytes=int(rng.integers(0, 2)) * 10**6,
                parameter_bytes=int(rng.integers(0, 4)) * 10**6,
            )
        )
        decided = len(set().union(*(layer.saved for layer in layers)) - {0})
    return Graph(name="random", batch=1, tensors=tuple(tensors), layers=tuple(layers))


def random_scenario(
    seed: int,
    managed: int = 6,
    *,
    options: tuple[Choice, ...] = HOME_OPTIONS,
    duplex: bool = True,
) -> Scenario:
    """A graph of so many decisions where memory is between what the leanest of the uniform plans
    needs and what retaining everything does; the link is slower or faster than the computation."""
    rng = np.random.default_rng(seed)
    scenario = Scenario(
        graph=random_graph(rng, managed),
        device=DEVICE,
        link=Link(
            "toy",
            float(rng.choice([2e9, 8e9, 20e9])),
            "made up",
            in_bytes_per_s=float(rng.choice([3e9, 10e9])),
            duplex=duplex,
        ),
        memory_bytes=2**60,
    )
    evaluator = TimelineEvaluator(scenario, options)
    tensors = len(scenario.graph.managed)
    uniform = [evaluator.run(np.full(tensors, o, np.int8)).least_bytes for o in range(len(options))]
    least, most = min(uniform), uniform[0]
    return with_memory(scenario, least + float(rng.choice([0, 0.1, 0.3, 0.6])) * (most - least))
