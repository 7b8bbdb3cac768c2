"""Training steps to schedule: chains to compute by hand, and random ones with all there is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    Choice,
    Mode,
    Placement,
    Plan,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS, Layer, Tensor

UNLIMITED = 2**60

seeded = settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)

# A second is 10**12 operations, 10**11 bytes of device memory, or 10**9 bytes of link.
FLOPS = 1e12
DRAM = 1e11
BYTES = 10**9
DEVICE = Device(
    name="bench",
    peak_flops=FLOPS,
    dram_bytes_per_s=DRAM,
    capacity_bytes=10**12,
    engine="titanx_gen3",
    source="made up",
    efficiency=dict.fromkeys(KINDS, 1.0),
)
LINK = Link("bench", float(BYTES), "made up", efficiency=1.0)

CHOICES = (
    RETAIN,
    SWAP,
    RECOMPUTE,
    *(Choice(Placement.SWAP, codec) for codec in ("zvc", "zvc-sm", "csr-sm", "zvc-host", "zfp-32")),
    *(Choice(Placement.COMPRESS, codec) for codec in ("zvc-sm", "quantize-sm")),
)


@dataclass(frozen=True, kw_only=True)
class IdealScenario(Scenario):
    """Copies take their bytes' time on the link and nothing else."""

    @property
    def copy_latency(self) -> tuple[float, float]:
        return 0.0, 0.0

    def copy_seconds(self, tensor: int, choice: Choice, throttle: str) -> tuple[float, float]:
        nbytes = self.stream_bytes(tensor, choice)
        return nbytes / self.link.bytes_per_s, nbytes / self.link.in_bytes_per_s


def chain(
    forward: Sequence[float], backward: Sequence[float], tensors: Sequence[float], **changes: object
) -> Scenario:
    """Layers l0, l1, … in a row, each of which saves what it reads; the first one reads the
    minibatch t0, and makes t1. Copies are ideal.

    Parameters
    ----------
    forward, backward : sequence of float
        Seconds of the layers, of arithmetic only.
    tensors : sequence of float
        Seconds that the output of each layer but the last one takes on the link, either way.
    changes
        Fields of the scenario. There is as much memory as one could want.
    """
    sizes = [BYTES, *(round(seconds * BYTES) for seconds in tensors), BYTES]
    made = [
        Tensor(name=f"t{t}", nbytes=size, kind="conv" if t else "input", density=1.0)
        for t, size in enumerate(sizes)
    ]
    layers = [
        Layer(
            name=f"l{i}",
            kind="conv",
            inputs=(i,),
            output=i + 1,
            saved=(i,),
            gradients=(i,) if i else (),
            flops_forward=forward[i] * FLOPS,
            flops_backward=backward[i] * FLOPS,
        )
        for i in range(len(forward))
    ]
    graph = Graph(name="chain", batch=1, tensors=tuple(made), layers=tuple(layers))
    scenario = IdealScenario(graph=graph, device=DEVICE, link=LINK, memory_bytes=UNLIMITED)
    return replace(scenario, **changes)


def plan(scenario: Scenario, mode: Mode = ASYNCHRONOUS, **chosen: Choice) -> Plan:
    """A plan with choices for tensors by their names; all others are retained."""
    names = [scenario.graph.tensors[t].name for t in scenario.graph.managed]
    assert set(chosen) <= set(names)
    choices = tuple(chosen.get(name, RETAIN) for name in names)
    return Plan(policy="bench", choices=choices, mode=mode)


def everything(scenario: Scenario, choice: Choice, mode: Mode = ASYNCHRONOUS) -> Plan:
    """The same for all tensors."""
    return Plan(policy="bench", choices=(choice,) * len(scenario.graph.managed), mode=mode)


def random_graph(seed: int, stages: int) -> Graph:
    """Branches, layers in place also later on, inputs in two places, tensors nobody saves or reads,
    layers of no time, scratch memory, kept masks."""
    rng = np.random.default_rng(seed)
    tensors = [
        Tensor(name=f"x{t}", nbytes=int(rng.integers(1, 50)) * 10**6, kind="input")
        for t in range(rng.integers(1, 3))
    ]
    layers: list[Layer] = []
    read: set[int] = set()
    inputs_end = len(tensors)

    def add(inputs: Sequence[int], output: int) -> None:
        flops, traffic = rng.random(2) * (0.01 * FLOPS, 0.01 * DRAM) * (rng.random(2) < 0.8)
        touched = (*dict.fromkeys((*inputs, output)),)
        layers.append(
            Layer(
                name=f"l{len(layers)}",
                kind=str(rng.choice(KINDS)),
                inputs=tuple(inputs),
                output=output,
                saved=tuple(t for t in touched if rng.random() < 0.4),
                gradients=tuple(t for t in inputs if t >= inputs_end and rng.random() < 0.9),
                flops_forward=float(flops),
                flops_backward=float(flops) * 2,
                bytes_forward=float(traffic),
                bytes_backward=float(traffic) * 2,
                parameter_bytes=int(rng.integers(0, 3)) * 10**6,
                workspace_bytes=int(rng.integers(0, 3)) * 10**7,
                kept_bytes=int(rng.integers(0, 2)) * 10**6,
            )
        )
        read.update(set(inputs) - {output})

    for _ in range(stages):
        new = len(tensors)
        inputs = {new - 1} if rng.random() < 0.8 else set()
        inputs |= {int(t) for t in rng.integers(0, new, rng.integers(0 if inputs else 1, 3))}
        tensors.append(
            Tensor(
                name=f"t{new}",
                nbytes=int(rng.integers(1, 100)) * 10**6,
                kind="conv",
                density=float(rng.choice([0.0, 1.0, rng.random()])),
            )
        )
        add(sorted(inputs), new)
        while rng.random() < 0.3:
            unread = sorted(set(range(inputs_end, new + 1)) - read)
            over = int(rng.choice(unread))
            others = {int(t) for t in rng.integers(0, new + 1, rng.integers(0, 2))}
            # What is still written over has no final values to read.
            add([over, *sorted(others & (read | set(range(inputs_end))) - {over})], over)
    return Graph(name="random", batch=1, tensors=tuple(tensors), layers=tuple(layers))


@dataclass(frozen=True)
class Case:
    """A scenario that has just so much memory for the plan, and the plan."""

    scenario: Scenario
    plan: Plan


def random_case(seed: int, stages: int) -> Case:
    """Any placements and codecs in any mode, on a link of any kind."""
    rng = np.random.default_rng(seed)
    graph = random_graph(int(rng.integers(2**32)), stages)
    scenario = Scenario(
        graph=graph,
        device=DEVICE.with_efficiency(float(rng.uniform(0.3, 1))),
        link=Link(
            "random",
            float(rng.uniform(2e9, 40e9)),
            "made up",
            in_bytes_per_s=float(rng.uniform(2e9, 40e9)),
            efficiency=float(rng.uniform(0.5, 1)),
            duplex=bool(rng.random() < 0.7),
        ),
        memory_bytes=UNLIMITED,
    )
    chosen = CHOICES if rng.random() < 0.7 else CHOICES[:3]
    chosen_plan = Plan(
        policy="random",
        choices=tuple(chosen[rng.integers(len(chosen))] for _ in graph.managed),
        mode=Mode(
            staging_bytes=float(rng.choice([0, 5e7, 1e8, math.inf])),
            lookahead=[0, 1, 2, None, None][rng.integers(5)],
        ),
        throttle=str(rng.choice(["none", "performance-optimal", "bandwidth-aware"])),
    )
    free = simulate(scenario, chosen_plan)
    slack = float(rng.choice([0, 0.1, 0.5, 1, 10])) * (free.peak_bytes - free.least_bytes)
    return Case(with_memory(scenario, free.least_bytes + slack), chosen_plan)


def cases() -> st.SearchStrategy[Case]:
    return st.builds(random_case, st.integers(0, 2**32 - 1), st.integers(1, 12))
