"""The section of `cdma value`: the engine's gain by step and link, as a map."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.plan.platform.environment import machine_config
from cdma.plan.value.picture import value_picture
from cdma.plan.value.point import Value
from cdma.report.content import Part, Picture, Section
from cdma.report.documents import Document
from cdma.report.tables import facts_of, table_of
from cdma.synth.gates.clock import ENGINE, clock_note

_POINT_FIRST = (
    *("point.network", "point.batch", "point.precision", "point.device", "point.link"),
    *("gain", "without_seconds", "with_seconds", "oracle_seconds", "memory_bytes", "fits"),
)


def section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma value`."""
    content = document.content
    gain = content["break_even_gain"]
    worth = sum(row["worth_it"] for row in content["rows"])
    sentence = (
        f"The engine gains {100 * gain:g} % or more behind some link in {worth} of "
        f"{len(content['rows'])} steps; {content['computed']} of {content['points']} points are "
        "there."
    )
    engines = {value["engine"] for value in content["values"]} - {None}
    clocks = [machine_config(name).clock_hz for name in engines]
    return Section(
        title="value: the engine's gain over the best plan without it",
        sentences=[sentence, *filter(None, [clock_note(max(clocks, default=0.0), ENGINE)])],
        parts=tuple(_parts(content, gain)),
    )


def _parts(content: Mapping[str, Any], gain: float) -> Iterator[Part]:
    values = [
        Value.from_dict({key: each for key, each in value.items() if key != "gain"})
        for value in content["values"]
    ]
    if values:
        title = f"Gain by step and link, break-even at {100 * gain:g} %"
        yield Picture(
            title=title,
            svg=value_picture(values, gain, file_format="svg"),
            text=f"{title}; the figures are in the table.",
        )
    yield table_of(
        "Steps",
        content["rows"],
        note="Gains by link; from, to: payload bandwidths between which the engine is worth it, "
        "empty where there is no such end.",
    )
    yield table_of("Points", content["values"], first=_POINT_FIRST, folded=True)
    yield facts_of("Settings", content, without=("values", "rows"))
