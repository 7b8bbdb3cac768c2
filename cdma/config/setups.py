"""An engine with the machine around it, of which the user may have given both, one or none."""

from dataclasses import dataclass, replace
from pathlib import Path

from cdma.config.kinds import ENGINE, MACHINE
from cdma.config.resolve import Found, find
from cdma.errors import UserError
from cdma.hw.config import PRESETS, EngineConfig
from cdma.plan.platform.environment import MACHINES, MachineConfig


@dataclass(frozen=True, kw_only=True)
class EngineSetup:
    """An engine and a machine that fit each other.

    Attributes
    ----------
    label : str
        For reports.
    engine : EngineConfig
    machine : MachineConfig
    paths : tuple of Path
        Files that were read.
    """

    label: str
    engine: EngineConfig
    machine: MachineConfig
    paths: tuple[Path, ...]


def engine_setup(engine: str | None, machine: str | None, default: str) -> EngineSetup:
    """The engine and the machine that are meant.

    A machine that is not given is the one in the engine's file; or else that of the preset which
    the engine is or begins with. An engine that is not given is found likewise. A machine that is a
    preset gets a channel at each unit; all channels together stay as fast.

    Parameters
    ----------
    engine, machine : str or None
        As `cdma.config.find` takes it.
    default : str
        A preset of both, for what neither says.

    Raises
    ------
    UserError
        Engine and machine do not fit, or a file is wrong.
    ConfigError
        There is no such preset.
    """
    if engine is None and machine is None:
        engine = default
    one = None if engine is None else find(ENGINE, engine)
    other = None if machine is None else find(MACHINE, machine)
    if one is None:
        assert other is not None
        one = _beside(other, default)
    if other is None:
        other = _around(one, default)
    channels = one.value.units
    if other.label in MACHINES:
        other = replace(other, value=replace(other.value, channels=channels))
    elif other.value.channels != channels:
        raise UserError(
            f"{other.label}: [machine] channels must be {channels}, the units of engine "
            f"{one.label}, not {other.value.channels}"
        )
    label = one.label if other.label == one.label else f"{one.label} in {other.label}"
    if engine is None:
        label = other.label
    elif machine is None:
        label = one.label
    paths = (path for path in (one.path, other.path) if path is not None)
    return EngineSetup(
        label=label, engine=one.value, machine=other.value, paths=tuple(dict.fromkeys(paths))
    )


def _beside(machine: Found[MachineConfig], default: str) -> Found[EngineConfig]:
    """The engine for a machine that was given without one."""
    if ENGINE.name in machine.tables:
        return find(ENGINE, machine.label)
    return find(ENGINE, machine.base if machine.base in PRESETS else default)


def _around(engine: Found[EngineConfig], default: str) -> Found[MachineConfig]:
    """The machine for an engine that was given without one."""
    if MACHINE.name in engine.tables:
        return find(MACHINE, engine.label)
    return find(MACHINE, engine.base if engine.base in MACHINES else default)
