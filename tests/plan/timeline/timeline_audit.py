"""An audit of timelines, computed from their events alone.

Where each tensor is, and how many bytes that makes, is reconstructed from what the streams did; the
kernel's own account is not asked.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from cdma.plan.timeline.placement import Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import Event, Trace

Span = tuple[float, float, float]
"""From, until, bytes."""


@dataclass(frozen=True)
class Step:
    """A stage's forward or backward pass, with what is computed for it."""

    stage: int
    events: tuple[Event, ...]

    @property
    def start(self) -> float:
        return self.events[0].start

    @property
    def end(self) -> float:
        return self.events[-1].end


def audit(scenario: Scenario, plan: Plan, trace: Trace) -> None:
    """Asserts that what happened can happen, and in no more memory than the trace says."""
    _Audit(scenario, plan, trace).run()


class _Audit:
    def __init__(self, scenario: Scenario, plan: Plan, trace: Trace) -> None:
        self.scenario, self.trace = scenario, trace
        self.graph, self.stages = scenario.graph, scenario.stages
        self.choices: dict[int, Choice] = dict(zip(self.graph.managed, plan.choices, strict=True))
        self.streams = {
            stream: sorted(
                (event for event in trace.events if event.stream == stream),
                key=lambda event: (event.start, event.end),
            )
            for stream in ("compute", "d2h", "h2d")
        }
        self.events: dict[str, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
        for stream in self.streams.values():
            for event in stream:
                self.events[event.kind][self.graph.index[event.name]].append(event)
        self.last_read = {
            t: max([s, *(r for r, reader in enumerate(self.stages) if t in reader.inputs)])
            for t, s in scenario.stage_of.items()
        }

    def run(self) -> None:
        self.check_streams()
        self.forward, self.backward = self.steps()
        self.check_copies()
        self.check_codecs()
        self.wanted = self.find_wanted()
        self.check_presence()
        self.check_memory()

    def check_streams(self) -> None:
        """In order, one at a time."""
        for events in self.streams.values():
            assert all(0 <= event.start <= event.end <= self.trace.seconds for event in events)
            assert all(one.end <= other.start for one, other in pairwise(events))
        if not self.scenario.link.duplex:
            copies = sorted(
                self.streams["d2h"] + self.streams["h2d"], key=lambda event: event.start
            )
            assert all(one.end <= other.start for one, other in pairwise(copies))

    def steps(self) -> tuple[list[Step], list[Step]]:
        """Forward by stage, backward in its own order."""
        forward: list[Step] = []
        backward: list[Step] = []
        ahead: list[Event] = []
        for event in self.streams["compute"]:
            stage = self.scenario.stage_of[self.graph.index[event.name]]
            if event.kind == "forward":
                forward.append(Step(stage, (event,)))
            elif event.kind == "compress":
                assert not backward
                forward[-1] = Step(forward[-1].stage, (*forward[-1].events, event))
            else:
                ahead.append(event)
            if event.kind == "backward":
                backward.append(Step(stage, tuple(ahead)))
                ahead = []
        assert not ahead
        order = list(range(len(self.stages)))
        assert [step.stage for step in forward] == order
        assert [step.stage for step in backward] == order[::-1]
        assert backward[-1].end == self.trace.seconds
        return forward, backward

    def one(self, kind: str, t: int) -> Event:
        (event,) = self.events[kind][t]
        return event

    def complete(self, copy: Event) -> float:
        """When a copy is over: a latency behind its last byte."""
        return copy.end + self.scenario.copy_latency[copy.stream == "h2d"]

    def sm(self, t: int) -> bool:
        model = self.scenario.codec(self.choices[t])
        return model is not None and model.where == "sm"

    def check_copies(self) -> None:
        """A tensor that leaves comes back, once, and not before it is out."""
        swapped = {t for t, x in self.choices.items() if x.placement is Placement.SWAP}
        assert set(self.events["offload"]) == set(self.events["prefetch"]) == swapped
        for t in swapped:
            out, back = self.one("offload", t), self.one("prefetch", t)
            stream = self.scenario.stream_bytes(t, self.choices[t])
            assert stream <= out.nbytes == back.nbytes < stream + 1
            made = self.one("compress" if self.sm(t) else "forward", t)
            assert made.end <= out.start
            assert self.complete(out) <= back.start
            link = self.scenario.link
            for event, peak in ((out, link.bytes_per_s), (back, link.in_bytes_per_s)):
                assert event.seconds + 1e-12 >= stream / (peak * link.efficiency)

    def check_codecs(self) -> None:
        packed = {t for t in self.choices if self.sm(t)}
        assert set(self.events["compress"]) == set(self.events["decompress"]) == packed
        for t in packed:
            assert self.one("compress", t).end <= self.one("decompress", t).start
            if self.choices[t].placement is Placement.SWAP:
                assert self.complete(self.one("prefetch", t)) <= self.one("decompress", t).start
        redone = {
            t for t in self.events["recompute"] if t in self.choices and self.one("recompute", t)
        }
        assert redone == {t for t, x in self.choices.items() if x.placement is Placement.RECOMPUTE}

    def reads(self, event: Event) -> Iterator[int]:
        """The tensors that a pass of a stage reads, but for inputs."""
        stage = self.stages[self.scenario.stage_of[self.graph.index[event.name]]]
        for t in stage.saved if event.kind == "backward" else stage.inputs:
            if self.graph.tensors[t].kind != "input":
                yield t

    def find_wanted(self) -> dict[int, tuple[int, int]]:
        """The first and the last step of backward that reads each tensor."""
        wanted: dict[int, tuple[int, int]] = {}
        for k, step in enumerate(self.backward):
            for event in step.events:
                if event.kind in ("backward", "recompute"):
                    for t in self.reads(event):
                        wanted[t] = (wanted.get(t, (k, k))[0], k)
        return wanted

    def check_presence(self) -> None:
        """Whatever a pass reads is on the device, uncompressed, from before it starts."""
        present: set[int] = set()
        for s, step in enumerate(self.forward):
            for t in self.reads(step.events[0]):
                assert t in present
            present.add(self.stages[s].output)
            for event in step.events[1:]:
                assert self.graph.index[event.name] in present
            present -= {
                t
                for t in present
                if self.last_read[t] <= s and self.placement(t) is not Placement.RETAIN
            }
        for k, step in enumerate(self.backward):
            for event in step.events:
                t = self.graph.index[event.name]
                if event.kind in ("recompute", "backward"):
                    for read in self.reads(event):
                        assert read in present or self.arrived(read, event.start)
                if event.kind in ("recompute", "decompress"):
                    assert t not in present
                    present.add(t)
            present = {t for t in present if t in self.choices and k < self.wanted[t][1]}

    def placement(self, t: int) -> Placement | None:
        return self.choices[t].placement if t in self.choices else None

    def arrived(self, t: int, now: float) -> bool:
        """Return True if the tensor has arrived, as it is."""
        if self.placement(t) is not Placement.SWAP or self.sm(t):
            return False
        return self.complete(self.one("prefetch", t)) <= now

    def check_memory(self) -> None:
        """Never more than the trace says, at any time; and that has its peak, and fits."""
        trace = self.trace
        levels = list(trace.memory)
        assert all(one[0] <= other[0] for one, other in pairwise(levels))
        assert max(nbytes for _, nbytes in levels) == trace.peak_bytes
        assert trace.least_bytes <= trace.peak_bytes <= trace.memory_bytes
        said = dict(levels)  # of several at one time, the last one
        changes: dict[float, float] = dict.fromkeys(said, 0.0)
        for start, end, nbytes in self.spans():
            changes[start] = changes.get(start, 0.0) + nbytes
            changes[end] = changes.get(end, 0.0) - nbytes
        held = 0.0
        reserved = 0
        for time in sorted(changes):
            held += changes[time]
            reserved = said.get(time, reserved)
            if time < trace.seconds:
                assert held <= reserved + 1e-3

    def spans(self) -> Iterator[Span]:
        graph = self.graph
        end = self.trace.seconds
        inputs = sum(tensor.nbytes for tensor in graph.tensors if tensor.kind == "input")
        yield 0.0, end, graph.parameter_bytes * graph.parameter_copies + inputs
        for t in self.scenario.stage_of:
            if graph.tensors[t].kind != "input":
                yield from self.tensor_spans(t)
        for s, stage in enumerate(self.stages):
            layers = [graph.layers[i] for i in stage.layers]
            forward, backward = self.forward[s], self.backward[-1 - s]
            yield forward.start, backward.end, sum(layer.kept_bytes for layer in layers)
            for kind in ("forward", "backward", "recompute"):
                for event in self.events[kind][stage.output]:
                    yield event.start, event.end, max(layer.workspace_bytes for layer in layers)
            first = max(
                (r for r, reader in enumerate(self.stages) if stage.output in reader.gradients),
                default=s,
            )
            yield self.backward[-1 - first].start, backward.end, graph.tensors[stage.output].nbytes

    def tensor_spans(self, t: int) -> Iterator[Span]:
        nbytes = self.graph.tensors[t].nbytes
        made = self.one("forward", t).start
        read = self.one("forward", self.stages[self.last_read[t]].output).end
        if t not in self.choices:
            yield made, read, nbytes
            for event in self.events["recompute"][t]:
                (step,) = (step for step in self.backward if event in step.events)
                yield event.start, step.end, nbytes
            return
        first, last = (self.backward[k].end for k in self.wanted[t])
        match self.choices[t].placement:
            case Placement.RETAIN:
                yield made, last, nbytes
            case Placement.RECOMPUTE:
                yield made, read, nbytes
                yield self.one("recompute", t).start, last, nbytes
            case Placement.COMPRESS:
                packing = self.one("compress", t)
                yield made, packing.end, nbytes
                yield packing.start, first, self.stream(t)
                yield self.one("decompress", t).start, last, nbytes
            case Placement.SWAP if self.sm(t):
                yield made, read, nbytes
                out = self.complete(self.one("offload", t))
                yield self.one("compress", t).start, out, self.stream(t)
                yield self.one("prefetch", t).start, first, self.stream(t)
                yield self.one("decompress", t).start, last, nbytes
            case Placement.SWAP:
                yield made, max(read, self.complete(self.one("offload", t))), nbytes
                yield self.one("prefetch", t).start, last, nbytes

    def stream(self, t: int) -> float:
        return self.scenario.stream_bytes(t, self.choices[t])
