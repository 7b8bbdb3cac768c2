"""What each event of a trace waits for: the order and the overlap of a plan, without its times."""

from dataclasses import dataclass

from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import Event, Trace

SAME = 1e-9
"""Times closer than this part of the step are the same."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """A piece of computation.

    Attributes
    ----------
    event : Event
    copies : tuple of Event
        Offloads and prefetches that must have ended: what it reads, and what the timeline had it
        wait for to have memory.
    """

    event: Event
    copies: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A tensor's way out or back. Those of one direction go one after another.

    Attributes
    ----------
    event : Event
    after : int
        So many pieces of computation must have ended before it is issued.
    copies : tuple of Event
        Other copies that must have ended: of a prefetch, its offload, and those whose memory it
        takes.
    """

    event: Event
    after: int
    copies: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class Order:
    """All of a trace.

    Attributes
    ----------
    works : tuple of Work
        In their order.
    out, back : tuple of Copy
        In the order in which they are issued.
    """

    works: tuple[Work, ...]
    out: tuple[Copy, ...]
    back: tuple[Copy, ...]


def order_of(scenario: Scenario, trace: Trace) -> Order:
    """The order of a trace of this scenario.

    A trace has times, and no reasons. These are found again: computation waits for what it reads,
    and if it starts later than it could, for the copies that ended meanwhile. An offload waits for
    its tensor, a prefetch for its offload, and unless that or the link kept it, for the computation
    and the copies that ended when it started.
    """
    near = SAME * trace.seconds
    out_latency, in_latency = scenario.copy_latency
    by_stream = {
        stream: sorted((e for e in trace.events if e.stream == stream), key=lambda e: e.start)
        for stream in ("compute", "d2h", "h2d")
    }
    computed, out, back = by_stream["compute"], by_stream["d2h"], by_stream["h2d"]
    done = {id(e): e.end + out_latency for e in out} | {id(e): e.end + in_latency for e in back}
    offload = {e.name: e for e in out}
    prefetch = {e.name: e for e in back}

    works = []
    before = 0.0
    for event in computed:
        # Zero time may pass between events that do not wait.
        waited = [
            copy for copy in (*out, *back) if before + near < done[id(copy)] <= event.start + near
        ]
        read = [prefetch[name] for name in _read(scenario, event) if name in prefetch]
        awaited = {id(copy): copy for copy in (*waited, *read)}
        works.append(Work(event=event, copies=tuple(awaited.values())))
        before = event.end

    def ended(time: float) -> int:
        return sum(event.end <= time + near for event in computed)

    made = {e.name: k for k, e in enumerate(computed, 1) if e.kind in ("forward", "compress")}
    leaving = [Copy(event=e, after=made[e.name], copies=()) for e in out]
    coming: list[Copy] = []
    free = 0.0
    for event in back:
        own = offload[event.name]
        copies: list[Event] = []
        if coming and event.start <= free + near:
            after = coming[-1].after
        else:
            after = ended(event.start)
            copies = [o for o in out if o is not own and abs(done[id(o)] - event.start) <= near]
        coming.append(Copy(event=event, after=after, copies=(own, *copies)))
        free = event.end
    return Order(works=tuple(works), out=tuple(leaving), back=tuple(coming))


def _read(scenario: Scenario, event: Event) -> list[str]:
    """Names of the tensors that a backward step or a second forward one reads."""
    graph = scenario.graph
    t = graph.index[event.name]
    if event.kind == "decompress":
        return [event.name]
    if event.kind not in ("backward", "recompute"):
        return []
    stage = scenario.stages[scenario.stage_of[t]]
    tensors = stage.saved if event.kind == "backward" else stage.inputs
    return [graph.tensors[k].name for k in tensors]
