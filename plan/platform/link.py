"""Links between a device and its host, by name.

A link that several devices share is written with their number: `pcie5x16/4` is PCIe 5 x16 between a
host and four devices that copy at the same time.
"""

from dataclasses import dataclass, replace
from typing import Self

from cdma.plan.platform.calibrated import calibrated_files

COPY_EFFICIENCY = 0.8
"""Part of a PCIe or NVLink peak that copies get, as declared: V100 and 2080 Ti got 0.66 to 0.81 of
16 GB/s (CSWAP+, §6.1), and 12.8 GB/s is what frameworks count on."""


class LinkError(ValueError):
    """No such link, or one that cannot be; the message lists those there are, or what is wrong."""


@dataclass(frozen=True)
class Link:
    """A link's bandwidth in each direction.

    Attributes
    ----------
    name : str
        For reports.
    bytes_per_s : float
        Peak from the device to the host, and back unless `in_bytes_per_s` says otherwise.
    source : str
        Who says so.
    in_bytes_per_s : float
        Peak from the host to the device.
    efficiency : float
        The part of the peak that a copy gets; 1 where bandwidth was measured with copies.
    duplex : bool
        Whether both directions move at once.
    """

    name: str
    bytes_per_s: float
    source: str
    in_bytes_per_s: float = 0.0
    efficiency: float = COPY_EFFICIENCY
    duplex: bool = True

    def __post_init__(self) -> None:
        if not self.in_bytes_per_s:
            object.__setattr__(self, "in_bytes_per_s", self.bytes_per_s)
        for field in ("bytes_per_s", "in_bytes_per_s"):
            if not 0 < getattr(self, field) < float("inf"):
                raise LinkError(
                    f"{field} of link {self.name} must be more than 0, not {getattr(self, field)}"
                )
        if not 0 < self.efficiency <= 1:
            raise LinkError(
                f"efficiency of link {self.name} must be more than 0 and at most 1, not "
                f"{self.efficiency}"
            )

    def shared_by(self, devices: int) -> Self:
        """The part of the link that each of so many devices gets if all copy at once.

        Raises
        ------
        LinkError
            The number is not positive.
        """
        if devices < 1:
            raise LinkError(f"link {self.name} must have at least 1 device, not {devices}")
        if devices == 1:
            return self
        return replace(
            self,
            name=f"{self.name}/{devices}",
            bytes_per_s=self.bytes_per_s / devices,
            in_bytes_per_s=self.in_bytes_per_s / devices,
            source=f"{self.source}; shared by {devices} devices",
        )

    def seconds(self, nbytes: int) -> float:
        """Seconds that so many bytes take at peak bandwidth."""
        return nbytes / self.bytes_per_s


LINKS = {
    link.name: link
    for link in (
        Link("pcie3x16", 16e9, "cDMA, §II-B"),
        # Four GPUs behind two switches to one socket.
        Link("pcie3x16-shared", 8e9, "cDMA, §II-B"),
        Link("pcie4x16", 32e9, "cDMA, §VIII: twice gen3"),
        Link("pcie5x16", 64e9, "cDMA, §VIII: four times gen3"),
        Link("pcie6x16", 128e9, "PCI-SIG: twice gen5"),
        Link("nvlink-power8", 80e9, "cDMA, §VIII"),
        Link("nvlink2", 150e9, "Buddy Compression, Tab. 2: six bricks of 25 GB/s"),
        Link("nvlink3", 300e9, "NVIDIA A100 datasheet: twelve links of 25 GB/s"),
        Link("nvlink4", 450e9, "NVIDIA H100 datasheet: eighteen links of 25 GB/s"),
        Link("nvlink-c2c", 450e9, "NVIDIA GH200 datasheet: 900 GB/s, both directions together"),
        # Measured with copies.
        Link("v100-pcie", 11.7e9, "CSWAP+, §6.1", in_bytes_per_s=10.6e9, efficiency=1.0),
        Link("2080ti-pcie", 12.9e9, "CSWAP+, §6.1", in_bytes_per_s=11.8e9, efficiency=1.0),
    )
}
# As `cdma calibrate` has timed and written them.
LINKS.update(
    (found.name, found) for found in (Link(**tables["link"]) for tables in calibrated_files())
)


def link(name: str) -> Link:
    """The link of that name, or with a number of devices behind a slash the part of each of them.

    Raises
    ------
    LinkError
        There is no such link, which lists those there are, or no such number of devices.
    """
    base, slash, devices = name.partition("/")
    if base not in LINKS:
        raise LinkError(f"unknown link {name!r}; choose from {', '.join(LINKS)}")
    if not slash:
        return LINKS[base]
    if not devices.isdecimal():
        raise LinkError(
            f"link {name!r} has no number of devices; write as {base}/4 what four devices share"
        )
    return LINKS[base].shared_by(int(devices))
