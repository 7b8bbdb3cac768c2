"""The section of `cdma estimate`: tensors' times in closed form, and the roofline around them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.config import ENGINE, MACHINE, THROTTLE
from cdma.plan.engine_cost import Setup
from cdma.plan.engine_cost.bandwidth_picture import Point, bandwidth_picture
from cdma.report.charts import bars, lines
from cdma.report.content import Part, Picture, Section
from cdma.report.documents import Document
from cdma.report.sections.other import configuration_of
from cdma.report.tables import facts_of, table_of
from cdma.synth.gates.clock import ENGINE as ENGINE_CLOCK
from cdma.synth.gates.clock import clock_note

WAYS = {"out": "offload", "in": "prefetch"}
"""Keys of the two directions."""

_FIRST = (
    *("name", "raw_bytes", "density", "stream_bytes", "ratio"),
    *("offload_seconds", "offload_limit", "offload_bytes_per_s", "offload_speedup"),
    *("prefetch_seconds", "prefetch_limit", "prefetch_bytes_per_s", "prefetch_speedup"),
)
_LIMITS = ("offload_limits", "prefetch_limits")

MS = 1e3
GB = 1e9


def section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of the JSON of `cdma estimate`."""
    content = document.content
    facts = content["assumptions"]
    return Section(
        title=(
            f"estimate: {facts['network']} ({facts['dataset']}), batch {facts['batch']}, on "
            f"{facts['config']}"
        ),
        sentences=[
            _sentence(content["total"]),
            *filter(None, [clock_note(facts["machine"]["clock_hz"], ENGINE_CLOCK)]),
        ],
        parts=tuple(_parts(content, document.name)),
    )


def _sentence(total: Mapping[str, Any]) -> str:
    return (
        f"{total['raw_bytes']:,} bytes leave as {total['stream_bytes']:,.0f}, "
        f"{total['ratio']:.2f}× smaller, in {total['offload_seconds'] * MS:,.2f} ms, "
        f"{total['offload_speedup']:.2f}× as "
        f"fast as plain copies, and come back in {total['prefetch_seconds'] * MS:,.2f} ms, "
        f"{total['prefetch_speedup']:.2f}× as fast."
    )


def _parts(content: Mapping[str, Any], where: str) -> Iterator[Part]:
    tensors, total = content["tensors"], content["total"]
    mean = content["assumptions"]["density"]["mean"]
    sums = {key: value for key, value in total.items() if key not in _LIMITS}
    yield table_of("Tensors", tensors, first=_FIRST, total={**sums, "density": mean})
    # What a lossy codec makes of a tensor does not follow from its density.
    if content["assumptions"].get("bound") is None:
        yield _roofline(content, where)
    limits = list(dict.fromkeys(name for key in _LIMITS for name in total[key]))
    yield bars(
        "Time by what limits it",
        list(WAYS),
        {n: [total[f"{way}_limits"].get(n, 0.0) * MS for way in WAYS.values()] for n in limits},
        "time of all tensors, one after another, ms",
        stacked=True,
    )
    times = {way: [row[f"{key}_seconds"] * MS for row in tensors] for way, key in WAYS.items()}
    raw = {
        f"{way}, plain": [row[f"raw_{k}_seconds"] * MS for row in tensors]
        for way, k in WAYS.items()
    }
    yield bars("Time by tensor", [row["name"] for row in tensors], {**times, **raw}, "time, ms")
    sweep = content["sweep"]
    if sweep is not None:
        rows = sweep["rows"]
        yield table_of(f"By {sweep['parameter']}", rows, first=("value",), without=_LIMITS)
        rates = {w: [row[f"{key}_bytes_per_s"] / GB for row in rows] for w, key in WAYS.items()}
        yield lines(
            f"Effective bandwidth by {sweep['parameter']}",
            [row["value"] for row in rows],
            rates,
            sweep["parameter"],
            "effective bandwidth, raw GB/s",
        )
    swept = {} if sweep is None else {"swept": sweep["parameter"]}
    yield facts_of("Assumptions", {**content["assumptions"], **swept})
    yield from configuration_of(content)


def _roofline(content: Mapping[str, Any], where: str) -> Picture:
    """The picture of `--plot`, from the configuration in the JSON."""
    tables = content["configuration"]
    setup = Setup(
        config=content["assumptions"]["config"],
        engine=ENGINE.of_table(tables[ENGINE.name], where),
        machine=MACHINE.of_table(tables[MACHINE.name], where),
        throttle=THROTTLE.of_table(tables[THROTTLE.name], where),
    )
    points: dict[str, list[Point]] = {
        way: [(row["density"], row[f"{key}_bytes_per_s"]) for row in content["tensors"]]
        for way, key in WAYS.items()
    }
    return Picture(
        title="Effective bandwidth by density",
        svg=bandwidth_picture(setup, points, file_format="svg"),
        text="Raw bytes per second against density, and what each bottleneck lets through; the "
        "tensors' figures are in the table.",
    )
