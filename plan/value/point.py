"""One point of the value map: a step, and its best plans without the engine and with it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, TypedDict, Unpack

from cdma.hw.codec.registry import lossless_codecs
from cdma.plan.platform.device import Device, device
from cdma.plan.platform.link import Link, link
from cdma.plan.policies import best, capuchin, capuchin_feedback, home, oracle, vdnn
from cdma.plan.policies.recomputing import checkpoint, dtr
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.memory import least_memory
from cdma.plan.timeline.placement import ASYNCHRONOUS, Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks import find

EVALUATIONS = 10_000
"""Plans that each of the two searches looks at, at most."""

PARTICLES = 20
ITERATIONS = 50
"""Of the swarm that both searches begin with."""


class Common(TypedDict, total=False):
    """Fields of a point that a network has no usual value for; `Point` describes them."""

    precision: str
    density: str
    epoch: int
    epochs: int
    evaluations: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Point:
    """A step, and how it is searched for plans. It depends on no other point.

    Attributes
    ----------
    network, dataset : str
    batch : int
    precision : str
    device, link, codec : str
        By name; the codec is one of the engine's.
    own : mapping of str to mapping
        Fields of `device` and of `link` where they are none of those that have names here.
    room : float
        0…1: the memory, between the least that any plan works with and what keeping all takes.
    density : str
        As of `cdma.plan.workload.density.density.find`.
    epoch, epochs : int
        Of the training, for densities.
    evaluations, seed : int
        Of the searches.
    """

    network: str
    dataset: str
    batch: int
    precision: str
    device: str
    link: str
    codec: str
    room: float
    density: str = "digits-cnn"
    epoch: int = 45
    epochs: int = 90
    evaluations: int = EVALUATIONS
    seed: int = 0
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    @classmethod
    def usual(
        cls,
        network: str,
        *,
        device: str | Device,
        link: str | Link,
        codec: str,
        room: float,
        dataset: str | None = None,
        batch: int | None = None,
        **fields: Unpack[Common],
    ) -> Self:
        """The point of a network at its usual dataset, batch and precision, if not given.

        Device and link are those of a name, or any other ones.

        Raises
        ------
        GraphError
            There is no such network or dataset.
        """
        found = find(network)
        dataset = dataset or next(iter(found.batches))
        if dataset in found.batches:
            batch = batch or found.batches[dataset]
        fields.setdefault("precision", found.precision)
        given = {"device": device, "link": link}
        own = {kind: asdict(each) for kind, each in given.items() if not isinstance(each, str)}
        return cls(
            network=network,
            dataset=dataset,
            batch=batch or 1,
            device=device if isinstance(device, str) else device.name,
            link=link if isinstance(link, str) else link.name,
            codec=codec,
            room=room,
            own=own,
            **fields,
        )

    def __post_init__(self) -> None:
        if not 0 <= self.room <= 1:
            raise ScheduleError(f"room must be 0 to 1, not {self.room}")
        codecs = [entry.name for entry in lossless_codecs()]
        if self.codec not in codecs:
            raise ScheduleError(
                f"unknown codec {self.codec!r} of an engine; choose from {', '.join(codecs)}"
            )

    def scenario(self) -> Scenario:
        """The step; `GraphError`, `ScheduleError` or `LinkError` if a name is unknown."""
        graph = Graph.from_table(self.network, self.batch, self.dataset, precision=self.precision)
        roomy = Scenario(
            graph=density.apply(graph, self.density, self.epoch, self.epochs),
            device=Device(**self.own["device"]) if "device" in self.own else device(self.device),
            link=Link(**self.own["link"]) if "link" in self.own else link(self.link),
            memory_bytes=2**62,
            epoch=self.epoch,
            epochs=self.epochs,
        )
        least = least_memory(roomy).nbytes
        most = simulate(roomy, oracle.plan(roomy)).peak_bytes
        return with_memory(roomy, math.ceil(least + self.room * (most - least)))


@dataclass(frozen=True, kw_only=True)
class Value:
    """A point's times.

    Attributes
    ----------
    point : Point
    engine : str or None
        The engine's configuration; None if no engine is as fast as the link.
    memory_bytes : int
    fits : bool
        Whether the device has as much.
    saved_bytes : int
        Of the tensors that plans decide about.
    mean_density : float
        Of these, by bytes.
    link_bytes_per_s : float
        What copies get of the slower direction.
    oracle_seconds : float
        Of the step that never waits.
    without_seconds, with_seconds : float
        Of the best plans found; without an engine, both are the same.
    """

    point: Point
    engine: str | None
    memory_bytes: int
    fits: bool
    saved_bytes: int
    mean_density: float
    link_bytes_per_s: float
    oracle_seconds: float
    without_seconds: float
    with_seconds: float

    @property
    def gain(self) -> float:
        """The engine's gain over the best plan without it, as a part of the time with it."""
        return self.without_seconds / self.with_seconds - 1

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, from which `from_dict` makes it again."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The value of a JSON form; `TypeError` or `KeyError` if it is none."""
        return cls(**{**content, "point": Point(**content["point"])})


def evaluate(point: Point) -> Value:
    """The best plans of a point.

    Both searches begin with the plans of vDNN without its waits, Capuchin by HOME's account and by
    its own with feedback, checkpoints whole and selective, DTR, and a small swarm of HOME's with
    mutation; the one with the engine also with what the other has found.
    """
    scenario = point.scenario()
    known = [
        vdnn.plan(scenario, mode=ASYNCHRONOUS),
        capuchin.plan(scenario),
        capuchin_feedback.plan(scenario),
        checkpoint.plan(scenario),
        checkpoint.plan(scenario, selective=True),
        dtr.plan(scenario),
        home.plan(scenario, plus=True, seed=point.seed, particles=PARTICLES, iterations=ITERATIONS),
    ]
    plain = best.without_engine(
        scenario, known, mode=ASYNCHRONOUS, seed=point.seed, evaluations=point.evaluations
    )
    found: list[Plan] = [plain]
    if scenario.engine is not None:
        with_engine = best.with_engine(
            scenario,
            [*known, plain],
            engine=Choice(Placement.SWAP, point.codec),
            mode=ASYNCHRONOUS,
            seed=point.seed,
            evaluations=point.evaluations,
        )
        # What the second search has found without need of the engine is no merit of it.
        found += [best.past_engine(scenario, with_engine), with_engine]
    seconds = [simulate(scenario, plan).seconds for plan in found]
    graph = scenario.graph
    tensors = [graph.tensors[t] for t in graph.managed]
    saved = sum(tensor.nbytes for tensor in tensors)
    rates = (scenario.link.bytes_per_s, scenario.link.in_bytes_per_s)
    return Value(
        point=point,
        engine=scenario.engine,
        memory_bytes=scenario.memory_bytes,
        fits=scenario.memory_bytes <= scenario.device.capacity_bytes,
        saved_bytes=saved,
        mean_density=sum(t.nbytes * (t.density or 0.0) for t in tensors) / saved,
        link_bytes_per_s=min(rates) * scenario.link.efficiency,
        oracle_seconds=scenario.compute_seconds,
        without_seconds=min(seconds[:2]),
        with_seconds=min(seconds),
    )
