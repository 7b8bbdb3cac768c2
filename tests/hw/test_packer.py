"""Lines to dense beats: bits, density and rate."""

import math

import pytest

from golden.zvc import Zvc
from hw.codec.pack import Packer
from tests.hw.bench import Bench, always
from tests.hw.payloads import (
    CONFIGS,
    config_id,
    line_beats_of,
    packets_of,
)


@pytest.fixture(scope="module", params=CONFIGS, ids=config_id)
def bench(request):
    return Bench(Packer(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def compressed(config, packet):
    return Zvc(config.element_bytes).compress(list_of_bytes(packet)).tobytes()


def list_of_bytes(packet):
    import numpy as np

    return np.frombuffer(packet, np.uint8)


def pack(bench, packets, *, source=always, sink=always):
    config = bench.component.config
    line_beats = [beat for packet in packets for beat in line_beats_of(config, packet)]
    streams = [compressed(config, packet) for packet in packets]
    beats = sum(max(1, math.ceil(len(s) / config.sector_bytes)) for s in streams)
    given = bench.source(bench.component.i, line_beats, willing=source)
    taken = bench.sink(bench.component.o, beats, willing=sink)
    bench.run()
    # Only the last beat of a packet may be partial: `packets_of` checks that.
    assert packets_of(taken.payloads, config.sector_bytes) == streams
    return given, taken
