"""Costs of codecs, by where they run: bytes of a tensor's stream, and seconds of the processor.

`inline` codecs are the DMA engine's: they take no time of their own, but the engine reads device
memory no faster than its units, its throttle and its link let it (`cdma.plan.engine_cost`). Codecs
on the processor's multiprocessors (`sm`) take time there, and codecs on the host (`host`) save host
memory only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.registry import compressing_codecs
from cdma.hw.config import CodecConfig
from cdma.plan.timeline.errors import ScheduleError

LAUNCH_SECONDS = 10e-6
"""Of a kernel on the device."""

REFERENCE_DRAM_BYTES_PER_S = 900e9
"""The rates below are a V100's; devices with other memory have them in proportion."""

ZFP_LEAST_BITS = 9
ZFP_MOST_BITS = 128
"""Bits per block of four fp32 values (CSWAP+, §5.2.2)."""

QUANTIZED_BITS = 8.0
"""What error-bounded quantization leaves of an element that is not zero, by declaration; what it
really leaves of the shipped capture's stands in docs/reference/formats.md."""


@dataclass(frozen=True, kw_only=True)
class CodecModel:
    """A codec, somewhere.

    Attributes
    ----------
    name : str
    where : str
        `inline`, `sm` or `host`.
    lossless : bool
    bits : callable
        Bits of stream per element, by density and by the bytes of an element.
    read_bytes_per_s, write_bytes_per_s : float
        How fast it takes raw bytes and gives stream bytes to compress, and the other way round to
        decompress, on a V100; infinity if it takes no time there.
    """

    name: str
    where: str
    lossless: bool
    bits: Callable[[float, int], float]
    read_bytes_per_s: float = float("inf")
    write_bytes_per_s: float = float("inf")

    def stream_bytes(self, nbytes: int, density: float, element_bytes: int = 4) -> float:
        """Bytes of the stream of `nbytes`, at least 1, as no stream is empty."""
        return max(1.0, nbytes * self.bits(density, element_bytes) / (8 * element_bytes))

    @property
    def timed_as(self) -> str:
        """The name, one of `DEVICE_CODECS`, under which a device has its timed rate."""
        return "zfp" if self.name.startswith("zfp-") else self.name

    def rates(
        self, dram_bytes_per_s: float, timed: Mapping[str, float] | None = None
    ) -> tuple[float, float]:
        """Bytes per second of raw bytes, and of the stream's, on a device.

        Parameters
        ----------
        dram_bytes_per_s : float
            Of the device's memory, to which declared rates are in proportion.
        timed : mapping of str to float, optional
            Rates that were timed there, by `timed_as`, instead.
        """
        if timed and self.timed_as in timed:
            return timed[self.timed_as], timed[self.timed_as]
        scale = dram_bytes_per_s / REFERENCE_DRAM_BYTES_PER_S
        return self.read_bytes_per_s * scale, self.write_bytes_per_s * scale

    def seconds(
        self,
        nbytes: int,
        density: float,
        dram_bytes_per_s: float,
        element_bytes: int = 4,
        timed: Mapping[str, float] | None = None,
    ) -> float:
        """Seconds to compress a tensor on the device, or to decompress it: either reads one form
        and writes the other, raw bytes at one rate and the stream's at the other (`rates`).
        """
        if self.where != "sm":
            return 0.0
        stream = self.stream_bytes(nbytes, density, element_bytes)
        raw_rate, stream_rate = self.rates(dram_bytes_per_s, timed)
        return LAUNCH_SECONDS + nbytes / raw_rate + stream / stream_rate


def _zvc_bits(density: float, element_bytes: int) -> float:
    return 8 * element_bytes * density + 1


def _inline(entry: LineCodec) -> CodecModel:
    """The model of one of the engine's codecs."""
    elements = 1 << 20

    def bits(density: float, element_bytes: int) -> float:
        config = CodecConfig(element_bytes=element_bytes)
        return 8 * entry.mean_stream_bytes(element_bytes * elements, density, config) / elements

    return CodecModel(
        name=entry.name,
        where="inline",
        lossless=entry.lossless,
        bits=bits,
    )


def _zfp(bits: int) -> CodecModel:
    return CodecModel(
        name=f"zfp-{bits}",
        where="sm",
        lossless=False,
        bits=lambda _density, _element_bytes: bits / 4,
        # cuZFP at fixed rate.
        read_bytes_per_s=180e9,
        write_bytes_per_s=180e9,
    )


# Rates on the multiprocessors are declared, of the order that public GPU codecs print: ZVC, RLE and
# CSR near memory bandwidth, LZ4 far below, quantization as cuSZp.
CODEC_MODELS: dict[str, CodecModel] = {
    model.name: model
    for model in (
        *(_inline(entry) for entry in compressing_codecs()),
        CodecModel(
            name="zvc-sm",
            where="sm",
            lossless=True,
            bits=_zvc_bits,
            read_bytes_per_s=250e9,
            write_bytes_per_s=250e9,
        ),
        CodecModel(
            name="csr-sm",
            where="sm",
            lossless=True,
            bits=lambda density, element_bytes: (8 * element_bytes + 32) * density,
            read_bytes_per_s=250e9,
            write_bytes_per_s=250e9,
        ),
        # A run's token is a byte here; runs of a random pattern end with probability 2d(1-d).
        CodecModel(
            name="rle-sm",
            where="sm",
            lossless=True,
            bits=lambda density, element_bytes: (
                8 * element_bytes * density + 16 * density * (1 - density)
            ),
            read_bytes_per_s=250e9,
            write_bytes_per_s=250e9,
        ),
        # At 38 % density 1.80x (spec of codecs); nothing is gained from dense floats.
        CodecModel(
            name="lz4-sm",
            where="sm",
            lossless=True,
            bits=lambda density, element_bytes: (
                8 * element_bytes * min(1 + 0.1 / 32, 0.12 + 1.15 * density)
            ),
            read_bytes_per_s=40e9,
            write_bytes_per_s=80e9,
        ),
        CodecModel(name="zvc-host", where="host", lossless=True, bits=_zvc_bits),
        *(_zfp(bits) for bits in range(ZFP_LEAST_BITS, ZFP_MOST_BITS + 1)),
        CodecModel(
            name="quantize-sm",
            where="sm",
            lossless=False,
            bits=lambda density, _element_bytes: 1 + QUANTIZED_BITS * density,
            read_bytes_per_s=250e9,
            write_bytes_per_s=250e9,
        ),
    )
}

DEVICE_CODECS = tuple(
    dict.fromkeys(model.timed_as for model in CODEC_MODELS.values() if model.where == "sm")
)
"""Codecs that run on a device's processors, ZFP's rates as one."""


def codec_model(name: str) -> CodecModel:
    """The model of that name; `ScheduleError`, with those there are, if there is none."""
    if name not in CODEC_MODELS:
        # One that was registered since.
        for entry in compressing_codecs():
            if entry.name == name:
                return _inline(entry)
        known = [name for name in CODEC_MODELS if not name.startswith("zfp-")]
        raise ScheduleError(
            f"unknown codec {name!r}; choose from {', '.join(known)}, "
            f"zfp-{ZFP_LEAST_BITS} … zfp-{ZFP_MOST_BITS}"
        )
    return CODEC_MODELS[name]
