"""What kind of engine is there: its identity and configuration registers."""

from dataclasses import dataclass
from importlib.metadata import version

from cdma.golden import LINE_BYTES
from cdma.sim.driver.errors import IdentityError
from cdma.sim.driver.registers import RegisterPort
from cdma.sim.machine import Machine


@dataclass(frozen=True, kw_only=True)
class EngineShape:
    """What CONFIG0 and CONFIG1 tell.

    Attributes
    ----------
    units : int
    sector_bytes : int
        Width of each port to device memory.
    element_bytes : int
        What is compared with zero as one.
    host_bytes : int
        Width of the port to the host.
    buffer_bytes : int
        What the DMA buffer holds.
    """

    units: int
    sector_bytes: int
    element_bytes: int
    host_bytes: int
    buffer_bytes: int

    def worst_stream_bytes(self, nbytes: int) -> int:
        """The size of the stream of `nbytes` without a zero: the room that always suffices."""
        lines = -(-nbytes // LINE_BYTES)
        elements = -(-nbytes // self.element_bytes)
        return lines * (LINE_BYTES // self.element_bytes // 8) + elements * self.element_bytes


def read_shape(registers: RegisterPort, machine: Machine) -> EngineShape:
    """Make sure that this is an engine that the driver knows, and find out about it.

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
    shape = EngineShape(**registers.read("CONFIG0"), **registers.read("CONFIG1"))
    for name, here, there in (
        ("units", shape.units, machine.units),
        ("sector_bytes", shape.sector_bytes, machine.sector_bytes),
        ("host_bytes", shape.host_bytes, machine.link_port_bytes),
    ):
        if here != there:
            raise IdentityError(f"CONFIG0.{name} must be {there}, as the ports have it, not {here}")
    return shape
