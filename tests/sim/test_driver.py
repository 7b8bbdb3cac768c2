"""The driver: rings, doorbells, interrupts and checks, on an engine of Python."""

from dataclasses import replace

import numpy as np
import pytest

import golden
from hw.config import CodecConfig, EngineConfig
from hw.dma.descriptor import ENTRY_BYTES, Codec, Flag, Opcode, Status
from sim.driver import (
    THROTTLES,
    BusyError,
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
    throttle,
)
from sim.driver.descriptor import check, packed
from tests.hw.test_dma_descriptor import BAD, GOOD
from tests.sim.engine_model import COPY_CYCLES, PREFETCH, RESPONSE_CYCLES, ModelMachine

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


@pytest.fixture(params=MODES, ids=["polling", "interrupts"])
def engine(request):
    return Engine(ModelMachine(), **request.param)


class TestCopies:
    @pytest.mark.parametrize("nbytes", [1, 127, 128, 5000])
    def test_out_and_back(self, engine, nbytes):
        data = sparse(8192)[:nbytes]
        src = filled(engine.device, data)
        stream = engine.host.alloc(engine.shape.worst_stream_bytes(nbytes))
        out = engine.memcpy_compressed(stream, src, nbytes, OUT, Codec.ZVC)
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
            engine.submit(dst, src, 1024, OUT, wait_for_room=False)
        assert src.users == 0
        before = engine.machine.cycles
        transfers.append(engine.submit(dst, src, 1024, OUT))
        assert engine.machine.cycles > before + COPY_CYCLES / 2
        assert transfers[0].done
        transfers.append(engine.submit(other_dst, other_src, 1024, OUT))
        assert [record.index for record in engine.wait_all()] == [2, 3, 4, 5]
        engine.submit(dst, src, 1024, OUT, wait_for_room=False)

    def test_a_slot_is_used_again_only_when_the_engine_knows_of_the_record(self):
        engine = Engine(ModelMachine(), ring_entries=2)
        places = pairs(engine, 3)
        first, _ = (engine.submit(dst, src, 1024, OUT) for dst, src in places[:2])
        engine.wait(first)
        before = engine.machine.cycles
        engine.submit(*places[2], 1024, OUT)
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

    def test_copies_that_have_ended_are_in_nobodys_way(self, engine):
        (dst, src), *_ = pairs(engine, 1)
        first = engine.submit(dst, src, 1024, OUT)
        engine.machine.run(3 * COPY_CYCLES)
        engine.submit(dst, src, 1024, OUT)
        assert first.done

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


class TestChecks:
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
            ({"codec": 1}, "codec", "must be ZVC or None"),
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
        options = {"nbytes": 1024, "kind": OUT, "codec": Codec.ZVC, **changes}
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
        with pytest.raises(DroppedError, match=r"descriptor 2 .* before it had fetched it"):
            engine.wait(transfers[2])
        assert all(engine.memcpy_compressed(*place, 1024, OUT).ok for place in places)

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


class TestThrottles:
    def test_policies_are_the_papers(self):
        assert {name: policy.bytes_per_s for name, policy in THROTTLES.items()} == {
            "none": 0,
            "performance-optimal": 200e9,
            "bandwidth-aware": 48e9,
        }
        with pytest.raises(DriverError, match=r"throttle must be one of none, perf.*, not 'fast'"):
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
        with pytest.raises(DriverError, match="bytes_per_s of throttle odd must be"):
            Throttle(name="odd", bytes_per_s=rate).rate(1e9)

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
