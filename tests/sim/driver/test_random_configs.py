"""Engines of many shapes, drawn over all fields, each built and run against numpy."""

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from cdma.golden import ELEMENT_BYTES, LINE_BYTES
from cdma.hw.config import (
    HOST_BYTES,
    LATENCIES,
    SECTOR_BYTES,
    CodecConfig,
    EngineConfig,
    preset,
)
from tests.hw.codec.xc.test_engine import ONE_UNIT
from tests.lib.shares import configs
from tests.sim.driver.random_machine.program import run_seed
from tests.sim.machine.engine.cases import SMALL
from tests.sim.machine.engine.rings import rings_config

COUNT = 32
MOST_UNITS = 16
PROGRAMS = 40


def draw_configs() -> list[EngineConfig]:
    """Shapes in which every width meets every element size, and every number of units occurs."""
    rng, depths, buses, memories = Random(14), Random(15), Random(16), Random(17)
    # None of `SEEN` has two clocks, two have a host port of another width than their sectors.
    owners, clocks, ports, gates = Random(18), Random(27), Random(73), Random(29)
    units = [*range(1, MOST_UNITS + 1)] * (COUNT // MOST_UNITS)
    rng.shuffle(units)
    shapes = list(product(SECTOR_BYTES, ELEMENT_BYTES)) * (1 + COUNT // 9)
    return [
        _with_port(
            _config(rng, count, sector_bytes, element_bytes),
            ports.choice(HOST_BYTES) if ports.random() < 0.5 else sector_bytes,
            transfers=depths.choice((2, 3, 4, 5, 8, 32, 64)),
            host_address_bits=buses.choice((48, 52, 64)),
            device_address_bits=buses.choice((37, 40)),
            host_id_bits=buses.choice((2, 3, 8)),
            device_id_bits=buses.choice((1, 2, 8)),
            ecc=memories.random() < 0.5,
            rings=owners.choice((1, 1, 2, 3, 4, 8)),
            stream_id_bits=owners.choice((0, 0, 3, 16)),
            host_clock=clocks.random() < 0.3,
            clock_gates=gates.random() < 0.3,
        )
        for count, (sector_bytes, element_bytes) in zip(units, shapes, strict=False)
    ]


def _config(rng: Random, units: int, sector_bytes: int, element_bytes: int) -> EngineConfig:
    codecs: tuple[tuple[str, ...], ...] = (("zvc", "raw"), ("zvc", "raw"), ("raw", "zvc"))
    if element_bytes == 1:
        # XC's streams are of whole bytes.
        codecs = (*codecs, ("xc", "raw"), ("zvc", "xc", "raw"))
    least_buffer, least_read = 2 * units * LINE_BYTES, 32 * sector_bytes
    return EngineConfig(
        codec=CodecConfig(
            element_bytes=element_bytes,
            sector_bytes=sector_bytes,
            latency=rng.choice(LATENCIES),
            codecs=rng.choice(codecs),
        ),
        units=units,
        host_bytes=sector_bytes,
        buffer_bytes=least_buffer * rng.choice((1, 1, 2, 5)) + rng.choice((0, 0, 72)),
        write_bursts=rng.choice((1, 2, 3, 16, 64)),
        read_buffer_bytes=least_read * rng.choice((1, 1, 2, 3)) + rng.choice((0, 0, 200)),
        split_lines=(split_lines := rng.choice((1, 2))),
        drain_beats=rng.choice((1, 2)),
        split_beats=rng.randint(1, split_lines),
    )


def _with_port(config: EngineConfig, host_bytes: int, **fields: Any) -> EngineConfig:
    """Give an engine a port to the host, and a read buffer that holds as many bursts there."""
    bursts, rest = divmod(config.read_buffer_bytes, config.host_bytes)
    room = bursts * host_bytes + rest
    return replace(config, host_bytes=host_bytes, read_buffer_bytes=room, **fields)


def _name(config: EngineConfig) -> str:
    codec = config.codec
    return (
        f"U{config.units}-S{codec.sector_bytes}-H{config.host_bytes}-E{codec.element_bytes}-"
        f"{codec.latency}-"
        f"{'+'.join(codec.codecs)}-B{config.buffer_bytes}-R{config.read_buffer_bytes}-"
        f"W{config.write_bursts}-L{config.split_lines}-"
        f"D{config.drain_beats}-P{config.split_beats}-T{config.transfers}-"
        f"A{config.host_address_bits}.{config.device_address_bits}-"
        f"I{config.host_id_bits}.{config.device_id_bits}-"
        f"O{config.rings}.{config.stream_id_bits}{'-ecc' * config.ecc}{'-host' * config.host_clock}"
        f"{'-gates' * config.clock_gates}"
    )


CONFIGS = draw_configs()


def test_every_field_is_drawn_with_its_smallest_and_largest_values() -> None:
    assert {one.units for one in CONFIGS} == set(range(1, MOST_UNITS + 1))
    shapes = {(one.codec.sector_bytes, one.codec.element_bytes) for one in CONFIGS}
    assert shapes == set(product(SECTOR_BYTES, ELEMENT_BYTES))
    assert {one.host_bytes for one in CONFIGS} == set(HOST_BYTES)
    ports = [one.host_bytes - one.codec.sector_bytes for one in CONFIGS]
    assert min(ports) < 0 < max(ports)
    assert {one.codec.latency for one in CONFIGS} == set(LATENCIES)
    assert {one.split_lines for one in CONFIGS} == {1, 2}
    assert {one.drain_beats for one in CONFIGS} == {1, 2}
    assert {one.split_beats for one in CONFIGS} == {1, 2}
    assert {1, 64} <= {one.write_bursts for one in CONFIGS}
    assert {2, 64} <= {one.transfers for one in CONFIGS}
    assert {one.ecc for one in CONFIGS} == {False, True}
    assert {one.host_clock for one in CONFIGS} == {False, True}
    assert {one.clock_gates for one in CONFIGS} == {False, True}
    assert {1, 8} <= {one.rings for one in CONFIGS}
    assert {0, 16} <= {one.stream_id_bits for one in CONFIGS}
    assert any(one.buffer_bytes == 2 * one.units * LINE_BYTES for one in CONFIGS)
    assert any(one.read_buffer_bytes == 32 * one.host_bytes for one in CONFIGS)
    assert {name for one in CONFIGS for name in one.codecs} == {"zvc", "raw", "xc"}


KEPT = {
    # Other tests build these, XC's only for `make verify`.
    "two-units": SMALL,
    "titanx_gen3": preset("titanx_gen3"),
    "four-rings": rings_config(4),
    "two-clocks": replace(SMALL, host_clock=True),
    "wide-port": replace(SMALL, host_bytes=64),
    "narrow-port": replace(SMALL, host_bytes=16),
    "gated-clocks": replace(SMALL, clock_gates=True),
    "xc": ONE_UNIT,
    "drawn": CONFIGS[13],
}


@pytest.mark.parametrize(
    "config",
    configs(
        KEPT,
        quick=[name for name in KEPT if name not in ("xc", "drawn")],
    ),
)
def test_kept_shape_runs_random_programs(config: EngineConfig) -> None:
    for seed in range(5000, 5004):
        run_seed(config, seed)


SEEN = (2, 8, 13, 20, 26)
"""The drawn shapes that have been run to the end, and are held to it from now on.

A build takes minutes; `run_seed(CONFIGS[number], …)` runs any of the others.
"""


@pytest.mark.verify
@pytest.mark.parametrize("number", SEEN, ids=[_name(CONFIGS[number]) for number in SEEN])
def test_drawn_shape_runs_random_programs(number: int) -> None:
    for seed in range(PROGRAMS):
        run_seed(CONFIGS[number], 10_000 + PROGRAMS * number + seed)
