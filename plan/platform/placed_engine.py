"""An engine with its surroundings, shipped or of the user's own, that a device is imagined with."""

from dataclasses import dataclass
from typing import Self

from cdma.hw.config import EngineConfig, preset
from cdma.plan.platform.environment import MachineConfig, machine_config


@dataclass(frozen=True, kw_only=True)
class PlacedEngine:
    """An engine and the machine around it.

    Attributes
    ----------
    name : str
        For reports.
    config : EngineConfig
    machine : MachineConfig
        Of which a scenario replaces the rates of memory and link by those of its device and link.
    """

    name: str
    config: EngineConfig
    machine: MachineConfig

    @classmethod
    def named(cls, name: str) -> Self:
        """The preset of that name; `ConfigError`, with those there are, if there is none."""
        return cls(name=name, config=preset(name), machine=machine_config(name))
