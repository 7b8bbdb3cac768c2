"""The timeline a second time: processes that wait for each other, on `simpy`.

From scenario and plan only, by the rules in `cdma.plan.timeline.kernel`. Computation and copies are
processes; memory is a pool that offloads give back to; the device memory's bandwidth changes under
a layer while it runs.
"""

from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import simpy

from cdma.plan.timeline.placement import Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario

Process = Generator[simpy.Event, Any, None]

LEAST_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class SecondEvent:
    """An event as the second opinion finds it, and what the process last waited for before it.

    Attributes
    ----------
    stream, kind, name, start, end, nbytes
        As of `Event`.
    reason : str
        One of `cdma.plan.timeline.trace.REASONS`.
    cause : tuple of str or None
        Kind and name of the event that it waited for.
    """

    stream: str
    kind: str
    name: str
    start: float
    end: float
    nbytes: int
    reason: str
    cause: tuple[str, str] | None


Cause = tuple[str, tuple[str, str] | None]
"""Reason, and the kind and name of the event behind it."""


@dataclass
class Second:
    """The result of the second opinion."""

    seconds: float = 0.0
    peak_bytes: float = 0.0
    events: list[SecondEvent] = field(default_factory=list)


def simulate_with_simpy(scenario: Scenario, plan: Plan) -> Second | None:
    """The step, or None if memory does not suffice."""
    needs = Needs(scenario, plan)
    if max(needs.memory) > scenario.memory_bytes:
        return None
    return _Simulation(scenario, plan, needs).run()


class Needs:
    """The memory of each step, and the turns of prefetches; time plays no part in them."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.scenario, self.graph, self.stages = scenario, scenario.graph, scenario.stages
        self.choices: dict[int, Choice] = dict(zip(self.graph.managed, plan.choices, strict=True))
        self.steps = 2 * len(self.stages)
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.redo: dict[int, set[int]] = defaultdict(set)
        self.passing: dict[int, set[int]] = defaultdict(set)
        for k in range(len(self.stages), self.steps):
            for t in self.stages[self.steps - 1 - k].saved:
                self.need(t, k)
        self.read = {
            t: max([s, *(r for r, stage in enumerate(self.stages) if t in stage.inputs)])
            for t, s in scenario.stage_of.items()
        }
        self.fixed = [self.fixed_bytes(k) for k in range(self.steps)]
        self.memory = [self.step_bytes(k) for k in range(self.steps)]
        self.turns = list(self.prefetch_turns(plan))

    def need(self, t: int, k: int) -> None:
        """Step k wants a tensor, and so what it is made of, if it has to be made again."""
        if self.graph.tensors[t].kind == "input":
            return
        if t in self.choices:
            self.last[t] = k
            there = t in self.first
            self.first.setdefault(t, k)
            if there or self.choices[t].placement is not Placement.RECOMPUTE:
                return
        elif t in self.passing[k]:
            return
        else:
            self.passing[k].add(t)
        stage = self.scenario.stage_of[t]
        self.redo[k].add(stage)
        for source in self.stages[stage].inputs:
            self.need(source, k)

    def raw(self, t: int) -> int:
        return self.graph.tensors[t].nbytes

    def packed(self, t: int) -> int:
        """Bytes of its compressed form on the device; 0 if it has none."""
        model = self.scenario.codec(self.choices[t])
        if model is None or model.where != "sm":
            return 0
        return ceil(self.scenario.stream_bytes(t, self.choices[t]))

    def fixed_bytes(self, k: int) -> int:
        graph, n = self.graph, len(self.stages)
        own = k if k < n else self.steps - 1 - k
        total = graph.parameter_copies * graph.parameter_bytes
        total += sum(tensor.nbytes for tensor in graph.tensors if tensor.kind == "input")
        total += sum(self.raw(t) for t in self.passing[k])
        total += max(
            graph.layers[i].workspace_bytes
            for s in (own, *self.redo[k])
            for i in self.stages[s].layers
        )
        for s, stage in enumerate(self.stages):
            t = stage.output
            if s <= k < self.steps - s:
                total += sum(graph.layers[i].kept_bytes for i in stage.layers)
            if t not in self.choices and graph.tensors[t].kind != "input":
                total += self.raw(t) * (s <= k <= self.read[t])
            readers = [r for r, reader in enumerate(self.stages) if t in reader.gradients]
            if k >= n and s <= own <= max(readers, default=s):
                total += self.raw(t)
        return total

    def step_bytes(self, k: int) -> int:
        """The memory of step k if nothing is late and nothing early."""
        total = self.fixed[k]
        for t, choice in self.choices.items():
            made, read = self.scenario.stage_of[t], self.read[t]
            first, last = self.first[t], self.last[t]
            raw, packed = self.raw(t), self.packed(t)
            if choice.placement is Placement.RETAIN:
                total += raw * (made <= k <= last)
                continue
            total += raw * (made <= k <= read or first <= k <= last)
            if choice.placement is Placement.COMPRESS:
                total += packed * (read <= k <= first)
            else:
                total += packed * (k in (made, first))
        return total

    def prefetch_turns(self, plan: Plan) -> Generator[tuple[int, int], None, None]:
        memory = list(self.memory)
        swapped = [t for t, x in self.choices.items() if x.placement is Placement.SWAP]
        place = {t: i for i, t in enumerate(self.graph.managed)}
        earliest = len(self.stages)
        for t in sorted(swapped, key=lambda t: (self.first[t], -place[t])):
            turn, nbytes = self.first[t], self.packed(t) or self.raw(t)
            limit = earliest
            if plan.mode.lookahead is not None:
                limit = max(limit, self.first[t] - plan.mode.lookahead)
            while turn > limit and memory[turn - 1] + nbytes <= self.scenario.memory_bytes:
                turn -= 1
                memory[turn] += nbytes
            earliest = turn
            yield t, turn


@dataclass
class _Copy:
    tensor: int
    seconds: float
    dram: float
    done: simpy.Event
    issued: float
    cause: Cause
    after: simpy.Event | None = None


class _Simulation:
    def __init__(self, scenario: Scenario, plan: Plan, needs: Needs) -> None:
        self.scenario, self.needs, self.stages = scenario, needs, scenario.stages
        self.choices, self.staging = needs.choices, plan.mode.staging_bytes
        self.throttle = plan.throttle
        self.found = Second()
        self.env = simpy.Environment()
        self.used = self.waiting = 0
        self.freed = self.env.event()
        self.rates: dict[object, float] = {}
        self.shares_changed = self.env.event()
        self.read_up: set[int] = set()
        self.offloads: dict[int, simpy.Event] = {}
        self.arrivals: dict[int, simpy.Event] = {}
        self.ready: Cause = ("start", None)
        self.landed = ""
        self.queues = {stream: simpy.Store(self.env) for stream in ("d2h", "h2d")}
        if not scenario.link.duplex:
            self.queues["h2d"] = self.queues["d2h"]
        for queue in set(self.queues.values()):
            self.env.process(self.copy_all(queue))

    def run(self) -> Second:
        self.env.run(self.env.process(self.compute()))
        self.found.seconds = self.env.now
        return self.found

    # Memory.

    def take(self, base: float, nbytes: int) -> None:
        self.used += nbytes
        self.found.peak_bytes = max(self.found.peak_bytes, base + self.used)

    def give(self, nbytes: int) -> None:
        self.used -= nbytes
        self.freed.succeed()
        self.freed = self.env.event()

    # Copies.

    def share(self, copy: object, rate: float) -> None:
        """A copy begins, or ends: what is left of the memory's bandwidth."""
        if rate:
            self.rates[copy] = rate
        else:
            del self.rates[copy]
        self.shares_changed.succeed()
        self.shares_changed = self.env.event()

    def copy_all(self, queue: simpy.Store) -> Process:
        before: Cause = ("start", None)
        while True:
            copy, kind, stream = yield queue.get()
            name = self.scenario.graph.tensors[copy.tensor].name
            cause = before if self.env.now > copy.issued else copy.cause
            if copy.after is not None and not copy.after.processed:
                yield copy.after
                cause = "offloaded", ("offload", name)
            start = self.env.now
            before = "link", (kind, name)
            self.share(id(copy), copy.dram)
            yield self.env.timeout(copy.seconds)
            self.share(id(copy), 0)
            t = copy.tensor
            nbytes = ceil(self.scenario.stream_bytes(t, self.choices[t]))
            self.record(stream, kind, t, start, nbytes, cause)
            self.env.process(self.complete(copy, kind, stream))

    def complete(self, copy: _Copy, kind: str, stream: str) -> Process:
        yield self.env.timeout(self.scenario.copy_latency[stream == "h2d"])
        if kind == "offload":
            self.land(copy.tensor)
        copy.done.succeed()

    def issue(self, t: int, stream: str, done: simpy.Event, after: simpy.Event | None) -> None:
        choice = self.choices[t]
        seconds = self.scenario.copy_seconds(t, choice, self.throttle)[stream == "h2d"]
        nbytes = self.needs.packed(t) or self.needs.raw(t)
        kind = "offload" if stream == "d2h" else "prefetch"
        copy = _Copy(t, seconds, nbytes / seconds, done, self.env.now, self.ready, after)
        self.queues[stream].put((copy, kind, stream))

    def land(self, t: int) -> None:
        packed = self.needs.packed(t)
        self.landed = self.scenario.graph.tensors[t].name
        if t in self.read_up:
            self.waiting -= packed or self.needs.raw(t)
        if packed or t in self.read_up:
            self.give(packed or self.needs.raw(t))
        else:
            self.give(0)

    # Computation.

    def compute(self) -> Process:
        n = len(self.stages)
        queue = list(self.needs.turns)
        for k in range(2 * n):
            # What else happens at this very moment comes first.
            yield self.env.timeout(0)
            base, made = self.needs.fixed[k], self.made_bytes(k)
            capacity = self.scenario.memory_bytes
            while (full := base + self.used + made > capacity) or self.waiting > self.staging:
                yield self.freed
                self.ready = "memory" if full else "staging", ("offload", self.landed)
            self.take(base, made)
            while queue and queue[0][1] <= k:
                t, _ = queue[0]
                nbytes = self.needs.packed(t) or self.needs.raw(t)
                while base + self.used + nbytes > capacity and self.needs.first[t] == k:
                    yield self.freed
                    self.ready = "memory", ("offload", self.landed)
                if base + self.used + nbytes > capacity:
                    break
                self.take(base, nbytes)
                self.arrivals[t] = self.env.event()
                self.issue(t, "h2d", self.arrivals[t], self.offloads[t])
                queue.pop(0)
            yield from self.forward(k) if k < n else self.backward(k)

    def made_bytes(self, k: int) -> int:
        total = 0
        for t, choice in self.choices.items():
            raw, packed = self.needs.raw(t), self.needs.packed(t)
            compressed = choice.placement is Placement.COMPRESS
            if k == self.scenario.stage_of[t]:
                total += raw if compressed else raw + packed
            if k == self.needs.read[t] and compressed:
                total += packed
            if k == self.needs.first[t] and choice.placement is not Placement.RETAIN:
                # Memory of what comes as it is has been taken by its prefetch.
                total += raw if choice.placement is not Placement.SWAP or packed else 0
        return total

    def forward(self, s: int) -> Process:
        yield from self.run_stage(s, "forward")
        t = self.stages[s].output
        if t in self.choices and self.choices[t].placement is Placement.SWAP:
            if self.needs.packed(t):
                yield from self.run_codec(t, "compress")
            self.offloads[t] = self.env.event()
            self.issue(t, "d2h", self.offloads[t], None)
        ending = [t for t in self.choices if self.needs.read[t] == s]
        for t in ending:
            if self.choices[t].placement is Placement.COMPRESS:
                yield from self.run_codec(t, "compress")
        yield self.env.timeout(0)
        for t in ending:
            placement = self.choices[t].placement
            if placement is Placement.RETAIN:
                continue
            self.read_up.add(t)
            packed = self.needs.packed(t)
            leaving = placement is Placement.SWAP and not self.offloads[t].triggered
            if packed or not leaving:
                self.give(self.needs.raw(t))
            if leaving:
                self.waiting += packed or self.needs.raw(t)

    def backward(self, k: int) -> Process:
        wanted = [t for t in self.choices if self.needs.first[t] == k]
        wanted = [t for t in wanted if self.choices[t].placement is not Placement.RETAIN]
        for t in wanted:
            if self.choices[t].placement is Placement.SWAP and not self.arrivals[t].processed:
                yield self.arrivals[t]
                self.ready = "arrived", ("prefetch", self.scenario.graph.tensors[t].name)
        for t in sorted(wanted, key=self.scenario.graph.managed.index, reverse=True):
            if self.needs.packed(t):
                yield from self.run_codec(t, "decompress")
        for u in sorted(self.needs.redo[k]):
            yield from self.run_stage(u, "recompute")
        yield from self.run_stage(2 * len(self.stages) - 1 - k, "backward")
        self.give(sum(self.needs.packed(t) for t in wanted))
        self.give(sum(self.needs.raw(t) for t in self.choices if self.needs.last[t] == k))

    def run_codec(self, t: int, kind: str) -> Process:
        start, cause = self.env.now, self.ready
        yield self.env.timeout(self.scenario.codec_seconds(t, self.choices[t]))
        self.record("compute", kind, t, start, self.needs.raw(t), cause)

    def run_stage(self, s: int, kind: str) -> Process:
        start, cause, stage = self.env.now, self.ready, self.stages[s]
        layers = [self.scenario.graph.layers[i] for i in stage.layers]
        back = kind == "backward"
        for layer in reversed(layers) if back else layers:
            arithmetic, memory = self.scenario.layer_seconds(layer, backward=back)
            done = self.env.timeout(arithmetic)
            yield from self.move(memory)
            yield done
        self.record("compute", kind, stage.output, start, self.needs.raw(stage.output), cause)

    def move(self, left: float) -> Process:
        """Memory traffic of so many seconds alone, beside the copies that come and go."""
        while left > 0:
            taken = sum(self.rates.values()) / self.scenario.device.dram_bytes_per_s
            share = max(1 - taken, LEAST_SHARE)
            since = self.env.now
            done = self.env.timeout(left / share)
            yield done | self.shares_changed
            if done.processed:
                return
            left = max(left - (self.env.now - since) * share, 0)

    def record(
        self, stream: str, kind: str, t: int, start: float, nbytes: int, cause: Cause
    ) -> None:
        name = self.scenario.graph.tensors[t].name
        self.found.events.append(
            SecondEvent(
                stream=stream,
                kind=kind,
                name=name,
                start=start,
                end=self.env.now,
                nbytes=nbytes,
                reason=cause[0],
                cause=cause[1],
            )
        )
        if stream == "compute":
            self.ready = "computed", (kind, name)
