"""A model of an AXI4 subordinate that checks its manager, stalls, hangs and misplaces RLAST."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdma.hw.bus.burst import BusError

CHANNELS = ("ar", "r", "aw", "w", "b")
ADDRESS_FIELDS = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos")
OUTPUTS = {
    "ar": ADDRESS_FIELDS,
    "aw": ADDRESS_FIELDS,
    "w": ("data", "strb", "last"),
}
RESPONSES = {BusError.NONE: 0, BusError.SLVERR: 2, BusError.DECERR: 3}


def content(address: int, data_bytes: int) -> int:
    """Byte contents of memory at an address; they differ by address, so that answers cannot be
    mixed up.
    """
    return random.Random(address).getrandbits(8 * data_bytes)


@dataclass
class Behavior:
    """Faults and delays of the bus.

    Attributes
    ----------
    stall
        Probability that a channel stalls in a cycle.
    latency
        The most cycles from a request to its answer.
    hangs
        By channel: the transfer before which it stops.
    lift
        Cycles after which it goes on.
    early_last, late_last
        By number of a read burst: the beat with an early RLAST; the beats too many.
    errors
        By number of a read beat or of a write burst, in the order of their answers.
    data_first
        AWREADY waits for WVALID.
    unasked
        IDs for which answers come though nobody has asked.
    """

    stall: float = 0.0
    latency: int = 6
    hangs: dict[str, int] = field(default_factory=dict)
    lift: int | None = None
    early_last: dict[int, int] = field(default_factory=dict)
    late_last: dict[int, int] = field(default_factory=dict)
    read_errors: dict[int, BusError] = field(default_factory=dict)
    write_errors: dict[int, BusError] = field(default_factory=dict)
    data_first: bool = False
    unasked: tuple[int, ...] = ()


class Axi4Bus:
    """The subordinate at `axi`, cycle by cycle: `drive` tells what to put on its wires before the
    clock's edge, `observe` takes what the manager's held there.

    Attributes
    ----------
    written
        Bytes that the strobes named, by address, of bursts that are complete.
    transfers
        By channel, the cycles in which there was one.
    strobed
        Cycles of write beats with any strobe.
    most_open
        By channel and ID, the most bursts that were open at once.
    """

    def __init__(self, axi: Any, behavior: Behavior, seed: int) -> None:
        self.axi = axi
        self.width = axi.signature.data_bytes
        self.does = behavior
        self.random = random.Random(seed)
        self.transfers: dict[str, list[int]] = {channel: [] for channel in CHANNELS}
        self.strobed: list[int] = []
        self.written: dict[int, int] = {}
        self.most_open: dict[tuple[str, int], int] = {}
        self.ready = {"ar": False, "aw": False, "w": False}
        self.standing: dict[str, tuple[int, ...]] = {}
        self.hung_since: dict[str, int] = {}
        # Beats of reads by ID; bursts that wait for data in order; those that wait for B by ID.
        self.reads: dict[int, deque[tuple[int, int, int, bool]]] = {}
        self.read_bursts = 0
        self.addresses: deque[tuple[int, int, int]] = deque()
        self.addresses_offered = 0
        self.data: deque[tuple[int, int, bool]] = deque()
        self.data_bursts = 0
        self.responses: dict[int, deque[int]] = {}
        self.open: dict[tuple[str, int], int] = {}
        self.offered_read: tuple[int, int, int, bool] | None = None
        self.offered_response: int | None = None

    def outputs(self) -> list[Any]:
        """The manager's wires, as `observe` takes them."""
        names = [f"{c}{name}" for c, fields in OUTPUTS.items() for name in ("valid", *fields)]
        return [getattr(self.axi, name) for name in [*names, "rready", "bready"]]

    def inputs(self) -> list[Any]:
        """Its own, as `drive` gives them."""
        names = ["arready", "awready", "wready"]
        names += ["rvalid", "rid", "rdata", "rresp", "rlast", "bvalid", "bid", "bresp"]
        return [getattr(self.axi, name) for name in names]

    def _willing(self, channel: str, cycle: int, waits: bool) -> bool:
        """Return True if the channel may transfer in this cycle; a hang begins when something waits
        there.
        """
        stalls = self.random.random() < self.does.stall
        if self.does.hangs.get(channel) != len(self.transfers[channel]):
            return not stalls
        if not waits:
            return False
        since = self.hung_since.setdefault(channel, cycle)
        return self.does.lift is not None and cycle - since >= self.does.lift and not stalls

    def drive(self, ctx: Any, cycle: int) -> list[int]:
        # Outputs depend on no input of the same cycle, so they can be looked at.
        for channel in self.ready:
            waits = bool(ctx.get(getattr(self.axi, f"{channel}valid")))
            self.ready[channel] = self._willing(channel, cycle, waits)
        if self.does.data_first and not ctx.get(self.axi.wvalid):
            self.ready["aw"] = False
        if self.offered_read is None:
            ready = [i for i, beats in self.reads.items() if beats and beats[0][0] <= cycle]
            if self._willing("r", cycle, bool(ready)) and ready:
                self.offered_read = self.reads[self.random.choice(ready)].popleft()
            elif self._intrudes():
                id, last = self.random.choice(self.does.unasked), self.random.random() < 0.5
                self.offered_read = (cycle, id, 0, last)
        if self.offered_response is None:
            ready = [i for i, times in self.responses.items() if times and times[0] <= cycle]
            if self._willing("b", cycle, bool(ready)) and ready:
                self.offered_response = self.random.choice(ready)
                self.responses[self.offered_response].popleft()
            elif self._intrudes():
                self.offered_response = self.random.choice(self.does.unasked)
        return [*self.ready.values(), *self._read_wires(), *self._response_wires()]

    def _intrudes(self) -> bool:
        return bool(self.does.unasked) and self.random.random() < 0.3

    def _read_wires(self) -> list[int]:
        if self.offered_read is None:
            return [0, *(self.random.getrandbits(n) for n in (1, 8 * self.width, 2, 1))]
        _, id, address, last = self.offered_read
        error = self.does.read_errors.get(len(self.transfers["r"]), BusError.NONE)
        return [1, id, content(address, self.width), RESPONSES[error], last]

    def _response_wires(self) -> list[int]:
        if self.offered_response is None:
            return [0, *(self.random.getrandbits(n) for n in (1, 2))]
        error = self.does.write_errors.get(len(self.transfers["b"]), BusError.NONE)
        return [1, self.offered_response, RESPONSES[error]]

    def observe(self, cycle: int, values: Sequence[int]) -> None:
        """`values` are those of `outputs` at the edge."""
        taken = iter(values)
        moved: dict[str, tuple[int, ...]] = {}
        for channel, fields in OUTPUTS.items():
            valid = next(taken)
            payload = tuple(next(taken) for _ in fields)
            if channel in self.standing:
                assert valid, f"cycle {cycle}: {channel.upper()}VALID was withdrawn"
                assert payload == self.standing[channel], f"cycle {cycle}: {channel} changed"
                del self.standing[channel]
            elif valid and channel == "aw":
                self.addresses_offered += 1
            if valid and channel == "w":
                assert self.data_bursts < self.addresses_offered, f"cycle {cycle}: W before AW"
            if valid and self.ready[channel]:
                self.transfers[channel].append(cycle)
                moved[channel] = payload
            elif valid:
                self.standing[channel] = payload
        if next(taken) and self.offered_read is not None:
            self.transfers["r"].append(cycle)
            _, id, _, last = self.offered_read
            if id not in self.does.unasked:
                self.open["r", id] -= last
            self.offered_read = None
        if next(taken) and self.offered_response is not None:
            self.transfers["b"].append(cycle)
            if self.offered_response not in self.does.unasked:
                self.open["b", self.offered_response] -= 1
            self.offered_response = None
        for channel, payload in moved.items():
            getattr(self, f"_take_{channel}")(cycle, *payload)
        self._land(cycle)

    def _take_burst(self, answers: str, fields: tuple[int, ...]) -> tuple[int, int, int]:
        id, address, beats, size, burst, lock, _, prot, qos = fields
        assert (1 << size, burst, lock, prot, qos) == (self.width, 1, 0, 0, 0)
        assert address % self.width == 0
        self.open[answers, id] = self.open.get((answers, id), 0) + 1
        self.most_open[answers, id] = max(
            self.most_open.get((answers, id), 0), self.open[answers, id]
        )
        return id, address, beats + 1

    def _take_ar(self, cycle: int, *fields: int) -> None:
        id, address, beats = self._take_burst("r", fields)
        last = self.does.early_last.get(self.read_bursts, beats - 1)
        last += self.does.late_last.get(self.read_bursts, 0)
        self.read_bursts += 1
        time = cycle + 1 + self.random.randrange(self.does.latency)
        beats_of = self.reads.setdefault(id, deque())
        for index in range(last + 1):
            beats_of.append((time, id, address + self.width * index, index == last))

    def _take_aw(self, cycle: int, *fields: int) -> None:
        self.addresses.append(self._take_burst("b", fields))

    def _take_w(self, cycle: int, data: int, strobe: int, last: int) -> None:
        self.data.append((data, strobe, bool(last)))
        self.data_bursts += last
        if strobe:
            self.strobed.append(cycle)

    def _land(self, cycle: int) -> None:
        while self.addresses and len(self.data) >= self.addresses[0][2]:
            id, address, beats = self.addresses.popleft()
            for index in range(beats):
                data, strobe, last = self.data.popleft()
                assert last == (index == beats - 1), f"cycle {cycle}: WLAST"
                for lane in range(self.width):
                    if strobe >> lane & 1:
                        byte = data >> 8 * lane & 0xFF
                        self.written[address + self.width * index + lane] = byte
            time = cycle + 1 + self.random.randrange(self.does.latency)
            self.responses.setdefault(id, deque()).append(time)

    @property
    def owes(self) -> bool:
        """An answer, or the taking of something."""
        return bool(self.standing) or any(self.open.values())
