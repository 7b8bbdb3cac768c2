"""The driver and the engine's RTL: what one writes, the other understands."""

import re

import numpy as np
import pytest

from cdma import golden
from cdma.hw.config import preset
from cdma.hw.dma.control.descriptor import Opcode, Status, TimeoutDetail
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.plan.platform.throttles import throttle
from cdma.sim.driver import CopyKind, DescriptorError, DroppedError, Engine, RingError, StuckError
from cdma.sim.driver.ring.descriptor import check
from cdma.sim.machine import BusFault, Machine, machine_config
from cdma.sim.machine.build.rtl import generated_engine
from tests.hw.dma.control.test_descriptor import BAD
from tests.lib.paths import ROOT
from tests.sim.machine.engine.model import ModelMachine, refuse_standstill

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
MEMORY = 4 << 20
HOST_BASE = 0x12_3456_7000
DEVICE_BASE = 0x1_0000


def sparse(nbytes, density=0.4, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 2**32, nbytes // 4, np.uint32)
    values[rng.random(values.size) >= density] = 0
    return values.view(np.uint8)


def filled(memory, data):
    buffer = memory.alloc(data.size)
    buffer.array[:] = data
    return buffer


def pairs(engine, count, nbytes=2048):
    return [
        (engine.host.alloc(2 * nbytes), filled(engine.device, sparse(nbytes, seed=seed)))
        for seed in range(count)
    ]


@pytest.fixture(scope="module")
def rtl():
    return generated_engine(preset("titanx_gen3"))


@pytest.fixture
def machine(rtl):
    with Machine(
        rtl,
        machine_config("titanx_gen3"),
        device_bytes=MEMORY,
        host_bytes=MEMORY,
        device_base=DEVICE_BASE,
        host_base=HOST_BASE,
    ) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["polling", "interrupts"])
def engine(request, machine):
    return Engine(machine, interrupts=request.param, timeout_cycles=5000)


class TestCopies:
    @pytest.mark.parametrize("nbytes", [1, 131, 4096, 100_000])
    @pytest.mark.parametrize("verify", [False, True])
    def test_out_and_back(self, engine, nbytes, verify):
        data = sparse(100_000)[:nbytes]
        src = filled(engine.device, data)
        stream = engine.host.alloc(engine.shape.worst_stream_bytes(nbytes))
        out = engine.memcpy_compressed(stream, src, nbytes, OUT, "zvc", verify=verify)
        expected = golden.codec("zvc", 4).compress(data)
        assert (out.out_size, out.crc32) == (expected.size, golden.crc32(data))
        assert out.status is (Status.OK if expected.size <= nbytes else Status.OK_EXPANDED)
        np.testing.assert_array_equal(stream.array[: out.out_size], expected)
        back = engine.device.alloc(nbytes)
        record = engine.memcpy_compressed(
            back, stream, nbytes, IN, stream_bytes=out.out_size, crc=out.crc32, tag=5
        )
        assert record.check().tag == 5
        np.testing.assert_array_equal(back.array, data)

    def test_plain_copies_at_odd_places(self, engine):
        data = sparse(10_000)
        src = filled(engine.device, data)
        host = engine.host.alloc(6000)
        engine.memcpy_compressed(host.span(4), src.span(8), 5991, OUT, None).check()
        np.testing.assert_array_equal(host.array[4:5995], data[8:5999])
        device = engine.device.alloc(6000)
        device.array[:] = 1
        engine.memcpy_compressed(device.span(12, 5000), host.span(4), 5000, IN, None).check()
        np.testing.assert_array_equal(device.array[12:5012], data[8:5008])
        assert device.array[:12].tolist() == [1] * 12
        assert (device.array[5012:] == 1).all()

    def test_overflow_can_be_resumed(self, engine):
        data = sparse(20_000)
        src = filled(engine.device, data)
        dst = engine.host.alloc(20_000)
        codec = golden.codec("zvc", 4)
        first = engine.memcpy_compressed(dst.span(0, 4000), src, 20_000, OUT)
        assert first.status is Status.DESTINATION_OVERFLOW
        assert first.fault_address == codec.compress(data[: first.src_done]).size <= 4000
        rest = engine.memcpy_compressed(
            dst.span(first.fault_address), src.span(first.src_done), 20_000 - first.src_done, OUT
        )
        size = first.fault_address + rest.check().out_size
        np.testing.assert_array_equal(dst.array[:size], codec.compress(data))

    def test_a_wrong_checksum(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        size = engine.memcpy_compressed(dst, src, 2048, OUT).out_size
        record = engine.memcpy_compressed(src, dst, 2048, IN, stream_bytes=size, crc=1)
        assert record.status is Status.CRC_MISMATCH
        record = engine.memcpy_compressed(src, dst, 2048, IN, stream_bytes=size - 4)
        assert record.stream_status is golden.StreamStatus.PAYLOAD_TRUNCATED
        assert re.search(r"ended with STREAM_TRUNCATED, detail PAYLOAD_T", record.describe())


class TestQueue:
    @pytest.mark.parametrize("entries", [2, 8])
    def test_many_laps_of_a_ring(self, machine, entries):
        engine = Engine(machine, ring_entries=entries)
        places = pairs(engine, 20, 256)
        for lap in range(4):
            transfers = [engine.submit(dst, src, 256, OUT) for dst, src in places]
            for (dst, src), transfer in zip(places, transfers, strict=True):
                record = engine.wait(transfer)
                assert record.index == transfer.index
                stream = golden.codec("zvc", 4).compress(src.array)
                np.testing.assert_array_equal(dst.array[: record.out_size], stream)
                dst.array[:] = lap
        assert engine.registers.read("RING_DONE")["index"] == 80

    def test_interrupts_are_shared(self, machine):
        def sleeps(**options):
            engine = Engine(machine, interrupts=True, **options)
            for dst, src in pairs(engine, 8, 256):
                engine.submit(dst, src, 256, OUT, doorbell=False)
            machine.reads = 0
            engine.wait_all()
            return machine.reads

        read = machine.read_register
        status = Engine(machine).registers.map["IRQ_STATUS"].offset

        def counting(address, **options):
            machine.reads += address == status
            return read(address, **options)

        machine.read_register = counting
        machine.reads = 0
        alone = sleeps()
        shared = sleeps(coalesce_count=8, coalesce_cycles=5000)
        late = sleeps(coalesce_count=100, coalesce_cycles=3000)
        assert alone == 8
        assert shared == late == 1

    def test_both_ways_at_once(self, engine):
        places = pairs(engine, 12)
        streams = []
        for dst, src in places[:6]:
            record = engine.memcpy_compressed(dst, src, 2048, OUT)
            streams.append((dst, record))
        before = [src.array.copy() for _, src in places]
        for (dst, src), (stream, record) in zip(places[6:], streams, strict=True):
            back = engine.device.alloc(2048)
            engine.submit(dst, src, 2048, OUT)
            engine.submit(back, stream, 2048, IN, stream_bytes=record.out_size, crc=record.crc32)
        assert {record.status for record in engine.wait_all()} == {Status.OK}
        for (dst, _), data in zip(places, before, strict=True):
            stream = golden.codec("zvc", 4).compress(data)
            np.testing.assert_array_equal(dst.array[: stream.size], stream)

    def test_a_fence_is_a_border(self, engine):
        data = sparse(50_000)
        src = filled(engine.device, data)
        host = engine.host.alloc(50_000)
        back = engine.device.alloc(50_000)
        engine.submit(host, src, 50_000, OUT, None)
        engine.fence()
        engine.submit(back, host, 50_000, IN, None)
        assert {record.status for record in engine.wait_all()} == {Status.OK}
        np.testing.assert_array_equal(back.array, data)

    def test_the_model_and_the_rtl_agree(self, machine):
        """Same copies, same memory, same records, but for what only hardware can tell."""
        model = ModelMachine(device_base=DEVICE_BASE, host_base=HOST_BASE)
        ends = []
        for environment in (machine, model):
            engine = Engine(environment, ring_entries=4)
            records = []
            for density in (0.0, 0.3, 1.0):
                src = filled(engine.device, sparse(4000, density))
                dst = engine.host.alloc(4500)
                back = engine.device.alloc(4000)
                records.append(engine.memcpy_compressed(dst.span(0, 3000), src, 4000, OUT))
                records.append(engine.memcpy_compressed(dst, src, 4000, OUT))
                sizes = {"stream_bytes": records[-1].out_size, "crc": records[-1].crc32}
                records.append(engine.memcpy_compressed(back, dst, 4000, IN, **sizes))
                np.testing.assert_array_equal(back.array, src.array)
            ends.append(
                [(r.status, r.tag, r.index, r.out_size, r.crc32) for r in records]
                + [environment.device[:30_000].tobytes()]
            )
        assert ends[0] == ends[1]


class TestBadDescriptors:
    def test_the_engine_says_what_the_driver_says(self, engine):
        for status, fields in BAD:
            own = {name: value for name, value in fields.items() if name != "record"}
            misplaced = fields["record"] % ENTRY_BYTES
            place = engine.host.alloc(2 * ENTRY_BYTES, alignment=ENTRY_BYTES)
            own["record"] = place.address + misplaced
            if status is Status.OVERLAP:
                # Its distance to what is read or written.
                own["record"] = fields["record"]
            with pytest.raises(DescriptorError) as caught:
                check(own, engine.shape.element_bytes)
            assert caught.value.status is status
            if status is Status.OVERLAP:
                continue
            record = engine.wait(engine.submit_raw({**own, "tag": 77}))
            assert (record.status, record.tag) == (status, 77)
        first = engine.first_error()
        assert (first.status, first.tag) == (Status.BAD_OPCODE, 77)

    def test_a_record_in_the_data(self, engine):
        place = engine.host.alloc(4096)
        fields = {
            "opcode": Opcode.COPY_OUT,
            "src": DEVICE_BASE,
            "dst": place.address,
            "length": 4096,
            "dst_capacity": 4096,
            "record": place.address + 4032,
        }
        assert engine.wait(engine.submit_raw(fields)).status is Status.OVERLAP
        assert not place.array[:4032].any()


class TestTrouble:
    def test_a_record_that_cannot_be_written(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        engine.submit_raw({"opcode": Opcode.FENCE, "record": HOST_BASE + MEMORY})
        later = engine.submit(dst, src, 2048, OUT)
        message = r"stopped, and descriptor 0 \(FENCE.*WRITE_ERROR"
        with pytest.raises(RingError, match=message):
            engine.wait(later)
        engine.reset()
        # Its record has come, although the one before it has not.
        assert later.record.ok
        assert engine.memcpy_compressed(dst, src, 2048, OUT).ok

    def test_a_ring_that_cannot_be_read(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        ring = engine._ring.base
        engine.machine.set_faults([BusFault("host", "r", "decerr", addresses=(ring, ring + 64))])
        transfer = engine.submit(dst, src, 2048, OUT)
        with pytest.raises(RingError, match="READ_ERROR"):
            engine.wait(transfer)
        engine.machine.set_faults([])
        engine.reset()
        with pytest.raises(DroppedError):
            engine.wait(transfer)
        assert engine.memcpy_compressed(dst, src, 2048, OUT).ok

    def test_a_bus_that_does_not_answer(self, engine):
        (dst, src), (other, _) = pairs(engine, 2)
        engine.machine.set_faults([BusFault(1, "r", "hang", nth=3)])
        record = engine.memcpy_compressed(dst, src, 2048, OUT)
        assert record.status is Status.TIMEOUT
        assert record.detail == TimeoutDetail.READ
        engine.machine.set_faults([])
        assert engine.memcpy_compressed(other, src, 2048, OUT).ok

    def test_a_fence_that_cannot_be_read_behind_a_long_copy(self, engine):
        """The ring stops at once, and the copy's record comes long after."""
        machine = engine.machine
        refuse_standstill(machine)
        (dst, src), *_ = pairs(engine, 1, 1 << 20)
        copy = engine.submit(dst, src, 1 << 20, OUT, doorbell=False)
        fence = engine.fence(doorbell=False)
        second_beat = engine.registers.read_long("RING_BASE") + ENTRY_BYTES + 32
        fault = BusFault("host", "r", "slverr", addresses=(second_beat, second_beat + 1))
        machine.set_faults([fault])
        with pytest.raises(RingError, match=r"stopped, and descriptor 1 \(FENCE.* has no record"):
            engine.wait(fence)
        assert machine.delivered_faults()[0].times == 1
        assert engine.wait(copy).ok
        machine.set_faults([])
        engine.reset()
        assert fence.dropped
        assert engine.memcpy_compressed(dst, src, 1 << 20, OUT).ok

    def test_a_bus_that_does_not_answer_without_a_timeout(self, machine):
        engine = Engine(machine, timeout_cycles=0)
        (dst, src), *_ = pairs(engine, 1)
        machine.set_faults([BusFault("host", "aw", "hang", nth=0)])
        message = r"descriptor 0 .* has no record, and nothing has moved for \d+ cycles: .*host"
        with pytest.raises(StuckError, match=message):
            engine.memcpy_compressed(dst, src, 2048, OUT)
        machine.set_faults([])
        assert engine.wait_all()[0].ok

    def test_abort(self, engine):
        # More than the engine fetches before the first ones have ended.
        places = pairs(engine, 30, 32_768)
        transfers = [engine.submit(dst, src, 32_768, OUT) for dst, src in places]
        engine.wait(transfers[1])
        engine.abort()
        statuses = [engine.wait(transfer).status for transfer in transfers]
        assert statuses[:2] == [Status.OK] * 2
        aborted = [k for k, status in enumerate(statuses) if status is Status.ABORTED]
        assert aborted
        assert aborted == list(range(aborted[0], aborted[-1] + 1))
        assert set(statuses) == {Status.OK, Status.ABORTED}
        assert statuses[-1] is Status.OK

    def test_reset(self, engine):
        places = pairs(engine, 30, 32_768)
        transfers = [engine.submit(dst, src, 32_768, OUT) for dst, src in places]
        engine.machine.run(5000)
        engine.reset()
        assert all(transfer.done for transfer in transfers)
        kept = [transfer for transfer in transfers if not transfer.dropped]
        assert 0 < len(kept) < 30
        assert {transfer.record.status for transfer in kept} <= {Status.OK, Status.ABORTED}
        again = [engine.submit(dst, src, 32_768, OUT) for dst, src in places[:3]]
        assert [engine.wait(transfer).index for transfer in again] == [0, 1, 2]

    def test_reset_of_the_machine(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        transfer = engine.submit(dst, src, 2048, OUT)
        engine.machine.reset()
        engine.reset()
        assert transfer.dropped
        assert engine.memcpy_compressed(dst, src, 2048, OUT).index == 0


class TestFigures:
    def test_counters_tell_what_happened(self, machine):
        engine = Engine(machine)
        (dst, src), *_ = pairs(engine, 1, 100_000)
        engine.clear_counters()
        machine.clear_counters()
        out = engine.memcpy_compressed(dst, src, 100_000, OUT)
        engine.memcpy_compressed(src, dst, 100_000, IN, stream_bytes=out.out_size)
        counters = engine.counters()
        lines = -(-100_000 // 128)
        assert counters["raw_bytes_out"] == counters["raw_bytes_in"] == 100_000
        assert counters["stream_bytes_out"] == out.out_size
        # What is read is counted in whole beats.
        assert counters["stream_bytes_in"] == -(-out.out_size // 32) * 32
        assert counters["lines_out"] == counters["lines_in"] == lines
        assert 0 < counters["reservation_high_water"] <= engine.shape.buffer_bytes
        assert machine.counters().dram_read_bytes.sum() == 100_000 // 32 * 32

    def test_throttles_by_class(self, machine):
        engine = Engine(machine, throttles=(throttle("none"), throttle("bandwidth-aware")))
        # For longer than a window.
        data = np.zeros(3 << 20, np.uint8)
        src = filled(engine.device, data)
        dst = engine.host.alloc(engine.shape.worst_stream_bytes(data.size))
        rates = []
        for throttle_class in (0, 1):
            machine.clear_counters()
            engine.memcpy_compressed(dst, src, data.size, OUT, throttle_class=throttle_class)
            rates.append(machine.counters().window_dram_read_bytes / 10e-6)
        assert rates[0] > 150e9
        assert 46e9 < rates[1] <= 48e9


def test_the_documents_example(capsys):
    text = (ROOT / "docs" / "guide" / "swap" / "driver.md").read_text()
    code, printed = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == printed
