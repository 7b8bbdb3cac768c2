"""Parameters that an engine recommends for tensors of each exponent: its counters fill up."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.hw.codec.registry import line_codec
from cdma.sim.driver import Engine
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from tests.hw.codec.xc.test_engine import ONE_UNIT, OUT, room
from tests.sim.machine.engine.bench import NEAR

NBYTES = 80 * 1024
"""More than 255 of its elements are sampled, which is all that a counter counts."""
EXPONENTS = range(104, 136)
"""As many as there are counters."""
CODEC = "xc"

pytestmark = pytest.mark.verify


@pytest.fixture
def engine() -> Iterator[Engine]:
    machine = Machine(
        generated_engine(ONE_UNIT),
        replace(NEAR, channels=ONE_UNIT.units),
        device_bytes=1 << 18,
        host_bytes=1 << 18,
    )
    with machine:
        yield Engine(machine, codecs=ONE_UNIT.codec.codecs)


def test_parameters_are_those_of_the_exponent_that_most_elements_have(engine: Engine) -> None:
    device, host = engine.device.alloc(NBYTES), engine.host.alloc(room(engine, NBYTES, CODEC))
    entry = line_codec(CODEC)
    rng = np.random.default_rng(4)
    for exponent in EXPONENTS:
        exponents = np.where(rng.random(NBYTES // 2) < 0.95, exponent, exponent - 3)
        signs_and_mantissas = rng.integers(0, 1 << 16, NBYTES // 2) & 0x807F
        data = (signs_and_mantissas | exponents << 7).astype("<u2").view(np.uint8)
        device.array[:] = data
        sent = engine.submit(host, device, NBYTES, OUT, CODEC)
        result = engine.wait(sent).check().result
        assert entry.unpacked_result(result) == entry.recorded_result(data)
