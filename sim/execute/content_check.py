"""A share of a plan's bytes, out through the engine and back, compared byte by byte.

A step that is carried out has one machine, whose ring, link and memory all its copies share, so
that its bytes cannot be divided among processes without losing what it is there for. What comes of
the bytes does not depend on when they move: here tensors are cut into parts, and each part goes out
and back in a machine of its own. Its stream must be the golden model's, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.interface import Array
from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import EngineConfig
from cdma.plan.platform.codec_rates import CodecModel
from cdma.plan.platform.environment import MachineConfig
from cdma.plan.timeline.placement import Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.sim.driver import CopyKind, DriverError
from cdma.sim.driver.engine import Engine
from cdma.sim.execute.carried_tensor import carried
from cdma.sim.execute.device_memory import POISON
from cdma.sim.execute.execution_error import ExecutionError
from cdma.sim.execute.scaled import ELEMENT_BYTES, captured_arrays, nearest_array
from cdma.sim.machine import Machine, MachineError
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.machine.bus.machine import whole_pages

PART_BYTES = 1 << 20
"""The most bytes of a part; whole lines."""

RING_BYTES = 64 << 10
"""Host memory beside a part's stream, for the driver's ring."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """A piece of a tensor, for one machine to carry.

    Attributes
    ----------
    tensor : str
        The tensor's name.
    nbytes : int
        Whole lines.
    values : array
        float32, which it has over and over.
    model : CodecModel or None
        The planner's codec; None copies.
    engine : EngineConfig
    machine : MachineConfig
    """

    tensor: str
    nbytes: int
    values: Array
    model: CodecModel | None
    engine: EngineConfig
    machine: MachineConfig


@dataclass(frozen=True, kw_only=True)
class CheckedTensor:
    """Bytes of a tensor that came back as their codec restores them, and whose stream was golden.

    Attributes
    ----------
    name : str
    nbytes : int
    stream_bytes : int
        On the link.
    """

    name: str
    nbytes: int
    stream_bytes: int


@dataclass(frozen=True, kw_only=True)
class CheckedContent:
    """The share of a plan's tensors that went out and back.

    Attributes
    ----------
    tensors : tuple of CheckedTensor
        In the graph's order.
    whole_bytes : int
        Of the same tensors in the plan.
    """

    tensors: tuple[CheckedTensor, ...]
    whole_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of tensors that were carried."""
        return sum(tensor.nbytes for tensor in self.tensors)

    @property
    def stream_bytes(self) -> int:
        """Their bytes on the link."""
        return sum(tensor.stream_bytes for tensor in self.tensors)

    @property
    def share(self) -> float:
        """The carried part of the plan's bytes; whole lines may be a little more than all."""
        return min(1.0, self.nbytes / self.whole_bytes)


def parts_of(scenario: Scenario, plan: Plan, total_bytes: int) -> Iterator[Part]:
    """Cut a share of every tensor that a plan swaps into parts, in the graph's order.

    The same whoever carries them, and how many at a time.

    Parameters
    ----------
    scenario : Scenario
        With an engine that has the plan's codecs.
    plan : Plan
    total_bytes : int
        Of all tensors together, at most what they have.
    """
    engine = scenario.placed_engine
    assert engine is not None
    swapped = {
        t: choice
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
        if choice.placement is Placement.SWAP
    }
    tensors = scenario.graph.tensors
    share = min(1.0, total_bytes / max(1, sum(tensors[t].nbytes for t in swapped)))
    arrays = captured_arrays()
    for t, choice in swapped.items():
        tensor = tensors[t]
        nbytes = max(1, round(tensor.nbytes * share / LINE_BYTES)) * LINE_BYTES
        values = nearest_array(arrays, tensor).reshape(-1)
        for start in range(0, nbytes, PART_BYTES):
            yield Part(
                tensor=tensor.name,
                nbytes=min(PART_BYTES, nbytes - start),
                values=np.roll(values, -(start // ELEMENT_BYTES)),
                model=scenario.codec(choice),
                engine=engine.config,
                machine=scenario.machine,
            )


def check_part(part: Part) -> CheckedTensor:
    """Send a part out through the engine's RTL and fetch it back.

    Raises
    ------
    ExecutionError
        Its stream is not the golden model's, it came back changed, or the engine failed.
    BuildError
        The simulator cannot be built.
    """
    job = carried(part.values, part.nbytes, part.model, part.engine)
    nbytes = job.raw.size
    with Machine(
        generated_engine(part.engine),
        part.machine,
        device_bytes=whole_pages(nbytes),
        host_bytes=whole_pages(RING_BYTES + job.memory_bytes(part.engine)),
    ) as machine:
        engine = Engine(machine, codecs=part.engine.codecs)
        device = engine.device.alloc(nbytes)
        host = engine.host.alloc(job.memory_bytes(part.engine))
        device.array[:] = job.raw
        try:
            out = engine.memcpy_compressed(
                host,
                device,
                nbytes,
                CopyKind.DEVICE_TO_HOST,
                job.codec,
                parameters=job.parameters,
            ).check()
            stream = host.span(0, out.out_size)
            found = host.array[: out.out_size]
            _require_same(found, job.stream, f"{part.tensor} left as no golden stream")
            device.array[:] = POISON
            engine.memcpy_compressed(
                device,
                stream,
                nbytes,
                CopyKind.HOST_TO_DEVICE,
                job.codec,
                crc=None if job.codec is None else out.crc32,
                parameters=job.parameters,
            ).check()
        except (DriverError, MachineError) as error:
            raise ExecutionError(f"{error}; a part of {part.tensor} was out") from error
        _require_same(device.array[:nbytes], job.restored, f"{part.tensor} came back changed")
    return CheckedTensor(name=part.tensor, nbytes=part.nbytes, stream_bytes=out.out_size)


def joined(scenario: Scenario, parts: Sequence[CheckedTensor]) -> CheckedContent:
    """Add up the parts of each tensor."""
    graph = scenario.graph
    names = dict.fromkeys(part.name for part in parts)
    return CheckedContent(
        tensors=tuple(
            CheckedTensor(
                name=name,
                nbytes=sum(part.nbytes for part in parts if part.name == name),
                stream_bytes=sum(part.stream_bytes for part in parts if part.name == name),
            )
            for name in names
        ),
        whole_bytes=sum(graph.tensors[graph.index[name]].nbytes for name in names),
    )


def _require_same(found: ByteArray, right: ByteArray, what: str) -> None:
    if found.size != right.size:
        raise ExecutionError(f"{what}: it has {found.size:,} bytes, not {right.size:,}")
    if not np.array_equal(found, right):
        raise ExecutionError(f"{what}, first at byte {int(np.argmax(found != right))}")
