"""Queues of data on its way through the engine, with or without ECC."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from cdma.hw.config import EngineConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.protected_fifo import ProtectedFifo

COUNT_BITS = 6
"""Width of a number of words with errors: two memories for each of at most 16 units."""

DataQueue = Fifo | ProtectedFifo


def ecc_members(config: EngineConfig, bits: int = 1) -> dict[str, Any]:
    """Members of a component that tell of its memories' errors; none without ECC."""
    return {"corrected": Out(bits), "uncorrectable": Out(bits)} if config.ecc else {}


def data_queue(
    config: EngineConfig, shape: ShapeLike, depth: int, framing: Sequence[str] = ()
) -> DataQueue:
    """Return a queue as the configuration has them; see `ProtectedFifo` for `framing`."""
    return ProtectedFifo(shape, depth, framing) if config.ecc else Fifo(shape, depth)


def report_errors(
    m: Module, config: EngineConfig, component: wiring.Component, parts: Sequence[Any]
) -> None:
    """Let a component tell of the errors of parts of it; without ECC there is nothing to tell.

    Parameters
    ----------
    component
        Has `ecc_members`.
    parts
        Queues and components with the same members, at least one.
    """
    for name in ecc_members(config):
        first, *others = (getattr(part, name) for part in parts)
        m.d.comb += getattr(component, name).eq(sum(others, first))
