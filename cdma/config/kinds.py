"""The kinds of configuration: a class, its named values, and how a table of a file becomes one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from cdma.config.network import NetworkConfig
from cdma.config.values import PRESET, TablePlace, meant, read_table, shown
from cdma.hw.config import (
    BUDDY_PRESETS,
    PRESETS,
    BuddyConfig,
    EngineConfig,
    buddy_preset,
    preset,
)
from cdma.plan.platform.device import DEVICES, Device
from cdma.plan.platform.device import device as device_of
from cdma.plan.platform.environment import MACHINES, MachineConfig, machine_config
from cdma.plan.platform.link import LINKS, Link
from cdma.plan.platform.link import link as link_of
from cdma.plan.platform.throttles import THROTTLES, Throttle
from cdma.plan.platform.throttles import throttle as throttle_of
from cdma.plan.workload.networks import NETWORKS

T = TypeVar("T")

Completion = Callable[[dict[str, Any], Mapping[str, Any], TablePlace], None]


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[T]):
    """A kind of configuration.

    Attributes
    ----------
    name : str
        Of its table in files.
    config : type
        A frozen dataclass, whose fields are the table's keys.
    presets : mapping of str to object
        The named ones.
    named : callable
        Finds one by a name, which may say more than the keys of `presets`, as `pcie5x16/4` does; it
        raises one of `cdma.config.values.REFUSALS`.
    options : tuple of str
        The options of commands that take one.
    about : str
        A sentence.
    complete : callable, optional
        Sets fields that follow from keys given and those not given; see `read_table`.
    implied : mapping of str to str
        These fields, each with what it is then, for the reference.
    read : callable, optional
        Instead of `read_table`.
    """

    name: str
    config: type[T]
    presets: Mapping[str, Any]
    named: Callable[[str], T]
    options: tuple[str, ...]
    about: str
    complete: Completion | None = None
    implied: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Mapping[str, Any], TablePlace], T] | None = None

    def of_table(self, content: Mapping[str, Any], file: str) -> T:
        """The configuration of a file's table; `UserError` names what is wrong in it."""
        place = TablePlace(file, self.name)
        if self.read is not None:
            return self.read(content, place)
        base = None
        if PRESET in content:
            base = self._base(content[PRESET], place)
        rest = {key: value for key, value in content.items() if key != PRESET}
        complete = self.complete

        def completed(given: dict[str, Any], keys: Mapping[str, Any]) -> None:
            if complete is not None:
                complete(given, keys, place)

        return read_table(self.config, rest, place, base, complete=completed)

    def _base(self, name: Any, place: TablePlace) -> T:
        if isinstance(name, str) and (name in self.presets or "/" in name):
            return self.named(name)
        near = meant(name, self.presets) if isinstance(name, str) else ""
        raise place.error(
            f"{PRESET} must be one of {', '.join(self.presets)}, not {shown(name)}"
            + (f"; {near.rstrip()}" if near else "")
        )


def _engine(given: dict[str, Any], content: Mapping[str, Any], place: TablePlace) -> None:
    """The port to the link is as wide as a sector if nothing else is said."""
    if "codec" in given and "host_bytes" not in given:
        given["host_bytes"] = given["codec"].sector_bytes


def _link(given: dict[str, Any], content: Mapping[str, Any], place: TablePlace) -> None:
    """The way back is as fast as the way out if nothing else is said."""
    _name(given, content, place)
    if "bytes_per_s" in given and "in_bytes_per_s" not in given:
        given["in_bytes_per_s"] = 0.0


def _device(given: dict[str, Any], content: Mapping[str, Any], place: TablePlace) -> None:
    """A device without an engine of its own has the paper's."""
    _name(given, content, place)
    if "engine" not in given and PRESET not in content:
        given["engine"] = next(iter(MACHINES))
    elif given.get("engine", next(iter(MACHINES))) not in MACHINES:
        raise place.error(
            f"engine must be one of {', '.join(MACHINES)}, not {shown(given['engine'])}; give an "
            "engine of your own to the command, with --config"
        )


def _name(given: dict[str, Any], content: Mapping[str, Any], place: TablePlace) -> None:
    """The file's name is that of what has none."""
    given.setdefault("name", Path(place.file).stem)


def _sourced(given: dict[str, Any], content: Mapping[str, Any], place: TablePlace) -> None:
    given.setdefault("source", place.file)


def _with_source(complete: Completion) -> Completion:
    def both(given: dict[str, Any], content: Mapping[str, Any], place: TablePlace) -> None:
        complete(given, content, place)
        _sourced(given, content, place)

    return both


_FILE = {"name": "the file's name", "source": "the file"}

ENGINE: Kind[EngineConfig] = Kind(
    name="engine",
    config=EngineConfig,
    presets=PRESETS,
    named=preset,
    options=("--config",),
    about="The shape of the DMA engine, and with its table `codec` of the codecs in it.",
    complete=_engine,
    implied={"host_bytes": "`codec.sector_bytes`"},
)

MACHINE: Kind[MachineConfig] = Kind(
    name="machine",
    config=MachineConfig,
    presets=MACHINES,
    named=machine_config,
    options=("--machine",),
    about="The engine's surroundings: its clock, the channels of device memory and the link.",
)

DEVICE: Kind[Device] = Kind(
    name="device",
    config=Device,
    presets=DEVICES,
    named=device_of,
    options=("--device",),
    about="A GPU by its published figures. Of `efficiency` only the kinds that differ are given.",
    complete=_with_source(_device),
    implied={**_FILE, "engine": f"`{next(iter(MACHINES))!r}`".replace("'", '"')},
)

LINK: Kind[Link] = Kind(
    name="link",
    config=Link,
    presets=LINKS,
    named=link_of,
    options=("--link",),
    about="A link between device and host; `/4` behind a preset or a file: shared by four.",
    complete=_with_source(_link),
    implied={**_FILE, "in_bytes_per_s": "`bytes_per_s`"},
)

THROTTLE: Kind[Throttle] = Kind(
    name="throttle",
    config=Throttle,
    presets=THROTTLES,
    named=throttle_of,
    options=("--throttle",),
    about="A limit on the engine's reads of device memory.",
    complete=_name,
    implied={"name": _FILE["name"]},
)

NETWORK: Kind[NetworkConfig] = Kind(
    name="network",
    config=NetworkConfig,
    presets=NETWORKS,
    named=NetworkConfig.named,
    options=("--network",),
    about="A training step: a shipped network with what is changed in it, or layers one by one.",
    read=NetworkConfig.of_table,
)

BUDDY: Kind[BuddyConfig] = Kind(
    name="buddy",
    config=BuddyConfig,
    presets=BUDDY_PRESETS,
    named=buddy_preset,
    options=("--config",),
    about="The shape of the buddy controller, its codec (`entry`) and its cache of metadata; the "
    "table `cache` may begin with a preset of its own.",
)

KINDS: dict[str, Kind[Any]] = {
    kind.name: kind for kind in (ENGINE, MACHINE, DEVICE, LINK, THROTTLE, NETWORK, BUDDY)
}
"""By the name of their table."""
