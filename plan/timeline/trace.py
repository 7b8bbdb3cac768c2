"""The outcome of a plan: times, memory, traffic, and every event with its reasons."""

from dataclasses import dataclass

from cdma.builds.displays import facts, picture
from cdma.builds.extras import MissingPackageError

STREAMS = ("compute", "d2h", "h2d")
KINDS = ("forward", "backward", "recompute", "compress", "decompress", "offload", "prefetch")


REASONS = ("start", "computed", "staging", "memory", "offloaded", "link", "arrived")
"""Reasons of `cdma.plan.timeline.kernel`, which has their rules, by its numbers."""

ON_COMPLETION = frozenset({"staging", "memory", "offloaded", "arrived"})
"""Reasons that are over a latency behind the last byte of the copy, not at its end."""


@dataclass(frozen=True)
class Wait:
    """A cause that an event waited for.

    Attributes
    ----------
    reason : str
        One of `REASONS`.
    event : int or None
        The event that had to end, by index into `Trace.events`; None for `start`.
    """

    reason: str
    event: int | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """A span of time in which a stream was busy with a tensor.

    Attributes
    ----------
    stream : str
        `compute`, `d2h` (device to host) or `h2d`.
    kind : str
        One of `KINDS`.
    name : str
        The tensor's; a stage's is that of the tensor it makes.
    start, end : float
        Seconds since the step began.
    nbytes : int
        Moved over the link, or of the uncompressed tensor.
    bound : Wait
        The one of its waits that decided the start: `Trace.over` of it is `start`, exactly.
    waits : tuple of Wait
        All that it waited for, over at its start or before.
    """

    stream: str
    kind: str
    name: str
    start: float
    end: float
    nbytes: int
    bound: Wait
    waits: tuple[Wait, ...]

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A plan on the timeline.

    Attributes
    ----------
    policy : str
    seconds : float
        Of the step; infinity if the memory does not suffice.
    peak_bytes : int
        Most of the device's memory that was ever reserved; what would be, if it does not suffice.
    least_bytes : int
        The least memory that the plan works with.
    memory_bytes : int
        What there was.
    host_bytes : int
        Of host memory, for all that is out.
    events : tuple of Event
        In the order in which they were issued, those of a stream by their start; none if the
        memory does not suffice.
    memory : tuple of (float, int)
        Seconds, and the bytes that are reserved from then on: ascending, and of several at one time
        the last one stays. `peak_bytes` is the highest of them.
    copy_latency : tuple of float
        Seconds, out and in, from a copy's last byte to its completion.
    """

    policy: str
    seconds: float
    peak_bytes: int
    least_bytes: int
    memory_bytes: int
    host_bytes: int
    events: tuple[Event, ...]
    memory: tuple[tuple[float, int], ...] = ()
    copy_latency: tuple[float, float] = (0.0, 0.0)

    def _repr_html_(self) -> str:
        """Figures, and the picture of the streams if it fits and matplotlib is there, for
        notebooks."""
        shown = facts(
            f"Step under {self.policy}",
            {
                "time": f"{1e3 * self.seconds:,.1f} ms" if self.feasible else "no room",
                "waiting": f"{1e3 * self.stall_seconds:,.1f} ms",
                "memory": f"{self.peak_bytes:,} B of {self.memory_bytes:,} B",
                "least memory": f"{self.least_bytes:,} B",
                "to the host": f"{self.link_out_bytes:,} B",
                "to the device": f"{self.link_in_bytes:,} B",
            },
        )
        if not self.events:
            return shown
        # It reads this module, and matplotlib takes a second.
        from cdma.plan.timeline.gantt_chart import gantt_chart

        try:
            drawn = gantt_chart([self], file_format="svg")
        except MissingPackageError:
            return shown
        return shown + picture(drawn, f"streams and memory of the step under {self.policy}")

    @property
    def feasible(self) -> bool:
        """True if the memory suffices."""
        return self.peak_bytes <= self.memory_bytes

    def busy(self, stream: str) -> float:
        """Seconds in which a stream had something to do."""
        return sum(event.seconds for event in self.events if event.stream == stream)

    @property
    def stall_seconds(self) -> float:
        """Seconds in which the computation waited."""
        return max(0.0, self.seconds - self.busy("compute")) if self.events else 0.0

    @property
    def stall_seconds_by_reason(self) -> dict[str, float]:
        """Seconds in which the computation waited, by the reason that bound the event behind."""
        stalls: dict[str, float] = {}
        before = 0.0
        for event in self.events:
            if event.stream != "compute":
                continue
            if event.start > before:
                reason = event.bound.reason
                stalls[reason] = stalls.get(reason, 0.0) + event.start - before
            before = event.end
        return stalls

    def over(self, wait: Wait) -> float:
        """End of a wait, in seconds since the step began."""
        if wait.event is None:
            return 0.0
        event = self.events[wait.event]
        return self.completion(event) if wait.reason in ON_COMPLETION else event.end

    def completion(self, copy: Event) -> float:
        """Completion of a copy, a latency behind its last byte, in seconds since the step began."""
        return copy.end + self.copy_latency[copy.stream == "h2d"]

    @property
    def link_out_bytes(self) -> int:
        return sum(event.nbytes for event in self.events if event.stream == "d2h")

    @property
    def link_in_bytes(self) -> int:
        return sum(event.nbytes for event in self.events if event.stream == "h2d")

    def seconds_of(self, *kinds: str) -> float:
        """The sum of the seconds of all events of these kinds."""
        return sum(event.seconds for event in self.events if event.kind in kinds)
