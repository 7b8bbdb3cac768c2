"""The environment of an engine, or of several: how fast memory and link are, and how far away."""

from dataclasses import dataclass, replace

from cdma.hw.config import ConfigError, find_named

MAX_ENGINES = 16


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """Memory channels and a host link, in physical units. The engine's shape is none of this.

    Parameters
    ----------
    clock_hz : float
        Of the engine; everything else is turned into its cycles.
    engines : int
        Engines side by side. Each has channels of its own and an equal share of the link, whatever
        the others do, and what is copied is spread over all of them in equal parts.
    channels : int
        DRAM channels of each engine, one behind each of its memory ports.
    interleave_bytes : int
        Consecutive bytes of device memory that belong to one channel. Any port reaches any
        address; what is not at home is counted.
    dram_bytes_per_s : float
        Peak of all channels of all engines together; reads and writes share it.
    dram_latency_ns : float
        From a request's acceptance to its first data, or from a write's last data to its response,
        when the channel has nothing else to do.
    dram_outstanding : int
        Bursts that a channel takes before it has answered, reads and writes each.
    refresh_interval_ns, refresh_ns : float
        Once per interval, at a random place in it, a channel serves nothing for `refresh_ns`.
        0 for a memory without.
    link_out_bytes_per_s, link_in_bytes_per_s : float
        Peak from all engines together to the host, and back.
    link_efficiency : float
        The part of the peak that packets get.
    link_overhead_bytes : int
        What each burst takes beyond its data: of reads, on the way out and on the way in.
    link_latency_ns : float
        One way. Reads take two; a write is answered when it has arrived, as posted ones need not
        be told.
    link_outstanding : int
        Bursts that the link takes before it has answered, reads and writes each.
    link_buffer_bursts : int
        Longest write bursts that fit before the link. A write leaves when it is complete.

    Raises
    ------
    ConfigError
        If a field has a value that no machine has.
    """

    clock_hz: float = 1e9
    engines: int = 1
    channels: int = 6
    interleave_bytes: int = 128
    dram_bytes_per_s: float = 336e9
    dram_latency_ns: float = 350.0
    dram_outstanding: int = 256
    refresh_interval_ns: float = 0.0
    refresh_ns: float = 0.0
    link_out_bytes_per_s: float = 16e9
    link_in_bytes_per_s: float = 16e9
    link_efficiency: float = 1.0
    link_overhead_bytes: int = 0
    link_latency_ns: float = 250.0
    link_outstanding: int = 64
    link_buffer_bursts: int = 2

    def __post_init__(self) -> None:
        for name in (
            "clock_hz",
            "dram_bytes_per_s",
            "link_out_bytes_per_s",
            "link_in_bytes_per_s",
        ):
            if not 0 < getattr(self, name) < float("inf"):
                self._refuse(name, "more than 0")
        self._require_integer("engines", 1, MAX_ENGINES)
        self._require_integer("channels", 1, 16)
        self._require_integer("dram_outstanding", 1, 4096)
        self._require_integer("link_outstanding", 1, 4096)
        # One burst leaves while the next one is taken.
        self._require_integer("link_buffer_bursts", 2, 4096)
        self._require_integer("link_overhead_bytes", 0, 4096)
        if self.interleave_bytes not in (size := [2**i for i in range(5, 21)]):
            self._refuse("interleave_bytes", f"a power of two, {size[0]} to {size[-1]}")
        if not 0 < self.link_efficiency <= 1:
            self._refuse("link_efficiency", "more than 0 and at most 1")
        for name in ("dram_latency_ns", "link_latency_ns"):
            if not 1 <= self._cycles(name) <= 1_000_000:
                self._refuse(name, "1 to 1,000,000 cycles of clock_hz")
        if self.refresh_interval_ns or self.refresh_ns:
            if not 2 <= self._cycles("refresh_interval_ns") <= 2**32:
                self._refuse("refresh_interval_ns", "2 to 2**32 cycles of clock_hz, or 0")
            if not 1 <= self._cycles("refresh_ns") < self._cycles("refresh_interval_ns"):
                self._refuse("refresh_ns", "at least a cycle and less than refresh_interval_ns")

    @property
    def channel_bytes_per_cycle(self) -> float:
        """Bytes per cycle that one DRAM channel can move."""
        return self.dram_bytes_per_s / self.engines / self.channels / self.clock_hz

    @property
    def link_out_bytes_per_cycle(self) -> float:
        """Bytes per cycle that the link can move from an engine to the host, with overhead."""
        return self.link_out_bytes_per_s * self.link_efficiency / self.engines / self.clock_hz

    @property
    def link_in_bytes_per_cycle(self) -> float:
        """Bytes per cycle that the link can move from the host to an engine, with overhead."""
        return self.link_in_bytes_per_s * self.link_efficiency / self.engines / self.clock_hz

    @property
    def dram_latency_cycles(self) -> int:
        return self._cycles("dram_latency_ns")

    @property
    def link_latency_cycles(self) -> int:
        return self._cycles("link_latency_ns")

    @property
    def refresh_interval_cycles(self) -> int:
        return self._cycles("refresh_interval_ns")

    @property
    def refresh_cycles(self) -> int:
        return self._cycles("refresh_ns")

    def _cycles(self, name: str) -> int:
        nanoseconds = getattr(self, name)
        if not 0 <= nanoseconds < float("inf"):
            self._refuse(name, "a time, in nanoseconds")
        return round(nanoseconds * 1e-9 * self.clock_hz)

    def _require_integer(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or not least <= value <= most:
            self._refuse(name, f"{least} to {most}")

    def _refuse(self, name: str, right: str) -> None:
        raise ConfigError(f"{name} must be {right}, not {getattr(self, name)!r}")


def part_lines(lines: int, engines: int) -> int:
    """Lines of each engine's part of a transfer; the last engines may have fewer, or none."""
    return -(-lines // engines)


def step_refusal(name: str, machine: MachineConfig) -> str | None:
    """Explain why a step cannot run on the engine of that name; None if it can."""
    if machine.engines == 1:
        return None
    return (
        f"a step runs on one engine, and {name} has {machine.engines} side by side; "
        "choose another one"
    )


# H100 SXM behind PCIe 5 x16: 3.35 TB/s of HBM3 (NVIDIA's data sheet), 64 GB/s each way (32 GT/s
# on 16 lanes). The four channels are all of the memory behind four ports of 128 B, which take a
# seventh of it each way. Latencies as above, and all of the link is payload: packets leave the
# engine less to do. The clock of 1 GHz is ours.
_PCIE5X16 = MachineConfig(
    channels=4,
    dram_bytes_per_s=3350e9,
    dram_outstanding=512,
    link_out_bytes_per_s=64e9,
    link_in_bytes_per_s=64e9,
)

# What is outstanding limits none of them: it covers latency times bandwidth in lines of 128 B.
MACHINES: dict[str, MachineConfig] = {
    # Maxwell Titan X behind PCIe gen3: six memory controllers, 336 GB/s of GDDR5 and 16 GB/s each
    # way (cDMA, §VI), 350 ns from the request to the data (§V-C). The paper has neither overhead
    # nor latency of the link: its 16 GB/s are all payload here too, and 500 ns for a read's round
    # trip are ours.
    "titanx_gen3": MachineConfig(),
    # Pascal Titan Xp: 548 GB/s of GDDR5X (cDMA, §VI).
    "titanxp_gen3": MachineConfig(dram_bytes_per_s=548e9),
    # Volta V100: 900 GB/s of HBM2 and six NVLink2 bricks of 25 GB/s each way (Buddy Compression,
    # §II and Tab. 2). Its 32 HBM2 channels stand four behind each of eight ports of 128 B. Latency
    # as above. The engine has the SMs' clock (Tab. 2): 128 B at 1 GHz would not fill the link.
    "v100_nvlink2": MachineConfig(
        clock_hz=1.3e9,
        channels=8,
        dram_bytes_per_s=900e9,
        dram_outstanding=512,
        link_out_bytes_per_s=150e9,
        link_in_bytes_per_s=150e9,
    ),
    "pcie5x16": _PCIE5X16,
    # The same device behind PCIe 6 x16, twice as fast (64 GT/s), with two such engines.
    "pcie6x16": replace(
        _PCIE5X16, engines=2, link_out_bytes_per_s=128e9, link_in_bytes_per_s=128e9
    ),
    # GH200: 4 TB/s of HBM3 and 900 GB/s of NVLink-C2C, both directions together (NVIDIA's data
    # sheet). Eight such engines have 56 GB/s each.
    "c2c": replace(
        _PCIE5X16,
        engines=8,
        dram_bytes_per_s=4000e9,
        link_out_bytes_per_s=450e9,
        link_in_bytes_per_s=450e9,
    ),
}


def machine_config(name: str) -> MachineConfig:
    """Find a named environment.

    Raises
    ------
    ConfigError
        If there are none of that name; the message lists those that there are.
    """
    return find_named(MACHINES, name, field="machine")
