"""Counts of what a planned step has done."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Unpacking:
    """A moment at which backward asks for a value.

    Attributes
    ----------
    name : str
    nbytes : int
    before_bytes, while_bytes : int
        Most bytes on the device since the moment before, and while the value was brought.
    """

    name: str
    nbytes: int
    before_bytes: int
    while_bytes: int


@dataclass
class StepCounts:
    """Counts of what a step has done.

    Attributes
    ----------
    saved : dict of str to int
        Bytes of the values that autograd saves, by name, in the order of the forward pass.
    stream_bytes : dict of str to int
        Bytes of those that stay compressed, after compression.
    replays, replayed_bytes : int
        How often something was computed again, and bytes of what autograd had saved of it.
    prefetches : int
        How many values were sent for before backward asked for them.
    unpackings : list of Unpacking
    after_bytes : int
        Most bytes on the device behind the last of `unpackings`.
    """

    saved: dict[str, int] = field(default_factory=dict)
    stream_bytes: dict[str, int] = field(default_factory=dict)
    replays: int = 0
    replayed_bytes: int = 0
    prefetches: int = 0
    unpackings: list[Unpacking] = field(default_factory=list)
    after_bytes: int = 0
