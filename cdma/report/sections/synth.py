"""The section of `cdma synth`: components in gates or on an FPGA, and the parts of wholes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.report.charts import bars
from cdma.report.content import Part, Section
from cdma.report.documents import Document
from cdma.report.sections.other import configuration_of
from cdma.report.tables import facts_of, table_of

_FIRST = (
    *("name", "config", "kge", "area_um2", "flip_flops", "macro_bits", "depth", "fmax_mhz"),
    *("luts", "carries", "block_rams", "dsps", "fmax_wire_load_mhz"),
)
_BESIDE = ("parts", "corners", "parameters", "opensta")
"""Keys of a component that have tables of their own, or say what it is."""


def section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma synth`, of gates or of an FPGA."""
    content = document.content
    where = content.get("library") or content.get("device") or content["target"]
    return Section(
        title=f"synth: components in {where}",
        sentences=tuple(_sentences(content)),
        parts=tuple(_parts(content)),
    )


def _sentences(content: Mapping[str, Any]) -> Iterator[str]:
    for row in content["components"]:
        if row.get("no_fmax"):
            yield f"{row['name']}: no clock; it {row['no_fmax']}."


def _parts(content: Mapping[str, Any]) -> Iterator[Part]:
    rows = [_without_nulls(content["components"], row) for row in content["components"]]
    yield table_of("Components", rows, first=_FIRST, without=_BESIDE)
    names = [row["name"] for row in rows]
    for key, title, unit in (
        ("kge", "Area", "thousand NAND2, kGE"),
        ("luts", "LUTs", "LUTs"),
        ("fmax_mhz", "Clock of the slowest path", "MHz"),
    ):
        found = [row.get(key) for row in rows]
        if any(value is not None for value in found):
            yield bars(title, names, {key.split("_")[0]: found}, unit)
    for row in content["components"]:
        if row.get("parts"):
            yield _parts_of(row)
    for key in ("units", "engine", "buffer"):
        if content.get(key) is not None:
            yield facts_of(f"Beside the paper: {key}", content[key])
    corners = [
        {"name": row["name"], **corner}
        for row in content["components"]
        for corner in row.get("corners") or []
    ]
    if corners:
        yield table_of("Other corners", corners)
    opinions = [
        {"name": row["name"], **row["opensta"]}
        for row in content["components"]
        if row.get("opensta")
    ]
    if opinions:
        yield table_of("OpenSTA's opinion", opinions)
    skipped = ("components", "units", "engine", "buffer", "configuration")
    yield facts_of("Settings", content, without=skipped)
    parameters = [{"name": row["name"], **row["parameters"]} for row in content["components"]]
    yield table_of("Parameters", parameters, folded=True)
    yield from configuration_of(content)


def _without_nulls(rows: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that the target has: the same keys are there for every target."""
    there = {key for each in rows for key, value in each.items() if value is not None}
    return {key: value for key, value in row.items() if key in there}


def _parts_of(row: Mapping[str, Any]) -> Part:
    parts = [{**part, "name": part["name"] or "between them"} for part in row["parts"]]
    shares = [{**part, "share": part["kge"] / row["kge"]} for part in parts]
    return table_of(f"Parts of {row['name']}", shares, first=("name", "count", "kge", "share"))
