"""The environment of the buddy controller: one channel of a GPU's memory, and its share of the
link."""

from dataclasses import dataclass, replace

from cdma.hw.config import ConfigError, find_named
from cdma.plan.platform.environment import MachineConfig


@dataclass(frozen=True, kw_only=True)
class BuddyMachineConfig:
    """A memory channel and a share of the link, in physical units.

    Parameters
    ----------
    clock_hz : float
        Of the controller; everything else is turned into its cycles.
    device_bytes_per_s : float
        Peak of the channel; reads and writes share it.
    device_latency_ns : float
        From a request's acceptance to its first data, or from a write's last data to its response,
        when the channel has nothing else to do.
    device_outstanding : int
        Bursts that the channel takes before it has answered, reads and writes each.
    link_bytes_per_s : float
        Peak of the whole GPU's link, each way.
    channels : int
        That share the link evenly.
    link_latency_ns : float
        One way. Reads take two; a write is answered when it has arrived, as posted ones need not
        be told.
    link_overhead_bytes : int
        What each burst takes beyond its data: of reads, on the way out and on the way in.
    link_outstanding : int
        Bursts that the link takes before it has answered, reads and writes each.
    link_buffer_bursts : int
        Bursts of 128 B that fit before the link. A write leaves when it is complete.

    Raises
    ------
    ConfigError
        If a field has a value that no machine has.
    """

    clock_hz: float = 875e6
    device_bytes_per_s: float = 28e9
    device_latency_ns: float = 350.0
    device_outstanding: int = 256
    link_bytes_per_s: float = 150e9
    channels: int = 32
    link_latency_ns: float = 250.0
    link_overhead_bytes: int = 0
    link_outstanding: int = 256
    link_buffer_bursts: int = 8

    def __post_init__(self) -> None:
        for name in ("device_bytes_per_s", "link_bytes_per_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)!r}")
        if not isinstance(self.channels, int) or not 1 <= self.channels <= 1024:
            raise ConfigError(f"channels must be 1 to 1024, not {self.channels!r}")
        _ = self.environment  # Validates the rest.

    @property
    def environment(self) -> MachineConfig:
        """The channel and its share of the link, in cycles of the controller."""
        return MachineConfig(
            clock_hz=self.clock_hz,
            channels=1,
            dram_bytes_per_s=self.device_bytes_per_s,
            dram_latency_ns=self.device_latency_ns,
            dram_outstanding=self.device_outstanding,
            link_out_bytes_per_s=self.link_bytes_per_s / self.channels,
            link_in_bytes_per_s=self.link_bytes_per_s / self.channels,
            link_latency_ns=self.link_latency_ns,
            link_overhead_bytes=self.link_overhead_bytes,
            link_outstanding=self.link_outstanding,
            link_buffer_bursts=self.link_buffer_bursts,
        )

    def with_link(self, gb_per_s: float) -> "BuddyMachineConfig":
        """Replace the link by one of so many 10^9 bytes per second for the whole GPU."""
        return replace(self, link_bytes_per_s=gb_per_s * 1e9)


BUDDY_MACHINES: dict[str, BuddyMachineConfig] = {
    # One of the 32 HBM2 channels of the paper's GPU: at 875 MHz (Buddy Compression, Tab. 2), 32 B
    # per cycle are 28.0 GB/s; 900 GB/s over 32 are 28.1. Six NVLink2 bricks are 150 GB/s each way
    # (Tab. 2), of which a channel has a 32nd. The paper has no latencies: 350 ns to the data are
    # cDMA's (§V-C), 500 ns for a read's round trip over the link ours, as in `MACHINES`. Packets
    # on the link are all payload, as there.
    "channel": BuddyMachineConfig(),
}


def buddy_machine_config(name: str) -> BuddyMachineConfig:
    """Find the environment of a name.

    Raises
    ------
    ConfigError
        If there are none of that name; the message lists those that there are.
    """
    return find_named(BUDDY_MACHINES, name, field="machine")
