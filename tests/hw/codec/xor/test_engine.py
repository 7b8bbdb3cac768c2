"""A codec that only the registry knows: through driver, engine, swap and estimate, bit for bit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cdma import golden
from cdma.cli import main
from cdma.config import tables_of
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import ConfigError
from cdma.hw.dma.control.descriptor import Status
from cdma.plan.engine_cost import Setup
from cdma.plan.platform.codec_rates import codec_model
from cdma.sim.driver import THROTTLES, CopyKind, DescriptorError, Engine
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap import EngineBackend, Swapper
from tests.hw.codec.xor.codec import xor_registered
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL

# The engine takes a minute to build.
pytestmark = pytest.mark.verify

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
SIZES = (4, 124, 128, 132, 1000, 4096, 10_004)


@pytest.fixture(scope="module", autouse=True)
def xor():
    with xor_registered() as entry:
        yield entry


@pytest.fixture(scope="module")
def config(xor):
    """An engine that picks each line's pipelines by the descriptor's codec."""
    return replace(SMALL, codec=replace(SMALL.codec, codecs=("xor", "zvc", "raw")))


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["free", "stalled"])
def engine(config, request):
    machine = Machine(
        generated_engine(config),
        replace(NEAR, channels=config.units),
        device_bytes=1 << 20,
        host_bytes=1 << 20,
        stalls=request.param,
        seed=3,
    )
    yield Engine(machine, codecs=config.codecs)
    machine.close()


SEED = 0xA5C
PARAMETERS = {"seed": SEED}


def parameters_of(codec):
    return PARAMETERS if codec == "xor" else {}


def content(nbytes, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, nbytes, np.uint8) * (rng.random(nbytes) < 0.5).astype(np.uint8)


def room(engine, nbytes, codec):
    return nbytes if codec is None else engine.shape.worst_stream_bytes(nbytes, codec)


def test_data_goes_out_and_comes_back_in_each_codec(engine):
    """All at once, so that lines of different codecs meet in the units."""
    round_trips = []
    for number, (nbytes, codec) in enumerate((n, c) for n in SIZES for c in ("xor", "zvc", None)):
        data = content(nbytes, number)
        device = engine.device.alloc(nbytes)
        host = engine.host.alloc(room(engine, nbytes, codec))
        device.array[:] = data
        sent = engine.submit(
            host, device, nbytes, OUT, codec, parameters=parameters_of(codec), doorbell=False
        )
        round_trips.append((data, codec, device, host, sent))
    engine.doorbell()
    back = []
    for data, codec, _, host, sent in round_trips:
        record = engine.wait(sent).check()
        stream = host.array[: record.out_size].copy()
        model = golden.codec(codec or "raw", 4, **parameters_of(codec))
        np.testing.assert_array_equal(stream, model.compress(data)[: stream.size])
        if codec == "xor":
            result = line_codec(codec).unpacked_result(record.result)
            lines = -(-data.size // golden.LINE_BYTES)
            assert result == {"parity": model.parity(data), "lines": lines % 256}
        else:
            assert record.result == 0
        assert record.crc32 == golden.crc32(data)
    for data, codec, device, host, sent in round_trips:
        device.array[:] = 0xA5
        size = None if codec is None else sent.result().out_size
        crc = None if codec is None else golden.crc32(data)
        got = engine.submit(
            device,
            host,
            data.size,
            IN,
            codec,
            stream_bytes=size,
            crc=crc,
            parameters=parameters_of(codec),
            doorbell=False,
        )
        back.append(got)
    engine.doorbell()
    for (data, _, device, host, _), got in zip(round_trips, back, strict=True):
        engine.wait(got).check()
        np.testing.assert_array_equal(device.array, data)
        engine.device.free(device)
        engine.host.free(host)


def test_engine_verifies_what_it_has_written(engine):
    data = content(1000)
    device, host = engine.device.alloc(1000), engine.host.alloc(1024)
    device.array[:] = data
    record = engine.memcpy_compressed(
        host, device, 1000, OUT, "xor", verify=True, parameters=PARAMETERS
    )
    assert record.status == Status.OK_EXPANDED
    engine.device.free(device)
    engine.host.free(host)


@pytest.mark.parametrize("cut", [0, 4, 100, 128, 500, 1020])
def test_stream_that_ends_too_early_is_reported(engine, cut):
    data = content(1000)
    device, host = engine.device.alloc(1000), engine.host.alloc(1024)
    host.array[:] = golden.codec("xor", 4, seed=SEED).compress(data)
    record = engine.memcpy_compressed(
        device,
        host,
        1000,
        IN,
        "xor",
        stream_bytes=max(1, cut),
        crc=golden.crc32(data),
        parameters=PARAMETERS,
    )
    assert record.status == Status.STREAM_TRUNCATED
    assert record.detail == golden.StreamStatus.PAYLOAD_TRUNCATED
    # The place in the data, which ends before the zeros that fill the last line.
    assert record.fault_address == record.out_size == min(cut, 1000)
    np.testing.assert_array_equal(device.array[:cut], data[:cut])
    engine.device.free(device)
    engine.host.free(host)


def test_unknown_codec_is_refused_by_driver_and_engine(engine):
    device, host = engine.device.alloc(128), engine.host.alloc(256)
    with pytest.raises(DescriptorError, match="must be 'xor', 'zvc', 'raw' or None"):
        engine.submit(host, device, 128, OUT, "lz4")
    fields = {
        "opcode": 1,
        "codec": 1,
        "element_bytes": 4,
        "src": device.address,
        "dst": host.address,
        "length": 128,
        "dst_capacity": 256,
    }
    assert engine.wait(engine.submit_raw(fields)).status == Status.BAD_FLAG
    with pytest.raises(DescriptorError, match=r"must be 88 \(xor\) or 0 \(zvc\), not 1"):
        engine.submit_raw(fields, checks=True)
    engine.device.free(device)
    engine.host.free(host)


def test_arrays_are_swapped(config):
    backend = EngineBackend(
        config,
        replace(NEAR, channels=config.units),
        throttle=THROTTLES["none"],
        codec="xor",
        parameters=PARAMETERS,
        stalls=0.2,
        memory_bytes=1 << 20,
    )
    arrays = [(str(n), content(n).view(np.uint8)) for n in (0, 1, 129, 5000)]
    with Swapper(backend) as swapper:
        run = swapper.swap(arrays, element_bytes=4, baselines=False)
    assert [one.faults for one in run.round_trips] == [()] * 4
    assert [one.compressed_bytes for one in run.round_trips] == [0, 128, 256, 5120]


def test_lines_of_transfers_keep_their_own_parameters(engine, xor):
    """Two transfers at once, whose lines meet in the units."""
    data = content(4096)
    device = engine.device.alloc(4096)
    device.array[:] = data
    hosts = [engine.host.alloc(4096) for _ in range(4)]
    seeds = (0, 1, None, 0xFFF)
    sent = [
        engine.submit(
            host,
            device,
            4096,
            OUT,
            "xor",
            parameters=None if seed is None else {"seed": seed},
            doorbell=False,
        )
        for host, seed in zip(hosts, seeds, strict=True)
    ]
    engine.doorbell()
    for host, seed, transfer in zip(hosts, seeds, sent, strict=True):
        engine.wait(transfer).check()
        usual = xor.usual_parameters["seed"]
        expected = golden.codec("xor", 4, seed=usual if seed is None else seed).compress(data)
        np.testing.assert_array_equal(host.array, expected)
        engine.host.free(host)
    engine.device.free(device)


@pytest.mark.parametrize(
    ("codec", "parameters", "message"),
    [
        ("xor", {"seed": "1"}, "must be 0 to 4095, not '1'"),
        ("xor", {"seed": 1, "k": 2}, "the codec 'xor' has no parameter 'k'; it takes seed"),
        ("xor", {"seed": 4096}, "the parameter 'seed' of the codec 'xor' must be 0 to 4095"),
        ("xor", {"seed": -1}, "the parameter 'seed' of the codec 'xor' must be 0 to 4095"),
        ("zvc", {"seed": 1}, "the codec 'zvc' has no parameter 'seed'; it takes no parameters"),
        (None, {"seed": 1}, "must be none for a copy"),
    ],
)
def test_driver_refuses_parameters_that_the_codec_does_not_take(engine, codec, parameters, message):
    device, host = engine.device.alloc(128), engine.host.alloc(256)
    with pytest.raises(DescriptorError, match=message):
        engine.submit(host, device, 128, OUT, codec, parameters=parameters)
    engine.device.free(device)
    engine.host.free(host)


@pytest.mark.parametrize(
    ("opcode", "codec", "parameters", "refused"),
    [
        (1, 0x58, 0xFFF, False),
        (1, 0x58, 0x1000, True),
        (1, 0x58, 1 << 31, True),
        (1, 0, 1, True),
        (1, 0, 0, False),
        (3, 0, 1, True),
        (5, 0, 1, True),
    ],
)
def test_engine_refuses_parameters_that_the_codec_has_not(
    engine, opcode, codec, parameters, refused
):
    device, host = engine.device.alloc(128), engine.host.alloc(256)
    fields = {"opcode": opcode, "parameters": parameters}
    if opcode != 5:
        fields |= {"src": device.address, "dst": host.address, "length": 128, "dst_capacity": 256}
    if opcode == 1:
        fields |= {"codec": codec, "element_bytes": 4}
    record = engine.wait(engine.submit_raw(fields))
    assert (record.status == Status.BAD_FLAG) == refused
    if refused:
        with pytest.raises(DescriptorError, match=r"must be 0 beyond the codec's \d+ bits"):
            engine.submit_raw(fields, checks=True)
    engine.device.free(device)
    engine.host.free(host)


def test_swap_refuses_a_codec_that_the_engine_has_not_got():
    around = replace(NEAR, channels=SMALL.units)
    with pytest.raises(ConfigError, match="codec must be one that the engine has"):
        EngineBackend(SMALL, around, throttle=THROTTLES["none"], codec="xor")


def test_swap_refuses_parameters_that_the_codec_does_not_take(config):
    around = replace(NEAR, channels=config.units)
    with pytest.raises(ConfigError, match="parameters: the codec 'xor' has no parameter 'k'"):
        EngineBackend(config, around, throttle=THROTTLES["none"], codec="xor", parameters={"k": 1})


def test_estimate_knows_the_streams_size_and_that_it_gains_nothing():
    setup = Setup.named("titanx_gen3").with_codec("xor")
    plain = Setup.named("titanx_gen3")
    nbytes = 1 << 20
    stream = setup.stream_bytes(nbytes, 0.1)
    assert stream == nbytes
    assert plain.stream_bytes(nbytes, 0.1) < nbytes
    for way in ("out", "in"):
        cost = setup.cost(nbytes, stream, way)
        copy = setup.cost(nbytes, nbytes, way, compressed=False)
        assert cost.seconds == pytest.approx(copy.seconds, rel=0.02)
        assert setup.ceilings(0.1, way)["link"] == pytest.approx(
            setup.machine.link_out_bytes_per_s, rel=0.3
        )


def test_planner_knows_the_codec():
    assert codec_model("xor").stream_bytes(1 << 20, 0.1) == 1 << 20


def test_command_swaps_with_the_codec(config, tmp_path, capsys):
    """On a small machine, as those with names have engines of their own to build."""
    file, array = tmp_path / "small.json", tmp_path / "a.npy"
    around = replace(NEAR, channels=config.units)
    file.write_text(json.dumps({"configuration": tables_of(config, around)}))
    np.save(array, content(1000).view(np.float32))
    assert main(["swap", str(array), "--codec", "xor", "--config", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["codec"] == "xor"
    assert report["arrays"][0]["compressed_bytes"] == 1024


def test_command_swap_refuses_the_codec_alone(tmp_path, capsys):
    np.save(tmp_path / "a.npy", content(1000))
    arguments = ["swap", str(tmp_path / "a.npy"), "--engine", "codec", "--codec", "xor"]
    assert main(arguments) == 2
    assert "--codec xor is for --engine dma; choose --codec zvc" in capsys.readouterr().err


def test_command_estimates_with_the_codec(capsys):
    arguments = ["estimate", "--network", "vgg16", "--density", "0.3", "--json"]
    assert main([*arguments, "--codec", "xor"]) == 0
    xor_total = json.loads(capsys.readouterr().out)["total"]
    assert xor_total["stream_bytes"] >= xor_total["raw_bytes"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["total"]["stream_bytes"] < xor_total["raw_bytes"]
    assert main([*arguments, "--codec", "lz"]) == 2
    names = "zvc, raw, xc, quantize, xc-fp16, xc-e4m3, xc-e5m2, xc-fp32, xor"
    assert f"unknown codec 'lz'; choose from {names}\n" in capsys.readouterr().err
