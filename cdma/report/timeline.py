"""Timelines for the page's script: from the trace event format, and from plans on the RTL.

The data of a timeline, which `page/timeline.js` draws:

============= ====================================================================================
`unit`        of times: "ms" or "cycles"
`lanes`       names of the streams of each group
`kinds`       a list of `[name, color]`
`names`       texts that events refer to
`groups`      a list; each has `name`, `title`, `shown`, `end`, `events`, `memory`, `limit`
`events`      `[lane, kind, start, duration, name, bytes, reason, waited for]`, by start; indices of
              lanes, kinds and names, null for what there is none of
`memory`      `[time, bytes]`, ascending; `limit` in bytes, or null
============= ====================================================================================
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdma.errors import UserError
from cdma.plan.timeline.gantt_chart import COLORS
from cdma.report.content import Timeline

PALETTE = ("#4878a8", "#c44e52", "#5a9e6f", "#dd9a3c", "#8c6bb1", "#937860", "#4fb0b8")
"""Colors of kinds that plans do not have."""

MOST_EVENTS = 60_000
"""A page has room for as many; groups that are not shown at first make room."""

SHOWN = 4
"""Groups that are shown at first, if none are named."""


@dataclass
class _Texts:
    """Texts by index, each once."""

    indices: dict[str, int] = field(default_factory=dict)

    def index(self, text: str | None) -> int | None:
        return None if text is None else self.indices.setdefault(text, len(self.indices))

    def all(self) -> list[str]:
        return list(self.indices)


def timeline_of_trace(
    trace: Mapping[str, Any], title: str, *, where: str, shown: Collection[str] = ()
) -> Timeline:
    """The timeline of an object in the trace event format, times in ms.

    Parameters
    ----------
    trace : mapping
        As `cdma schedule --trace` writes it: a process per group, a thread per stream.
    title : str
    where : str
        Its file, for errors.
    shown : collection of str
        Groups to show at first; if none is there, those with the least time.

    Raises
    ------
    UserError
        It has no events in that format.
    """
    try:
        groups, lanes, kinds, names = _groups(trace["traceEvents"])
        limit = trace.get("otherData", {}).get("memory_bytes")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{where} has traceEvents, but not as cdma schedule --trace writes them "
            f"({type(error).__name__}: {error}); give a file of that"
        ) from error
    for group in groups:
        group["limit"] = limit if group["memory"] else None
    visible = _visible(groups, shown)
    for group in groups:
        group["shown"] = group["name"] in visible
    data = {
        "unit": "ms",
        "lanes": lanes,
        "kinds": _colored(kinds),
        "names": names,
        "groups": _that_fit(groups),
    }
    return Timeline(title=title, data=data)


def _groups(
    events: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[str], list[str], list[str]]:
    """Groups by process, and the lanes, kinds and names that their events refer to."""
    titles: dict[Any, str] = {}
    threads: dict[tuple[Any, Any], str] = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            titles[event["pid"]] = str(event["args"]["name"])
        elif event["ph"] == "M" and event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = str(event["args"]["name"])
    lanes, kinds, names = _Texts(), _Texts(), _Texts()
    for name in threads.values():
        lanes.index(name)
    groups: dict[Any, dict[str, Any]] = {}
    for event in events:
        if event["ph"] not in ("X", "C"):
            continue
        pid = event["pid"]
        title = titles.get(pid, f"process {pid}")
        group = groups.setdefault(
            pid,
            {"name": title.partition(":")[0], "title": title, "end": 0.0}
            | {"events": [], "memory": []},
        )
        start = _finite(event["ts"]) / 1000
        if event["ph"] == "C":
            group["memory"].append([start, sum(event["args"].values())])
            continue
        duration = _finite(event["dur"]) / 1000
        arguments = event.get("args", {})
        group["end"] = max(group["end"], start + duration)
        group["events"].append(
            [
                lanes.index(threads.get((pid, event["tid"]), f"thread {event['tid']}")),
                kinds.index(str(event.get("cat", "event"))),
                start,
                duration,
                names.index(str(event["name"])),
                arguments.get("bytes"),
                names.index(_text(arguments.get("reason"))),
                names.index(_text(arguments.get("waited_for"))),
            ]
        )
    for group in groups.values():
        group["events"].sort(key=lambda event: event[2])
    return list(groups.values()), lanes.all(), kinds.all(), names.all()


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"a time is {value}")
    return value


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def timeline_of_runs(plans: list[Mapping[str, Any]], title: str) -> Timeline:
    """The timeline of plans that the engine carried out: the copies of the RTL beside the plan's.

    Parameters
    ----------
    plans : list of mapping
        `runs.plans` of the JSON of `cdma schedule --run`.
    title : str
    """
    lanes = ["out, planned", "out, RTL", "in, planned", "in, RTL"]
    names = _Texts()
    groups: list[dict[str, Any]] = []
    for plan in plans:
        events: list[list[Any]] = []
        for copy in plan["copies"]:
            way = 0 if copy["way"] == "out" else 1
            for lane, prefix in enumerate(("timeline_", "")):
                start, end = copy[f"{prefix}start_cycle"], copy[f"{prefix}end_cycle"]
                name = names.index(str(copy["tensor"]))
                event = [2 * way + lane, way, start, end - start, name, copy["stream_bytes"]]
                events.append([*event, None, None])
        groups.append(
            {
                "name": plan["policy"],
                "title": f"{plan['policy']}: {plan['cycles']:,} cycles of the RTL, "
                f"{plan['timeline_cycles']:,.0f} planned",
                "shown": len(groups) < SHOWN,
                "end": max(plan["cycles"], plan["timeline_cycles"]),
                "events": sorted(events, key=lambda event: event[2]),
                "memory": [],
                "limit": None,
            }
        )
    data = {
        "unit": "cycles",
        "lanes": lanes,
        "kinds": _colored(["offload", "prefetch"]),
        "names": names.all(),
        "groups": groups,
    }
    return Timeline(title=title, data=data)


def _colored(kinds: list[str]) -> list[list[str]]:
    return [[kind, COLORS.get(kind, PALETTE[i % len(PALETTE)])] for i, kind in enumerate(kinds)]


def _visible(groups: list[dict[str, Any]], shown: Collection[str]) -> set[str]:
    found = {group["name"] for group in groups} & set(shown)
    if found:
        return found
    return {group["name"] for group in sorted(groups, key=lambda group: group["end"])[:SHOWN]}


def _that_fit(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All groups, or those shown and as many others as there is room for."""
    left = MOST_EVENTS - sum(len(group["events"]) for group in groups if group["shown"])
    kept = []
    for group in groups:
        if not group["shown"]:
            if len(group["events"]) > left:
                continue
            left -= len(group["events"])
        kept.append(group)
    return kept
