"""A device and its link, as PyTorch finds them on this machine. Needs PyTorch."""

import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from cdma.plan.calibration.codecs import TIMED_CODECS
from cdma.plan.calibration.fit import Fit, Timing, fit_efficiency, fit_rate, peak
from cdma.plan.calibration.layers import LayerSample, layer_samples, passes
from cdma.plan.calibration.networks import check_networks, saved_bytes, step
from cdma.plan.calibration.stopwatch import REPEATS, DeviceStopwatch, Stopwatch
from cdma.plan.platform.codec_rates import DEVICE_CODECS, LAUNCH_SECONDS, codec_model
from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.training.subject import Subject
from cdma.plan.workload.capture.recorder import require
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS, Layer

MIB = 1 << 20

GPU_SCALE = 16
"""A GPU's layers are so many times a CPU's: smaller ones would be times of launches."""

MATRIX = {"cpu": (256, 1024), "gpu": (2048, 8192)}
"""Rows and columns of square matrices whose products are the fastest arithmetic."""

SLOW = 0.5
"""Where small products of bfloat16 get no more than this of float32's, there is no unit for them.
"""

STREAM_BYTES = {"cpu": 64 * MIB, "gpu": 512 * MIB}
"""Of each array with which the memory's bandwidth is timed: more than caches hold."""

COPY_BYTES = {"cpu": (8 * MIB, 32 * MIB), "gpu": (4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)}

CODEC_BYTES = {"cpu": 8 * MIB, "gpu": 64 * MIB}
DENSITIES = (0.2, 0.5, 0.9)

FITS_OF_COPIES = ("out", "in")

NO_STEPS: Mapping[str, Subject] = MappingProxyType({})


class CalibrationError(ScheduleError):
    """A device that cannot be timed: "cause; mend"."""


@dataclass(frozen=True, kw_only=True)
class NetworkCheck:
    """A step that nothing was fitted to.

    Attributes
    ----------
    name : str
    precision : str
        `fp32`, or `autocast` to bfloat16.
    seconds : float
        That it took.
    planned_seconds : float
        By the calibrated device.
    saved_bytes : int
        That autograd saved for the backward pass, without parameters and buffers.
    planned_saved_bytes : int
        By the trace that is planned with.
    """

    name: str
    precision: str
    seconds: float
    planned_seconds: float
    saved_bytes: int
    planned_saved_bytes: int

    @property
    def error(self) -> float:
        """How much longer it took than planned, as a part of the latter."""
        return self.seconds / self.planned_seconds - 1


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A device and its link as timed.

    Attributes
    ----------
    device : Device
    link : Link
    layers, narrow_layers, codecs, copies : tuple of Fit
        What was fitted: efficiencies by kind of layer, and of those that multiply bfloat16 values;
        rates by codec, rates `out` and `in`.
    networks : tuple of NetworkCheck
    timings : tuple of Timing
        All that was fitted to.
    """

    device: Device
    link: Link
    layers: tuple[Fit, ...]
    narrow_layers: tuple[Fit, ...]
    codecs: tuple[Fit, ...]
    copies: tuple[Fit, ...]
    networks: tuple[NetworkCheck, ...]
    timings: tuple[Timing, ...]

    @property
    def codecs_left_out(self) -> tuple[str, ...]:
        """Codecs that PyTorch has no operations for; they keep declared rates."""
        return tuple(name for name in DEVICE_CODECS if name not in TIMED_CODECS)


def find_device(name: str | None) -> str:
    """The device to time: the one asked for; or else the GPU that PyTorch finds, or the CPU.

    Raises
    ------
    CaptureError
        PyTorch is missing.
    CalibrationError
        There is no such device.
    """
    torch = require("torch")
    gpu = torch.accelerator.current_accelerator(check_available=True)
    found = ["cpu"] if gpu is None else [gpu.type, "cpu"]
    if name is None:
        return found[0]
    if name not in found:
        raise CalibrationError(
            f"PyTorch finds no device {name!r} here; choose {' or '.join(found)}, or install a "
            "PyTorch that knows it"
        )
    return name


def calibrate(
    where: str,
    *,
    name: str | None = None,
    engine: str,
    repeats: int = REPEATS,
    steps: Mapping[str, Subject] = NO_STEPS,
    stopwatch: Stopwatch | None = None,
    progress: Callable[[str], object] = lambda text: None,
) -> Calibration:
    """Time a device's layers, copies and codecs, and fit the planner's rates to them.

    Both peaks are what this device reaches: of products of matrices, and of a sum of long arrays.
    A kind's efficiency is the part of them that its layers get.

    Parameters
    ----------
    where : str
        As of `find_device`.
    name : str, optional
        The device's and the link's, instead of what PyTorch calls the device.
    engine : str
        The preset of the DMA engine that the device is imagined with.
    repeats : int
        Times that everything is done, after it was done once to warm up.
    steps : mapping of str to Subject
        More steps that are timed and planned, but not fitted to, by names for reports.
    stopwatch : Stopwatch, optional
        Instead of the device's own.
    progress : callable
        Is told what is timed next.

    Raises
    ------
    CalibrationError
        The device has too little memory.
    GraphError
        A step cannot be traced.
    """
    torch = require("torch")
    watch = stopwatch or DeviceStopwatch(torch, where, repeats)
    torch.manual_seed(0)
    size = "cpu" if where == "cpu" else "gpu"
    try:
        return _Run(torch, where, size, watch, steps, progress).calibration(name, engine)
    except torch.OutOfMemoryError as error:
        raise CalibrationError(
            f"{where} has too little free memory to be timed; end what else runs on it"
        ) from error


@dataclass(frozen=True)
class _Run:
    """One calibration of a device."""

    torch: Any
    where: str
    size: str
    watch: Stopwatch
    steps: Mapping[str, Subject]
    progress: Callable[[str], object]

    def calibration(self, name: str | None, engine: str) -> Calibration:
        called = name or self._called()
        self.progress("both peaks")
        products = self._products("float32")
        wide = peak(products)
        bandwidth = self._bandwidth()
        narrow_products = self._products("bfloat16", least=SLOW * wide)
        narrow = peak(narrow_products, narrow=True)
        layers = list(self._layers("fp32"))
        if narrow > wide:
            layers += self._layers("bf16")
        # No layer is faster than the fastest one.
        wide = _rounded(max(wide, peak(timing for _, _, timing in layers)))
        narrow = _rounded(max(narrow, peak((timing for _, _, timing in layers), narrow=True)))
        source = self._source()
        at_peak = Device(
            name=called,
            peak_flops=wide,
            dram_bytes_per_s=_rounded(bandwidth),
            capacity_bytes=self._capacity(),
            engine=engine,
            source=source,
            efficiency=dict.fromkeys(KINDS, 1.0),
            narrow_flops=narrow if narrow > wide else None,
        )
        fits = _efficiencies(at_peak, [each for each in layers if not each[2].narrow])
        narrow_fits = _efficiencies(at_peak, [each for each in layers if each[2].narrow])
        copies = self._copies()
        codecs = self._codecs()
        rates = [fit for fit, _ in codecs]
        device = replace(
            at_peak,
            efficiency={fit.kind: _rounded(fit.value) for fit in fits},
            narrow_efficiency={fit.kind: _rounded(fit.value) for fit in narrow_fits} or None,
            efficiency_error=_larger_errors((*fits, *narrow_fits)),
            codec_bytes_per_s={fit.kind: _rounded(fit.value) for fit in rates},
            codec_error={fit.kind: _rounded(fit.error) for fit in rates},
        )
        out, back = (fit for fit, _ in copies)
        link = Link(
            name=called,
            bytes_per_s=_rounded(out.value),
            in_bytes_per_s=_rounded(back.value),
            efficiency=1.0,
            source=f"{source}; copies off by {out.error:.1%} out and {back.error:.1%} in",
        )
        return Calibration(
            device=device,
            link=link,
            layers=fits,
            narrow_layers=narrow_fits,
            codecs=tuple(rates),
            copies=(out, back),
            networks=tuple(self._networks(device)),
            timings=(
                *products,
                *narrow_products,
                *(timing for _, _, timing in layers),
                *(timing for _, timings in (*copies, *codecs) for timing in timings),
            ),
        )

    def _products(self, dtype: str, least: float = 0.0) -> list[Timing]:
        """Products of square matrices, the small ones first, as long as they reach a rate."""
        found: list[Timing] = []
        for rows in MATRIX[self.size]:
            a, b = (
                self.torch.randn(rows, rows, device=self.where).to(getattr(self.torch, dtype))
                for _ in range(2)
            )
            found.append(
                Timing(
                    kind="product",
                    name=f"{dtype} of {rows}×{rows}",
                    seconds=self.watch.time(lambda a=a, b=b: a @ b),  # type: ignore[misc]
                    flops=2.0 * rows**3,
                    nbytes=3.0 * rows**2 * a.element_size(),
                    narrow=dtype == "bfloat16",
                )
            )
            if found[-1].flops / found[-1].fastest < least:
                break
        return found

    def _bandwidth(self) -> float:
        """Bytes per second of a sum of long arrays, which reads two and writes one."""
        nbytes = STREAM_BYTES[self.size]
        a, b, c = (self.torch.ones(nbytes // 4, device=self.where) for _ in range(3))
        seconds = self.watch.time(lambda: self.torch.add(a, b, out=c))
        return 3 * nbytes / min(seconds)

    def _layers(self, precision: str) -> Iterator[tuple[LayerSample, bool, Timing]]:
        """Each sample, whether it is its backward pass, and its times."""
        scale = 1 if self.size == "cpu" else GPU_SCALE
        for sample in layer_samples(self.torch, self.where, scale=scale, precision=precision):
            self.progress(f"{sample.kind} {sample.name}")
            for way, work in passes(self.torch, sample).items():
                backward = way == "backward"
                yield (
                    sample,
                    backward,
                    Timing(
                        kind=sample.kind,
                        name=f"{sample.name} {precision} {way}",
                        seconds=self.watch.time(work),
                        flops=_total(sample.layers, "flops", backward),
                        nbytes=_total(sample.layers, "bytes", backward),
                        narrow=sample.layers[0].narrow,
                    ),
                )

    def _copies(self) -> list[tuple[Fit, list[Timing]]]:
        """Copies to the host's memory and back; of a CPU, within its memory."""
        found: dict[str, list[Timing]] = {way: [] for way in FITS_OF_COPIES}
        pinned = self.size == "gpu"
        for nbytes in COPY_BYTES[self.size]:
            self.progress(f"copies of {nbytes:,} B")
            there = self.torch.ones(nbytes // 4, device=self.where)
            host = self.torch.ones(nbytes // 4, pin_memory=pinned)
            for way, to, of in (("out", host, there), ("in", there, host)):
                seconds = self.watch.time(lambda to=to, of=of: to.copy_(of))  # type: ignore[misc]
                name = f"{nbytes:,} B"
                found[way].append(Timing(kind=way, name=name, seconds=seconds, nbytes=nbytes))
        return [(fit_rate(timings), timings) for timings in found.values()]

    def _codecs(self) -> list[tuple[Fit, list[Timing]]]:
        found = []
        nbytes = CODEC_BYTES[self.size]
        for name, codec in TIMED_CODECS.items():
            self.progress(name)
            timings = []
            for density in DENSITIES:
                tensor = self.torch.randn(nbytes // 4, device=self.where)
                # A product with zero would make negative zeros, which codecs keep.
                tensor.masked_fill_(self.torch.rand_like(tensor) >= density, 0.0)
                made = codec.compress(self.torch, tensor)
                work: Mapping[str, Callable[[], Any]] = {
                    "compress": lambda c=codec, t=tensor: c.compress(self.torch, t),  # type: ignore[misc]
                    "decompress": lambda c=codec, m=made: c.decompress(self.torch, m),  # type: ignore[misc]
                }
                moved = nbytes + codec_model(name).stream_bytes(nbytes, density)
                timings += [
                    Timing(
                        kind=name,
                        name=f"{way} {nbytes:,} B of density {density:g}",
                        seconds=self.watch.time(each),
                        nbytes=moved,
                    )
                    for way, each in work.items()
                ]
            found.append((fit_rate(timings, LAUNCH_SECONDS), timings))
        return found

    def _networks(self, device: Device) -> Iterator[NetworkCheck]:
        scale = 1 if self.size == "cpu" else GPU_SCALE
        precisions = ("fp32",) if device.narrow_flops is None else ("fp32", "autocast")
        for name, subject in (check_networks(self.torch, scale) | dict(self.steps)).items():
            for precision in precisions:
                self.progress(f"step of {name}, {precision}")
                yield self._network(device, name, subject, precision)

    def _network(self, device: Device, name: str, subject: Subject, precision: str) -> NetworkCheck:
        torch = self.torch
        casts = None if precision == "fp32" else torch.bfloat16
        graph = Graph.from_module(subject.module, subject.example, target=self.size, autocast=casts)
        planned = sum(
            max(device.layer_seconds(layer, backward=backward))
            for layer in graph.layers
            for backward in (False, True)
        )
        there = Subject(
            subject.module.to(self.where),
            torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda tensor: tensor.to(self.where), subject.example
            ),
        )
        saved = saved_bytes(torch, there, casts)
        seconds = self.watch.time(step(torch, there, casts))
        there.module.zero_grad(set_to_none=True)
        there.module.to("cpu")
        return NetworkCheck(
            name=name,
            precision=precision,
            seconds=min(seconds),
            planned_seconds=planned,
            saved_bytes=saved,
            planned_saved_bytes=graph.saved_bytes,
        )

    def _called(self) -> str:
        """A short name of the device."""
        if self.size == "cpu":
            return "cpu"
        found = self.torch.get_device_module(self.where).get_device_name()
        return "-".join(str(found).lower().split())

    def _source(self) -> str:
        torch = self.torch
        about = (
            f"{platform.machine()}, {torch.get_num_threads()} threads"
            if self.size == "cpu"
            else torch.get_device_module(self.where).get_device_name()
        )
        return f"cdma calibrate: PyTorch {torch.__version__} on {self.where} ({about})"

    def _capacity(self) -> int:
        if self.size == "cpu":
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return int(self.torch.get_device_module(self.where).mem_get_info()[1])


def _larger_errors(fits: Sequence[Fit]) -> dict[str, float]:
    """Each kind's error, of layers of either width the larger one."""
    errors: dict[str, float] = {}
    for fit in fits:
        errors[fit.kind] = max(errors.get(fit.kind, 0.0), _rounded(fit.error))
    return errors


def _efficiencies(
    at_peak: Device, layers: Sequence[tuple[LayerSample, bool, Timing]]
) -> tuple[Fit, ...]:
    """The fit of each kind that was timed, in the order of `KINDS`."""
    timings, ideal = defaultdict(list), defaultdict(list)
    for sample, backward, timing in layers:
        timings[sample.kind].append(timing)
        seconds = (max(at_peak.layer_seconds(x, backward=backward)) for x in sample.layers)
        ideal[sample.kind].append(sum(seconds))
    return tuple(fit_efficiency(timings[kind], ideal[kind]) for kind in KINDS if kind in timings)


def _rounded(measured: float) -> float:
    """As many digits as times are good for."""
    return float(f"{measured:.4g}")


def _total(layers: Sequence[Layer], what: str, backward: bool) -> float:
    way = "backward" if backward else "forward"
    return float(sum(getattr(layer, f"{what}_{way}") for layer in layers))
