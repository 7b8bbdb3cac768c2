"""The driver: rings, doorbells, interrupts and checks, on an engine of Python."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from cdma import golden
from cdma.hw.config import CodecConfig, ConfigError, EngineConfig
from cdma.hw.dma.control.descriptor import RECORD_DTYPE, Flag, Opcode, Status
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.plan.platform.throttles import throttle
from cdma.sim.driver import (
    THROTTLES,
    BusyError,
    ConcurrentUseError,
    CopyKind,
    DescriptorError,
    DriverError,
    DroppedError,
    Engine,
    IdentityError,
    OverlapError,
    RingError,
    RingFullError,
    StuckError,
    Throttle,
    TransferError,
    UseAfterFreeError,
)
from cdma.sim.driver.ring.descriptor import check, packed
from tests.hw.dma.control.test_descriptor import BAD, GOOD
from tests.sim.machine.engine.model import (
    COPY_CYCLES,
    PREFETCH,
    RESPONSE_CYCLES,
    ModelMachine,
    refuse_standstill,
)

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
MODES = [{"interrupts": False}, {"interrupts": True}]


def sparse(nbytes, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 2**32, nbytes // 4, np.uint32)
    values[rng.random(values.size) < 0.6] = 0
    return values.view(np.uint8)


def filled(memory, data):
    buffer = memory.alloc(data.size)
    buffer.array[:] = data
    return buffer


def pairs(engine, count, nbytes=1024):
    """Buffers for copies to the host, each with its own data."""
    return [
        (engine.host.alloc(2 * nbytes), filled(engine.device, sparse(nbytes, seed)))
        for seed in range(count)
    ]


def lines_of(function):
    """Lines of Python that a call executes: its work, whatever the machine's speed."""
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


@pytest.fixture(params=MODES, ids=["polling", "interrupts"])
def engine(request):
    return Engine(ModelMachine(), **request.param)


class TestCopies:
    @pytest.mark.parametrize("nbytes", [1, 127, 128, 5000])
    def test_out_and_back(self, engine, nbytes):
        data = sparse(8192)[:nbytes]
        src = filled(engine.device, data)
        stream = engine.host.alloc(engine.shape.worst_stream_bytes(nbytes))
        out = engine.memcpy_compressed(stream, src, nbytes, OUT, "zvc")
        expected = golden.codec("zvc", 4).compress(data)
        assert out.ok
        assert (out.out_size, out.crc32) == (expected.size, golden.crc32(data))
        np.testing.assert_array_equal(stream.array[: out.out_size], expected)
        back = engine.device.alloc(nbytes)
        record = engine.memcpy_compressed(
            back, stream, nbytes, IN, stream_bytes=out.out_size, crc=out.crc32
        )
        assert record.check().status is Status.OK
        np.testing.assert_array_equal(back.array, data)

    def test_worst_case_is_what_dense_data_takes(self):
        for element_bytes in (4, 2, 1):
            codec = CodecConfig(element_bytes=element_bytes)
            engine = Engine(ModelMachine(EngineConfig(codec=codec)))
            for nbytes in (1, 5, 127, 128, 129, 1000):
                stream = golden.codec("zvc", element_bytes).compress(np.ones(nbytes, np.uint8))
                assert engine.shape.worst_stream_bytes(nbytes) == stream.size

    def test_plain_copies(self, engine):
        data = sparse(640)
        host = engine.host.alloc(640)
        engine.memcpy_compressed(host, filled(engine.device, data), 640, OUT, None).check()
        np.testing.assert_array_equal(host.array, data)
        device = engine.device.alloc(1000)
        engine.memcpy_compressed(device.span(360), host, 640, IN, None).check()
        np.testing.assert_array_equal(device.array[360:], data)

    def test_a_stream_that_does_not_fit_is_a_status(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        record = engine.memcpy_compressed(dst.span(0, 100), src, src.nbytes, OUT, tag=9)
        assert record.status is Status.DESTINATION_OVERFLOW
        assert not record.ok
        with pytest.raises(TransferError, match=r"tag 0x9\) ended with DESTINATION_OVERFLOW") as e:
            record.check()
        assert e.value.record is record

    def test_a_wrong_checksum_is_a_status(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        size = engine.memcpy_compressed(dst, src, src.nbytes, OUT).out_size
        record = engine.memcpy_compressed(src, dst, src.nbytes, IN, stream_bytes=size, crc=1)
        assert record.status is Status.CRC_MISMATCH


class TestQueue:
    @pytest.mark.parametrize("entries", [2, 4, 64])
    def test_many_copies_through_a_ring(self, engine, entries):
        machine = ModelMachine()
        engine = Engine(machine, ring_entries=entries, interrupts=engine.interrupts)
        places = pairs(engine, 3 * entries if entries < 64 else 70, 256)
        transfers = [engine.submit(dst, src, 256, OUT) for dst, src in places]
        records = [engine.wait(transfer) for transfer in transfers]
        assert [record.index for record in records] == list(range(len(places)))
        for (dst, src), record in zip(places, records, strict=True):
            stream = golden.codec("zvc", 4).compress(src.array)
            np.testing.assert_array_equal(dst.array[: record.out_size], stream)
        assert engine.pending == 0

    def test_indexes_wrap_around(self):
        machine = ModelMachine()
        engine = Engine(machine, ring_entries=1 << 10)
        (dst, src), *_ = pairs(engine, 1, 4)
        engine._ring.tail = engine._ring.taken = 65535
        machine.head = machine.recorded = 65535
        engine._waiter._told = engine._waiter._done = 65535
        machine.words["RING_TAIL"] = 65535
        for expected in (65535, 0, 1):
            assert engine.memcpy_compressed(dst, src, 4, OUT).index == expected

    def test_a_full_ring_waits_or_refuses(self, engine):
        engine = Engine(ModelMachine(), ring_entries=4, interrupts=engine.interrupts)
        places = pairs(engine, 6)
        transfers = [engine.submit(dst, src, 1024, OUT) for dst, src in places[:4]]
        (dst, src), (other_dst, other_src) = places[4:]
        with pytest.raises(RingFullError, match=r"4 slots are all in use; wait for descriptor 0"):
            engine.submit(dst, src, 1024, OUT, wait_for_slot=False)
        assert src.users == 0
        before = engine.machine.cycles
        transfers.append(engine.submit(dst, src, 1024, OUT))
        assert engine.machine.cycles > before + COPY_CYCLES / 2
        assert transfers[0].done
        transfers.append(engine.submit(other_dst, other_src, 1024, OUT))
        assert [record.index for record in engine.wait_all()] == [2, 3, 4, 5]
        engine.submit(dst, src, 1024, OUT, wait_for_slot=False)

    def test_a_slot_is_used_again_only_when_the_engine_knows_of_the_record(self):
        engine = Engine(ModelMachine(), ring_entries=2)
        places = pairs(engine, 3)
        first, _ = (engine.submit(dst, src, 1024, OUT) for dst, src in places[:2])
        engine.wait(first)
        before = engine.machine.cycles
        engine.submit(*places[2], nbytes=1024, kind=OUT)
        assert engine.machine.cycles - before >= RESPONSE_CYCLES
        engine.wait_all()

    def test_nothing_is_done_before_the_doorbell(self, engine):
        places = pairs(engine, 3)
        for dst, src in places:
            engine.submit(dst, src, 1024, OUT, doorbell=False)
        engine.machine.run(10 * COPY_CYCLES)
        assert engine.poll() == 0
        taken = engine.doorbell()
        assert taken == engine.machine.cycles - 1
        engine.machine.run(10 * COPY_CYCLES)
        assert (engine.poll(), engine.poll(), engine.pending) == (3, 0, 0)

    def test_a_wait_rings_the_doorbell(self, engine):
        for dst, src in pairs(engine, 3):
            engine.submit(dst, src, 1024, OUT, doorbell=False)
        assert len(engine.wait_all()) == 3
        assert engine.wait_all() == []

    def test_tags_are_the_callers_or_the_number(self, engine):
        places = pairs(engine, 3)
        for tag, (dst, src) in zip((None, 0xFFFF_FFFF, None), places, strict=True):
            engine.submit(dst, src, 1024, OUT, tag=tag)
        assert [record.tag for record in engine.wait_all()] == [0, 0xFFFF_FFFF, 2]

    def test_interrupts_are_shared(self):
        def interrupts(**options):
            machine = ModelMachine()
            engine = Engine(machine, interrupts=True, **options)
            for dst, src in pairs(engine, 6):
                engine.submit(dst, src, 1024, OUT)
            engine.wait_all()
            return machine.interrupts

        assert interrupts() == 6
        with pytest.raises(DriverError, match="coalesce_cycles must be at least 1"):
            interrupts(coalesce_count=4)

    def test_an_interrupt_that_is_lost_costs_time_only(self):
        machine = ModelMachine()
        engine = Engine(machine, interrupts=True)
        machine.words["IRQ_ENABLE"] = 0
        (dst, src), *_ = pairs(engine, 1)
        assert engine.memcpy_compressed(dst, src, 1024, OUT).ok


class TestUnderWay:
    def test_copies_that_could_meet_are_refused(self, engine):
        (dst, src), (other, _) = pairs(engine, 2)
        engine.submit(dst, src, 1024, OUT)
        for arguments in (
            (dst, src, 1024, OUT),
            (dst.span(2044), src, 4, OUT),
            (src.span(1020), other, 4, IN),
            (engine.device.alloc(4), dst, 4, IN),
        ):
            with pytest.raises(OverlapError, match=r"still used by descriptor 0 \(COMPRESS_OUT"):
                engine.submit(*arguments, None)
        engine.submit(other, src, 1024, OUT)
        engine.wait_all()
        engine.submit(dst, src, 1024, OUT)

    def test_a_fence_lets_them_follow(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        back = engine.device.alloc(1024)
        engine.submit(dst, src, 1024, OUT, None)
        fence = engine.fence()
        engine.submit(back, dst, 1024, IN, None)
        with pytest.raises(OverlapError, match="descriptor 2"):
            engine.submit(back, dst, 1024, IN, None)
        assert [record.status for record in engine.wait_all()] == [Status.OK] * 3
        assert fence.record is not None
        np.testing.assert_array_equal(back.array, src.array)

    def test_a_fence_that_the_engine_refuses_is_none(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        back = engine.device.alloc(1024)
        engine.submit(dst, src, 1024, OUT, None)
        engine.submit_raw({"opcode": Opcode.FENCE, "length": 1})
        with pytest.raises(OverlapError, match="descriptor 0"):
            engine.submit(back, dst, 1024, IN, None)
        statuses = [record.status for record in engine.wait_all()]
        assert statuses == [Status.OK, Status.BAD_FLAG]

    def test_copies_that_have_ended_are_in_nobodys_way(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        first = engine.submit(dst, src, 1024, OUT)
        engine.machine.run(3 * COPY_CYCLES)
        engine.submit(dst, src, 1024, OUT)
        assert first.done

    def test_parts_of_one_buffer_are_apart(self, engine):
        src = filled(engine.device, sparse(4096))
        dst = engine.host.alloc(4096)
        for start in (1024, 3072, 0, 2048):
            engine.submit(dst.span(start, 1024), src.span(start, 1024), 1024, OUT, None)
        for start, nbytes in ((0, 4), (1020, 8), (2044, 4), (4092, 4), (0, 4096)):
            with pytest.raises(OverlapError, match="still used by descriptor"):
                engine.submit(src.span(start, nbytes), dst.span(start, nbytes), nbytes, IN, None)
        engine.wait_all()
        engine.submit(src, dst, 4096, IN, None)
        assert [record.status for record in engine.wait_all()] == [Status.OK]

    def test_a_copy_costs_the_same_however_many_are_pending(self):
        """In lines of Python; `test_driver_ranges.py` counts comparisons of addresses."""
        engine = Engine(ModelMachine(), ring_entries=2048)
        engine.machine.dead = True
        src, dst = engine.device.alloc(4 * 1100), engine.host.alloc(128 * 1100)

        def submit(number):
            engine.submit(
                dst.span(128 * number, 128), src.span(4 * number, 4), 4, OUT, doorbell=False
            )

        costs = {}
        for number in range(1050):
            if engine.pending in (16, 1000):
                costs[number] = lines_of(lambda: submit(engine.pending))
            else:
                submit(number)
        assert engine.pending == 1050
        assert costs[1000] == costs[16] > 50

    def test_a_buffer_is_not_freed_under_a_copy(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        transfer = engine.submit(dst, src, 1024, OUT)
        for memory, buffer in ((engine.host, dst), (engine.device, src)):
            with pytest.raises(BusyError, match="wait for them"):
                memory.free(buffer)
        engine.wait(transfer)
        engine.host.free(dst)
        engine.device.free(src)
        for where, other in ((dst, src), (engine.host.alloc(4), src)):
            with pytest.raises(UseAfterFreeError):
                engine.submit(where, other, 4, OUT)

    def test_the_ring_is_in_nobodys_buffer(self, engine):
        everything = engine.host.alloc(engine.host.free_bytes)
        assert engine.host.base + 2 * 64 * ENTRY_BYTES == everything.address


class TestPartOfARecord:
    """A bus that hangs within the write of a record may let a part of it through."""

    def test_is_not_taken_for_the_record(self, engine):
        engine.machine.dead = True
        fence = engine.fence()
        start = fence.fields["record"] - engine.host.base
        part = engine.host.array[start : start + ENTRY_BYTES].view(RECORD_DTYPE)[0]
        part["status"], part["phase"] = Status.OK, 1
        assert engine.poll() == 0
        assert engine.pending == 1
        part["index"] = 0
        assert engine.poll() == 1
        assert engine.wait(fence).ok

    def test_of_an_earlier_ring_is_not_believed(self, engine):
        """The slot's former record, before a reset, had the same number."""
        assert engine.wait(engine.fence()).index == 0
        engine.reset()
        engine.machine.dead = True
        fence = engine.fence()
        start = fence.fields["record"] - engine.host.base
        engine.host.array[start : start + ENTRY_BYTES].view(RECORD_DTYPE)[0]["phase"] = 1
        assert engine.poll() == 0


class TestChecks:
    def test_a_span_of_a_freed_buffer_is_refused(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        span = src.span()
        engine.device.free(src)
        with pytest.raises(DriverError, match="has been freed"):
            engine.submit(dst, span, 1024, OUT)

    @pytest.mark.parametrize("fields", GOOD)
    def test_descriptors_that_the_engine_takes(self, fields):
        check(fields, 4)

    @pytest.mark.parametrize(("status", "fields"), BAD)
    def test_descriptors_that_the_engine_refuses(self, status, fields):
        with pytest.raises(DescriptorError) as caught:
            check(fields, 4)
        assert caught.value.status is status
        assert str(caught.value).startswith(f"{caught.value.field} ")

    @pytest.mark.parametrize(
        ("changes", "field", "message"),
        [
            ({"nbytes": 0}, "length", "must be at least 1, not 0"),
            ({"nbytes": 1025}, "length", "must be at most 1024, src's, not 1025"),
            ({"element_bytes": 2}, "element_bytes", "must be 4, which the engine was built for"),
            ({"element_bytes": 4, "codec": None}, "element_bytes", "must be 0 for COPY_OUT"),
            ({"codec": 1}, "codec", "must be 'zvc', 'raw' or None"),
            ({"crc": 7}, "flags", "may have INTERRUPT and VERIFY and THROTTLE_CLASS, not CHECK_C"),
            ({"stream_bytes": 7}, "src_length", "must be 0 for COMPRESS_OUT"),
            ({"verify": True, "codec": None}, "flags", "not VERIFY"),
            ({"throttle_class": 2}, "flags", "throttle class of 0 or 1, not 2"),
            ({"tag": -1}, "tag", "must be 0 to 4294967295, not -1"),
            ({"kind": IN}, "src", "must be in host memory for HOST_TO_DEVICE, not in the device"),
            ({"misalign": "src"}, "src", "must be a multiple of 4"),
            ({"misalign": "dst"}, "dst", "must be a multiple of 4"),
            ({"codec": None, "shorten": "dst"}, "dst_capacity", "must be at least 1024, the leng"),
        ],
    )
    def test_copies_that_cannot_be(self, engine, changes, field, message):
        (dst, src), *_ = pairs(engine, 1)
        options = {"nbytes": 1024, "kind": OUT, "codec": "zvc", **changes}
        places = {"dst": dst.span(), "src": src.span()}
        if misaligned := options.pop("misalign", None):
            places[misaligned] = replace(places[misaligned], offset=2)
        if shortened := options.pop("shorten", None):
            places[shortened] = replace(places[shortened], nbytes=1023)
        before = engine.machine.cycles
        with pytest.raises(DescriptorError, match=message) as caught:
            engine.memcpy_compressed(**places, **options)
        assert caught.value.field == field
        assert engine.machine.cycles == before
        assert (engine.pending, src.users, dst.users) == (0, 0, 0)
        engine.memcpy_compressed(dst, src, 1024, OUT).check()

    @pytest.mark.parametrize("field", ["nbytes", "element_bytes", "stream_bytes", "crc", "tag"])
    @pytest.mark.parametrize("value", [13.7, 4.0, "4", True, np.float32(4)])
    def test_numbers_are_integers(self, engine, field, value):
        (host, device), *_ = pairs(engine, 1)
        options = {"nbytes": 1024, field: value}
        with pytest.raises(DescriptorError, match=rf" must be an integer, not .*{value}"):
            engine.submit(device, host, kind=IN, **options)
        assert (engine.pending, device.users, host.users) == (0, 0, 0)

    def test_numbers_of_numpy_are_integers(self, engine):
        (host, device), *_ = pairs(engine, 1)
        assert engine.memcpy_compressed(host, device, np.int64(1024), OUT, tag=np.uint8(3)).tag == 3

    def test_raw_numbers_are_integers_too(self, engine):
        with pytest.raises(DescriptorError, match=r"length must be an integer, not 1\.5"):
            engine.submit_raw({"opcode": Opcode.COPY_OUT, "length": 1.5})
        assert engine.pending == 0

    @pytest.mark.parametrize("kind", [OUT, IN])
    @pytest.mark.parametrize("nbytes", [1, 1002])
    def test_data_of_a_codec_of_numbers_are_whole_ones(self, kind, nbytes):
        codecs = ("zvc", "raw", "quantize")
        config = EngineConfig(codec=CodecConfig(element_bytes=1, codecs=codecs))
        engine = Engine(ModelMachine(config), codecs=codecs)
        host, device = pairs(engine, 1)[0]
        dst, src = (host, device) if kind is OUT else (device, host)
        cause = "length must be the codec's: the codec 'quantize' takes whole values of 4 bytes"
        with pytest.raises(DescriptorError, match=f"{cause}, not {nbytes} bytes; fill") as caught:
            engine.submit(dst, src, nbytes, kind, "quantize", parameters={"k": 120})
        assert caught.value.field == "length"
        assert (engine.pending, src.users, dst.users) == (0, 0, 0)
        # Others take bytes, and nothing is in their way.
        engine.submit(host, device, nbytes, OUT, "zvc")
        assert engine.pending == 1

    @pytest.mark.parametrize("kind", ["host to device", "DEVICE_TO_HOST", None, 0])
    def test_a_kind_is_a_copy_kind(self, engine, kind):
        (host, device), *_ = pairs(engine, 1)
        message = "kind must be CopyKind.DEVICE_TO_HOST or CopyKind.HOST_TO_DEVICE, not "
        with pytest.raises(DriverError, match=f"{message}{kind!r}"):
            engine.submit(host, device, 1024, kind)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"dst": b"bytes"}, "dst must be a Buffer or a Span, not b'bytes'"),
            ({"src": 0x1000}, "src must be a Buffer or a Span, not 4096"),
            ({"verify": "no"}, "verify must be True or False, not 'no'"),
            ({"codec": 0}, "codec must be 'zvc', 'raw' or None, not 0"),
            ({"parameters": 5}, "parameters must be a mapping from names, not 5"),
            ({"parameters": []}, r"parameters must be a mapping from names, not \[\]"),
        ],
    )
    def test_arguments_of_another_type(self, engine, changes, message):
        (dst, src), *_ = pairs(engine, 1)
        arguments = {"dst": dst, "src": src, "nbytes": 1024, "kind": OUT, **changes}
        with pytest.raises(DriverError, match=message):
            engine.submit(**arguments)

    @pytest.mark.parametrize("wrong", ["dst", "src"])
    def test_buffers_are_of_this_machine(self, engine, wrong):
        other = Engine(ModelMachine())
        places = dict(zip(("dst", "src"), pairs(engine, 1)[0], strict=True))
        foreign = dict(zip(("dst", "src"), pairs(other, 1)[0], strict=True))
        places[wrong] = foreign[wrong]
        before = engine.machine.device.copy(), engine.machine.host.copy()
        message = rf"{wrong} must be in \w+ memory for DEVICE_TO_HOST, .* of another driver"
        with pytest.raises(DescriptorError, match=message) as caught:
            engine.memcpy_compressed(**places, nbytes=1024, kind=OUT)
        assert caught.value.field == wrong
        np.testing.assert_array_equal(engine.machine.device, before[0])
        np.testing.assert_array_equal(engine.machine.host, before[1])

    @pytest.mark.parametrize("part", [(-4, 1028), (4, 1024), (1024, 4), (0, 2048)])
    def test_spans_made_by_hand_are_in_their_buffer(self, engine, part):
        (dst, src), *_ = pairs(engine, 1)
        offset, nbytes = part
        outside = replace(src.span(), offset=offset, nbytes=nbytes)
        with pytest.raises(DescriptorError, match=f"src must lie in .*, not have {nbytes} bytes"):
            engine.submit(dst, outside, 4, OUT)

    def test_span_of_other_numbers_is_refused(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        with pytest.raises(DriverError, match=r"offset of dst must be an integer, not 0\.0"):
            engine.submit(replace(dst.span(), offset=0.0), src, 4, OUT)

    @pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64])
    def test_numbers_of_numpy_are_numbers(self, kind):
        """Sums of addresses and of narrow numbers of numpy would overflow."""
        engine = Engine(ModelMachine(), ring_entries=kind(16))
        first, dst = (engine.host.alloc(kind(120), alignment=kind(64)) for _ in range(2))
        src = engine.device.alloc(kind(64), address=kind(0))
        record = engine.memcpy_compressed(
            dst.span(kind(56), kind(64)), src.span(kind(0)), kind(60), OUT, None, tag=kind(7)
        )
        assert (record.out_size, record.tag) == (60, 7)
        assert dst.address >= first.address + 120
        fields = {"opcode": kind(Opcode.FENCE), "tag": kind(9)}
        assert engine.wait(engine.submit_raw(fields)).tag == 9
        with pytest.raises(DriverError, match="has no 200 bytes at offset 100"):
            dst.span(kind(100), kind(200))

    def test_nonsense_instead_of_transfers_and_descriptors(self, engine):
        with pytest.raises(DriverError, match="transfer must be what submit returns, not None"):
            engine.wait(None)
        with pytest.raises(DriverError, match="fields must be a mapping from names, not 5"):
            engine.submit_raw(5)

    def test_refused_descriptor_does_not_wait_for_a_slot(self):
        engine = Engine(ModelMachine(), ring_entries=2)
        for dst, src in pairs(engine, 2):
            engine.submit(dst, src, 1024, OUT)
        before = engine.machine.cycles
        with pytest.raises(DescriptorError, match="tag must be 0 to 4294967295, not 4294967296"):
            engine.submit_raw({"opcode": Opcode.FENCE, "tag": 1 << 32})
        assert (engine.pending, engine.machine.cycles) == (2, before)

    def test_transfers_are_waited_for_where_they_are(self, engine):
        other = Engine(ModelMachine())
        (dst, src), *_ = pairs(engine, 1)
        transfer = engine.submit(dst, src, 1024, OUT)
        with pytest.raises(DriverError, match=r"descriptor 0 .* is of another engine; wait with"):
            other.wait(transfer)
        assert engine.wait(transfer).ok
        assert other.wait(transfer).ok

    def test_a_stream_must_be_in_its_buffer(self, engine):
        (host, device), *_ = pairs(engine, 1)
        with pytest.raises(DescriptorError, match="src_length must be at most 2048, src's"):
            engine.submit(device, host, 1024, IN, stream_bytes=2049)

    @pytest.mark.parametrize(
        ("status", "fields"),
        [
            (Status.BAD_OPCODE, {"opcode": 9}),
            (Status.BAD_FLAG, {"opcode": Opcode.FENCE, "flags": 0x80}),
            (Status.MISALIGNED, {"opcode": Opcode.COPY_OUT, "src": 2, "length": 4}),
            (Status.BAD_LENGTH, {"opcode": Opcode.COPY_IN, "src": 0x8000}),
        ],
    )
    def test_raw_descriptors_reach_the_engine(self, engine, status, fields):
        with pytest.raises(DescriptorError):
            engine.submit_raw(fields, checks=True)
        assert engine.wait(engine.submit_raw(fields)).status is status
        assert engine.first_error().status is status

    def test_records_may_have_a_place_of_their_own(self, engine):
        place = engine.host.alloc(256)
        for _ in range(2):
            record = engine.wait(engine.submit_raw({"opcode": 5, "record": place.address + 64}))
            assert record.status is Status.OK
        # The engine aligns the address, and says what it thinks of it.
        record = engine.wait(engine.submit_raw({"opcode": 5, "record": place.address + 136}))
        assert record.status is Status.MISALIGNED
        assert place.array.reshape(4, 64).any(axis=1).tolist() == [False, True, True, False]

    def test_fields_that_do_not_fit(self):
        with pytest.raises(DescriptorError, match="opcode must be 0 to 255, not 256"):
            packed({"opcode": 256})
        with pytest.raises(DescriptorError, match="size must be one of opcode, codec"):
            packed({"size": 1})


class TestTrouble:
    def test_no_engine(self):
        for name, word, message in (
            ("ID", 0x1234, "register ID must be 0x43444d41, not 0x1234"),
            ("VERSION", 9 << 16, "VERSION.major must be 0, which this driver is for, not 9"),
            ("CONFIG0", 0x0204_2005, "CONFIG0.units must be 6, as the ports have it, not 5"),
        ):
            machine = ModelMachine()
            machine.words[name] = word
            with pytest.raises(IdentityError, match=message):
                Engine(machine)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"ring_entries": 3}, "ring_entries must be a power of two, 2 to 32768, not 3"),
            ({"ring_entries": 65536}, "ring_entries must be a power of two"),
            ({"timeout_cycles": -1}, "timeout_cycles must be 0 to 4294967295, not -1"),
            ({"coalesce_count": 65536, "coalesce_cycles": 1}, "coalesce_count must be 0 to 65535"),
            ({"ring_entries": 64.0}, "ring_entries must be a power of two, 2 to 32768, not 64.0"),
            ({"timeout_cycles": 1.5}, "timeout_cycles must be an integer, 0 to 4294967295, not 1"),
            ({"interrupts": "no"}, "interrupts must be True or False, not 'no'"),
            ({"throttles": (throttle("none"),)}, "throttles must be 2, one for each class, not 1"),
            ({"throttles": ("none", "none")}, "throttle must be a Throttle, not 'none'"),
        ],
    )
    def test_settings_that_cannot_be(self, options, message):
        with pytest.raises(DriverError, match=message):
            Engine(ModelMachine(), **options)

    def test_an_engine_that_does_nothing(self, engine):
        engine.machine.dead = True
        (dst, src), *_ = pairs(engine, 1)
        message = r"descriptor 0 \(COMPRESS_OUT, tag 0x0\) has no record, and nothing has moved for"
        with pytest.raises(StuckError, match=message):
            engine.memcpy_compressed(dst, src, 1024, OUT)

    def test_a_record_that_cannot_be_written(self, engine):
        places = pairs(engine, 4)
        engine.machine.loses = {1}
        transfers = [engine.submit(dst, src, 1024, OUT) for dst, src in places]
        assert engine.wait(transfers[0]).ok
        with pytest.raises(RingError, match=r"stopped, and descriptor 1 .* has no record; first"):
            engine.wait(transfers[2])
        engine.machine.dead = False
        engine.machine.loses = set()
        engine.reset()
        with pytest.raises(DroppedError, match=r"descriptor 2 .* before its record came"):
            engine.wait(transfers[2])
        assert all(engine.memcpy_compressed(*place, 1024, OUT).ok for place in places)

    def test_a_ring_that_stops_before_a_long_copy_ends(self, engine, monkeypatch):
        """The copy's record comes late, and no other will."""
        monkeypatch.setattr("tests.sim.machine.engine.model.COPY_CYCLES", 35_000)
        machine = engine.machine
        refuse_standstill(machine)
        (dst, src), *_ = pairs(engine, 1)
        copy = engine.submit(dst, src, 1024, OUT)
        machine._stop()
        fence = engine.fence()
        assert engine.wait(copy).ok
        with pytest.raises(RingError, match=r"stopped, and descriptor 1 \(FENCE.* has no record"):
            engine.wait(fence)

    def test_records_that_came_with_the_end_of_the_ring_count(self, engine):
        """A transfer that the engine finished before it stopped is done, whoever looks first."""
        places = pairs(engine, 2)
        transfers = [engine.submit(dst, src, 1024, OUT) for dst, src in places]
        fence = engine.fence()
        engine.machine.run(3 * COPY_CYCLES)
        engine.machine._stop()
        assert [engine.wait(transfer).ok for transfer in reversed(transfers)] == [True, True]
        assert engine.wait(fence).ok

    def test_abort(self, engine):
        places = pairs(engine, 8)
        transfers = [engine.submit(dst, src, 1024, OUT) for dst, src in places]
        engine.wait(transfers[1])
        engine.abort()
        assert [transfer.done for transfer in transfers[:6]] == [True] * 6
        statuses = [engine.wait(transfer).status for transfer in transfers]
        good, aborted = statuses[:2], statuses[2 : 2 + PREFETCH]
        assert (good, aborted) == ([Status.OK] * 2, [Status.ABORTED] * PREFETCH)
        assert statuses[2 + PREFETCH :] == [Status.OK] * 2

    def test_reset_drops_what_was_not_fetched(self, engine):
        engine = Engine(ModelMachine(), ring_entries=8, interrupts=engine.interrupts)
        places = pairs(engine, 8)
        engine.memcpy_compressed(*places[0], 1024, OUT)
        transfers = [engine.submit(dst, src, 1024, OUT) for dst, src in places]
        engine.reset()
        statuses = [transfer.record and transfer.record.status for transfer in transfers]
        assert statuses == [Status.ABORTED] * PREFETCH + [None] * 4
        assert all(transfer.dropped for transfer in transfers[PREFETCH:])
        assert {buffer.users for place in places for buffer in place} == {0}
        # The ring begins again, with the phase of its first lap.
        again = [engine.submit(dst, src, 1024, OUT, doorbell=False) for dst, src in places]
        assert [engine.wait(transfer).index for transfer in again] == list(range(8))

    def test_the_doorbell_rings_after_a_reset_as_before(self, engine):
        places = pairs(engine, 3)
        for _ in range(2):
            for dst, src in places:
                engine.submit(dst, src, 1024, OUT, doorbell=False)
            assert [record.index for record in engine.wait_all()] == [0, 1, 2]
            engine.reset()

    def test_the_first_error_is_kept(self, engine):
        assert engine.first_error() is None
        for tag in (5, 6):
            engine.wait(engine.submit_raw({"opcode": 9, "tag": tag}))
        first = engine.first_error()
        assert (first.status, first.tag) == (Status.BAD_OPCODE, 5)
        engine.clear_error()
        assert engine.first_error() is None


class TestOneAtATime:
    def test_a_machine_has_one_driver(self):
        machine = ModelMachine()
        engine = Engine(machine)
        with pytest.raises(DriverError, match="the machine has a driver already; use this engine"):
            Engine(machine)
        (dst, src), *_ = pairs(engine, 1)
        assert engine.memcpy_compressed(dst, src, 1024, OUT).ok

    def test_a_closed_driver_makes_room_for_another(self):
        machine = ModelMachine()
        first = Engine(machine)
        (dst, src), *_ = pairs(first, 1)
        first.close()
        first.close()
        second = Engine(machine)
        assert second.memcpy_compressed(*pairs(second, 1)[0], nbytes=1024, kind=OUT).ok
        for use in (
            lambda: first.submit(dst, src, 1024, OUT),
            first.counters,
            lambda: first.host.alloc(4),
            lambda: first.host.free(dst),
        ):
            with pytest.raises(DriverError, match="this engine's driver is closed; make another"):
                use()

    def test_a_forgotten_driver_makes_room_for_another(self):
        machine = ModelMachine()
        Engine(machine)
        Engine(machine)

    def test_a_driver_that_could_not_start_makes_room_for_another(self):
        machine = ModelMachine()
        right = machine.words["ID"]
        machine.words["ID"] = 5
        with pytest.raises(IdentityError) as kept:
            Engine(machine)
        machine.words["ID"] = right
        assert Engine(machine).pending == 0
        assert kept.value

    def test_a_second_thread_is_refused(self, engine):
        """Whatever it calls, while the first one waits; and the first one does not notice."""
        machine = engine.machine
        places = pairs(engine, 2)
        inside, go_on = threading.Event(), threading.Event()
        run_until_word, run_until_irq = machine.run_until_word, machine.run_until_irq

        def stopping(function):
            def stopped(*arguments, **options):
                inside.set()
                assert go_on.wait(60)
                return function(*arguments, **options)

            return stopped

        machine.run_until_word = stopping(run_until_word)
        machine.run_until_irq = stopping(run_until_irq)
        records = []
        thread = threading.Thread(
            target=lambda: records.append(engine.memcpy_compressed(*places[0], 1024, OUT))
        )
        thread.start()
        try:
            assert inside.wait(60)
            calls = (
                lambda: engine.submit(*places[1], 1024, OUT),
                engine.fence,
                lambda: engine.submit_raw({"opcode": Opcode.FENCE}),
                engine.doorbell,
                engine.poll,
                engine.wait_all,
                engine.abort,
                engine.reset,
                engine.close,
                engine.counters,
                engine.clear_counters,
                engine.first_error,
                engine.clear_error,
                lambda: engine.set_throttle(0, throttle("none")),
                lambda: engine.host.alloc(4),
                lambda: engine.device.free(places[1][1]),
            )
            for call in calls:
                with pytest.raises(ConcurrentUseError, match="let one thread call it at a time"):
                    call()
        finally:
            go_on.set()
            thread.join(60)
        assert [record.ok for record in records] == [True]
        assert engine.memcpy_compressed(*places[1], 1024, OUT).ok


class TestThrottles:
    def test_policies_are_the_papers(self):
        assert {name: policy.bytes_per_s for name, policy in THROTTLES.items()} == {
            "none": 0,
            "performance-optimal": 200e9,
            "bandwidth-aware": 48e9,
        }
        with pytest.raises(ConfigError, match=r"throttle must be one of none, perf.*, not 'fast'"):
            throttle("fast")

    @pytest.mark.parametrize("name", ["performance-optimal", "bandwidth-aware"])
    @pytest.mark.parametrize("clock_hz", [1e9, 1.3e9, 250e6])
    def test_no_window_has_more_than_the_rate(self, name, clock_hz):
        policy = throttle(name)
        window = 10e-6 * clock_hz
        let_through = policy.rate(clock_hz) / 256 * window + policy.burst_bytes
        assert 0.99 * policy.bytes_per_s * 10e-6 < let_through <= policy.bytes_per_s * 10e-6

    @pytest.mark.parametrize("rate", [1e15, 1e8, -1.0])
    def test_rates_that_the_register_cannot_hold(self, rate):
        with pytest.raises(ConfigError, match="bytes_per_s of throttle odd must be"):
            Throttle(name="odd", bytes_per_s=rate).rate(1e9)

    def test_bursts_are_whole_bytes(self):
        with pytest.raises(ConfigError, match=r"and burst_bytes 0 to \d+, not 4.8e\+10 and 64\.5"):
            Throttle(name="odd", bytes_per_s=48e9, burst_bytes=64.5).rate(1e9)

    @pytest.mark.parametrize("throttle_class", [-1, 2, 0.5, "0"])
    def test_there_are_two_classes(self, engine, throttle_class):
        with pytest.raises(DriverError, match="throttle_class must be"):
            engine.set_throttle(throttle_class, throttle("none"))

    def test_classes_have_registers_of_their_own(self, engine):
        words = engine.machine.words
        assert (words["THROTTLE0_RATE"], words["THROTTLE1_RATE"]) == (0, 0)
        engine.set_throttle(1, throttle("bandwidth-aware"))
        assert (words["THROTTLE0_RATE"], words["THROTTLE1_BURST"]) == (0, 4096)
        assert words["THROTTLE1_RATE"] == throttle("bandwidth-aware").rate(1e9)
        (dst, src), *_ = pairs(engine, 1)
        transfer = engine.submit(dst, src, 1024, OUT, throttle_class=1)
        assert transfer.fields["flags"] & Flag.THROTTLE_CLASS
        engine.reset()
        assert words["THROTTLE1_RATE"] == throttle("bandwidth-aware").rate(1e9)


def test_counters_have_the_registers_names(engine):
    engine.machine.words["RAW_BYTES_OUT_LO"] = 7
    engine.machine.words["RAW_BYTES_OUT_HI"] = 1
    engine.machine.words["RESERVATION_HIGH_WATER_LO"] = 9
    counters = engine.counters()
    assert counters["raw_bytes_out"] == 1 << 32 | 7
    assert counters["reservation_high_water"] == 9
    assert "error_addr" not in counters
    assert len(counters) == 16
