"""Measures the samples that `samples.json` has: `python -m cdma.sim.execute.codec_samples`.

Sizes are evenly spread on a logarithmic scale, shares of zeros evenly over 20 to 90 %, as the
paper's tensor generator makes them (CSWAP+, §5.4, §6.3); zeros are anywhere. A sample is a row of
numbers: bytes, ratio, bytes of the stream, and two times, the way out first. The engine's sizes
are smaller than the paper's 20 MB, as every byte goes through simulated RTL. ZFP has all P, on
smooth data.
"""

import json
import os
import platform
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cdma import golden
from cdma.golden.formats.interface import Array
from cdma.hw.config import PRESETS
from cdma.plan.platform.codec_rates import ZFP_LEAST_BITS, ZFP_MOST_BITS
from cdma.plan.policies.cswap.samples import SHIPPED, SPARSE_RATIOS, lossy_ratio
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import MACHINES, Machine
from cdma.sim.machine.build.rtl import generated_engine

PRESET = "titanx_gen3"
ENGINE_BYTES = (16 << 10, 1 << 20)
ENGINE_SAMPLES = 240
HOST_BYTES = (256 << 10, 8 << 20)
HOST_SAMPLES = 240
HOST_CODECS = ("zvc", "rle", "csr", "lz4", "deflate-fast")
ROUNDS = 3
COLUMNS = ("nbytes", "ratio", "stream_bytes", "compress", "decompress")

Row = tuple[int, float, int, int, int]


def sparse(nbytes: int, ratio: float, seed: int) -> Array:
    """Normal float32 of which the share `ratio`, to the element, are zeros at random places."""
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(nbytes // 4, np.float32)
    array[rng.permutation(array.size)[: round(array.size * ratio)]] = 0
    return array


def smooth(nbytes: int, seed: int) -> Array:
    """A random walk in float32, which has no zeros but neighbors that are alike."""
    steps = np.random.default_rng(seed).standard_normal(nbytes // 4, np.float32)
    walk: Array = np.cumsum(steps, dtype=np.float32)
    return walk


def engine_rows(
    count: int = ENGINE_SAMPLES, *, limits: tuple[int, int] = ENGINE_BYTES, seed: int = 0
) -> list[Row]:
    """Samples of the RTL in its machine, in cycles from the driver's call to its return.

    Raises
    ------
    cdma.sim.machine.MachineError
        The simulator cannot be built.
    """
    memory_bytes = 4 * limits[1] + (1 << 20)
    machine = Machine(
        generated_engine(PRESETS[PRESET]),
        MACHINES[PRESET],
        device_bytes=memory_bytes,
        host_bytes=memory_bytes,
    )
    with machine:
        engine = Engine(machine)
        return [
            _engine_row(engine, sparse(nbytes, ratio, i))
            for i, (nbytes, ratio) in enumerate(_shapes(count, limits, seed))
        ]


def host_rows(
    name: str, count: int = HOST_SAMPLES, *, limits: tuple[int, int] = HOST_BYTES, seed: int = 0
) -> list[Row]:
    """Samples of a lossless golden codec on this processor, in ns of its time, whatever else it
    does meanwhile: the least of three rounds."""
    codec = golden.codec(name)
    return [
        _host_row(codec, array, 1 - np.count_nonzero(array) / array.size)
        for array in (
            sparse(nbytes, ratio, i)
            for i, (nbytes, ratio) in enumerate(_shapes(count, limits, seed))
        )
    ]


def zfp_rows(
    count: int = HOST_SAMPLES, *, limits: tuple[int, int] = HOST_BYTES, seed: int = 0
) -> list[Row]:
    """The same of ZFP, whose ratio is 1 − P/128 and takes all its values."""
    legal = range(ZFP_LEAST_BITS, ZFP_MOST_BITS + 1)
    rows = []
    for i, (nbytes, _) in enumerate(_shapes(count, limits, seed)):
        bits = legal[i * 7 % len(legal)]
        codec = golden.codec("zfp", rate=bits)
        rows.append(_host_row(codec, smooth(nbytes, i), lossy_ratio(bits)))
    return rows


def measure(progress: Callable[[str], None]) -> dict[str, Any]:
    """Everything that `samples.json` has; `progress` is told what comes next."""
    progress("engine")
    engine = engine_rows()
    host: dict[str, list[Row]] = {}
    for name in HOST_CODECS:
        progress(name)
        host[name] = host_rows(name)
    progress("zfp")
    host["zfp"] = zfp_rows()
    return {
        "command": "python -m cdma.sim.execute.codec_samples",
        "columns": COLUMNS,
        "engine": {"preset": PRESET, "clock_hz": MACHINES[PRESET].clock_hz, "rows": engine},
        "host": {"processor": _processor(), "unit": "ns", "codecs": host},
    }


def _shapes(count: int, limits: tuple[int, int], seed: int) -> Iterator[tuple[int, float]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        nbytes = np.exp(rng.uniform(*np.log(limits)))
        yield int(nbytes) // 128 * 128, float(rng.uniform(*SPARSE_RATIOS))


def _engine_row(engine: Engine, array: Array) -> Row:
    data = array.view(np.uint8)
    device = engine.device.alloc(data.size)
    host = engine.host.alloc(engine.shape.worst_stream_bytes(data.size))
    device.array[:] = data
    began = engine.machine.cycles
    out = engine.memcpy_compressed(host, device, data.size, CopyKind.DEVICE_TO_HOST).check()
    out_cycles = engine.machine.cycles - began
    device.array[:] = 0xA5
    began = engine.machine.cycles
    engine.memcpy_compressed(
        device,
        host,
        data.size,
        CopyKind.HOST_TO_DEVICE,
        stream_bytes=out.out_size,
        crc=out.crc32,
    ).check()
    in_cycles = engine.machine.cycles - began
    engine.device.free(device)
    engine.host.free(host)
    ratio = 1 - np.count_nonzero(array) / array.size
    return data.size, round(ratio, 6), out.out_size, out_cycles, in_cycles


def _host_row(codec: golden.Codec, array: Array, ratio: float) -> Row:
    stream = codec.compress(array)
    return (
        array.nbytes,
        round(ratio, 6),
        stream.size,
        _nanoseconds(lambda: codec.compress(array)),
        _nanoseconds(lambda: codec.decompress(stream, array.nbytes)),
    )


def _nanoseconds(work: Callable[[], object]) -> int:
    spent = []
    for _ in range(ROUNDS):
        began = time.thread_time_ns()
        work()
        spent.append(time.thread_time_ns() - began)
    return min(spent)


def _processor() -> str:
    with Path("/proc/cpuinfo").open() as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def write(measured: dict[str, Any], path: Path = SHIPPED) -> None:
    """One row per line; the file appears when it is complete."""
    text = json.dumps(measured, indent=1)
    text = re.sub(r"\[([^][\"]*)\]", lambda row: f"[{' '.join(row[1].split())}]", text)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_text(text + "\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


if __name__ == "__main__":
    write(measure(print))
