"""A plan carried out: its swaps by the engine's RTL, with real data, beside the timeline's times.

The processor is not simulated. Its layers take the times that the timeline gives them, what copies
take of the memory's bandwidth included, as cycles that pass. What moves is real: each tensor is in
the machine's device memory, goes out through the engine when the plan says so, is overwritten
there, and must be back, to the bit, before the computation that reads it: of a lossy codec, what
its golden model restores. Multiprocessors and host are golden models, too; their time is the
timeline's.
"""

from collections import deque
from dataclasses import dataclass

from cdma.builds.errors import BuildError
from cdma.plan.platform.throttles import throttle
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate
from cdma.plan.timeline.trace import STREAMS, Event, Trace
from cdma.sim.driver import DriverError
from cdma.sim.driver.engine import Engine
from cdma.sim.execute.copier import PIECE_BYTES, Copier, CopyError
from cdma.sim.execute.scaled import scaled
from cdma.sim.machine import Machine, MachineError
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.machine.bus.machine import PAGE_BYTES

TOTAL_BYTES = 2 << 20
"""Bytes of all swapped tensors together, unless another number is given, or the step would exceed
`MOST_CYCLES`: about ten seconds of simulation."""

MOST_CYCLES = 1_000_000
"""Of a step with as many bytes; one with more bytes may take more cycles in proportion."""

RING_BYTES = 64 << 10
ALIGNMENT_BYTES = 2 * 128
"""Of a piece's two buffers."""

STEP_CYCLES = 16
"""Between two looks at the records while something waits for them."""

PATIENCE_CYCLES = 1_000_000


class ExecutionError(RuntimeError):
    """Raised if the engine did not do its part; the message names what was out."""


@dataclass(frozen=True, kw_only=True)
class Executed:
    """A copy as the RTL carried it out.

    Attributes
    ----------
    name, way : str
        The tensor's; `out` or `in`.
    nbytes, stream_bytes : int
    start_cycle, end_cycle : int
        From its first doorbell to its last record, since the step began.
    timeline_start_cycle, timeline_end_cycle : float
        What the timeline says of it, completion included.
    """

    name: str
    way: str
    nbytes: int
    stream_bytes: int
    start_cycle: int
    end_cycle: int
    timeline_start_cycle: float
    timeline_end_cycle: float


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A plan that was carried out; everything came back as its codec restores it, to the bit.

    Attributes
    ----------
    policy : str
    factor : float
        What bytes and times were multiplied by.
    trace : Trace
        The timeline of the same small scenario, with the data's real densities.
    clock_hz : float
    cycles : int
        Of the step, measured.
    compute_cycles : int
        In which the computation did not wait.
    copies : tuple of Executed
    link_out_cycles, link_in_cycles : float
        In which the link moved something, by the machine's own counters.
    """

    policy: str
    factor: float
    trace: Trace
    clock_hz: float
    cycles: int
    compute_cycles: int
    copies: tuple[Executed, ...]
    link_out_cycles: float
    link_in_cycles: float

    @property
    def timeline_cycles(self) -> float:
        """The step's cycles by the timeline."""
        return self.trace.seconds * self.clock_hz

    @property
    def error(self) -> float:
        """Excess of the step's time over the timeline's, as a part of the latter.

        The cycles of the computation, `compute_share` of them, are the timeline's own: where they
        hide the copies, this says little of the engine. `error_of` says it.
        """
        return self.cycles / self.timeline_cycles - 1

    @property
    def compute_share(self) -> float:
        """The part of the step's cycles in which the computation did not wait."""
        return self.compute_cycles / self.cycles

    def error_of(self, way: str) -> float:
        """By how much longer copies of a direction, `out` or `in`, were in flight; 0 if none."""
        timeline = self.in_flight_cycles(way, timeline=True)
        return self.in_flight_cycles(way) / timeline - 1 if timeline else 0.0

    def in_flight_cycles(self, way: str, *, timeline: bool = False) -> float:
        """Cycles in which a copy was in flight in this direction, latencies included."""
        spans = sorted(
            (c.timeline_start_cycle, c.timeline_end_cycle)
            if timeline
            else (c.start_cycle, c.end_cycle)
            for c in self.copies
            if c.way == way
        )
        total = 0.0
        until = 0.0
        for start, end in spans:
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total


def execute(
    scenario: Scenario,
    plan: Plan,
    *,
    total_bytes: int = TOTAL_BYTES,
    machine_seed: int = 0,
) -> Execution:
    """Make a scenario small, and carry its plan out.

    Parameters
    ----------
    scenario : Scenario
    plan : Plan
        Feasible in it.
    total_bytes : int
        Of all swapped tensors together, if the step is not longer than `MOST_CYCLES` then, or in
        proportion longer if these are more than `TOTAL_BYTES`.
    machine_seed : int
        Of what the machine draws.

    Raises
    ------
    ScheduleError
        The plan does not fit the memory, or compresses on the way with a codec that the engine
        has not got.
    ExecutionError
        A transfer failed, or a tensor came back changed. Names all that were out then; so does a
        note of a `KeyboardInterrupt`.
    BuildError
        The simulator cannot be built.
    """
    if scenario.placed_engine is None:
        raise ScheduleError(scenario.no_engine)
    whole = simulate(scenario, plan)
    if not whole.feasible:
        raise ScheduleError(
            f"the plan of {plan.policy} needs {whole.least_bytes:,} bytes; give it as many"
        )
    cycles = MOST_CYCLES * max(1.0, total_bytes / TOTAL_BYTES)
    longest = cycles / (whole.seconds * scenario.machine.clock_hz)
    small = scaled(scenario, plan, total_bytes, longest)
    trace = simulate(small.scenario, plan)
    config = scenario.placed_engine.config
    graph = small.scenario.graph
    jobs = {graph.tensors[t].name: tensor for t, tensor in small.tensors.items()}
    memory_bytes = sum(
        job.raw.size + job.memory_bytes(config) + ALIGNMENT_BYTES * -(-job.raw.size // PIECE_BYTES)
        for job in jobs.values()
    )
    memory_bytes = -(-(memory_bytes + RING_BYTES) // PAGE_BYTES) * PAGE_BYTES
    around = small.scenario.machine
    limit = throttle(plan.throttle)
    with Machine(
        generated_engine(config),
        around,
        device_bytes=memory_bytes,
        host_bytes=memory_bytes,
        seed=machine_seed,
    ) as machine:
        driver = Engine(machine, throttles=(limit, limit), codecs=config.codecs)
        copier = Copier(driver, jobs, scenario.link.duplex)
        run = _Run(copier, trace, around.clock_hz)
        try:
            run.run()
            copier.check()
        except (BuildError, CopyError, DriverError, MachineError) as error:
            raise ExecutionError(f"{error}; {copier.describe_out()}") from error
        except KeyboardInterrupt as error:
            error.add_note(copier.describe_out())
            raise
        counted = machine.counters()
    return Execution(
        policy=plan.policy,
        factor=small.factor,
        trace=trace,
        clock_hz=around.clock_hz,
        cycles=run.cycles,
        compute_cycles=run.compute_cycles,
        copies=run.copies(),
        link_out_cycles=counted.link_out_busy_cycles,
        link_in_cycles=counted.link_in_busy_cycles,
    )


class _Run:
    """The step, event by event.

    Every event waits for what the timeline's trace says that it waited for, but in the engine's own
    time. Waits for the link are the copier's: copies of a direction are put in their order, and go
    one after another.
    """

    def __init__(self, copier: Copier, trace: Trace, clock_hz: float) -> None:
        self.copier = copier
        self.trace = trace
        self.clock_hz = clock_hz
        self.cycles = 0
        self.compute_cycles = 0
        self._computed: set[int] = set()  # events of the trace that have ended
        self._until: float | None = None  # when the one that runs ends
        self._free = 0.0  # when the one before has ended
        streams = {stream: deque[int]() for stream in STREAMS}
        for index, event in enumerate(trace.events):
            streams[event.stream].append(index)
        self._to_compute = streams["compute"]
        self._to_issue = {"out": streams["d2h"], "in": streams["h2d"]}

    def run(self) -> None:
        machine = self.copier.machine
        machine.clear_counters()
        begin = machine.cycles
        moved = begin
        while self._to_compute:
            if self.copier.poll(begin):
                moved = machine.cycles
            now = machine.cycles - begin
            self._compute(now)
            self._issue(begin)
            if not self._to_compute:
                break
            now = machine.cycles - begin
            idle = self._until is None
            step = STEP_CYCLES if idle or self.copier.busy else None
            left = None if self._until is None else max(1, round(self._until) - now)
            machine.run(min(n for n in (step, left) if n is not None))
            if idle and machine.cycles - moved > PATIENCE_CYCLES:
                self.copier.wait_for_oldest()
                moved = machine.cycles
        self.cycles = round(self._free)

    def copies(self) -> tuple[Executed, ...]:
        """All copies that were carried out, those to the host first, beside the timeline."""
        found = []
        for stream in ("d2h", "h2d"):
            for event in self.trace.events:
                if event.stream != stream:
                    continue
                way = _way(event)
                start, end = self.copier.cycles[way, event.name]
                found.append(
                    Executed(
                        name=event.name,
                        way=way,
                        nbytes=self.copier.jobs[event.name].raw.size,
                        stream_bytes=self.copier.stream_bytes(event.name),
                        start_cycle=start,
                        end_cycle=end,
                        timeline_start_cycle=event.start * self.clock_hz,
                        timeline_end_cycle=self.trace.completion(event) * self.clock_hz,
                    )
                )
        return tuple(found)

    def _compute(self, now: int) -> None:
        """End the computations that are due, and start those that can start."""
        while self._to_compute:
            index = self._to_compute[0]
            if self._until is not None:
                if now < self._until:
                    return
                self._free = self._until
                self._until = None
                self._computed.add(self._to_compute.popleft())
                continue
            event = self.trace.events[index]
            if not self._may_start(event):
                return
            duration = event.seconds * self.clock_hz
            # It could start when the last of what it waits for came, which was seen a little later.
            copies = [c for c in self._awaited(event) if c.stream != "compute"]
            ends = [self.copier.cycles[_way(copy), copy.name][1] for copy in copies]
            self._until = max([self._free, *ends]) + duration
            self.compute_cycles += round(duration)

    def _issue(self, begin: int) -> None:
        for way, copies in self._to_issue.items():
            while copies and self._may_start(self.trace.events[copies[0]]):
                self.copier.put(way, self.trace.events[copies.popleft()].name)
        self.copier.pump(begin)

    def _may_start(self, event: Event) -> bool:
        return all(
            wait.event is None or wait.reason == "link" or self._has_ended(wait.event)
            for wait in event.waits
        )

    def _awaited(self, event: Event) -> list[Event]:
        return [self.trace.events[wait.event] for wait in event.waits if wait.event is not None]

    def _has_ended(self, index: int) -> bool:
        event = self.trace.events[index]
        if event.stream == "compute":
            return index in self._computed
        return self.copier.has_ended(_way(event), event.name)


def _way(event: Event) -> str:
    return "out" if event.stream == "d2h" else "in"
