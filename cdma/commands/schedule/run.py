"""`cdma schedule --run`: plans carried out by the engine's RTL, beside the timeline's cycles."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from cdma.builds.extras import extra
from cdma.plan.policies.comparison import Comparison
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.sim.execute.content_check import CheckedContent, check_part, joined, parts_of
from cdma.sim.execute.execute import TOTAL_BYTES, Execution, execute
from cdma.terminal.console import figures_table

WAYS = ("out", "in")

Result = TypeVar("Result")

Outcome = Execution | str
"""What was carried out, or why nothing was."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Plans that the engine carried out, and why it did not carry out others.

    Attributes
    ----------
    done : tuple of Execution
    contents : tuple of CheckedContent
        What went out and back besides, of each of them.
    left_out : mapping of str to str
        By policy.
    """

    done: tuple[Execution, ...]
    contents: tuple[CheckedContent, ...]
    left_out: Mapping[str, str]


def run_plans(
    comparison: Comparison,
    total_bytes: int = TOTAL_BYTES,
    content_bytes: int = TOTAL_BYTES,
    jobs: int = 1,
) -> Runs:
    """Carry out every plan that swaps something by means that the engine has.

    Steps come first, each in one process; then their contents, in parts that any process takes.

    Parameters
    ----------
    comparison : Comparison
    total_bytes : int
        As of `cdma.sim.execute.execute.execute`.
    content_bytes : int
        Of each plan's tensors that go out and back by themselves, as of `parts_of`.
    jobs : int
        Processes, each with a plan's step or a part of a tensor at a time; 1 is this one.

    Raises
    ------
    ExecutionError
        A tensor did not come back to the bit, or its stream is not the golden model's.
    """
    left_out: dict[str, str] = {}
    plans: list[Plan] = []
    for name, result in comparison.results.items():
        if not result.trace.feasible:
            left_out[name] = "there is no room"
        elif all(choice.placement is not Placement.SWAP for choice in result.plan.choices):
            left_out[name] = "it swaps nothing"
        else:
            plans.append(result.plan)
    names = ", ".join(plan.policy for plan in plans)
    work = [partial(_carry_out, comparison.scenario, plan, total_bytes) for plan in plans]
    with Console(stderr=True).status(f"{names} on the engine"):
        outcomes = _carried_out(work, jobs)
    done = [outcome for outcome in outcomes if isinstance(outcome, Execution)]
    ran = [
        plan
        for plan, outcome in zip(plans, outcomes, strict=True)
        if isinstance(outcome, Execution)
    ]
    with Console(stderr=True).status(f"the content of {names} on the engine"):
        contents = [check_content(comparison.scenario, plan, content_bytes, jobs) for plan in ran]
    refused = {
        plan.policy: outcome
        for plan, outcome in zip(plans, outcomes, strict=True)
        if isinstance(outcome, str)
    }
    return Runs(done=tuple(done), contents=tuple(contents), left_out=left_out | refused)


def check_content(
    scenario: Scenario, plan: Plan, total_bytes: int, jobs: int = 1
) -> CheckedContent:
    """Send a share of a plan's tensors out and back, in parts that any process takes."""
    parts = parts_of(scenario, plan, total_bytes)
    return joined(scenario, _carried_out((partial(check_part, part) for part in parts), jobs))


def _carried_out(work: Iterable[Callable[[], Result]], jobs: int) -> list[Result]:
    """The results of calls in their order, so many at a time."""
    if jobs == 1:
        return [each() for each in work]
    with extra("plan"):
        from joblib import Parallel, delayed
    results: list[Result] = Parallel(n_jobs=jobs)(delayed(each)() for each in work)
    return results


def _carry_out(scenario: Scenario, plan: Plan, total_bytes: int) -> Outcome:
    """The execution; or why there is none, as not every error passes between processes."""
    try:
        return execute(scenario, plan, total_bytes=total_bytes)
    except ScheduleError as error:
        return str(error)


def runs_as_dict(runs: Runs) -> dict[str, Any]:
    """The JSON form; docs/guide/plan/schedule.md describes the keys."""
    return {
        "plans": [
            {
                "policy": run.policy,
                "factor": run.factor,
                "clock_hz": run.clock_hz,
                "cycles": run.cycles,
                "timeline_cycles": run.timeline_cycles,
                "error": run.error,
                "out_error": run.error_of("out"),
                "in_error": run.error_of("in"),
                "compute_cycles": run.compute_cycles,
                "timeline_compute_cycles": run.timeline_compute_cycles,
                "compute_error": run.compute_error,
                "peak_bytes": run.peak_bytes,
                "timeline_peak_bytes": run.trace.peak_bytes,
                "memory_bytes": run.trace.memory_bytes,
                "link_out_cycles": run.link_out_cycles,
                "link_in_cycles": run.link_in_cycles,
                "copies": [
                    {
                        "tensor": copy.name,
                        "way": copy.way,
                        "bytes": copy.nbytes,
                        "stream_bytes": copy.stream_bytes,
                        "start_cycle": copy.start_cycle,
                        "end_cycle": copy.end_cycle,
                        "timeline_start_cycle": copy.timeline_start_cycle,
                        "timeline_end_cycle": copy.timeline_end_cycle,
                    }
                    for copy in run.copies
                ],
                "content": {
                    "bytes": content.nbytes,
                    "stream_bytes": content.stream_bytes,
                    "share": content.share,
                    "tensors": [
                        {
                            "tensor": tensor.name,
                            "bytes": tensor.nbytes,
                            "stream_bytes": tensor.stream_bytes,
                        }
                        for tensor in content.tensors
                    ],
                },
            }
            for run, content in zip(runs.done, runs.contents, strict=True)
        ],
        "left_out": dict(runs.left_out),
    }


def print_runs(console: Console, runs: Runs) -> None:
    """The engine's cycles beside the timeline's, plan by plan."""
    if runs.done:
        console.print(_table(runs.done))
        console.print(
            "Cycles of steps that were made small by a factor, their copies done by the engine's "
            "RTL with real activations, each beside how far it is from the timeline's of the same "
            "small step. compute: cycles of the layers, which share the simulated memory's "
            "channels with the copies; their arithmetic is the timeline's. out, in: cycles in "
            "which a copy was in flight. memory: the most that was reserved at once, of the "
            "plan's limit. Everything came back bit for bit; of lossy codecs, as their golden "
            "model restores it.\n",
            highlight=False,
        )
        for run, content in zip(runs.done, runs.contents, strict=True):
            console.print(
                f"{run.policy}: {content.nbytes:,} bytes of its tensors, {content.share:.2%}, went "
                f"out and back by themselves, as {content.stream_bytes:,} bytes; every stream was "
                "the golden model's, to the bit.",
                highlight=False,
            )
    for name, why in runs.left_out.items():
        console.print(f"{name} was not run: {why}.", highlight=False)


def _table(done: Sequence[Execution]) -> Table:
    headings = ["factor", "copies", "KB", "cycles", "off by", "compute", "off by"]
    headings += [heading for way in WAYS for heading in (way, "off by")]
    headings.append("memory")
    table = figures_table("policy", headings)
    for run in done:
        moved = sum(copy.stream_bytes for copy in run.copies)
        table.add_row(
            run.policy,
            f"1/{1 / run.factor:,.0f}",
            str(len(run.copies)),
            f"{moved / 1000:,.0f}",
            f"{run.cycles:,}",
            _off(run.error),
            f"{run.compute_cycles:,.0f}",
            _off(run.compute_error),
            *(
                cell
                for way in WAYS
                for cell in (f"{run.in_flight_cycles(way):,.0f}", _off(run.error_of(way)))
            ),
            f"{100 * run.peak_bytes / run.trace.memory_bytes:.1f} %",
        )
    return table


def _off(error: float) -> str:
    """How far something is from the timeline's."""
    return f"{100 * error:+.2f} %"
