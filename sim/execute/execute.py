"""A plan carried out: its swaps by the engine's RTL, with real data, beside the timeline's times.

The processor is not simulated, but what it asks of the memory is: each layer takes its cycles of
arithmetic, and accesses to the channels of the device's memory, which it shares with the engine.
What moves is real: each tensor has its bytes of a device memory as large as the plan's limit, from
the step that makes it until it has had its last use. It goes out through the engine when the plan
says so, its memory is overwritten and given to others, and it must be back, to the bit, before the
computation that reads it: of a lossy codec, what its golden model restores. Multiprocessors and
host are golden models, too; their time is the timeline's.
"""

from dataclasses import dataclass

from cdma.builds.errors import BuildError
from cdma.plan.platform.environment import step_refusal
from cdma.plan.platform.throttles import throttle
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate
from cdma.plan.timeline.trace import Trace
from cdma.sim.driver import DriverError
from cdma.sim.driver.engine import Engine
from cdma.sim.execute.copier import PIECE_BYTES, Copier, CopyError
from cdma.sim.execute.device_memory import ADDRESSES_PER_BYTE, DeviceMemory, MemoryLimitError
from cdma.sim.execute.execution_error import ExecutionError
from cdma.sim.execute.scaled import scaled
from cdma.sim.execute.step_run import StepRun
from cdma.sim.machine import Machine, MachineError
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.machine.bus.machine import whole_pages

TOTAL_BYTES = 2 << 20
"""Bytes of all swapped tensors together, unless another number is given, or the step would exceed
`MOST_CYCLES`: about ten seconds of simulation."""

MOST_CYCLES = 1_000_000
"""Of a step with as many bytes; one with more bytes may take more cycles in proportion."""

RING_BYTES = 64 << 10
ALIGNMENT_BYTES = 2 * 128
"""Of a piece's two buffers."""


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
    compute_cycles : float
        In which the computation did not wait: its layers' own, beside copies at the memory.
    peak_bytes : int
        The most memory that was reserved at once. `trace` has the timeline's, and the limit.
    copies : tuple of Executed
    link_out_cycles, link_in_cycles : float
        In which the link moved something, by the machine's own counters.
    """

    policy: str
    factor: float
    trace: Trace
    clock_hz: float
    cycles: int
    compute_cycles: float
    peak_bytes: int
    copies: tuple[Executed, ...]
    link_out_cycles: float
    link_in_cycles: float

    @property
    def timeline_cycles(self) -> float:
        """The step's cycles by the timeline."""
        return self.trace.seconds * self.clock_hz

    @property
    def timeline_compute_cycles(self) -> float:
        """The computation's cycles by the timeline, which stretches layers beside copies."""
        return self.trace.busy("compute") * self.clock_hz

    @property
    def error(self) -> float:
        """Excess of the step's time over the timeline's, as a part of the latter."""
        return self.cycles / self.timeline_cycles - 1

    @property
    def compute_error(self) -> float:
        """By how much longer the computation took without its waits; 0 if there is none."""
        timeline = self.timeline_compute_cycles
        return self.compute_cycles / timeline - 1 if timeline else 0.0

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
        has not got; or there are several engines.
    ExecutionError
        A transfer failed, a tensor came back changed, or the step needed more than the plan's
        limit. Names all that were out then; so does a note of a `KeyboardInterrupt`.
    BuildError
        The simulator cannot be built.
    """
    if scenario.placed_engine is None:
        raise ScheduleError(scenario.no_engine)
    if refusal := step_refusal(scenario.placed_engine.name, scenario.machine):
        raise ScheduleError(refusal)
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
    host_bytes = RING_BYTES + sum(
        job.memory_bytes(config) + ALIGNMENT_BYTES * -(-job.raw.size // PIECE_BYTES)
        for job in jobs.values()
    )
    limit_bytes = small.scenario.memory_bytes
    around = small.scenario.machine
    limit = throttle(plan.throttle)
    with Machine(
        generated_engine(config),
        around,
        device_bytes=whole_pages(ADDRESSES_PER_BYTE * limit_bytes),
        host_bytes=whole_pages(host_bytes),
        seed=machine_seed,
    ) as machine:
        driver = Engine(machine, throttles=(limit, limit), codecs=config.codecs)
        copier = Copier(driver, jobs, scenario.link.duplex)
        memory = DeviceMemory(driver.device, limit_bytes)
        run = StepRun(copier, memory, small.scenario, plan, trace)
        try:
            run.run()
        except (BuildError, CopyError, DriverError, MachineError, MemoryLimitError) as error:
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
        compute_cycles=sum(computed.end - computed.start for computed in run.computed),
        peak_bytes=memory.peak,
        copies=_copies(copier, trace, around.clock_hz),
        link_out_cycles=counted.link_out_busy_cycles,
        link_in_cycles=counted.link_in_busy_cycles,
    )


def _copies(copier: Copier, trace: Trace, clock_hz: float) -> tuple[Executed, ...]:
    """All copies that were carried out, those to the host first, beside the timeline."""
    found = []
    for stream, way in (("d2h", "out"), ("h2d", "in")):
        for event in trace.events:
            if event.stream != stream:
                continue
            start, end = copier.cycles[way, event.name]
            found.append(
                Executed(
                    name=event.name,
                    way=way,
                    nbytes=copier.jobs[event.name].raw.size,
                    stream_bytes=copier.stream_bytes(event.name),
                    start_cycle=start,
                    end_cycle=end,
                    timeline_start_cycle=event.start * clock_hz,
                    timeline_end_cycle=trace.completion(event) * clock_hz,
                )
            )
    return tuple(found)
