"""Windows of the driver: what it writes, what it refuses, where it puts ring and records."""

import pytest

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.dma.control.descriptor import Status
from cdma.sim.driver import (
    CopyKind,
    DescriptorError,
    DriverError,
    Engine,
    OutOfMemoryError,
    Windows,
)
from tests.sim.machine.engine.model import MEMORY, ModelMachine

HOST, DEVICE = 0x10000, 0
"""Where the model's memories begin."""
OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
SOME = Windows(
    descriptors=range(HOST + 0x3000, HOST + 0x5000),
    records=range(HOST + 0x8000, HOST + 0x9000),
    host=range(HOST + 0x20000, HOST + 0x22000),
    device=range(DEVICE + 0x4000, DEVICE + 0x6000),
)


def ends(machine, name):
    registers = Engine(machine).registers
    return registers.read_long(f"{name}_BASE"), registers.read_long(f"{name}_LAST")


def test_windows_are_in_the_registers_with_their_first_and_last_byte():
    machine = ModelMachine()
    engine = Engine(machine, windows=SOME)
    for name, window in (
        ("DESCRIPTOR_WINDOW", SOME.descriptors),
        ("RECORD_WINDOW", SOME.records),
        ("HOST_WINDOW", SOME.host),
        ("DEVICE_WINDOW", SOME.device),
    ):
        assert engine.registers.read_long(f"{name}_BASE") == window.start
        assert engine.registers.read_long(f"{name}_LAST") == window.stop - 1


def test_ring_and_records_lie_in_their_windows():
    engine = Engine(ModelMachine(), windows=SOME)
    assert engine.registers.read_long("RING_BASE") == SOME.descriptors.start
    fence = engine.fence()
    assert fence.fields["record"] == SOME.records.start
    assert engine.wait(fence).ok


def test_ring_that_does_not_fit_its_window_is_told_so():
    with pytest.raises(OutOfMemoryError, match=r"no 8192 bytes .* in 0x13000 to 0x14000"):
        Engine(
            ModelMachine(),
            ring_entries=128,
            windows=Windows(descriptors=range(HOST + 0x3000, HOST + 0x4000)),
        )


def test_buffers_within_windows_are_copied_and_others_refused():
    engine = Engine(ModelMachine(), windows=SOME)
    device = engine.device.alloc(512, within=SOME.device)
    host = engine.host.alloc(1024, within=SOME.host)
    assert (device.address, host.address) == (SOME.device.start, SOME.host.start)
    assert engine.memcpy_compressed(host, device, 512, OUT).ok
    elsewhere = engine.host.alloc(1024), engine.device.alloc(512)
    for dst, src, kind, field in (
        (elsewhere[0], device, OUT, "dst"),
        (host, elsewhere[1], OUT, "src"),
        (device, elsewhere[0], IN, "src"),
        (elsewhere[1], host, IN, "dst"),
    ):
        with pytest.raises(DescriptorError, match=r"within windows\.(host|device)") as refused:
            engine.submit(dst, src, 512, kind, None)
        assert (refused.value.field, refused.value.status) == (field, Status.OUTSIDE_WINDOW)


def test_raw_descriptor_outside_ends_with_its_status():
    engine = Engine(ModelMachine(), windows=SOME)
    fields = {"opcode": 3, "src": SOME.device.stop - 4, "dst": SOME.host.start, "dst_capacity": 8}
    for length, status in ((4, Status.OK), (5, Status.OUTSIDE_WINDOW)):
        record = engine.wait(engine.submit_raw({**fields, "length": length}))
        assert record.status is status


def test_record_outside_is_refused_before_the_ring_would_stop():
    engine = Engine(ModelMachine(), windows=SOME)
    with pytest.raises(DescriptorError, match=r"record must leave 64 bytes within windows"):
        engine.submit_raw({"opcode": 5, "record": SOME.records.stop}, checks=True)


def test_windows_stay_without_the_argument():
    machine = ModelMachine()
    Engine(machine, windows=SOME).close()
    assert ends(machine, "HOST_WINDOW") == (SOME.host.start, SOME.host.stop - 1)


def test_open_windows_are_written_where_others_were():
    machine = ModelMachine()
    Engine(machine, windows=SOME).close()
    Engine(machine, windows=Windows()).close()
    assert ends(machine, "HOST_WINDOW") == (0, 2**64 - 1)
    machine = ModelMachine()
    Engine(machine, windows=Windows(device=range(0))).close()
    base, last = ends(machine, "DEVICE_WINDOW")
    assert base > last


def test_locked_windows_are_those_or_an_error():
    machine = ModelMachine()
    locked = Windows(host=SOME.host, device=range(0), lock=True)
    Engine(machine, windows=locked).close()
    engine = Engine(machine, windows=Windows(host=SOME.host, device=range(0x1000, 0x1000)))
    engine.reset()
    engine.close()
    with pytest.raises(
        DriverError, match=r"windows\.host must be 0x30000 to 0x31fff, which is locked, not 0x0 to"
    ):
        Engine(machine, windows=Windows(device=range(0)))


def test_locked_window_that_is_empty_is_one_wherever_it_lies():
    machine = ModelMachine()
    registers = Engine(machine, windows=Windows(host=SOME.host)).registers
    registers.write("CONTROL", enable=0)
    registers.write_long("DEVICE_WINDOW_BASE", 0x9000)
    registers.write_long("DEVICE_WINDOW_LAST", 0x3000)
    registers.write("WINDOW_LOCK", lock=1)
    Engine(machine, windows=Windows(host=SOME.host, device=range(0)))
    message = r"windows\.device must be 0x9000 to 0x3fff, which is locked, not 0x0 to"
    with pytest.raises(DriverError, match=message):
        Engine(machine, windows=Windows(host=SOME.host))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"host": (0, 4096)}, r"windows\.host must be a range .* not \(0, 4096\)"),
        ({"host": range(0, 8192, 2)}, r"windows\.host must be a range of addresses"),
        ({"device": range(1, 4096)}, r"multiples of 4096, not at 0x1 and 0x1000"),
        ({"records": range(0, 4095)}, r"windows\.records must start and stop at multiples"),
        ({"device": range(0, 1 << 41)}, r"windows\.device must lie in the 40 bits"),
        ({"descriptors": range(-4096, 0)}, r"windows\.descriptors must lie in the 64 bits"),
        ({"host": range(8192, 4096)}, r"its start not behind its stop"),
        ({"lock": 1}, "lock must be True or False, not 1"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(DriverError, match=message):
        Windows(**arguments)


def test_engine_and_memory_refuse_what_is_no_window():
    with pytest.raises(DriverError, match="windows must be Windows or None, not 5"):
        Engine(ModelMachine(), windows=5)  # type: ignore[arg-type]
    engine = Engine(ModelMachine())
    with pytest.raises(DriverError, match="within must be a range of addresses or None"):
        engine.host.alloc(64, within=(0, 4096))  # type: ignore[arg-type]
    with pytest.raises(OutOfMemoryError, match="in 0x10000 to 0x11000"):
        engine.host.alloc(PAGE_BYTES + 1, within=range(HOST, HOST + PAGE_BYTES))
    last = range(HOST + MEMORY - PAGE_BYTES, HOST + MEMORY)
    assert engine.host.alloc(PAGE_BYTES, within=last).address == last.start
