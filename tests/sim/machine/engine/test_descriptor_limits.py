"""Descriptors that go as far as they may: the bus, not their check, says that nothing is there."""

import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import Opcode, Status
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.sim.machine.engine.bench import EngineBench
from tests.sim.machine.engine.cases import Ending, Shape
from tests.sim.machine.engine.test_bad_descriptors import (
    DEVICE_END,
    GOOD,
    HOST_END,
    INWARD,
    LENGTH,
    OUTWARD,
    STREAM_BYTES,
)


def carry_out(bench: EngineBench, ending: Ending, opcode: Opcode, **changes: int) -> None:
    fields = {"opcode": opcode, **GOOD[opcode], **changes}
    with bench.cell(str(fields)):
        transfer = bench.engine.submit_raw(fields)
        bench.check_record(bench.engine.wait(transfer), ending)
        bench.settle()
        bench.engine.clear_error()


@pytest.mark.parametrize("opcode", OUTWARD)
def test_source_up_to_the_end_of_device_addresses(bench, opcode):
    ending = Ending(
        status=Status.READ_ERROR,
        detail=BusError.DECERR.value,
        src_done=0,
        out_size=0,
        fault_address=DEVICE_END - LENGTH,
    )
    carry_out(bench, ending, opcode, src=DEVICE_END - LENGTH)


@pytest.mark.parametrize("opcode", INWARD)
def test_source_up_to_the_end_of_host_addresses(bench, opcode):
    src = HOST_END - (STREAM_BYTES if opcode is Opcode.DECOMPRESS_IN else LENGTH)
    ending = Ending(
        status=Status.READ_ERROR,
        detail=BusError.DECERR.value,
        src_done=0,
        out_size=0,
        fault_address=src // 32 * 32,
    )
    carry_out(bench, ending, opcode, src=src)


@pytest.mark.parametrize("opcode", [*OUTWARD, *INWARD])
def test_record_beside_what_is_read_or_written(bench, opcode):
    for before in (False, True):
        job = bench.job(Shape(opcode=opcode, length=LENGTH, src=0x400, dst=0x400), 0)
        host = job.dst if job.outward else job.src
        size = job.capacity if job.outward else job.source.size
        record = host - ENTRY_BYTES if before else -(-(host + size) // ENTRY_BYTES) * ENTRY_BYTES
        job.fields["record"] = record
        with bench.cell(f"{job.shape}, record at {record:#x}"):
            bench.carry_out([job], [job.good()])


@pytest.mark.parametrize("opcode", OUTWARD)
def test_room_up_to_the_end_of_host_addresses(bench, opcode):
    job = bench.job(Shape(opcode=opcode, length=LENGTH))
    job.fields["dst_capacity"] = HOST_END - job.dst
    with bench.cell(str(job.shape)):
        bench.carry_out([job], [job.good()])


@pytest.mark.parametrize("opcode", INWARD)
def test_room_up_to_the_end_of_device_addresses(bench, opcode):
    job = bench.job(Shape(opcode=opcode, length=LENGTH))
    job.fields["dst_capacity"] = DEVICE_END - job.dst
    with bench.cell(str(job.shape)):
        bench.carry_out([job], [job.good()])
