"""All components and what they cost, as a document: `python -m cdma.synth.catalog`.

What a component does, its latency and its throughput are its docstring's; what it costs is the
committed baselines'. So it is quick, and nothing in it is written twice.
"""

import gc
import inspect
import re
import warnings
from collections.abc import Mapping
from textwrap import dedent
from typing import Any

from amaranth.hdl import UnusedElaboratable

from cdma.hw.emit.docstrings import summary
from cdma.synth.baseline import ECP5, GENERIC, Baseline, read_baseline
from cdma.synth.components import ComponentBlock, block, block_names

DOCUMENT = "docs/reference/components.md"

_HEAD = f"""\
# Components

<!-- Generated: .venv/bin/python -m cdma.synth.catalog > {DOCUMENT} -->

Every block that can be synthesized, and every part of the DMA engine. Costs are the committed
figures of `cdma synth` ([synth.md](../guide/silicon/synth.md) tells how they are made): gates of no process, without
wires; on an ECP5-85F of speed grade 8 after place and route. RAM: bits in memories that would be macros.
`engine` is mapped in parts and timed as a whole: paths run through several parts, so that it is slower than each.

| component | kGE | flip-flops | RAM bits | MHz | ECP5 LUTs | flip-flops | block RAMs | MHz |
|---|---|---|---|---|---|---|---|---|"""  # noqa: E501

_NONE = "–"


def document() -> str:
    """Compose the text that `DOCUMENT` must hold."""
    gates, luts = read_baseline(GENERIC), read_baseline(ECP5)
    names = block_names()
    return "\n".join(
        [
            _HEAD,
            *(_index_row(name, gates, luts) for name in names),
            "",
            *(line for name in names for line in _section(name)),
        ]
    )


def _index_row(name: str, gates: Baseline, luts: Baseline) -> str:
    config = block(name).config
    gate, lut = gates.get((name, config), {}), luts.get((name, config), {})
    cells = [
        f"[`{name}`](#{name})",
        _figure(gate, "kge", ",.1f"),
        _figure(gate, "flip_flops", ",d"),
        _figure(gate, "macro_bits", ",d"),
        _figure(gate, "fmax_mhz", ",.0f"),
        _figure(lut, "luts", ",d"),
        _figure(lut, "flip_flops", ",d"),
        _figure(lut, "block_rams", ",d"),
        _figure(lut, "fmax_mhz", ",.0f"),
    ]
    return f"| {' | '.join(cells)} |"


def _figure(row: Mapping[str, Any], key: str, form: str) -> str:
    value = row.get(key)
    return _NONE if value is None else format(value, form)


def _section(name: str) -> list[str]:
    chosen = block(name)
    kind = _class_of(chosen)
    paragraphs = [_paragraph(part) for part in summary(kind).split("\n\n")]
    kept = [part for part in paragraphs if not _COST.match(part)]
    costs = _sentences(" ".join(part for part in paragraphs if _COST.match(part)))
    parameters = ", ".join(f"{key} = {value}" for key, value in chosen.parameters.items())
    return [
        f"## {name}",
        "",
        *(line for part in kept for line in (part, "")),
        "| | |",
        "|---|---|",
        *(f"| {heading.lower()} | {text} |" for heading, text in costs.items()),
        f"| parameters of `{chosen.config}` | {parameters} |",
        f"| source | `{_source(kind)}`, `{kind.__name__}` |",
        "",
    ]


def _paragraph(text: str) -> str:
    """Put a docstring's paragraph on one line; one that is indented is a picture, and stays."""
    if text.startswith("    "):
        return f"```\n{dedent(text)}\n```"
    return " ".join(text.split())


_HEADINGS = ("Latency", "Throughput", "Resources")
_COST = re.compile(rf"(?:{'|'.join(_HEADINGS)}): ")


def _sentences(text: str) -> dict[str, str]:
    """Split a docstring into sections by their headings."""
    _, *parts = re.split(rf"\b({'|'.join(_HEADINGS)}): ", text)
    return {heading: text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}


def _class_of(chosen: ComponentBlock) -> type:
    with warnings.catch_warnings():
        # A component that is not built is a mistake elsewhere.
        warnings.simplefilter("ignore", UnusedElaboratable)
        component = chosen.make()
        kind = type(component)
        # Its parts know each other, so that they would warn later.
        del component
        gc.collect()
        return kind


def _source(kind: type) -> str:
    module = inspect.getmodule(kind)
    assert module is not None
    return module.__name__.removeprefix("cdma.").replace(".", "/") + ".py"


if __name__ == "__main__":
    print(document(), end="")
