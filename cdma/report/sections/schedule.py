"""Sections of `cdma schedule`: policies beside each other, their timelines, and the RTL's runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.plan.policies.comparison import ORACLE
from cdma.report.charts import bars
from cdma.report.content import Part, Section
from cdma.report.documents import Document
from cdma.report.sections.other import CONFIGURATION, configuration_of
from cdma.report.tables import facts_of, table_of
from cdma.report.timeline import SHOWN, timeline_of_runs, timeline_of_trace
from cdma.synth.gates.clock import ENGINE, clock_note

_FIRST = (
    *("policy", "efficiency", "seconds", "speedup_over_vdnn", "over_oracle", "over_bound"),
    *("peak_bytes", "least_bytes", "link_bytes", "host_bytes", "stall_seconds"),
    *("codec_seconds", "recompute_seconds", "lossless", "feasible", "mode", "throttle"),
)
_STALL_COLORS = {"staging": "#e3b7b8", "memory": "#c44e52", "arrived": "#7f2a2d"}
_OTHER_STALL = "#b98a8b"

MS = 1e3


def section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma schedule`."""
    content = document.content
    facts = content["assumptions"]
    return Section(
        title=(
            f"schedule: {facts['network']} ({facts['dataset']}), batch {facts['batch']}, on "
            f"{facts['device']['name']} behind {facts['link']['name']}"
        ),
        sentences=tuple(_sentences(content)),
        parts=tuple(_parts(content)),
    )


def _sentences(content: Mapping[str, Any]) -> Iterator[str]:
    seconds = {(row["efficiency"], row["policy"]): row["seconds"] for row in content["policies"]}
    for worth in content["engine_worth"]:
        without, best = worth["without"], worth["with"]
        at = "" if worth["efficiency"] is None else f" at efficiency {worth['efficiency']:g}"
        if without is None or best is None:
            continue
        before, after = (seconds[worth["efficiency"], name] * MS for name in (without, best))
        yield (
            f"The fastest lossless plan without the engine takes {before:,.1f} ms ({without}){at}, "
            f"of all {after:,.1f} ms ({best}): the engine gains {100 * worth['gain']:.1f} %."
        )
    engine = content["assumptions"]["engine"]
    note = "" if engine is None else clock_note(engine["clock_hz"], ENGINE)
    if note:
        yield note
    unfit = [row["policy"] for row in content["policies"] if row["seconds"] is None]
    if unfit:
        yield f"Without room in the memory: {', '.join(dict.fromkeys(unfit))}."


def _parts(content: Mapping[str, Any]) -> Iterator[Part]:
    facts = content["assumptions"]
    yield table_of(
        "Policies",
        content["policies"],
        first=_FIRST,
        without=("choices",),
        note="Empty cells: there is no room for the plan. Peak: device memory reserved at most; "
        "least: what the plan works with at least.",
    )
    for bounds in content["bounds"]:
        rows = [
            row
            for row in content["policies"]
            if row["efficiency"] == bounds["efficiency"] and row["seconds"] is not None
        ]
        if rows:
            yield _steps(rows, bounds)
    runs = content.get("runs")
    if runs:
        yield table_of(
            "Plans on the engine's RTL",
            runs["plans"],
            without=("copies",),
            note="Steps made small by a factor; the RTL's cycles beside the timeline's. "
            + " ".join(f"{name} was not run: {why}." for name, why in runs["left_out"].items()),
        )
        yield timeline_of_runs(runs["plans"], "Copies on the RTL, beside the plan's")
    yield table_of("Bounds", [_bound_row(each) for each in content["bounds"]])
    yield facts_of("Assumptions", facts, without=("tensors", "codecs", "policies"))
    sources = [{"policy": name, "source": text} for name, text in facts["policies"].items()]
    yield table_of("Where policies are from", sources, folded=True)
    if facts["codecs"]:
        yield table_of("Codecs", facts["codecs"])
    yield table_of(
        "Tensors, and what becomes of them",
        [
            {**tensor, **{row["policy"]: row["choices"][tensor["name"]] for row in _once(content)}}
            for tensor in facts["tensors"]
        ],
        folded=True,
    )
    yield from configuration_of(content)


def _once(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A row per policy: of the first efficiency."""
    first = content["policies"][0]["efficiency"]
    return [row for row in content["policies"] if row["efficiency"] == first]


def _bound_row(bounds: Mapping[str, Any]) -> dict[str, Any]:
    row = {"efficiency": bounds["efficiency"], "oracle_seconds": bounds["oracle_seconds"]}
    for bound in bounds["lower_bounds"]:
        kind = "lossless" if bound["lossless"] else "lossy"
        row |= {f"{kind}_bound_seconds": bound["seconds"], f"{kind}_bound_is_tight": bound["tight"]}
    return row


def _steps(rows: Sequence[Mapping[str, Any]], bounds: Mapping[str, Any]) -> Part:
    """A bar per policy, the fastest above: layers, codecs, layers again, and stalls by reason."""
    rows = sorted(rows, key=lambda row: row["seconds"])
    reasons = dict.fromkeys(r for row in rows for r in row["stall_seconds_by_reason"])

    def layers(row: Mapping[str, Any]) -> float:
        busy: float = row["busy_seconds"]["compute"]
        return busy - row["codec_seconds"] - row["recompute_seconds"]

    values: dict[str, list[float]] = {
        "layers": [layers(row) * MS for row in rows],
        "layers computed again": [row["recompute_seconds"] * MS for row in rows],
        "codecs on the device": [row["codec_seconds"] * MS for row in rows],
    }
    colors = dict(zip(values, ("#4878a8", "#dd9a3c", "#e6c84a"), strict=True))
    for reason in reasons:
        name = f"waiting: {reason}"
        values[name] = [row["stall_seconds_by_reason"].get(reason, 0.0) * MS for row in rows]
        colors[name] = _STALL_COLORS.get(reason, _OTHER_STALL)
    lines = {"oracle": bounds["oracle_seconds"] * MS}
    for bound in bounds["lower_bounds"]:
        if bound["seconds"] is not None:
            plan = "lossless plan" if bound["lossless"] else "plan"
            lines[f"no {plan} is faster"] = bound["seconds"] * MS
    at = "" if bounds["efficiency"] is None else f" at efficiency {bounds['efficiency']:g}"
    return bars(
        f"The step under each policy{at}",
        [row["policy"] for row in rows],
        values,
        "time of the step, ms",
        stacked=True,
        lines=lines,
        colors=colors,
    )


def largest_section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma schedule --largest-batch`."""
    rows = document.content["largest_batches"]
    names = [row["policy"] for row in rows]
    parts: list[Part] = [
        table_of("Largest batch by policy", rows),
        bars("Largest batch by policy", names, {"batch": [r["batch"] for r in rows]}, "batch"),
    ]
    rates = [row["per_second"] for row in rows]
    parts.append(bars("Rate at that batch", names, {"rate": rates}, "images or sequences per s"))
    settings = facts_of("Settings", document.content, without=("largest_batches", CONFIGURATION))
    # Documents from before there were schemas have none.
    parts += [*([settings] if settings.rows else []), *configuration_of(document.content)]
    return Section(title="schedule: the largest batch", parts=parts)


def trace_section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of a file of `cdma schedule --trace`."""
    about = document.content.get("otherData", {})
    of = f" of {about['network']}, batch {about['batch']}" if "network" in about else ""
    timeline = timeline_of_trace(
        document.content,
        "Streams and memory",
        where=document.name,
        shown=_shown(about, documents),
    )
    return Section(title=f"timeline{of}", parts=(timeline,))


def _shown(about: Mapping[str, Any], documents: Sequence[Document]) -> list[str]:
    """The fastest policies, by the report of the same step if it is on the page, the best without
    the engine and the best of all among them."""
    for other in documents:
        if other.kind == "schedule" and other.content["assumptions"] == about:
            worth = other.content["engine_worth"][0]
            rows = [row for row in _once(other.content) if row["seconds"] is not None]
            fastest = [
                row["policy"]
                for row in sorted(rows, key=lambda row: row["seconds"])
                if row["policy"] != ORACLE
            ]
            best = [name for name in (worth["without"], worth["with"]) if name is not None]
            return list(dict.fromkeys([*best, *fastest]))[:SHOWN]
    return []
