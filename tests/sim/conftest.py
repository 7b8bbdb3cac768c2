"""RTL for the simulator's own tests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cdma.sim.machine import Machine
from tests.sim.machine.copier import MEMORY, QUIET, copier_rtl, fill
from tests.sim.machine.engine.bench import EngineBench

ECHO = Path(__file__).parent / "machine" / "echo.sv"


@dataclass(frozen=True)
class Rtl:
    name: str
    text: str


@pytest.fixture(scope="session")
def echo() -> Callable[..., Rtl]:
    """Makes the device of `machine/echo.sv`."""

    def make(*, sector_bytes: int = 32, takes_crc: bool = False) -> Rtl:
        defines = [f"`define SECTOR_BYTES {sector_bytes}"]
        if takes_crc:
            defines.append("`define TAKES_CRC")
        return Rtl("echo", "\n".join([*defines, ECHO.read_text()]))

    return make


@pytest.fixture
def machine() -> Iterator[Callable[..., Machine]]:
    """Makes machines around movers, with data in their memories.

    Takes the fields of `MachineConfig` that are unlike `QUIET`'s, and `Machine`'s arguments.
    """
    machines = []

    def make(*, data_bytes: int = 32, **options: Any) -> Machine:
        changes = {key: options.pop(key) for key in list(options) if hasattr(QUIET, key)}
        config = replace(QUIET, **changes)
        rtl = copier_rtl(units=config.channels, data_bytes=data_bytes)
        made = Machine(rtl, config, **{"device_bytes": MEMORY, "host_bytes": MEMORY, **options})
        machines.append(made)
        fill(made.device, 1)
        fill(made.host, 2)
        return made

    yield make
    for made in machines:
        made.close()


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[EngineBench]:
    """The engine in a machine; an indirect parameter is the probability of stalls."""
    made = EngineBench(stalls=getattr(request, "param", 0.0), seed=1)
    yield made
    made.close()
