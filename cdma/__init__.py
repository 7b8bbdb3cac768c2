"""Generator of RTL for a compressing DMA engine, with golden models, simulator and scheduler.

The names below are what most programs need; all else is in the rooms `cdma.hw`, `cdma.golden`,
`cdma.sim`, `cdma.plan`, `cdma.synth` and `cdma.reproduce`. A name's module is imported when the
name is first used, so that `import cdma` alone costs nothing and loads no room.

========================= ========================================================================
`EngineConfig`            shape of the DMA engine
`generate(name, …)`       a component of the registry as Verilog
`codec(name, …)`          golden model of a compression format
`simulate(config, arrays)` arrays out through the engine's RTL and back, compared
`Machine`, `Engine`       simulated machine around the RTL, and the driver of the engine in it
`swap_to(engine)`         context in which PyTorch's saved tensors go out through the engine
`Graph`, `Device`         training step and GPU, as the scheduler sees them
`schedule(graph, device)` plans of the step by policy, each on one timeline
========================= ========================================================================
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdma.golden import codec
    from cdma.hw.config import EngineConfig
    from cdma.hw.emit.verilog import generate
    from cdma.plan.platform.device import Device
    from cdma.plan.workload.graph import Graph
    from cdma.scheduling import schedule
    from cdma.sim.driver import Engine
    from cdma.sim.machine import Machine
    from cdma.sim.swap import swap_to
    from cdma.simulation import simulate
else:
    _MODULES = {
        "Device": "cdma.plan.platform.device",
        "Engine": "cdma.sim.driver",
        "EngineConfig": "cdma.hw.config",
        "Graph": "cdma.plan.workload.graph",
        "Machine": "cdma.sim.machine",
        "codec": "cdma.golden",
        "generate": "cdma.hw.emit.verilog",
        "schedule": "cdma.scheduling",
        "simulate": "cdma.simulation",
        "swap_to": "cdma.sim.swap",
    }

    # Type checkers do not see it: with it, they would take any name for one of the package's.
    def __getattr__(name: str) -> object:
        """Import a public name's module at its first use (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module 'cdma' has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(_MODULES[name]), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """List the public names too, whether or not they have been used."""
        return sorted({*globals(), *_MODULES})


__all__ = [
    "Device",
    "Engine",
    "EngineConfig",
    "Graph",
    "Machine",
    "codec",
    "generate",
    "schedule",
    "simulate",
    "swap_to",
]
