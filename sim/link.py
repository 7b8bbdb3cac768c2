"""Links between a device and its host, by name."""

from dataclasses import dataclass


class LinkError(ValueError):
    """There is no such link; the message lists those there are."""


@dataclass(frozen=True)
class Link:
    """A link's peak bandwidth in one direction.

    Attributes
    ----------
    name : str
    bytes_per_s : float
    source : str
        Who says so.
    """

    name: str
    bytes_per_s: float
    source: str

    def seconds(self, nbytes: int) -> float:
        """How long so many bytes take, at peak bandwidth."""
        return nbytes / self.bytes_per_s


LINKS = {
    link.name: link
    for link in (
        Link("pcie3x16", 16e9, "cDMA, §II-B"),
        # Four GPUs behind two switches to one socket.
        Link("pcie3x16-shared", 8e9, "cDMA, §II-B"),
        Link("pcie4x16", 32e9, "cDMA, §VIII: twice gen3"),
        Link("pcie5x16", 64e9, "cDMA, §VIII: four times gen3"),
        Link("nvlink-power8", 80e9, "cDMA, §VIII"),
        Link("nvlink2", 150e9, "Buddy Compression, Tab. 2: six bricks of 25 GB/s"),
    )
}


def link(name: str) -> Link:
    """The link of that name; `LinkError` if there is none."""
    if name not in LINKS:
        raise LinkError(f"unknown link {name!r}; choose from {', '.join(LINKS)}")
    return LINKS[name]
