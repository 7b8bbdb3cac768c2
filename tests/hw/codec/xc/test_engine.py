"""XC in the engine beside ZVC and copies, by the driver: out, back, and damaged streams."""

from dataclasses import replace

import numpy as np
import pytest

from cdma import golden
from cdma.golden import LINE_BYTES
from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.golden.formats.xc.decoder import decode
from cdma.hw.codec.registry import line_codec
from cdma.hw.codec.xc.codec import ELEMENT_FORMATS, codec_name
from cdma.hw.dma.control.descriptor import Status
from cdma.sim.driver import THROTTLES, CopyKind, Engine, TensorParameters
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap import EngineBackend, Swapper
from tests.hw.codec.xc.lines import BF16, codings, elements_of, in_format, lines_of
from tests.hw.codec.xc.lines import golden as xc_model
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
SIZES = (2, 126, 128, 130, 1000, 4096, 10_004)
CONFIG = replace(SMALL, codec=replace(SMALL.codec, element_bytes=1, codecs=("zvc", "raw", "xc")))
ONE_UNIT = replace(CONFIG, units=1)
FORMATS = replace(
    ONE_UNIT, codec=replace(CONFIG.codec, codecs=("zvc", "raw", *map(codec_name, ELEMENT_FORMATS)))
)
"""Of all element formats."""
ENTRY = line_codec("xc")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((ONE_UNIT, 0.3), id="one-unit", marks=pytest.mark.verify),
        # Lines of several units; twice as long to build.
        pytest.param((CONFIG, 0.0), id="free", marks=pytest.mark.verify),
        pytest.param((CONFIG, 0.3), id="stalled", marks=pytest.mark.verify),
        pytest.param((FORMATS, 0.2), id="formats", marks=pytest.mark.verify),
    ],
)
def engine(request):
    config, stalls = request.param
    machine = Machine(
        generated_engine(config),
        replace(NEAR, channels=config.units),
        device_bytes=1 << 20,
        host_bytes=1 << 20,
        stalls=stalls,
        seed=3,
    )
    yield Engine(machine, codecs=config.codec.codecs)
    machine.close()


def content(nbytes, seed, elements=BF16):
    lines = lines_of(elements, np.random.default_rng(seed), -(-nbytes // 128))
    return lines.reshape(-1)[:nbytes].copy()


def coding_of(codec, number):
    return codings(elements_of(codec) or BF16)[number % 4]


def model_of(codec, coding):
    elements = elements_of(codec)
    return xc_model(*coding, elements=elements) if elements else golden.codec(codec or "raw", 1)


def parameters_of(codec, coding):
    return dict(zip(("centre", "pattern"), coding, strict=True)) if elements_of(codec) else {}


def xc_codecs(engine):
    return [name for name in engine.shape.codecs if elements_of(name)]


def room(engine, nbytes, codec):
    return nbytes if codec is None else engine.shape.worst_stream_bytes(nbytes, codec)


def test_data_goes_out_and_comes_back_in_each_codec(engine):
    """All at once, so that lines of different codecs and parameters meet in the units."""
    round_trips = []
    codecs = (*xc_codecs(engine), "zvc", None)
    for number, (nbytes, codec) in enumerate((n, c) for n in SIZES for c in codecs):
        data = content(nbytes, number, elements_of(codec) or BF16)
        coding = coding_of(codec, number)
        device = engine.device.alloc(nbytes)
        host = engine.host.alloc(room(engine, nbytes, codec))
        device.array[:] = data
        parameters = parameters_of(codec, coding)
        sent = engine.submit(
            host, device, nbytes, OUT, codec, parameters=parameters, doorbell=False
        )
        round_trips.append((data, codec, coding, device, host, sent))
    engine.doorbell()
    for data, codec, coding, _, host, sent in round_trips:
        record = engine.wait(sent).check()
        want = model_of(codec, coding).compress(data)
        np.testing.assert_array_equal(host.array[: record.out_size], want[: record.out_size])
        assert record.out_size == (data.size if codec is None else want.size)
        assert record.crc32 == golden.crc32(data)
        if elements_of(codec):
            entry = line_codec(codec)
            assert entry.unpacked_result(record.result) == entry.recorded_result(data)
        else:
            assert record.result == 0
    back = []
    for data, codec, coding, device, host, sent in round_trips:
        device.array[:] = 0xA5
        got = engine.submit(
            device,
            host,
            data.size,
            IN,
            codec,
            stream_bytes=None if codec is None else sent.result().out_size,
            crc=None if codec is None else golden.crc32(data),
            parameters=parameters_of(codec, coding),
            doorbell=False,
        )
        back.append(got)
    engine.doorbell()
    for (data, _, _, device, host, _), got in zip(round_trips, back, strict=True):
        engine.wait(got).check()
        np.testing.assert_array_equal(device.array, data)
        engine.device.free(device)
        engine.host.free(host)


def test_bytes_come_from_any_place_in_a_beat_and_go_to_any(engine):
    """Each codec at all offsets that its elements have, in both memories and both ways; every
    other time the first line is the second unit's."""
    beat, nbytes = 32, 294
    places = LINE_BYTES + 2 * beat + nbytes
    device, back = engine.device.alloc(places), engine.device.alloc(places)
    host = engine.host.alloc(LINE_BYTES + beat + room(engine, nbytes, "zvc"))
    codecs = (*xc_codecs(engine), "zvc", None)
    for number, (codec, offset) in enumerate((c, k) for c in codecs for k in range(beat)):
        size = elements_of(codec).element_bytes if elements_of(codec) else 1
        first = number % 2 * LINE_BYTES
        starts = [first + (offset + 3) * turn % beat // size * size for turn in (1, 5, 11)]
        taken = nbytes // 4 * 4
        data = content(taken, number, elements_of(codec) or BF16)
        source, middle, target = (
            buffer.span(start) for buffer, start in zip((device, host, back), starts, strict=True)
        )
        back.array[:] = guard = 0xA5
        source.array[:taken] = data
        parameters = parameters_of(codec, coding_of(codec, number))
        out = engine.memcpy_compressed(middle, source, taken, OUT, codec, parameters=parameters)
        engine.memcpy_compressed(
            target,
            middle,
            taken,
            IN,
            codec,
            stream_bytes=None if codec is None else out.out_size,
            parameters=parameters,
        ).check()
        np.testing.assert_array_equal(target.array[:taken], data)
        assert (back.array[: starts[2]] == guard).all()
        assert (target.array[taken:] == guard).all()
    for buffer in (device, back):
        engine.device.free(buffer)
    engine.host.free(host)


def test_each_transfer_has_what_the_record_before_it_recommends(engine):
    """Weights around 2^-30, of which nothing is known before: the second stream is good."""
    tensors, sizes = TensorParameters("xc"), []
    device, host = engine.device.alloc(16384), engine.host.alloc(16512)
    for seed in range(3):
        values = np.random.default_rng(seed).normal(size=8192).astype(np.float32) * 2.0**-30
        data = rounded_to_bf16(values)
        device.array[:] = data.view(np.uint8)
        parameters = tensors.parameters("weights", "bfloat16")
        sent = engine.submit(host, device, 16384, OUT, "xc", parameters=parameters)
        record = engine.wait(sent).check()
        assert tensors.learn("weights", "bfloat16", sent)
        recommended = ENTRY.parameters_from_result(ENTRY.recorded_result(data.view(np.uint8)))
        assert tensors.parameters("weights", "bfloat16") == recommended
        best = golden.codec("xc", 2).fitted(data).compress(data).size
        sizes.append(record.out_size / best)
    assert sizes[0] > 1.4
    # Of 16 KiB only some 50 elements are sampled.
    assert max(sizes[1:]) < 1.02
    engine.device.free(device)
    engine.host.free(host)


def test_long_transfers_are_sampled_as_golden_samples_them(engine):
    """So long that counters of samples are halved again and again."""
    nbytes = 384 * 1024
    device, host = engine.device.alloc(nbytes), engine.host.alloc(room(engine, nbytes, "xc"))
    rng = np.random.default_rng(8)
    scales = np.repeat(2.0 ** rng.integers(-20, 4, 6), nbytes // 12).astype(np.float32)
    data = rounded_to_bf16(scales * rng.standard_normal(nbytes // 2).astype(np.float32))
    data = data.view(np.uint8)
    device.array[:] = data
    for codec in xc_codecs(engine):
        entry = line_codec(codec)
        sent = engine.submit(host, device, nbytes, OUT, codec)
        assert entry.unpacked_result(engine.wait(sent).check().result) == entry.recorded_result(
            data
        )
    engine.device.free(device)
    engine.host.free(host)


@pytest.mark.parametrize("seed", range(12))
def test_malformed_streams_are_answered_as_golden_answers_them(engine, seed):
    for turn in range(20):
        check_malformed(engine, seed, np.random.default_rng([7, seed, turn]))


def check_malformed(engine, seed, rng):
    codecs = xc_codecs(engine)
    codec = codecs[seed % len(codecs)]
    elements = elements_of(codec)
    data = content(2000, seed, elements)
    centre, pattern = coding_of(codec, seed)
    model = xc_model(centre, pattern, elements)
    stream = model.compress(data)
    if seed % 3 == 0:
        stream = stream[: rng.integers(1, stream.size)]
    else:
        stream[rng.integers(0, stream.size)] ^= 1 << rng.integers(0, 8)
    device, host = engine.device.alloc(2000), engine.host.alloc(stream.size)
    device.array[:] = 0xA5
    host.array[:] = stream
    crc = golden.crc32(data)
    want = decode(stream, data.size, model.coding, crc)
    record = engine.memcpy_compressed(
        device,
        host,
        data.size,
        IN,
        codec,
        stream_bytes=stream.size,
        crc=crc,
        parameters={"centre": centre, "pattern": pattern},
    )
    expected = {
        golden.StreamStatus.MASK_TRUNCATED: Status.STREAM_TRUNCATED,
        golden.StreamStatus.PAYLOAD_TRUNCATED: Status.STREAM_TRUNCATED,
        golden.StreamStatus.CRC_MISMATCH: Status.CRC_MISMATCH,
    }
    assert record.status == expected.get(want.status, Status.STREAM_CORRUPT)
    if want.status != golden.StreamStatus.CRC_MISMATCH:
        assert record.detail == want.status
        assert record.fault_address == want.offset
        assert record.out_size == want.valid_bytes
    np.testing.assert_array_equal(device.array[: want.valid_bytes], want.data)
    engine.device.free(device)
    engine.host.free(host)


@pytest.mark.verify
def test_arrays_are_swapped_with_the_parameters_that_suit_them():
    """Weights around 2^-10 and activations around 2^3 in one queue, each with its own centre."""
    backend = EngineBackend(
        ONE_UNIT, replace(NEAR, channels=ONE_UNIT.units), throttle=THROTTLES["none"], codec="xc"
    )
    rng = np.random.default_rng(5)
    arrays = [
        (name, rounded_to_bf16(rng.standard_normal(count).astype(np.float32) * scale))
        for name, count, scale in (("weights", 6000, 2.0**-10), ("one", 1, 1.0), ("acts", 999, 8.0))
    ]
    arrays.append(("nothing", np.empty(0, np.uint16)))
    with Swapper(backend) as swapper:
        run = swapper.swap(arrays)
    assert [one.faults for one in run.round_trips] == [()] * 4
    sizes = [one.compressed_bytes for one in run.round_trips]
    best = [golden.codec("xc", 2).fitted(array).compress(array).size for _, array in arrays]
    assert sizes == best
    weights = run.round_trips[0]
    assert weights.nbytes / weights.compressed_bytes > 1.3
    assert weights.baseline_bytes["zvc"] > weights.nbytes


@pytest.mark.verify
def test_auto_finds_the_element_format_in_which_arrays_are_smallest():
    """Not always their own: of e4m3 numbers, the first bit of the mantissa is coded as well."""
    backend = EngineBackend(
        FORMATS, replace(NEAR, channels=FORMATS.units), throttle=THROTTLES["none"], codec="auto"
    )
    values = np.random.default_rng(6).standard_normal(4096).astype(np.float32)
    arrays = [
        (form.name, in_format(form, values).view(f"<u{form.element_bytes}"))
        for form in ELEMENT_FORMATS
    ]
    with Swapper(backend) as swapper:
        run = swapper.swap(arrays)
    assert [one.faults for one in run.round_trips] == [()] * len(arrays)
    chosen = [one.codec for one in run.round_trips]
    assert chosen == ["xc", "xc-fp16", "xc-e5m2", "xc-e5m2", "xc-fp32"]
    for (_, array), one in zip(arrays, run.round_trips, strict=True):
        form = elements_of(one.codec)
        best = xc_model(0, 0, form).fitted(array).compress(array).size
        assert one.compressed_bytes == best < 0.9 * array.nbytes


def test_elements_that_are_no_bf16_are_refused_before_any_rtl():
    backend = EngineBackend(
        ONE_UNIT, replace(NEAR, channels=ONE_UNIT.units), throttle=THROTTLES["none"], codec="xc"
    )
    with Swapper(backend) as swapper:
        with pytest.raises(
            golden.CodecError, match="takes elements of 2 bytes, which are bf16, not 4"
        ):
            swapper.swap([("x", np.ones(4, np.float32))])
