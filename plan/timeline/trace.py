"""What became of a plan: times, memory, traffic, and every event."""

from dataclasses import dataclass

STREAMS = ("compute", "d2h", "h2d")
KINDS = ("forward", "backward", "recompute", "compress", "decompress", "offload", "prefetch")


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a stream did with a tensor.

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
    """

    stream: str
    kind: str
    name: str
    start: float
    end: float
    nbytes: int

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
        In no particular order; none if the memory does not suffice.
    memory : tuple of (float, int)
        Seconds, and the bytes that are reserved from then on: ascending, and of several at one time
        the last one stays. `peak_bytes` is the highest of them.
    """

    policy: str
    seconds: float
    peak_bytes: int
    least_bytes: int
    memory_bytes: int
    host_bytes: int
    events: tuple[Event, ...]
    memory: tuple[tuple[float, int], ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether the memory suffices."""
        return self.peak_bytes <= self.memory_bytes

    def busy(self, stream: str) -> float:
        """Seconds in which a stream had something to do."""
        return sum(event.seconds for event in self.events if event.stream == stream)

    @property
    def stall_seconds(self) -> float:
        """Seconds in which the computation waited."""
        return max(0.0, self.seconds - self.busy("compute")) if self.events else 0.0

    @property
    def link_out_bytes(self) -> int:
        return sum(event.nbytes for event in self.events if event.stream == "d2h")

    @property
    def link_in_bytes(self) -> int:
        return sum(event.nbytes for event in self.events if event.stream == "h2d")

    def seconds_of(self, *kinds: str) -> float:
        """Of all events of these kinds together."""
        return sum(event.seconds for event in self.events if event.kind in kinds)
