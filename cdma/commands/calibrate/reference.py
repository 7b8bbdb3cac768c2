"""Published efficiencies as a document: `python -m cdma.commands.calibrate.reference`."""

from collections.abc import Iterator

from cdma.plan.calibration.published import missing_kinds, published_efficiencies
from cdma.plan.platform.device import CALIBRATED, DEVICES
from cdma.plan.workload.layers import KINDS

DOCUMENT = "docs/reference/efficiencies.md"

_HEAD = f"""\
# Published efficiencies of the shipped devices

<!-- Generated: .venv/bin/python -m cdma.commands.calibrate.reference > {DOCUMENT} -->

The part of a device's peaks that layers of a kind get, as others have measured it. `cdma schedule
--efficiency published` plans with it. Kinds that nobody was found to have measured keep the
declared efficiency; nothing is taken over from one device to another. *Off by* is the part of its
time by which what was measured is off the efficiency: of steps, after the fit; of a range, its
half. A dash: the source has one figure, which says nothing of other shapes.

Devices whose names end in `-calibrated` have been timed with `cdma calibrate` and have their own
peaks and efficiencies ([calibrate](../guide/plan/calibrate.md), as also for your own machine).

| device | kinds | declared | published | off by | what was measured | source |
|---|---|---|---|---|---|---|"""

_NONE = "–"


def document() -> str:
    """Compose the text that `DOCUMENT` must hold."""
    names = [name for name in DEVICES if name not in CALIBRATED]
    return "\n".join([_HEAD, *(row for name in names for row in _rows(name))]) + "\n"


def _rows(name: str) -> Iterator[str]:
    device = DEVICES[name]
    for row in published_efficiencies(name):
        cells = (
            f"`{name}`",
            ", ".join(row.kinds),
            _declared(name, row.kinds),
            f"{row.efficiency:.3f}",
            _NONE if row.error is None else f"{100 * row.error:.0f} %",
            row.what,
            row.source,
        )
        yield f"| {' | '.join(cells)} |"
    missing = missing_kinds(name)
    if missing:
        kinds = "all" if missing == KINDS else ", ".join(missing)
        cells = (
            f"`{device.name}`",
            kinds,
            _declared(name, missing),
            _NONE,
            _NONE,
            "no measurement was found",
            _NONE,
        )
        yield f"| {' | '.join(cells)} |"


def _declared(name: str, kinds: tuple[str, ...]) -> str:
    values = sorted({DEVICES[name].efficiency[kind] for kind in kinds}, reverse=True)
    return ", ".join(f"{value:g}" for value in values)


if __name__ == "__main__":
    print(document(), end="")
