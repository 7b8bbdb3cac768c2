"""`cdma compress`, `decompress` and `inspect` of pipes, and of files larger than memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cdma import golden
from cdma.cli import main
from cdma.golden import container
from cdma.golden.container.header import encode_header
from cdma.golden.formats.xc.xc import Xc
from cdma.plan.workload import load_capture
from tests.lib.shares import names, widths

# They run processes whose memory is limited.
pytestmark = [
    pytest.mark.always,
    pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does"),
]

MIB = 1 << 20

RUN = "import sys; from cdma.cli import main; sys.exit(main())"

LIMITED = """
import resource, sys
from pathlib import Path
import cdma.commands.compress, cdma.commands.decompress, cdma.commands.inspect
from cdma.cli import main
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(main(sys.argv[2:]))
"""
"""Runs a command that may take so many bytes more than its imports have taken."""

ROOM = 24 * MIB


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def limited(*arguments, **options):
    command = [sys.executable, "-c", LIMITED, str(ROOM), *arguments]
    return subprocess.run(command, capture_output=True, **options)


def piped(*arguments, content=b""):
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments], input=content, capture_output=True
    )


def activations():
    """Real activations, as one array."""
    arrays = [each.array.reshape(-1) for each in load_capture("digits-cnn").activations]
    return np.concatenate([array for array in arrays if array.dtype == np.float32])


def large():
    """More of them than the room, of a length that is no multiple of anything."""
    return np.resize(activations(), 10 * MIB + 13)


def codec_of(name, array):
    parameters = {"quantize": {"bound": 0.25}, "zfp": {"rate": 32}}.get(name, {})
    return Xc(4).fitted(array) if name == "xc" else golden.codec(name, **parameters)


def options_of(name):
    return ["--codec", name, *{"quantize": ["--bound", "0.25"]}.get(name, [])]


def whole_file(array, codec):
    """A .cz file that is made at once: the stream of the whole array behind its header."""
    stream = codec.compress(array)
    data = np.ascontiguousarray(array)
    if not codec.lossless:
        data = codec.decompress(stream, array.nbytes)
    header = encode_header(
        codec,
        array.dtype,
        array.shape,
        "C",
        sizes=(array.nbytes, stream.size),
        checksums=(golden.crc32(data), golden.crc32(stream)),
    )
    return header + stream.tobytes()


@pytest.mark.verify
@pytest.mark.parametrize("name", ["zvc", "xc", "quantize"])
def test_files_larger_than_memory(name):
    array = large()
    np.save("a.npy", array)
    assert array.nbytes > 1.6 * ROOM
    done = limited("compress", "a.npy", "a.cz", *options_of(name))
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    codec = codec_of(name, array)
    assert Path("a.cz").read_bytes() == whole_file(array, codec)
    done = limited("inspect", "a.cz", "--json")
    assert json.loads(done.stdout)["file_bytes"] == Path("a.cz").stat().st_size
    done = limited("decompress", "a.cz", "b.npy")
    assert done.returncode == 0, done.stderr
    if codec.lossless:
        assert Path("b.npy").read_bytes() == Path("a.npy").read_bytes()
    else:
        restored = codec.decompress(codec.compress(array), array.nbytes).view("<f4")
        assert np.load("b.npy").tobytes() == restored.tobytes()


def test_the_limit_is_one():
    """With the same room, the array alone does not fit."""
    np.save("a.npy", large())
    script = LIMITED.replace("sys.exit(main(sys.argv[2:]))", "import numpy; numpy.load('a.npy')")
    done = subprocess.run([sys.executable, "-c", script, str(ROOM)], capture_output=True)
    assert b"MemoryError" in done.stderr


@pytest.mark.verify
def test_pipes_larger_than_memory():
    array = large()
    np.save("a.npy", array)
    with open("a.npy", "rb") as source, open("a.cz", "wb") as destination:
        command = [sys.executable, "-c", LIMITED, str(ROOM), "compress", "-", "-", "--codec", "xc"]
        feed = subprocess.Popen(["cat"], stdin=source, stdout=subprocess.PIPE)
        with feed:
            done = subprocess.run(command, stdin=feed.stdout, stdout=destination)
    assert done.returncode == 0
    assert Path("a.cz").read_bytes() == whole_file(array, Xc(4).fitted(array))


CODECS = [*golden.codec_names(lossy=False), "zfp", "quantize"]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    "nbytes",
    widths(0, 4, 4096, MIB - 4, MIB, MIB + 4, 2 * MIB + 5000, quick=[0, MIB - 4, MIB + 4]),
)
def test_pieces_make_what_the_whole_makes(name, nbytes):
    array = activations()[: nbytes // 4].copy()
    codec = codec_of(name, array)
    content = container.pack(array, codec)
    assert content == whole_file(array, codec)
    restored = container.unpack(content)
    if codec.lossless:
        assert restored.tobytes() == array.tobytes()
    else:
        stream = codec.compress(array)
        assert restored.tobytes() == codec.decompress(stream, array.nbytes).tobytes()


@pytest.mark.parametrize("name", names(CODECS, quick=["zvc", "xc", "lz4", "quantize"]))
def test_errors_behind_the_first_piece_are_those_of_the_whole(name):
    array = activations()[: (MIB + 70_000) // 4].copy()
    codec = codec_of(name, array)
    content = container.pack(array, codec)
    header, stream = container.read(content)
    generator = np.random.default_rng(3)
    for position in generator.integers(stream.size // 2, stream.size, 25).tolist():
        damaged = stream.copy()
        damaged[position] ^= 1 << int(generator.integers(8))
        try:
            data = codec.decompress(damaged, array.nbytes)
        except golden.StreamError as error:
            expected = (error.status, error.offset, error.valid_bytes)
        else:
            # What is no error to the codec is one to a checksum.
            wrong = golden.crc32(data) != header.crc32
            expected = (golden.StreamStatus.CRC_MISMATCH, stream.size, array.nbytes * wrong)
        with pytest.raises(golden.StreamError) as caught:
            container.unpack(content[: header.header_bytes] + damaged.tobytes())
        error = caught.value
        assert (error.status, error.offset, error.valid_bytes) == expected


def test_a_value_that_a_codec_does_not_take_is_told_by_its_place(capsys):
    array = np.ones(MIB, np.float32)
    array[300_007] = np.inf
    np.save("a.npy", array)
    assert main(["compress", "a.npy", "a.cz", "--codec", "zfp", "--rate", "32"]) == 2
    assert "and value 300007 is inf; choose" in capsys.readouterr().err
    assert not Path("a.cz").exists()


# The standard input and output. ----------------------------------------------------------------


@pytest.mark.parametrize("name", names(("zvc", "xc"), quick=["zvc"]))
@pytest.mark.parametrize("order", ["C", "F"])
def test_there_and_back_through_pipes(name, order):
    np.save("a.npy", np.asarray(activations()[:3000].reshape(3, 20, 50), order=order))
    content = Path("a.npy").read_bytes()
    packed = piped("compress", "-", "-", "--codec", name, content=content)
    assert packed.returncode == 0
    assert packed.stderr.startswith(b"the standard output: 12,000 bytes in ")
    assert main(["compress", "a.npy", "a.cz", "--codec", name]) == 0
    assert packed.stdout == Path("a.cz").read_bytes()
    shown = piped("inspect", "-", "--json", content=packed.stdout)
    assert json.loads(shown.stdout)["file"] == "-"
    restored = piped("decompress", "-", "-", content=packed.stdout)
    assert (restored.returncode, restored.stdout) == (0, content)


@pytest.mark.verify
def test_truncated_pipes_are_one_error_and_write_nothing():
    np.save("a.npy", activations()[: 2 * MIB])
    content = Path("a.npy").read_bytes()
    done = piped("compress", "-", "-", content=content[:-9])
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"cdma: error: the standard input is damaged: its header announces" in done.stderr
    packed = piped("compress", "-", "-", content=content).stdout
    for length in (0, 20, 60, len(packed) // 2, len(packed) - 1):
        for command in (("decompress", "-", "-"), ("decompress", "-", "b.npy"), ("inspect", "-")):
            done = piped(*command, content=packed[:length])
            assert (done.returncode, done.stdout) == (2, b"")
            kind = b"is truncated" if length else b"is empty"
            assert b"cdma: error: the standard input " + kind in done.stderr
            assert done.stderr.count(b"\n") == 1
    done = piped("decompress", "-", "-", content=packed + b"xy")
    assert b"has trailing bytes: " in done.stderr
    assert done.stdout == b""
    assert os.listdir() == ["a.npy"]


def test_the_input_is_not_written_onto_through_a_pipe(tmp_path):
    np.save("a.npy", np.ones(40, np.float32))
    before = Path("a.npy").read_bytes()
    with open("a.npy", "rb") as source:
        command = [sys.executable, "-c", RUN, "compress", "-", "a.npy", "--force"]
        done = subprocess.run(command, stdin=source, capture_output=True)
    assert done.returncode == 2
    assert b"cannot write a.npy: it is the input -; name another file" in done.stderr
    assert Path("a.npy").read_bytes() == before


def test_no_bytes_for_a_terminal():
    np.save("a.npy", np.ones(40, np.float32))
    leader, terminal = os.openpty()
    try:
        command = [sys.executable, "-c", RUN, "compress", "a.npy", "-"]
        done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE)
    finally:
        os.close(terminal)
        os.close(leader)
    assert done.returncode == 2
    assert b"cannot write bytes to a terminal; redirect the standard output" in done.stderr


def test_a_reader_that_leaves_is_no_error():
    np.save("a.npy", activations())
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-c", RUN, "compress", "a.npy", "-", "--codec", "raw"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")
