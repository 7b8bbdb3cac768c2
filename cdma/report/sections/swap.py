"""The section of `cdma swap`: arrays through the RTL, how small and how fast they were."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.report.charts import bars
from cdma.report.content import Part, Section
from cdma.report.documents import Document
from cdma.report.sections.other import configuration_of
from cdma.report.tables import facts_of, table_of
from cdma.synth.gates.clock import CODEC, ENGINE, clock_note

_FIRST = (
    *("name", "dtype", "shape", "bytes", "density", "compressed_bytes", "ratio"),
    *("cycles_out", "cycles_in", "bytes_per_cycle_out", "bytes_per_cycle_in"),
    *("swap_out_seconds", "swap_in_seconds", "bit_exact", "largest_error", "status"),
)
_OF_ALL = ("buffer_high_water_bytes", "stall_cycles")
"""Keys that an array alone has not."""


def section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma swap`."""
    content = document.content
    through = content["machine"] or f"the codec alone, {content['sector_bytes']} B per cycle"
    return Section(
        title=f"swap: {content['codec'].upper()} through {through}",
        sentences=tuple(_sentences(content)),
        parts=tuple(_parts(content)),
    )


def _sentences(content: Mapping[str, Any]) -> Iterator[str]:
    arrays, total = content["arrays"], content["total"]
    exact = sum(row["bit_exact"] for row in arrays)
    # Documents of before there were lossy swaps have no bound.
    bound = content.get("bound")
    if bound is None:
        yield f"{exact} of {len(arrays)} arrays came back bit for bit."
    else:
        yield f"{exact} of {len(arrays)} arrays came back as the golden model restores them."
        yield (
            f"The bound of a value's error is {bound:g}, and {total['exact_values']:,} values were "
            f"kept exactly, {total['not_finite_values']:,} of them NaN or infinite."
        )
    if total["ratio"] is not None:
        faster = total["link_seconds_raw"] / total["swap_out_seconds"]
        yield (
            f"{total['bytes']:,} bytes left as {total['compressed_bytes']:,}: "
            f"{total['ratio']:.2f}× smaller, {faster:.2f}× faster out than uncompressed at the "
            "link's rate."
        )
    note = clock_note(content["clock_hz"], ENGINE if content["engine"] == "dma" else CODEC)
    if note:
        yield note
    for row in arrays:
        for fault in row["faults"]:
            yield f"{row['name']}: {fault}"


def _parts(content: Mapping[str, Any]) -> Iterator[Part]:
    arrays, total = content["arrays"], content["total"]
    names = [row["name"] for row in arrays]
    yield table_of(
        "Arrays",
        arrays,
        first=_FIRST,
        without=_OF_ALL,
        total={key: value for key, value in total.items() if key not in _OF_ALL},
        note="Cycles: from the record of the array before, or the doorbell, to its own.",
    )
    ratios = {content["codec"]: [row["ratio"] for row in arrays]}
    for codec in total["baseline_ratios"]:
        if codec != content["codec"]:
            ratios[codec] = [row["baseline_ratios"][codec] for row in arrays]
    yield bars("Compression ratio by array", names, ratios, "uncompressed bytes per byte, ×")
    times = {
        "out, compressed, through the RTL": [row["swap_out_seconds"] * 1e6 for row in arrays],
        "in, compressed, through the RTL": [row["swap_in_seconds"] * 1e6 for row in arrays],
        "uncompressed, at the link's rate": [row["link_seconds_raw"] * 1e6 for row in arrays],
    }
    yield bars("Time by array", names, times, "time, µs")
    stalls = total["stall_cycles"]
    if stalls:
        yield bars(
            "Cycles in which something waited, by what it waited for",
            [cause.replace("_", " ") for cause in stalls],
            {"cycles stalled": list(stalls.values())},
            "cycles",
        )
        yield facts_of("Engine", {key: total[key] for key in _OF_ALL})
    yield facts_of("Settings", content, without=("arrays", "total", "configuration"))
    yield from configuration_of(content)
