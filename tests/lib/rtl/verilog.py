"""Verilog as `cdma generate` writes it, made once for all tests that look at it."""

from cdma.hw.components import Config
from cdma.hw.emit.reset import DEFAULT_RESET
from cdma.hw.emit.verilog import STYLES, Verilog
from cdma.sim.machine.build.rtl import generated


def verilog_of(
    component: str,
    config: Config | str | None = None,
    *,
    style: str = STYLES[0],
    reset: str = DEFAULT_RESET,
) -> Verilog:
    """Return what `cdma.hw.emit.verilog.generate` returns, from the cache where possible."""
    return generated(component, config, assertions=False, style=style, reset=reset)
