"""Transfers that the closed form and the engine's RTL both time: environments, data, a rig."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.stream import ByteArray
from cdma.plan.engine_cost import Setup
from cdma.plan.workload import load_capture
from cdma.sim.driver import THROTTLES, CopyKind, Engine
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap.encoding import encoding_with

MEMORY = 4 << 20
ELEMENT_BYTES = 4

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE

_BASE = Setup.named("titanx_gen3")

SETUPS = {
    "titanx_gen3": _BASE,
    # Its link's places in time that no paper's machine has: overhead per burst, and slower.
    "with packets": replace(
        _BASE,
        machine=replace(
            _BASE.machine, link_efficiency=0.8, link_overhead_bytes=24, link_latency_ns=400
        ),
    ),
    "12.8 GB/s": replace(
        _BASE,
        machine=replace(_BASE.machine, link_out_bytes_per_s=12.8e9, link_in_bytes_per_s=12.8e9),
    ),
    # Here the buffer's size limits, and not the units.
    "1.2 GHz": _BASE.with_clock(1.2e9),
    "48 GB/s cap": replace(_BASE, throttle=THROTTLES["bandwidth-aware"]),
    "200 GB/s cap": replace(_BASE, throttle=THROTTLES["performance-optimal"]),
    # As fast as the engine's port.
    "32 GB/s": _BASE.with_link("pcie4x16"),
}
"""Around one and the same engine, so that one library serves all."""

CAPTURED = ("conv0.relu@epoch0", "conv1.relu@epoch2", "conv2.relu@epoch12", "pool0@epoch2")
"""Of `digits-cnn`: wide and narrow maps, dense and sparse, at its beginning and its end."""

GRID_BYTES = (4 << 10, 64 << 10, 256 << 10)
GRID_DENSITIES = (0.0625, 0.2, 0.3846, 0.8)
GRID_RUNS = (8192, 65536)


@dataclass(frozen=True)
class Case:
    """Data of a transfer.

    Attributes
    ----------
    pattern : str
        `uniform`, zeros anywhere; `clustered <bytes>`, in runs; or a captured activation.
    density : float
        That was asked for; of activations, their own.
    array : uint8 array
    """

    pattern: str
    density: float
    array: ByteArray

    @property
    def lines(self) -> list[int]:
        """Bytes of the stream by line."""
        words = np.pad(self.array, (0, -self.array.size % LINE_BYTES)).view(np.uint32)
        counts = np.count_nonzero(words.reshape(-1, LINE_BYTES // ELEMENT_BYTES), axis=1)
        return [int(4 + ELEMENT_BYTES * count) for count in counts]


def uniform(nbytes: int, density: float, seed: int = 1) -> Case:
    """Each element is zero or not, whatever its neighbors are."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 2**32, nbytes // ELEMENT_BYTES, dtype=np.uint32)
    words[rng.random(words.size) >= density] = 0
    return Case("uniform", density, words.view(np.uint8))


def clustered(nbytes: int, density: float, run_bytes: int, seed: int = 3) -> Case:
    """Runs without zeros and runs of zeros, of random lengths: `run_bytes` in the mean at half
    density."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 2**32, nbytes // ELEMENT_BYTES, dtype=np.uint32)
    place, filled = 0, bool(rng.random() < density)
    while place < words.size:
        mean = 2 * run_bytes / ELEMENT_BYTES * (density if filled else 1 - density)
        count = max(1, int(rng.exponential(mean)))
        if not filled:
            words[place : place + count] = 0
        place, filled = place + count, not filled
    return Case(f"clustered {run_bytes}", density, words.view(np.uint8))


def captured(nbytes: int) -> Iterator[Case]:
    """The first bytes of activations of a real training."""
    for activation in _capture():
        array = np.ascontiguousarray(activation.array).view(np.uint8).reshape(-1)
        yield Case(activation.name, activation.density, array[: min(nbytes, array.size)])


def grid() -> Iterator[Case]:
    """All patterns, from 4 KiB to 256 KiB."""
    for nbytes in GRID_BYTES:
        yield from (uniform(nbytes, density) for density in (0.0, *GRID_DENSITIES, 1.0))
        for run_bytes in GRID_RUNS:
            yield from (clustered(nbytes, density, run_bytes) for density in GRID_DENSITIES)
        yield from captured(nbytes)


@cache
def _capture() -> list[Any]:
    return [one for one in load_capture("digits-cnn").activations if one.name in CAPTURED]


class Rig:
    """Transfers of equal arrays, out and back, in cycles from the doorbell to the last record."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.machine = Machine(
            generated_engine(setup.engine),
            setup.machine,
            device_bytes=MEMORY,
            host_bytes=MEMORY,
        )
        self.driver = Engine(
            self.machine,
            throttles=(setup.throttle, setup.throttle),
            codecs=setup.engine.codecs,
        )

    def round_trips(
        self,
        array: ByteArray,
        count: int,
        codec: str | None,
        parameters: Mapping[str, int] | None = None,
    ) -> tuple[int, dict[str, int]]:
        """Bytes of a stream, and cycles by way. Whatever came back is compared; with parameters, it
        is what the golden model restores.
        """
        driver, size = self.driver, array.size
        returned = array
        if codec is not None and parameters is not None:
            returned = encoding_with(codec, array, ELEMENT_BYTES, parameters).returned(array)
        room = driver.shape.worst_stream_bytes(size)
        devices = [driver.device.alloc(size) for _ in range(count)]
        hosts = [driver.host.alloc(room) for _ in range(count)]
        for device in devices:
            device.array[:] = array
        out, records = self._run(
            [
                driver.submit(host, device, size, OUT, codec, doorbell=False, parameters=parameters)
                for host, device in zip(hosts, devices, strict=True)
            ]
        )
        stream = records[0].out_size
        for device in devices:
            device.array[:] = 0xA5
        back, _ = self._run(
            [
                driver.submit(
                    device,
                    host.span(0, stream),
                    size,
                    IN,
                    codec,
                    doorbell=False,
                    parameters=parameters,
                )
                for host, device in zip(hosts, devices, strict=True)
            ]
        )
        for device in devices:
            np.testing.assert_array_equal(device.array, returned)
            driver.device.free(device)
        for host in hosts:
            driver.host.free(host)
        return stream, {"out": out, "in": back}

    def _run(self, transfers: list[Any]) -> tuple[int, list[Any]]:
        self.machine.run_until_idle(10_000)
        doorbell = self.driver.doorbell()
        records = [self.driver.wait(transfer).check() for transfer in transfers]
        return self.machine.cycles - doorbell, records

    def close(self) -> None:
        self.machine.close()

    def errors(self, case: Case) -> dict[tuple[str, str], float]:
        """Estimate over RTL, less 1, by way and what the estimate knows: `density` or `lines`."""
        lines = case.lines
        stream, measured = self.round_trips(case.array, 1, "zvc")
        assert sum(lines) == stream
        found = {}
        for way, cycles in measured.items():
            for knows, given in (("density", None), ("lines", lines)):
                cost = self.setup.cost(case.array.size, stream, way, lines=given)
                found[way, knows] = cost.cycles / cycles - 1
        return found
