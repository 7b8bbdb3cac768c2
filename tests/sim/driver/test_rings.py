"""Drivers of several rings in one machine: none gets in another's way."""

import gc
from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

from cdma.hw.dma.control.registers import ring_register_map
from cdma.plan.platform.throttles import THROTTLES
from cdma.sim.driver import CopyKind, DescriptorError, DriverError, Engine, OverlapError
from cdma.sim.driver.registers import RegisterFile
from cdma.sim.machine import Machine
from tests.sim.machine.engine.model import ModelMachine
from tests.sim.machine.engine.rings import rings_config, rings_machine

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine of two rings, without drivers."""
    with rings_machine(rings_config(2), seed=9) as made:
        yield made


def data(nbytes: int, seed: int):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, nbytes, np.uint8) * (rng.random(nbytes) < 0.3)


def test_two_drivers_copy_at_the_same_time(machine) -> None:
    """Submitted in turns, waited for in any order; memory that one has the other does not get."""
    engines = [Engine(machine, ring=ring) for ring in (0, 1)]
    assert [engine.shape.rings for engine in engines] == [2, 2]
    pending, taken = [], set()
    for k in range(12):
        engine = engines[k % 2]
        nbytes = 400 + 4 * k
        source = engine.device.alloc(nbytes)
        stream = engine.host.alloc(engine.shape.worst_stream_bytes(nbytes))
        back = engine.device.alloc(nbytes)
        for buffer in (source, back):
            place = range(buffer.address, buffer.address + nbytes)
            assert not taken & set(place)
            taken |= set(place)
        source.array[:] = data(nbytes, k)
        transfer = engine.submit(stream, source, nbytes, OUT)
        pending.append((engine, transfer, source, stream, back))
    for engine, transfer, source, stream, back in reversed(pending):
        record = engine.wait(transfer).check()
        engine.memcpy_compressed(
            back, stream.span(0, record.out_size), source.nbytes, IN, crc=record.crc32
        ).check()
        assert np.array_equal(back.array, source.array)


def test_each_ring_has_one_driver(machine) -> None:
    first, second = Engine(machine, ring=0), Engine(machine, ring=1)
    with pytest.raises(DriverError, match="the machine has a driver already; use this engine's"):
        Engine(machine)
    with pytest.raises(DriverError, match="ring 1 of the machine has a driver already"):
        Engine(machine, ring=1)
    second.close()
    assert Engine(machine, ring=1).pending == 0
    assert first.pending == 0


@pytest.mark.parametrize(
    ("ring", "message"),
    [
        (2, "ring must be 0 to 1, not 2: the engine has 2 rings"),
        (-1, "ring must be at least 0, not -1"),
        (1.0, "ring must be an integer, at least 0, not 1.0"),
    ],
)
def test_ring_that_does_not_exist_is_refused(machine, ring, message) -> None:
    with pytest.raises(DriverError, match=message):
        Engine(machine, ring=ring)


def test_engine_with_one_ring_has_no_other() -> None:
    with pytest.raises(DriverError, match="ring must be 0 to 0, not 1: the engine has one ring"):
        Engine(ModelMachine(), ring=1)


def test_buffers_of_another_ring_are_refused(machine) -> None:
    engines = [Engine(machine, ring=ring) for ring in (0, 1)]
    source, target = engines[0].device.alloc(64), engines[1].host.alloc(64)
    with pytest.raises(DescriptorError, match=r"dst must be in host memory .* of another driver"):
        engines[0].submit(target, source, 64, OUT, None)


def test_shared_registers_are_those_of_ring_0s_driver(machine) -> None:
    usual = THROTTLES["none"]
    limited = THROTTLES["bandwidth-aware"]
    for options, name in (
        ({"timeout_cycles": 1000}, "timeout_cycles"),
        ({"throttles": (limited, usual)}, "throttles"),
    ):
        with pytest.raises(DriverError, match=f"{name} are the engine's; ring 0's driver sets"):
            Engine(machine, ring=1, **options)
    first = Engine(machine, ring=0, timeout_cycles=1234)
    second = Engine(machine, ring=1)
    assert second.registers.read("TIMEOUT_CYCLES")["value"] == 1234
    for use in (lambda: second.set_throttle(0, limited), second.clear_counters):
        with pytest.raises(DriverError, match="are the engine's; ring 0's driver sets them"):
            use()
    assert second.counters() == first.counters()


def test_what_a_driver_leaves_in_flight_keeps_its_memory(machine) -> None:
    """The next driver of the ring ends it, and only then may others have the memory."""
    first = Engine(machine, ring=0)
    left = Engine(machine, ring=1)
    source, target = left.device.alloc(8192), left.host.alloc(8192)
    source.array[:] = data(8192, 1)
    left.submit(target, source, 8192, OUT, None)
    left.close()
    address = target.address
    with pytest.raises(OverlapError, match="not all free"):
        first.host.alloc(8192, address=address)
    Engine(machine, ring=1)
    assert first.host.alloc(8192, address=address).address == address
    machine.run_until_idle(10_000)


def test_forgotten_drivers_of_all_rings_leave_all_memory(machine) -> None:
    engines = [Engine(machine, ring=ring) for ring in (0, 1)]
    free = engines[0].host.free_bytes
    source, target = engines[1].device.alloc(8192), engines[1].host.alloc(8192)
    engines[1].submit(target, source, 8192, OUT, None)
    assert engines[0].host.free_bytes == free - 8192
    del engines, source, target
    gc.collect()
    alone = Engine(machine, ring=0)
    registers = RegisterFile(machine, ring_register_map(1))
    assert registers.read("STATUS")["idle"]
    assert not registers.read("CONTROL")["enable"]
    # One ring's descriptors and records are no more.
    assert alone.host.free_bytes > free


def test_drivers_may_be_in_threads(machine) -> None:
    engines = [Engine(machine, ring=ring) for ring in (0, 1)]
    failed: list[BaseException] = []

    def copies(engine: Engine) -> None:
        try:
            for k in range(20):
                source, back = engine.device.alloc(512), engine.device.alloc(512)
                stream = engine.host.alloc(engine.shape.worst_stream_bytes(512))
                source.array[:] = data(512, 100 * engine.ring + k)
                record = engine.memcpy_compressed(stream, source, 512, OUT).check()
                engine.memcpy_compressed(back, stream.span(0, record.out_size), 512, IN).check()
                assert np.array_equal(back.array, source.array)
                for buffer, memory in (
                    (source, engine.device),
                    (back, engine.device),
                    (stream, engine.host),
                ):
                    memory.free(buffer)
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=copies, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
