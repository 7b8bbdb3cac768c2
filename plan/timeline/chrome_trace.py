"""Plans on the timeline in the trace event format, which ui.perfetto.dev and chrome://tracing open.

One process per policy, one thread per stream, and the device's memory as a counter.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cdma.plan.timeline.trace import STREAMS, Event, Trace

TITLES = {"compute": "compute", "d2h": "device to host", "h2d": "host to device"}

COUNTER = "device memory"


def chrome_trace(traces: Iterable[Trace], about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON object of a trace file.

    An event's arguments have why it started when it did: the reason that bound it, as of
    `cdma.plan.timeline.kernel`, and the event that it waited for.

    Times are microseconds, whole nanoseconds of them: what ends when something else begins does so
    in the file, too, and nothing overlaps on a thread.

    Parameters
    ----------
    traces : iterable of Trace
        One process each, in this order. Those that are infeasible have nothing to show and are
        left out.
    about : mapping
        What was assumed, as JSON values; a viewer shows it beside the trace.
    """
    events: list[dict[str, Any]] = []
    for pid, trace in enumerate((trace for trace in traces if trace.events), 1):
        events += _names(pid, trace)
        by_start = sorted(trace.events, key=lambda event: event.start)
        events += [_slice(pid, trace, event) for event in by_start]
        events += _counter(pid, trace)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(about or {})}


def _names(pid: int, trace: Trace) -> list[dict[str, Any]]:
    def metadata(what: str, value: str | int, tid: int = 0) -> dict[str, Any]:
        argument = "sort_index" if isinstance(value, int) else "name"
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {argument: value}}

    title = f"{trace.policy}: {trace.seconds * 1e3:.1f} ms"
    names = [
        metadata("process_name", title),
        metadata("process_sort_index", pid),
    ]
    for tid, stream in enumerate(STREAMS, 1):
        names += [
            metadata("thread_name", TITLES[stream], tid),
            metadata("thread_sort_index", tid, tid),
        ]
    return names


def _slice(pid: int, trace: Trace, event: Event) -> dict[str, Any]:
    start, end = _nanoseconds(event.start), _nanoseconds(event.end)
    cause = event.bound.event
    return {
        "ph": "X",
        "name": _label(event),
        "cat": event.kind,
        "pid": pid,
        "tid": STREAMS.index(event.stream) + 1,
        "ts": start / 1000,
        "dur": (end - start) / 1000,
        "args": {
            "tensor": event.name,
            "bytes": event.nbytes,
            "reason": event.bound.reason,
            "waited_for": None if cause is None else _label(trace.events[cause]),
        },
    }


def _label(event: Event) -> str:
    return f"{event.kind} {event.name}"


def _counter(pid: int, trace: Trace) -> list[dict[str, Any]]:
    # Of several values at one time a viewer would show any.
    last = {_nanoseconds(time): nbytes for time, nbytes in trace.memory}
    return [
        {"ph": "C", "name": COUNTER, "pid": pid, "ts": time / 1000, "args": {"bytes": nbytes}}
        for time, nbytes in last.items()
    ]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
