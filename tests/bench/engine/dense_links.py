"""Links with XC: busy with bf16 numbers, from dense ones to hardly any, both ways."""

from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console

from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import PRESETS, EngineConfig
from cdma.sim.machine import MACHINES, MachineConfig
from tests.bench.engine.rig import NEAR, Rig
from tests.bench.engine.tables import percent, table

ELEMENTS = 128 << 10
DENSITIES = (1, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05)


def run(console: Console) -> dict[str, Any]:
    """Print a table per link and return their figures."""
    return {
        f"{name}, {environment.link_out_bytes_per_cycle:.0f} B/cycle": _busy(
            console, name, environment
        )
        for name, environment in (
            ("titanx_gen3", MACHINES["titanx_gen3"]),
            ("titanx_gen3", NEAR),
        )
    }


def with_xc(name: str) -> EngineConfig:
    """The preset with XC beside its codecs."""
    engine = PRESETS[name]
    codecs = (*engine.codec.codecs, "xc")
    return replace(engine, codec=replace(engine.codec, element_bytes=1, codecs=codecs))


def normal_bf16(elements: int, density: float, seed: int = 0) -> ByteArray:
    """Normal numbers in bf16, zeros anywhere between them."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(elements).astype(np.float32)
    values[rng.random(elements) >= density] = 0
    return rounded_to_bf16(values).view(np.uint8)


def _busy(console: Console, name: str, environment: MachineConfig) -> dict[str, Any]:
    engine = with_xc(name)
    printed = table(
        f"{name} with XC, link of {environment.link_out_bytes_per_cycle:.0f} B/cycle at a port of "
        f"{engine.host_bytes} B: link busy",
        "not zero",
        "ratio",
        "out",
        "in",
    )
    figures = {}
    with Rig(engine, environment) as rig:
        for density in DENSITIES:
            array = normal_bf16(ELEMENTS, density)
            parameters = line_codec("xc").fitted_parameters(array, 2)
            out = rig.out(array, codec="xc", parameters=parameters)
            back = rig.into(out, codec="xc", parameters=parameters)
            found = {
                "ratio": out.nbytes / out.link_bytes,
                "out": out.utilization,
                "in": back.utilization,
            }
            figures[f"{density:g}"] = found
            printed.add_row(
                f"{density:.0%}",
                f"{found['ratio']:.2f}x",
                percent(found["out"]),
                percent(found["in"]),
            )
    console.print(printed)
    console.print(
        f"Transfers of {2 * ELEMENTS >> 10} KiB, normal numbers in bf16, best parameters. On the "
        "way in, what the read buffer holds at the end counts as gone."
    )
    return figures
