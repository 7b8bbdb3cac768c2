"""An engine with its machine, by name, and with one of its parameters changed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from cdma.hw.codec.registry import CodecRegistryError, copy_codec, line_codec
from cdma.hw.config import ConfigError, EngineConfig, find_named, preset
from cdma.plan.engine_cost.packing import LineSizes
from cdma.plan.engine_cost.transfer import EstimateError, TransferCost, ceilings, transfer_cost
from cdma.plan.platform.environment import MACHINES, MachineConfig
from cdma.plan.platform.link import Link
from cdma.plan.platform.link import link as link_of
from cdma.plan.platform.throttles import THROTTLES, Throttle
from cdma.plan.platform.throttles import throttle as throttle_of


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything that a transfer's time depends on, beside its bytes.

    Attributes
    ----------
    config : str
        The name of engine and machine that the setup started from.
    engine : EngineConfig
        Each, if the machine has several.
    machine : MachineConfig
    throttle : Throttle
    link : str or None
        The name of the link that replaces the machine's own; None if none does.
    """

    config: str
    engine: EngineConfig
    machine: MachineConfig
    throttle: Throttle = THROTTLES["none"]
    link: str | None = None

    @classmethod
    def named(cls, config: str, link: str | None = None, throttle: str = "none") -> Self:
        """A machine of `cdma.plan.platform.environment` with the engine of that name.

        Raises
        ------
        ConfigError, LinkError, DriverError
            There is no such configuration, link or throttle; the message lists those there are.
        """
        machine = find_named(MACHINES, config)
        setup = cls(
            config=config, engine=preset(config), machine=machine, throttle=throttle_of(throttle)
        )
        return setup if link is None else setup.with_link(link)

    def with_link(self, link: str | Link) -> Self:
        """Replace the link by another at its peak rate, as `cdma swap --link` simulates it."""
        found = link_of(link) if isinstance(link, str) else link
        return replace(
            self,
            link=found.name,
            machine=replace(
                self.machine,
                link_out_bytes_per_s=found.bytes_per_s,
                link_in_bytes_per_s=found.in_bytes_per_s,
            ),
        )

    def with_units(self, units: int) -> Self:
        """Change the number of units, one at each memory channel; all channels together stay as
        fast.
        """
        return replace(
            self,
            engine=replace(self.engine, units=units),
            machine=replace(self.machine, channels=units),
        )

    def with_engines(self, engines: int) -> Self:
        """Change the number of engines side by side, between which link and memory are divided."""
        return replace(self, machine=replace(self.machine, engines=engines))

    def with_sector_bytes(self, sector_bytes: int) -> Self:
        """The port to the link is as wide as a sector."""
        codec = replace(self.engine.codec, sector_bytes=sector_bytes)
        return replace(self, engine=replace(self.engine, codec=codec, host_bytes=sector_bytes))

    def with_clock(self, clock_hz: float) -> Self:
        return replace(self, machine=replace(self.machine, clock_hz=clock_hz))

    def with_buffer_bytes(self, buffer_bytes: int) -> Self:
        return replace(self, engine=replace(self.engine, buffer_bytes=buffer_bytes))

    def stream_bytes(self, raw_bytes: int, density: float) -> float:
        """Bytes of the stream of `raw_bytes` with a density, 0…1, by the engine's first codec."""
        codec = self.engine.codec
        return codec.entries[0].mean_stream_bytes(raw_bytes, density, codec)

    def with_codec(self, name: str) -> Self:
        """Make a codec of the registry the engine's first one.

        Raises
        ------
        ConfigError
            There is no such codec.
        """
        others = (one for one in self.engine.codecs if one != name)
        codecs = (name, *others) if name in self.engine.codecs else (name, copy_codec().name)
        try:
            entry = line_codec(name)
        except CodecRegistryError as error:
            raise ConfigError(f"codecs: {error}") from error
        granule = entry.granule_bytes(entry.array_element_bytes(self.engine.codec.element_bytes))
        codec = replace(self.engine.codec, codecs=codecs, element_bytes=granule)
        return replace(self, engine=replace(self.engine, codec=codec))

    def cost(
        self,
        raw_bytes: float,
        stream_bytes: float,
        way: str,
        *,
        compressed: bool = True,
        lines: Sequence[int] | None = None,
        sizes: LineSizes | None = None,
    ) -> TransferCost:
        """`cdma.plan.engine_cost.transfer_cost` here; it has the arguments and errors."""
        return transfer_cost(
            raw_bytes,
            stream_bytes,
            way=way,
            machine=self.machine,
            engine=self.engine,
            throttle=self.throttle,
            compressed=compressed,
            lines=lines,
            sizes=sizes,
        )

    def ceilings(self, density: float, way: str) -> dict[str, float]:
        """`cdma.plan.engine_cost.ceilings` here, in raw bytes per second by place."""
        return ceilings(
            density, way=way, machine=self.machine, engine=self.engine, throttle=self.throttle
        )


def _number(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


_UNITS = {"": 1, "B": 1, "KB": 1000, "KiB": 1024, "MB": 1000**2, "MiB": 1024**2}


def _bytes(text: str) -> int:
    digits = text.rstrip("BKMi")
    unit = text[len(digits) :]
    if unit not in _UNITS:
        raise ValueError(text)
    return int(digits) * _UNITS[unit]


@dataclass(frozen=True)
class Parameter:
    """A parameter that a sweep may change: how a value is read and applied, and an example."""

    read: Callable[[str], int | float | str]
    change: Callable[[Setup, int | float | str], Setup]
    example: str


PARAMETERS: dict[str, Parameter] = {
    "units": Parameter(int, lambda s, v: s.with_units(int(v)), "4,6,8"),
    "engines": Parameter(int, lambda s, v: s.with_engines(int(v)), "1,2,4"),
    "sector_bytes": Parameter(int, lambda s, v: s.with_sector_bytes(int(v)), "32,64,128"),
    "clock": Parameter(_number, lambda s, v: s.with_clock(float(v)), "1e9,1.3e9"),
    "link": Parameter(str, lambda s, v: s.with_link(str(v)), "pcie3x16,pcie4x16,nvlink2"),
    "buffer": Parameter(_bytes, lambda s, v: s.with_buffer_bytes(int(v)), "35KiB,70KiB"),
}


@dataclass(frozen=True)
class Sweep:
    """One parameter at several values, in the order given."""

    parameter: str
    values: tuple[int | float | str, ...]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a sweep such as `units=4,6,8`.

        Raises
        ------
        EstimateError
            It is not written so, the parameter is unknown, or a value is none of it.
        """
        name, equals, values = text.partition("=")
        if not equals:
            raise EstimateError(f"a sweep is written as units=4,6,8, not {text!r}")
        if name not in PARAMETERS:
            raise EstimateError(
                f"unknown parameter {name!r} to sweep; choose from {', '.join(PARAMETERS)}"
            )
        parameter = PARAMETERS[name]
        try:
            found = [parameter.read(value.strip()) for value in values.split(",")]
        except ValueError as error:
            raise EstimateError(
                f"values of {name} are written as {parameter.example}, not {values!r}"
            ) from error
        return cls(name, tuple(dict.fromkeys(found)))

    def setups(self, base: Setup) -> list[Setup]:
        """`base` at each value. `ConfigError` or `LinkError` for what nobody can build."""
        return [PARAMETERS[self.parameter].change(base, value) for value in self.values]
