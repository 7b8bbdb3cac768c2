"""Devices that networks are trained on: what their makers publish, and what layers get of it.

Those of the folder `calibrated` are as `cdma calibrate` has timed and written them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from cdma.plan.platform.calibrated import calibrated_files
from cdma.plan.platform.codec_rates import DEVICE_CODECS
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.layers import KINDS, Layer

EFFICIENCY: Mapping[str, float] = dict.fromkeys(KINDS, 0.7) | {
    "dwconv": 0.35,
    "lstm": 0.5,
    "attention": 0.5,
}
"""The part of a device's peak that a layer of each kind gets: of arithmetic, or of memory
bandwidth, whichever holds it up. Declared, not measured: `cdma schedule --efficiency` sweeps it."""

GB = 10**9


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU by its published figures.

    Attributes
    ----------
    name : str
        For reports.
    peak_flops : float
        Of the arithmetic that training in float32 uses, FLOP/s.
    dram_bytes_per_s : float
        Peak of its memory, reads and writes together.
    capacity_bytes : int
        Of its memory.
    engine : str
        The preset of the DMA engine that it is imagined with (`cdma.hw.config.PRESETS` and
        `cdma.sim.machine.MACHINES`).
    source : str
        Who says so.
    efficiency : mapping of str to float
        By kind of layer, 0…1: the part of either peak that the layer gets.
    narrow_flops : float or None
        Of products of bfloat16 values that are added in float32, FLOP/s, without sparsity. None if
        the device has no units for them; then they are as slow as float32's.
    narrow_efficiency : mapping of str to float, or None
        By kind of layer, that of layers which multiply bfloat16 values. Kinds that are not in it
        have `efficiency`.
    efficiency_error : mapping of str to float, or None
        By kind of layer, the part of their time by which timed layers were off the fitted times;
        of layers of either width the larger one. Kinds that nobody has timed are not in it.
    codec_bytes_per_s : mapping of str to float, or None
        By codec on the device's processors, the bytes per second that it was timed to read and
        write together. Those that are not in it have declared rates
        (`cdma.plan.platform.codec_rates`).
    codec_error : mapping of str to float, or None
        By codec, as `efficiency_error`.
    """

    name: str
    peak_flops: float
    dram_bytes_per_s: float
    capacity_bytes: int
    engine: str
    source: str
    efficiency: Mapping[str, float] = field(default_factory=lambda: EFFICIENCY)
    narrow_flops: float | None = None
    narrow_efficiency: Mapping[str, float] | None = field(default=None, metadata={"keys": KINDS})
    efficiency_error: Mapping[str, float] | None = field(default=None, metadata={"keys": KINDS})
    codec_bytes_per_s: Mapping[str, float] | None = field(
        default=None, metadata={"keys": DEVICE_CODECS}
    )
    codec_error: Mapping[str, float] | None = field(default=None, metadata={"keys": DEVICE_CODECS})

    def __post_init__(self) -> None:
        for name in ("peak_flops", "dram_bytes_per_s", "capacity_bytes"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ScheduleError(
                    f"{name} of device {self.name} must be more than 0, not {getattr(self, name)}"
                )
        if self.narrow_flops is not None and not self.peak_flops <= self.narrow_flops < float(
            "inf"
        ):
            raise ScheduleError(
                f"narrow_flops of device {self.name} must be at least its peak_flops, not "
                f"{self.narrow_flops}"
            )
        for name in ("efficiency", "narrow_efficiency"):
            for kind, part in (getattr(self, name) or {}).items():
                if not 0 < part <= 1:
                    raise ScheduleError(
                        f"{name} of {kind} on {self.name} must be more than 0 and at most 1, not "
                        f"{part}"
                    )
        for codec, rate in (self.codec_bytes_per_s or {}).items():
            if not 0 < rate < float("inf"):
                raise ScheduleError(
                    f"codec_bytes_per_s of {codec} on {self.name} must be more than 0, not {rate}"
                )
        for name in ("efficiency_error", "codec_error"):
            for key, error in (getattr(self, name) or {}).items():
                if not 0 <= error < float("inf"):
                    raise ScheduleError(
                        f"{name} of {key} on {self.name} must be 0 or more, not {error}"
                    )

    def flops(self, *, narrow: bool) -> float:
        """Peak FLOP/s of products of bfloat16 values (`narrow`), or of float32 values."""
        return self.narrow_flops if narrow and self.narrow_flops else self.peak_flops

    def layer_efficiency(self, layer: Layer) -> float:
        """The part of either peak that a layer gets.

        Raises
        ------
        KeyError
            The device has no efficiency for the layer's kind.
        """
        narrow = self.narrow_efficiency if layer.narrow else None
        return (narrow or {}).get(layer.kind, self.efficiency[layer.kind])

    def layer_seconds(self, layer: Layer, *, backward: bool) -> tuple[float, float]:
        """Seconds of arithmetic, and of memory alone, of which a layer takes the longer one.

        Raises
        ------
        KeyError
            The device has no efficiency for the layer's kind.
        """
        part = self.layer_efficiency(layer)
        flops = layer.flops_backward if backward else layer.flops_forward
        nbytes = layer.bytes_backward if backward else layer.bytes_forward
        return (
            flops / (part * self.flops(narrow=layer.narrow)),
            nbytes / (part * self.dram_bytes_per_s),
        )

    def with_efficiency(self, efficiency: float) -> Self:
        """The device if every kind of layer got this part of its peak."""
        return replace(
            self,
            efficiency=dict.fromkeys(KINDS, efficiency),
            narrow_efficiency=None,
            efficiency_error=None,
        )


# The three Keplers to Voltas are those of cDMA's Table I; their memory is NVIDIA's smaller one but
# for V100, which CSWAP+ and HOME use with 32 GB. Peaks are of fp32, and from A100 on of TF32, which
# is what frameworks train fp32 networks with there; RTX 4090's TF32 is no faster than its fp32. All
# are without sparsity. V100 has no bfloat16; its float16 products stand for them.
DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device(
            name="k40",
            peak_flops=5.0e12,
            dram_bytes_per_s=288e9,
            capacity_bytes=12 * GB,
            engine="titanx_gen3",
            source="cDMA, Tab. I",
        ),
        Device(
            name="m40",
            peak_flops=6.8e12,
            dram_bytes_per_s=288e9,
            capacity_bytes=12 * GB,
            engine="titanx_gen3",
            source="cDMA, Tab. I",
        ),
        Device(
            name="titanx",
            peak_flops=6.6e12,
            dram_bytes_per_s=336e9,
            capacity_bytes=12 * GB,
            engine="titanx_gen3",
            source="cDMA, §VI; NVIDIA: 3,072 cores at 1.075 GHz",
        ),
        Device(
            name="titanxp",
            peak_flops=12.15e12,
            dram_bytes_per_s=548e9,
            capacity_bytes=12 * GB,
            engine="titanxp_gen3",
            source="cDMA, §VI; NVIDIA: 3,840 cores at 1.582 GHz",
        ),
        Device(
            name="p100",
            peak_flops=10.6e12,
            dram_bytes_per_s=720e9,
            capacity_bytes=16 * GB,
            engine="titanxp_gen3",
            source="cDMA, Tab. I",
        ),
        Device(
            name="2080ti",
            peak_flops=13.45e12,
            dram_bytes_per_s=616e9,
            capacity_bytes=11 * GB,
            engine="titanxp_gen3",
            source="CSWAP+, §6; NVIDIA: 4,352 cores at 1.545 GHz",
        ),
        Device(
            name="v100",
            peak_flops=15.0e12,
            dram_bytes_per_s=900e9,
            capacity_bytes=32 * GB,
            engine="v100_nvlink2",
            source="cDMA, Tab. I; CSWAP+, §6",
            narrow_flops=125e12,
        ),
        Device(
            name="h100",
            peak_flops=494.5e12,
            dram_bytes_per_s=3350e9,
            capacity_bytes=80 * GB,
            engine="v100_nvlink2",
            source="NVIDIA's data sheet of H100 SXM: TF32 without sparsity, HBM3",
            narrow_flops=989e12,
        ),
        Device(
            name="a100",
            peak_flops=156e12,
            dram_bytes_per_s=2039e9,
            capacity_bytes=80 * GB,
            engine="v100_nvlink2",
            source="NVIDIA's data sheet of A100 SXM 80 GB: arithmetic without sparsity, HBM2e",
            narrow_flops=312e12,
        ),
        Device(
            name="h200",
            peak_flops=494.5e12,
            dram_bytes_per_s=4800e9,
            capacity_bytes=141 * GB,
            engine="v100_nvlink2",
            source="NVIDIA's data sheet of H200 SXM: H100's arithmetic, HBM3e",
            narrow_flops=989e12,
        ),
        Device(
            name="b200",
            peak_flops=1100e12,
            dram_bytes_per_s=8000e9,
            capacity_bytes=180 * GB,
            engine="v100_nvlink2",
            source="NVIDIA's data sheet of HGX B200 (one of 8): arithmetic without sparsity, HBM3e",
            narrow_flops=2250e12,
        ),
        Device(
            name="rtx4090",
            peak_flops=82.6e12,
            dram_bytes_per_s=1008e9,
            capacity_bytes=24 * GB,
            engine="v100_nvlink2",
            source="NVIDIA Ada architecture whitepaper, appendix A: fp32, GDDR6X",
            narrow_flops=165.2e12,
        ),
        Device(
            name="mi300x",
            peak_flops=653.7e12,
            dram_bytes_per_s=5300e9,
            capacity_bytes=192 * GB,
            engine="v100_nvlink2",
            source="AMD's data sheet of Instinct MI300X: arithmetic without sparsity, HBM3",
            narrow_flops=1307.4e12,
        ),
    )
}

CALIBRATED: Mapping[str, Device] = {
    found.name: found for found in (Device(**tables["device"]) for tables in calibrated_files())
}
"""Devices that were timed, by their names."""

DEVICES.update(CALIBRATED)


def device(name: str) -> Device:
    """The device of that name; `ScheduleError`, with those there are, if there is none."""
    if name not in DEVICES:
        raise ScheduleError(f"unknown device {name!r}; choose from {', '.join(DEVICES)}")
    return DEVICES[name]
