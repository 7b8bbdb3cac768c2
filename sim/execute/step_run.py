"""A step of training carried out: computation, copies and memory, in the machine's own time."""

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cdma.plan.timeline.placement import Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import Event, Trace
from cdma.sim.driver import Buffer
from cdma.sim.execute.copier import Copier, CopyError
from cdma.sim.execute.device_memory import DeviceMemory, MemoryLimitError
from cdma.sim.execute.steps import Step, steps_of

STEP_CYCLES = 16
"""Between two looks at the records while something waits for them."""

PATIENCE_CYCLES = 1_000_000


class Computed(NamedTuple):
    """A computation as it was carried out, in cycles since the step began."""

    start: float
    end: float


@dataclass(eq=False)
class _Tensor:
    """A tensor that the plan decides about.

    `held_bytes` is what multiprocessors make of it, 0 if they do not. While it leaves, it may
    already have its memory to come back to, `coming`.
    """

    name: str
    placement: Placement
    nbytes: int
    held_bytes: int
    raw: Buffer | None = None
    held: Buffer | None = None
    coming: Buffer | None = None
    is_used_up: bool = False
    has_left: bool = False

    @property
    def moved_bytes(self) -> int:
        """Of what is copied, and reserved for it when it comes back."""
        return self.held_bytes or self.nbytes


class StepRun:
    """A plan's step on a machine.

    The computation goes through the steps in order, by the rules of `cdma.plan.timeline.kernel`.
    What it waits for, copies and memory, is found out here and not taken from the timeline: memory
    is reserved in `memory` before it is used, and given back when it is free; layers share the
    memory's channels with the engine. Only the order of the timeline's events is kept, and the
    first step at which a tensor may be fetched.

    Parameters
    ----------
    copier : Copier
    memory : DeviceMemory
        With the plan's limit.
    scenario : Scenario
        As small as the machine.
    plan : Plan
    trace : Trace
        Of both.

    Attributes
    ----------
    computed : list of Computed
        For each event of the computation.
    cycles : int
        Of the step.
    """

    def __init__(
        self, copier: Copier, memory: DeviceMemory, scenario: Scenario, plan: Plan, trace: Trace
    ) -> None:
        self.copier = copier
        self.memory = memory
        self.scenario = scenario
        self.computed: list[Computed] = []
        self.cycles = 0
        self._steps = steps_of(scenario, plan, trace)
        self._staging_bytes = plan.mode.staging_bytes
        self._clock_hz = scenario.machine.clock_hz
        graph = scenario.graph
        self._tensors = {
            t: _Tensor(
                graph.tensors[t].name,
                choice.placement,
                graph.tensors[t].nbytes,
                self._held_bytes(t, choice),
            )
            for t, choice in zip(graph.managed, plan.choices, strict=True)
        }
        self._choices = dict(zip(graph.managed, plan.choices, strict=True))
        self._behind_bytes = 0  # used up, and not out
        self._leaving: deque[_Tensor] = deque()
        self._to_fetch: deque[tuple[int, _Tensor]] = deque()
        self._fetched: deque[_Tensor] = deque()  # that wait until they are out
        self._begin = 0
        self._ready = 0.0  # when the computation can go on
        self._moved = 0

    def run(self) -> None:
        """Carry the step out.

        Raises
        ------
        CopyError
            A tensor came back changed, or was changed where it stayed.
        MemoryLimitError
            The step needs more memory than there is.
        DriverError, MachineError
            The engine did not do its part.
        """
        machine = self.copier.machine
        machine.clear_counters()
        self._begin = self._moved = machine.cycles
        for step in self._steps:
            self._reserve(step)
            self._fetch(step)
            for t in step.needed:
                tensor = self._tensors[t]
                if tensor.placement is Placement.SWAP:
                    self._arrive(tensor)
            for event in step.events:
                self._compute(event, step)
            self._free_behind(step)
        self.cycles = round(self._ready)

    # Memory

    def _held_bytes(self, t: int, choice: Choice) -> int:
        model = self.scenario.codec(choice)
        if model is None or model.where != "sm":
            return 0
        return math.ceil(self.scenario.stream_bytes(t, choice))

    def _reserve(self, step: Step) -> None:
        """Wait for memory for all that a step makes, and take it."""
        raw, held = self._made(step)
        nbytes = sum(t.nbytes for t in raw) + sum(t.held_bytes for t in held)
        self._land()
        while (
            not self.memory.has_room(nbytes, step.counted_bytes)
            or self._behind_bytes > self._staging_bytes
        ):
            self._await_offload(f"{nbytes:,} bytes beside {step.counted_bytes:,}")
        self.memory.count(step.counted_bytes)
        for tensor in raw:
            tensor.raw = self.memory.take(tensor.nbytes)
            tensor.raw.array[:] = self._pattern(tensor)
        for tensor in held:
            tensor.held = self.memory.take(tensor.held_bytes)

    def _made(self, step: Step) -> tuple[list[_Tensor], list[_Tensor]]:
        """The tensors that a step makes, and those whose compressed form it makes."""
        raw, held = [], []
        if step.made is not None:
            made = self._tensors[step.made]
            raw.append(made)
            if made.placement is Placement.SWAP and made.held_bytes:
                held.append(made)
        ending = (self._tensors[t] for t in step.ending)
        held += [tensor for tensor in ending if tensor.placement is Placement.COMPRESS]
        for tensor in (self._tensors[t] for t in step.needed):
            # Memory of what comes as it is has been reserved by its prefetch.
            if tensor.placement is not Placement.SWAP or tensor.held_bytes:
                raw.append(tensor)
        return raw, held

    def _fetch(self, step: Step) -> None:
        """Issue the prefetches whose turn it is, as far as there is memory."""
        self._to_fetch.extend((t, self._tensors[t]) for t in step.prefetches)
        while self._to_fetch:
            t, tensor = self._to_fetch[0]
            while t in step.needed and not self.memory.has_room(tensor.moved_bytes):
                self._await_offload(f"{tensor.moved_bytes:,} bytes for {tensor.name}")
            if not self.memory.has_room(tensor.moved_bytes):
                break
            self._to_fetch.popleft()
            tensor.coming = self.memory.take(tensor.moved_bytes)
            self._fetched.append(tensor)
        self._pump()

    def _free_behind(self, step: Step) -> None:
        """Free what has had its last use."""
        self._land()
        for tensor in (self._tensors[t] for t in step.ending):
            if tensor.placement is Placement.RETAIN:
                continue
            tensor.is_used_up = True
            is_out = tensor.placement is not Placement.SWAP or tensor.has_left
            if tensor.held_bytes or is_out:
                self._free_raw(tensor)
            if not is_out:
                self._behind_bytes += tensor.moved_bytes
        for tensor in (self._tensors[t] for t in step.needed):
            if tensor.held is not None:
                self._free_held(tensor)
        for tensor in (self._tensors[t] for t in step.lasting):
            self._free_raw(tensor)

    def _land(self) -> None:
        """Free what has left, in the order in which it was issued."""
        while self._leaving and self.copier.has_ended("out", self._leaving[0].name):
            tensor = self._leaving.popleft()
            tensor.has_left = True
            if tensor.held_bytes:
                self._free_held(tensor)
            elif tensor.is_used_up:
                self._free_raw(tensor)
            if tensor.is_used_up:
                self._behind_bytes -= tensor.moved_bytes

    def _free_raw(self, tensor: _Tensor) -> None:
        assert tensor.raw is not None
        is_copied = tensor.placement is Placement.SWAP and not tensor.held_bytes
        if not is_copied and np.any(tensor.raw.array != self._pattern(tensor)):
            raise CopyError(f"{tensor.name} was changed where it stayed")
        self.memory.give(tensor.raw, tensor.nbytes)
        tensor.raw = None

    def _free_held(self, tensor: _Tensor) -> None:
        assert tensor.held is not None
        self.memory.give(tensor.held, tensor.held_bytes)
        tensor.held = None

    def _pattern(self, tensor: _Tensor) -> int:
        """The byte that fills what the engine does not move: it must still be there at the end."""
        return 1 + sum(tensor.name.encode()) % 127

    # Computation

    def _compute(self, event: Event, step: Step) -> None:
        """Let a computation take its cycles and its accesses, and begin what follows from it."""
        machine = self.copier.machine
        machine.compute(self._layers(event), self._begin + self._ready)
        end = None
        while end is None:
            end = machine.run_computation(STEP_CYCLES if self.copier.busy else PATIENCE_CYCLES)
            self._poll()
        self._moved = machine.cycles
        start, self._ready = self._ready, end - self._begin
        self.computed.append(Computed(start, self._ready))
        tensor = self._tensors.get(self.scenario.graph.index[event.name])
        if tensor is None or tensor.placement is not Placement.SWAP:
            return
        if event.kind == ("compress" if tensor.held_bytes else "forward"):
            self._offload(tensor)

    def _layers(self, event: Event) -> list[tuple[float, float]]:
        """Cycles of arithmetic and of memory of each layer of an event."""
        clock_hz = self._clock_hz
        t = self.scenario.graph.index[event.name]
        if event.kind in ("compress", "decompress"):
            return [(self.scenario.codec_seconds(t, self._choices[t]) * clock_hz, 0.0)]
        backward = event.kind == "backward"
        layers = self.scenario.stages[self.scenario.stage_of[t]].layers
        seconds = [
            self.scenario.layer_seconds(self.scenario.graph.layers[i], backward=backward)
            for i in (reversed(layers) if backward else layers)
        ]
        return [(arithmetic * clock_hz, memory * clock_hz) for arithmetic, memory in seconds]

    # Copies

    def _offload(self, tensor: _Tensor) -> None:
        job = self.copier.jobs[tensor.name]
        buffer = tensor.held or tensor.raw
        assert buffer is not None
        buffer.array[: job.raw.size] = job.raw
        self.copier.put("out", tensor.name, buffer)
        self._leaving.append(tensor)
        self._pump()

    def _arrive(self, tensor: _Tensor) -> None:
        """Wait until a tensor is back, and look at it."""
        self._await_copy("in", tensor)
        self._land()
        assert tensor.coming is not None
        self.copier.check(tensor.name, tensor.coming)
        if tensor.held_bytes:
            tensor.held = tensor.coming
        else:
            tensor.raw = tensor.coming
        tensor.coming = None

    def _pump(self) -> None:
        """Submit what may be submitted. A prefetch waits until its tensor is out."""
        while self._fetched and self.copier.has_ended("out", self._fetched[0].name):
            tensor = self._fetched.popleft()
            assert tensor.coming is not None
            self.copier.put("in", tensor.name, tensor.coming)
        self.copier.pump(self._begin)

    def _poll(self) -> None:
        if self.copier.poll(self._begin):
            self._moved = self.copier.machine.cycles
        self._pump()

    def _wait(self) -> None:
        """Let a little time pass; if nothing has moved for long, the driver says why."""
        self.copier.machine.run(STEP_CYCLES)
        self._poll()
        if self.copier.machine.cycles - self._moved > PATIENCE_CYCLES:
            self.copier.wait_for_oldest()
            self._moved = self.copier.machine.cycles

    def _await_copy(self, way: str, tensor: _Tensor) -> None:
        while not self.copier.has_ended(way, tensor.name):
            self._wait()
        self._ready = max(self._ready, self.copier.cycles[way, tensor.name][1])

    def _await_offload(self, wanted: str) -> None:
        """Wait until another tensor has left, for its memory."""
        if not self._leaving:
            raise MemoryLimitError(
                f"there is no room for {wanted}, of {self.memory.limit:,} bytes, and nothing that "
                "still leaves"
            )
        self._await_copy("out", self._leaving[0])
        self._land()
