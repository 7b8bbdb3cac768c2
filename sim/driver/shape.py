"""The engine's shape, as read from its identity and configuration registers."""

from dataclasses import dataclass
from importlib.metadata import version

from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig
from cdma.sim.driver.copy import ENGINE_CODEC
from cdma.sim.driver.errors import IdentityError
from cdma.sim.driver.registers import RegisterFile
from cdma.sim.machine import Machine


@dataclass(frozen=True, kw_only=True)
class EngineShape:
    """Shape of an engine: what CONFIG0 and CONFIG1 report, and the codecs.

    Attributes
    ----------
    units : int
    sector_bytes : int
        Width of each port to device memory.
    element_bytes : int
        Element size of the codecs.
    host_bytes : int
        Width of the port to the host.
    buffer_bytes : int
        Size of the DMA buffer.
    rings : int
        Rings, each with a driver of its own.
    codecs : tuple of str
        Names of the codecs; the first one is the default of compressed copies.
    """

    units: int
    sector_bytes: int
    element_bytes: int
    host_bytes: int
    buffer_bytes: int
    rings: int
    codecs: tuple[str, ...]

    def worst_stream_bytes(self, nbytes: int, codec: str = ENGINE_CODEC) -> int:
        """Size of the longest stream of `nbytes`: space that always suffices."""
        entry = line_codec(self.codecs[0] if codec == ENGINE_CODEC else codec)
        lines = CodecConfig(element_bytes=self.element_bytes, codecs=self.codecs)
        return entry.worst_stream_bytes(nbytes, lines)


def read_shape(registers: RegisterFile, machine: Machine, codecs: tuple[str, ...]) -> EngineShape:
    """Check that this is an engine that the driver knows, and read its shape.

    Raises
    ------
    IdentityError
        It is something else, of another major version, or does not fit its machine.
    """
    known = registers.map["ID"].fields["id"].reset
    found = registers.read("ID")["id"]
    if found != known:
        raise IdentityError(f"register ID must be {known:#x}, not {found:#x}: no engine is there")
    major = int(version("cdma-rtl").split(".")[0])
    if (other := registers.read("VERSION")["major"]) != major:
        raise IdentityError(f"VERSION.major must be {major}, which this driver is for, not {other}")
    config = {**registers.read("CONFIG0"), **registers.read("CONFIG1")}
    rings = config.pop("last_ring") + 1
    shape = EngineShape(**config, rings=rings, codecs=tuple(codecs))
    for name, here, there in (
        ("units", shape.units, machine.units),
        ("sector_bytes", shape.sector_bytes, machine.sector_bytes),
        ("host_bytes", shape.host_bytes, machine.link_port_bytes),
        ("last_ring", shape.rings - 1, machine.rings - 1),
    ):
        if here != there:
            raise IdentityError(f"CONFIG0.{name} must be {there}, as the ports have it, not {here}")
    return shape
