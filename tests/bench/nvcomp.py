"""XC beside nvCOMP on a GPU: ratios, throughput, and what compressing costs the GPU itself.

nvCOMP compresses with the GPU's own processors, which the network needs at the same time; the
engine has its own units. So there are ratios, rates when the GPU does nothing else, and how much
longer matrix products take while it compresses.

Where there is no GPU with `nvidia.nvcomp` and PyTorch, the figures are those that were recorded on
one (`python -m tests.bench.nvcomp tests/bench/recorded/nvcomp_h100.json` writes them); XC's are
always of now.
"""

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cdma.golden.formats.xc.elements import element_format
from tests.bench.dense_data import Floats, all_series
from tests.bench.xc_ratios import Elements, as_elements, recorded

RECORDED = Path(__file__).parent / "recorded" / "nvcomp_h100.json"

ALGORITHMS: Mapping[str, Mapping[str, Any]] = {
    "ANS": {"algorithm": "ANS", "data_type": "<f2"},
    "ANS, bytes": {"algorithm": "ANS", "data_type": "|u1"},
    "Bitcomp": {"algorithm": "Bitcomp", "data_type": "<f2"},
    "Cascaded": {"algorithm": "Cascaded", "data_type": "<u2"},
    "GDeflate": {"algorithm": "GDeflate", "algorithm_type": 0},
    "Zstd": {"algorithm": "Zstd"},
    "LZ4": {"algorithm": "LZ4", "data_type": "<u2"},
}
"""Each as its makers advise for half-precision numbers: `<f2` is any of them for ANS, which then
codes exponents alone. GDeflate's type 0 is the fastest, by entropy only."""

TIMED = {"GELU outputs": ("python-gpt", "GELU outputs"), "weights": ("python-gpt", "weights")}
TIMED_BYTES = 1 << 28
ROUNDS = 10
PRODUCT_SIZE = 8192
PRODUCTS = 400

Figures = dict[str, Any]


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures."""
    figures = measure() if has_gpu() else json.loads(RECORDED.read_text())
    console.print(f"nvCOMP's figures: {figures['source']}")
    ours = xc_ratios()
    _print_ratios(console, figures["ratios"], ours)
    _print_throughput(console, figures)
    return {**figures, "xc": ours}


def has_gpu() -> bool:
    """True where nvCOMP can be measured."""
    try:
        import_module("nvidia.nvcomp")
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def tensors_by_kind() -> dict[str, dict[str, list[tuple[Elements, Elements]]]]:
    """Tensors in bf16, with the one before each, by origin and kind, as `xc_ratios` has them."""
    bf16 = element_format("bf16")

    def pairs(epochs: list[Floats]) -> list[tuple[Elements, Elements]]:
        return list(pairwise(as_elements(values, bf16) for values in epochs))

    return {
        origin: {
            kind: [pair for epochs in found for pair in pairs(epochs)]
            for kind, found in kinds.items()
        }
        for origin, kinds in all_series().items()
    }


def xc_ratios() -> dict[str, dict[str, float]]:
    """XC's ratios with the parameters of the last record, by origin and kind."""
    return {
        origin: {
            kind: sum(now.nbytes for _, now in pairs)
            / sum(recorded(before).compress(now).size for before, now in pairs)
            for kind, pairs in kinds.items()
        }
        for origin, kinds in tensors_by_kind().items()
    }


def measure() -> Figures:
    """Measure nvCOMP on this machine's GPU; a stream that does not come back bit for bit raises."""
    import nvidia.nvcomp as nvcomp
    import torch

    series = tensors_by_kind()
    kept = {
        origin: {kind: [now for _, now in pairs] for kind, pairs in kinds.items()}
        for origin, kinds in series.items()
    }
    timed = {title: kept[origin][kind] for title, (origin, kind) in TIMED.items()}
    copied = _copy_out()
    return {
        "source": f"nvCOMP {nvcomp.__version__}, PyTorch {torch.__version__}, "
        f"{torch.cuda.get_device_name()}",
        "ratios": {
            origin: {kind: _ratios(tensors) for kind, tensors in kinds.items()}
            for origin, kinds in kept.items()
        },
        "copy_out_bytes_per_s": copied,
        "throughput": {
            title: {
                algorithm: _throughput(options, tensors, copied)
                for algorithm, options in ALGORITHMS.items()
            }
            for title, tensors in timed.items()
        },
    }


def _codec(options: Mapping[str, Any], stream: Any = None) -> Any:
    import nvidia.nvcomp as nvcomp
    import torch

    stream = torch.cuda.current_stream() if stream is None else stream
    return nvcomp.Codec(**options, cuda_stream=stream.cuda_stream)


def _on_device(data: Elements) -> Any:
    import nvidia.nvcomp as nvcomp
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(data).view(np.uint8).copy()).cuda()
    return tensor, nvcomp.as_array(tensor)


def _ratios(tensors: list[Elements]) -> dict[str, float]:
    sizes: dict[str, int] = defaultdict(int)
    for data in tensors:
        tensor, array = _on_device(data)
        for algorithm, options in ALGORITHMS.items():
            codec = _codec(options)
            stream = codec.encode(array)
            sizes[algorithm] += stream.buffer_size
            _compare(codec.decode(stream), tensor)
    total = sum(data.nbytes for data in tensors)
    return {algorithm: total / size for algorithm, size in sizes.items()}


def _compare(decoded: Any, tensor: Any) -> None:
    import torch

    found = torch.as_tensor(decoded, device="cuda").view(torch.uint8)
    if not torch.equal(found, tensor):
        raise AssertionError("nvCOMP did not give back what it was given")


def _tiled(tensors: list[Elements]) -> Elements:
    """Much data of a kind. Chunks are 64 KiB, less than what repeats."""
    once = np.concatenate([data.reshape(-1) for data in tensors])
    return np.tile(once, -(-TIMED_BYTES // once.nbytes))[: TIMED_BYTES // once.itemsize]


def _throughput(
    options: Mapping[str, Any], tensors: list[Elements], copied: float
) -> dict[str, float]:
    """Rates in bytes of data, and what products take beside streams that fill copies' link."""
    tensor, array = _on_device(_tiled(tensors))
    codec = _codec(options)
    encoding = codec.compression_config(TIMED_BYTES)
    stream = codec.encode(array, compression_config=encoding)
    decoding = codec.decompression_config(stream)
    _compare(codec.decode(stream, decompression_config=decoding), tensor)
    out_s = _seconds(lambda: codec.encode(array, compression_config=encoding))
    in_s = _seconds(lambda: codec.decode(stream, decompression_config=decoding))
    return {
        "ratio": TIMED_BYTES / stream.buffer_size,
        "compress_bytes_per_s": TIMED_BYTES / out_s,
        "decompress_bytes_per_s": TIMED_BYTES / in_s,
        **_beside_products(options, array, stream.buffer_size / copied),
    }


def _seconds(work: Callable[[], Any]) -> float:
    """Seconds of each of several calls, the last of which is waited for."""
    import torch

    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(ROUNDS):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / ROUNDS


def _copy_out() -> float:
    """Bytes per second of copies to pinned host memory."""
    import torch

    device = torch.zeros(TIMED_BYTES, dtype=torch.uint8, device="cuda")
    host = torch.zeros(TIMED_BYTES, dtype=torch.uint8, pin_memory=True)
    return TIMED_BYTES / _seconds(lambda: host.copy_(device, non_blocking=True))


def _beside_products(options: Mapping[str, Any], array: Any, interval_s: float) -> dict[str, float]:
    """Matrix products in bf16 alone, and while another stream compresses once in an interval."""
    import torch

    shape = (PRODUCT_SIZE, PRODUCT_SIZE)
    left, right = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def products() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(PRODUCTS):
            left @ right
        done = torch.cuda.Event()
        done.record()
        done.synchronize()
        return time.perf_counter() - start

    products()
    alone = products()
    codec = _codec(options, torch.cuda.Stream())
    config = codec.compression_config(TIMED_BYTES)
    stopped = threading.Event()
    sizes: list[int] = []

    def compress() -> None:
        due = time.perf_counter()
        while not stopped.is_set():
            # The size is read back, so that no more than one is under way.
            sizes.append(codec.encode(array, compression_config=config).buffer_size)
            due = max(due + interval_s, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))

    worker = threading.Thread(target=compress)
    worker.start()
    time.sleep(0.05)
    before = len(sizes)
    beside = products()
    compressed = len(sizes) - before
    stopped.set()
    worker.join()
    return {
        "products_s": alone,
        "products_beside_s": beside,
        "beside_bytes_per_s": compressed * TIMED_BYTES / beside,
    }


def _print_ratios(console: Console, theirs: Figures, ours: dict[str, dict[str, float]]) -> None:
    table = Table(title="ratio in bf16, every tensor by itself")
    table.add_column("data")
    for heading in ("XC", *ALGORITHMS):
        table.add_column(heading, justify="right")
    for origin, kinds in theirs.items():
        table.add_section()
        table.add_row(f"[bold]{origin}[/bold]")
        for kind, ratios in kinds.items():
            cells = [ours[origin][kind], *(ratios[name] for name in ALGORITHMS)]
            table.add_row(kind, *(f"{ratio:.3f}" for ratio in cells))
    console.print(table)


def _print_throughput(console: Console, figures: Figures) -> None:
    copied = figures["copy_out_bytes_per_s"]
    for title in TIMED:
        table = Table(
            title=f"{title}: GB/s of data, where copies to the host are {copied / 1e9:.1f} GB/s"
        )
        headings = (
            "algorithm",
            "ratio",
            "compresses",
            "expands",
            "of the GPU, to fill the link",
            "products beside it take",
            "as it compresses",
        )
        for heading in headings:
            table.add_column(heading, justify="right")
        for algorithm, found in figures["throughput"][title].items():
            share = copied * found["ratio"] / found["compress_bytes_per_s"]
            table.add_row(
                algorithm,
                f"{found['ratio']:.3f}",
                f"{found['compress_bytes_per_s'] / 1e9:.0f}",
                f"{found['decompress_bytes_per_s'] / 1e9:.0f}",
                f"{100 * share:.0f} %",
                f"{found['products_beside_s'] / found['products_s']:.2f}x",
                f"{found['beside_bytes_per_s'] / 1e9:.0f}",
            )
        console.print(table)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measure(), indent=2) + "\n")
