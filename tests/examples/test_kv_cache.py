"""ZVC and XC as a serde of KV caches: the C references write and read what numpy does."""

import importlib
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cdma.builds.errors import BuildError
from cdma.golden import StreamError, StreamStatus, codec, container
from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.plan.platform.link import link
from tests.lib.paths import ROOT

EXAMPLE = ROOT / "examples" / "kv_cache"
MODULES = ("reference", "serde", "engine_time")


@pytest.fixture(scope="module")
def example():
    """The example's modules, imported as its program imports them."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in MODULES:
            sys.modules.pop(name, None)


def memory_obj(content):
    """As an allocator gives it: what LMCache's has is a view of C's bytes."""
    return SimpleNamespace(byte_array=memoryview(bytearray(content)))


def layout(data):
    return SimpleNamespace(shapes=[data.shape], dtypes=[data.dtype])


def chunk(nbytes, seed=1, density=1.0):
    """Bytes of bf16 numbers of which some are zero, uint8 (nbytes,)."""
    generator = np.random.default_rng(seed)
    numbers = generator.standard_normal(nbytes // 2 + 1).astype(np.float32)
    numbers[generator.random(numbers.size) >= density] = 0
    return rounded_to_bf16(numbers).view(np.uint8)[:nbytes].copy()


def serialized(serializer, data):
    """The bytes that the serializer makes of data, in a buffer of the size that it asks for."""
    stored = memory_obj(bytes(serializer.estimate_serialized_size(layout(data))))
    size = serializer.serialize(memory_obj(data), stored, None)
    return stored.byte_array[:size].tobytes()


@pytest.mark.parametrize("name", ["zvc", "xc"])
@pytest.mark.parametrize("elements", ["bf16", "fp16", "fp32", "e4m3", "e5m2"])
@pytest.mark.parametrize("nbytes", [1, 127, 128, 4096, 40_001])
def test_chunk_is_stored_as_numpy_would_and_comes_back(example, name, elements, nbytes):
    serializer = example.serde.Serializer(name, elements)
    for density in (0.2, 1.0):
        data = chunk(nbytes, density=density)
        blob = serialized(serializer, data)
        assert blob == container.pack(data, serializer.codec_for(data))
        loaded = memory_obj(bytes(nbytes))
        # What a store keeps may be longer than the chunk.
        example.serde.Deserializer().deserialize(memory_obj(blob + b"\xa5" * 100), loaded, None)
        assert loaded.byte_array.tobytes() == data.tobytes()


@pytest.mark.parametrize("name", ["zvc", "xc"])
def test_parameters_are_those_of_the_data(example, name):
    """Small numbers and large ones take as much, as XC's centre goes with them."""
    sizes = []
    for scale in (2.0**-30, 2.0**20):
        numbers = np.random.default_rng(2).standard_normal(8192).astype(np.float32) * scale
        data = rounded_to_bf16(numbers.astype(np.float32))
        sizes.append(len(serialized(example.serde.Serializer(name), data.view(np.uint8))))
    assert sizes[0] == sizes[1]
    assert (sizes[0] < 0.72 * 16384) == (name == "xc")


@pytest.mark.parametrize("name", ["zvc", "xc"])
def test_noise_fits_what_was_asked_for(example, name):
    data = np.random.default_rng(3).integers(0, 256, 10_000, np.uint8)
    serializer = example.serde.Serializer(name)
    most = serializer.estimate_serialized_size(layout(data))
    assert 10_000 < len(serialized(serializer, data)) <= most < 1.08 * 10_000 + 200


def test_small_buffer_is_refused_and_left_alone(example):
    data = chunk(1000)
    serializer = example.serde.Serializer()
    most = serializer.estimate_serialized_size(layout(data))
    small = memory_obj(b"\xa5" * (most - 1))
    with pytest.raises(ValueError, match=rf"dst has {most - 1} bytes, .* may take {most}; alloc"):
        serializer.serialize(memory_obj(data), small)
    assert set(small.byte_array) == {0xA5}


def rle_file(data):
    return container.pack(data, codec("rle", 1))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda blob, data: b"", "the serialized chunk is empty; compute it again"),
        (lambda blob, data: blob[:50], "is truncated inside its header; compute it again"),
        (lambda blob, data: b"x" + blob[1:], "is not a .cz file; compute it again"),
        (lambda blob, data: blob[:-1], "is truncated: .* bytes of stream instead of"),
        (lambda blob, data: rle_file(data), "of the codec 'rle', not of zvc or xc; restore it"),
        (lambda blob, data: container.pack(data[1:], codec("zvc", 1)), "999 bytes, and dst 1000;"),
    ],
    ids=["empty", "header", "other file", "stream", "codec", "size"],
)
def test_what_is_no_chunk_is_refused(example, damage, told):
    data = chunk(1000)
    blob = damage(serialized(example.serde.Serializer(), data), data)
    target = memory_obj(b"\xa5" * data.size)
    with pytest.raises(ValueError, match=told):
        example.serde.Deserializer().deserialize(memory_obj(blob), target)
    assert set(target.byte_array) == {0xA5}


@pytest.mark.parametrize("name", ["zvc", "xc"])
def test_damaged_stream_is_found_before_anything_is_written(example, name):
    data = chunk(1000)
    blob = bytearray(serialized(example.serde.Serializer(name), data))
    blob[-7] ^= 4
    target = memory_obj(b"\xa5" * data.size)
    with pytest.raises(StreamError) as caught:
        example.serde.Deserializer().deserialize(memory_obj(blob), target)
    assert caught.value.status == StreamStatus.CRC_MISMATCH
    assert set(target.byte_array) == {0xA5}


@pytest.mark.parametrize("name", ["zvc", "xc"])
def test_reference_refuses_a_stream_as_numpy_does(example, name):
    numpy_codec = codec(name, 2)
    data = chunk(1000)
    stream = numpy_codec.compress(data)[:-3]
    with pytest.raises(StreamError) as in_numpy:
        numpy_codec.decompress(stream, data.size)
    with pytest.raises(StreamError) as in_c:
        example.reference.Reference(numpy_codec).decode(stream, np.empty(data.size, np.uint8))
    for field in ("status", "offset", "valid_bytes"):
        assert getattr(in_c.value, field) == getattr(in_numpy.value, field)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("lz4",), "unknown codec 'lz4'; choose from zvc, xc"),
        (("xc", "int8"), "unknown elements 'int8'; choose from bf16, fp16, fp32, e4m3, e5m2"),
    ],
)
def test_unknown_names_are_refused_with_those_there_are(example, arguments, told):
    with pytest.raises(ValueError, match=told):
        example.serde.Serializer(*arguments)


def test_without_a_compiler_it_says_what_to_install(example, monkeypatch):
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(BuildError, match="'no-such-cc' is not on PATH; install one, for example"):
        example.reference.library.__wrapped__("zvc")


def test_engine_s_times_are_within_what_link_and_latency_allow(example):
    data = chunk(1 << 18)
    rate = link("pcie5x16").bytes_per_s
    for name in ("zvc", "xc"):
        with_codec = example.serde.Serializer(name).codec_for(data)
        size = with_codec.compress(data).size
        times = example.engine_time.chunk_times(data, with_codec)
        for seconds, nbytes in (
            (times.store_s, size),
            (times.load_s, size),
            (times.copy_s, data.size),
            (times.copy_back_s, data.size),
        ):
            assert nbytes / rate < seconds < nbytes / (0.9 * rate) + 2e-6
        assert (times.store_s < times.copy_s) == (name == "xc")


def test_engine_has_xc_of_bf16_only(example):
    with pytest.raises(ValueError, match="the engine's XC takes bf16; choose these elements, or"):
        example.engine_time.chunk_times(chunk(256), codec("xc", 2, exponent_bits=5))


def offload(*arguments):
    command = [sys.executable, EXAMPLE / "offload.py", *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


def test_documented_command_shows_what_the_page_shows():
    page = (ROOT / "docs" / "guide" / "integrate" / "kv-cache.md").read_text("utf-8")
    (shown,) = re.findall(r"offload\.py\n(xc, bf16;.*?)```", page, re.S)
    done = offload()
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


def test_array_of_the_user_s_own(tmp_path):
    array = np.random.default_rng(4).standard_normal((2, 50, 7)).astype(np.float16)
    np.save(tmp_path / "kv.npy", array)
    done = offload("--kv", tmp_path / "kv.npy", "--elements", "fp16", "--codec", "zvc")
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"kv\.npy \[(\d)\] +([\d,]+) +([\d,]+) ", done.stdout)
    expected = [container.pack(row.reshape(-1).view(np.uint8), codec("zvc", 2)) for row in array]
    assert rows == [(str(i), "700", str(len(blob))) for i, blob in enumerate(expected)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--kv", "no-such.npy"), "no-such.npy"),
        (("--link", "pcie9"), "pcie9"),
        (("--elements", "fp16"), "the engine's XC takes bf16; choose"),
    ],
)
def test_errors_are_one_line(arguments, told):
    done = offload(*arguments)
    assert done.returncode != 0
    assert done.stderr.startswith("offload.py: ")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
