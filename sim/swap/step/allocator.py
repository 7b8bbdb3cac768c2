"""The bytes that PyTorch's allocator hands out, as its profiler sees them. Needs PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cdma.plan.workload.capture.recorder import require


@dataclass
class AllocatorPeak:
    """Most bytes that were allocated at once, beyond those of the beginning; 0 until the end."""

    nbytes: int = 0


@contextmanager
def allocator_watched() -> Iterator[AllocatorPeak]:
    """Within it, PyTorch's profiler notes every allocation, scratch memory of operators included.

    Yields
    ------
    AllocatorPeak
        Complete at the end of the context.
    """
    profiler = require("torch.profiler")
    kinds = require("torch._C._profiler")._EventType
    found = AllocatorPeak()
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        yield found
    events: list[tuple[int, int]] = []
    pending: list[Any] = list(profile.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        if event.tag == kinds.Allocation:
            events.append((event.start_time_ns, event.extra_fields.alloc_size))
    now = 0
    for _, nbytes in sorted(events, key=lambda event: event[0]):
        now += nbytes
        found.nbytes = max(found.nbytes, now)
