"""Sections of `cdma buddy`: how allocations compress, and what a replay cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.report.charts import bars, lines
from cdma.report.content import Part, Section
from cdma.report.documents import Document
from cdma.report.sections.other import configuration_of
from cdma.report.tables import facts_of, table_of
from cdma.synth.gates.clock import BUDDY, clock_note

_HEAT = "coolwarm"
"""From what compresses well to what does not, as in the heat map."""

PERCENT = 100.0


def profile_section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma buddy profile`."""
    content = document.content
    sentence = (
        f"{content['reserved_bytes']:,} bytes take {content['device_bytes']:,} of device memory "
        f"and reserve {content['buddy_bytes']:,} of buddy memory: {content['ratio']:.2f}×, with "
        f"{content['buddy_access_fraction']:.2%} of accesses to buddy memory."
    )
    return Section(
        title=f"buddy profile: {', '.join(content['snapshots'])}",
        sentences=(sentence,),
        parts=tuple(_profile_parts(content)),
    )


def _profile_parts(content: Mapping[str, Any]) -> Iterator[Part]:
    allocations = content["allocations"]
    yield table_of(
        "Allocations",
        allocations,
        first=("name", "bytes", "snapshots", "target"),
        note="Histogram: entries by compressed size in bytes. Overflow: entries that a target "
        "would spill.",
    )
    sizes = list(allocations[0]["histogram"])
    yield bars(
        "Entries by compressed size",
        [row["name"] for row in allocations],
        {f"{s} B": [row["histogram"][s] * PERCENT for row in allocations] for s in sizes},
        "entries of the allocation, %",
        stacked=True,
        colors=_HEAT,
    )
    modes = [{"targets": name, **mode} for name, mode in content["modes"].items()]
    yield table_of("Targets", modes)
    over_time = content["over_time"]
    yield table_of("Over time", over_time)
    if len(over_time) > 1:
        yield lines(
            "Accesses to buddy memory over time",
            [each["time"] for each in over_time],
            {"accesses": [each["buddy_access_fraction"] * PERCENT for each in over_time]},
            "snapshot",
            "accesses to buddy memory, %",
        )
    sweep = content.get("sweep")
    if sweep:
        yield table_of("By threshold", sweep)
        yield lines(
            "Compression ratio by threshold",
            [each["threshold"] * PERCENT for each in sweep],
            {"ratio": [each["ratio"] for each in sweep]},
            "entries that may spill, %",
            "compression ratio, ×",
        )
    skipped = ("allocations", "modes", "over_time", "sweep", "configuration")
    yield facts_of("Figures and settings", content, without=skipped)
    yield from configuration_of(content)


def replay_section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma buddy replay`."""
    content = document.content
    exact = "those" if content["bit_exact"] else "NOT those"
    sentence = (
        f"What was read, and both memories after a flush, are {exact} of the golden model, bit for "
        "bit."
    )
    return Section(
        title=f"buddy replay: {content['accesses']:,} accesses on {content['config']}",
        sentences=[sentence, *filter(None, [clock_note(content["clock_hz"], BUDDY)])],
        parts=tuple(_replay_parts(content)),
    )


def _replay_parts(content: Mapping[str, Any]) -> Iterator[Part]:
    runs = [content["baseline"], *content["runs"]]
    names = [run["name"] for run in runs]
    yield table_of("Runs", runs, first=("name", "cycles", "bytes_per_s", "slowdown"))
    cycles = {"cycles": [run["cycles"] for run in runs]}
    yield bars("Cycles of all accesses", names, cycles, "cycles of the controller's clock")
    sectors = {
        f"{where}, {way}": [run[f"{where}_sectors_{way}"] for run in runs]
        for where in ("device", "buddy")
        for way in ("read", "written")
    }
    yield bars("Sectors moved", names, sectors, "sectors of 32 B", stacked=True)
    yield table_of("Allocations", content["allocations"])
    skipped = ("allocations", "baseline", "runs", "configuration")
    yield facts_of("Settings", content, without=skipped)
    yield from configuration_of(content)
