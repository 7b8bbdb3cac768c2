"""The lossy lane in the engine beside ZVC and copies, by the driver: out and back, within k."""

from dataclasses import replace

import numpy as np
import pytest

from cdma import golden
from cdma.golden.formats.lossy.power_of_two import bound_of
from cdma.hw.dma.control.descriptor import Status
from cdma.sim.driver import THROTTLES, CopyKind, Engine
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap import EngineBackend, Swapper
from tests.hw.codec.quantize.lines import fp32_lines
from tests.hw.codec.quantize.lines import golden as model_of
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL

pytestmark = pytest.mark.verify

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
SIZES = (4, 124, 128, 132, 1000, 4096, 10_004)
KS = (127, 1, 118, 233, 254)
CONFIG = replace(
    SMALL,
    units=1,
    codec=replace(SMALL.codec, element_bytes=1, codecs=("zvc", "raw", "quantize")),
)


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["free", "stalled"])
def engine(request):
    machine = Machine(
        generated_engine(CONFIG),
        replace(NEAR, channels=CONFIG.units),
        device_bytes=1 << 20,
        host_bytes=1 << 20,
        stalls=request.param,
        seed=3,
    )
    yield Engine(machine, codecs=CONFIG.codec.codecs)
    machine.close()


def content(nbytes, k):
    lines = fp32_lines(np.random.default_rng([nbytes, k]), -(-nbytes // 128), k)
    return lines.reshape(-1)[:nbytes].copy()


def sent_and_returned(data, codec, k):
    """The golden stream of some data, and what comes back of it."""
    if codec != "quantize":
        model = golden.codec(codec or "raw", 1)
        return model.compress(data), data
    stream = model_of(k).compress(data.view("<f4"))
    return stream, model_of(k).decompress(stream, data.size)


def test_data_goes_out_and_comes_back_within_its_bound(engine):
    """All at once, so that lines of different codecs and bounds meet in the units."""
    journeys = []
    for number, (nbytes, codec) in enumerate(
        (n, c) for n in SIZES for c in ("quantize", "zvc", "quantize", None)
    ):
        k = KS[number % len(KS)]
        data = content(nbytes, k)
        device = engine.device.alloc(nbytes)
        room = nbytes if codec is None else engine.shape.worst_stream_bytes(nbytes, codec)
        host = engine.host.alloc(room)
        device.array[:] = data
        parameters = {"k": k} if codec == "quantize" else {}
        sent = engine.submit(
            host, device, nbytes, OUT, codec, parameters=parameters, doorbell=False
        )
        journeys.append((data, codec, k, parameters, device, host, sent))
    engine.doorbell()
    back = []
    for data, codec, k, _, _, host, sent in journeys:
        record = engine.wait(sent).check()
        stream, returned = sent_and_returned(data, codec, k)
        np.testing.assert_array_equal(host.array[: record.out_size], stream)
        # What was sent can be checked only by what comes back.
        assert record.crc32 == golden.crc32(returned)
    for data, codec, k, parameters, device, host, sent in journeys:
        record = sent.result()
        device.array[:] = 0xA5
        got = engine.submit(
            device,
            host,
            data.size,
            IN,
            codec,
            stream_bytes=None if codec is None else record.out_size,
            crc=None if codec is None else record.crc32,
            parameters=parameters,
            doorbell=False,
        )
        back.append((got, sent_and_returned(data, codec, k)[1]))
    engine.doorbell()
    for (got, returned), (_, _, _, _, device, host, _) in zip(back, journeys, strict=True):
        engine.wait(got).check()
        np.testing.assert_array_equal(device.array, returned)
        engine.device.free(device)
        engine.host.free(host)


def test_engine_verifies_what_it_has_written(engine):
    data = content(1000, 120)
    device, host = engine.device.alloc(1000), engine.host.alloc(1040)
    device.array[:] = data
    record = engine.memcpy_compressed(
        host, device, 1000, OUT, "quantize", verify=True, parameters={"k": 120}
    )
    assert record.status in (Status.OK, Status.OK_EXPANDED)
    engine.device.free(device)
    engine.host.free(host)


def test_damaged_streams_are_reported_where_the_golden_model_finds_them(engine):
    k, nbytes = 127, 1280
    data = content(nbytes, k)
    stream, _ = sent_and_returned(data, "quantize", k)
    sizes = model_of(k).line_sizes(data.view("<f4"))
    starts = np.cumsum(sizes) - sizes
    rng = np.random.default_rng(5)
    found = set()
    for line in range(len(sizes)):
        bad = stream.copy()
        bad[starts[line]] ^= rng.choice([0xC0, 0x40, 0x03])
        for damaged in (bad, stream[: starts[line] + 1], stream[: starts[line]]):
            if not damaged.size:
                continue
            device, host = engine.device.alloc(nbytes), engine.host.alloc(1500)
            host.array[: damaged.size] = damaged
            record = engine.memcpy_compressed(
                device, host, nbytes, IN, "quantize",
                stream_bytes=int(damaged.size), parameters={"k": k},
            )  # fmt: skip
            # Damage to a header can leave lines that are right, of other numbers.
            status = golden.StreamStatus.OK
            try:
                restored = model_of(k).decompress(damaged, nbytes)
            except golden.StreamError as error:
                status = error.status
                restored = model_of(k).decompress(damaged[: error.offset], error.valid_bytes)
            assert record.detail == status
            found.add(status)
            np.testing.assert_array_equal(device.array[: restored.size], restored)
            engine.device.free(device)
            engine.host.free(host)
    assert {golden.StreamStatus.BAD_TOKEN, golden.StreamStatus.PAYLOAD_TRUNCATED} <= found


def test_without_a_bound_nothing_is_lost(engine):
    data = content(1000, 127)
    device, host = engine.device.alloc(1000), engine.host.alloc(1040)
    device.array[:] = data
    record = engine.memcpy_compressed(host, device, 1000, OUT, "quantize")
    assert record.crc32 == golden.crc32(data)
    assert record.out_size == 8 * 129
    engine.device.free(device)
    engine.host.free(host)


def backend_with(k, **options):
    return EngineBackend(
        CONFIG,
        replace(NEAR, channels=CONFIG.units),
        throttle=THROTTLES["none"],
        codec="quantize",
        parameters={"k": k},
        memory_bytes=1 << 20,
        **options,
    )


def test_arrays_are_swapped_within_their_bound():
    k = 120
    backend = backend_with(k, stalls=0.2)
    arrays = [(str(n), content(4 * n, k).view("<f4")) for n in (0, 1, 33, 1250)]
    with Swapper(backend) as swapper:
        run = swapper.swap(arrays, baselines=False)
    assert [one.faults for one in run.round_trips] == [()] * 4
    model = golden.codec("quantize", bound=bound_of(k))
    for one, (_, array) in zip(run.round_trips, arrays, strict=True):
        assert one.compressed_bytes == model.compress(array).size
