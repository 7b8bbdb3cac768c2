"""`cdma compress`, `decompress` and `inspect`: the trip there and back, and bad input."""

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from cdma import golden
from cdma.builds.documents import body
from cdma.cli import main
from cdma.golden.formats.xc.xc import Xc

INSPECT_KEYS = [
    "file",
    "codec",
    "element_bytes",
    "parameters",
    "dtype",
    "shape",
    "order",
    "bytes",
    "compressed_bytes",
    "file_bytes",
    "ratio",
    "crc32",
]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def activations(dtype="<f4", shape=(3, 5, 7)):
    values = np.random.default_rng(7).integers(-100, 100, shape)
    return np.maximum(values, 0).astype(dtype)


def fails(capsys, *arguments):
    """The one line on stderr of a command that leaves no file behind."""
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert err.count("\n") == 1
    assert "; " in err
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before
    return err


@pytest.mark.parametrize("name", sorted({*golden.codec_names(lossy=False)} - {"xc"}))
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", "<f8", "|u1", "|b1", "<i8"])
def test_file_comes_back_byte_for_byte(name, dtype):
    np.save("a.npy", activations(dtype))
    assert main(["compress", "a.npy", "a.cz", "--codec", name]) == 0
    assert main(["decompress", "a.cz", "b.npy"]) == 0
    assert Path("b.npy").read_bytes() == Path("a.npy").read_bytes()


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3),
        np.empty((0, 4), np.int16),
        np.asfortranarray(activations()),
        np.array([np.nan, -np.nan, np.inf, -0.0, 1e-45], np.float32),
    ],
    ids=["scalar", "empty", "fortran", "odd"],
)
def test_odd_arrays_come_back_byte_for_byte(array):
    np.save("a.npy", array)
    assert main(["compress", "a.npy", "a.cz"]) == 0
    assert main(["decompress", "a.cz", "b.npy"]) == 0
    assert Path("b.npy").read_bytes() == Path("a.npy").read_bytes()


@pytest.mark.parametrize(
    ("dtype", "expected"), [("<f8", 4), ("<f4", 4), ("<f2", 2), ("|i1", 1), ("|b1", 1)]
)
def test_element_size_comes_from_the_type(capsys, dtype, expected):
    np.save("a.npy", activations(dtype))
    assert main(["compress", "a.npy", "a.cz"]) == 0
    assert f"(zvc, elements of {expected} B)" in capsys.readouterr().err
    assert main(["inspect", "a.cz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["element_bytes"] == expected


def test_element_size_can_be_told(capsys):
    np.save("a.npy", activations("<f4"))
    assert main(["compress", "a.npy", "a.cz", "--element-bytes", "1"]) == 0
    capsys.readouterr()
    assert main(["inspect", "a.cz", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["element_bytes"] == 1
    assert facts["compressed_bytes"] == golden.codec("zvc", 1).compress(activations()).size


def test_inspect_json(capsys):
    array = activations()
    np.save("a.npy", array)
    main(["compress", "a.npy", "a.cz", "--codec", "rle"])
    capsys.readouterr()
    assert main(["inspect", "a.cz", "--json"]) == 0
    facts = body(json.loads(capsys.readouterr().out))
    assert list(facts) == INSPECT_KEYS
    stream_bytes = golden.codec("rle").compress(array).size
    assert facts == {
        "file": "a.cz",
        "codec": "rle",
        "element_bytes": 4,
        "parameters": {},
        "dtype": "<f4",
        "shape": [3, 5, 7],
        "order": "C",
        "bytes": 420,
        "compressed_bytes": stream_bytes,
        "file_bytes": Path("a.cz").stat().st_size,
        "ratio": pytest.approx(420 / stream_bytes),
        "crc32": zlib.crc32(array.tobytes()),
    }


def test_inspect_table(capsys):
    np.save("[a].npy", activations())
    main(["compress", "[a].npy", "[a].cz"])
    capsys.readouterr()
    assert main(["inspect", "[a].cz"]) == 0
    table = capsys.readouterr().out
    for expected in ("[a].cz", "zvc, elements of 4 B", "float32 (3, 5, 7), order C", "420"):
        assert expected in table


def test_inspect_empty_array(capsys):
    np.save("a.npy", np.empty(0, np.float32))
    main(["compress", "a.npy", "a.cz"])
    capsys.readouterr()
    assert main(["inspect", "a.cz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratio"] is None
    assert main(["inspect", "a.cz"]) == 0


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(complex, "complex numbers"), (object, "pickled objects"), ("S3", "an unsupported type")],
)
def test_wrong_dtype(capsys, dtype, kind):
    np.save("a.npy", np.zeros(3, dtype), allow_pickle=True)
    assert f"a.npy has the wrong dtype: {np.dtype(dtype)} ({kind}); " in fails(
        capsys, "compress", "a.npy", "a.cz"
    )


@pytest.mark.parametrize(
    ("options", "described"),
    [
        (["zfp", "--rate", "64"], "zfp, rate 64, elements of 4 B"),
        (["quantize", "--bound", "0.25"], "quantize, bound 0.25, elements of 4 B"),
    ],
)
def test_lossy_codecs(capsys, options, described):
    np.save("a.npy", activations() + np.float32(0.1))
    assert main(["compress", "a.npy", "a.cz", "--codec", *options]) == 0
    assert f"({described})" in capsys.readouterr().err
    assert main(["inspect", "a.cz"]) == 0
    assert described in capsys.readouterr().out
    assert main(["inspect", "a.cz", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"] == {options[1].removeprefix("--"): float(options[2])}
    assert main(["decompress", "a.cz", "b.npy"]) == 0
    restored = np.load("b.npy")
    assert facts["crc32"] == zlib.crc32(restored.tobytes())
    assert 0 < np.abs(restored - np.load("a.npy")).max() <= 0.25


@pytest.mark.parametrize(
    ("dtype", "options", "exponent_bits"),
    [
        ("<f4", [], 8),
        ("<f2", [], 5),
        ("<u2", [], 8),
        ("|u1", [], 4),
        ("<u2", ["--element-format", "fp16"], 5),
        ("<i2", ["--element-format", "bf16"], 8),
        ("|u1", ["--element-format", "e5m2"], 5),
        ("|b1", ["--element-format", "e4m3"], 4),
        ("<u4", ["--element-format", "fp32"], 8),
        ("<f4", ["--element-format", "fp32"], 8),
    ],
)
def test_xc_takes_the_element_format_and_the_best_parameters(capsys, dtype, options, exponent_bits):
    array = activations(dtype, (40, 50))
    np.save("a.npy", array)
    assert main(["compress", "a.npy", "a.cz", "--codec", "xc", *options]) == 0
    assert f"xc, exponent_bits {exponent_bits}, centre " in capsys.readouterr().err
    assert main(["inspect", "a.cz", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    best = Xc(array.itemsize, exponent_bits=exponent_bits).fitted(array)
    assert facts["parameters"] == {
        "exponent_bits": exponent_bits,
        "centre": best.centre,
        "pattern": best.pattern,
    }
    assert facts["compressed_bytes"] == best.compress(array).size
    assert main(["decompress", "a.cz", "b.npy"]) == 0
    assert Path("b.npy").read_bytes() == Path("a.npy").read_bytes()


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        ("<f8", [], "xc has no element format for <f8; name"),
        (">f4", [], "xc has no element format for >f4; name"),
        ("<i4", [], "xc has no element format for <i4; name"),
        ("<f4", ["--element-format", "bf16"], "bf16 does not fit an array of <f4; choose"),
        ("<f2", ["--element-format", "bf16"], "bf16 does not fit an array of <f2; choose"),
        (">u2", ["--element-format", "bf16"], "bf16 does not fit an array of >u2; choose"),
        ("<u2", ["--element-format", "e4m3"], "e4m3 does not fit an array of <u2; choose"),
        ("<u2", ["--element-format", "tf32"], "unknown element format 'tf32'; choose from bf16"),
        ("<f4", ["--element-bytes", "4"], "xc takes its elements from --element-format; leave"),
    ],
)
def test_element_format_that_does_not_fit(capsys, dtype, options, message):
    np.save("a.npy", activations(dtype))
    assert message in fails(capsys, "compress", "a.npy", "a.cz", "--codec", "xc", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--element-format", "fp32"], "zvc has no element format; leave --element-format out"),
        (["--power-of-two"], "zvc has no bound; leave --power-of-two out, or choose quantize"),
    ],
)
def test_options_of_another_codec(capsys, options, message):
    np.save("a.npy", activations())
    assert message in fails(capsys, "compress", "a.npy", "a.cz", *options)


def test_bound_is_rounded_down_to_a_power_of_two_where_that_is_asked_for(capsys):
    np.save("a.npy", activations())
    options = ["--codec", "quantize", "--bound", "0.3", "--power-of-two"]
    assert main(["compress", "a.npy", "a.cz", *options]) == 0
    assert "quantize, bound 0.25, elements of 4 B" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--codec", "zfp"], "the codec zfp needs a rate; give one"),
        (["--codec", "zfp", "--rate", "8"], "from 9 to 128, not 8; choose"),
        (["--codec", "zfp", "--rate", "9.5"], "invalid value for '--rate'"),
        (["--codec", "quantize"], "the codec quantize needs a bound; give one"),
        (["--codec", "quantize", "--bound", "-1"], "not -1.0; choose"),
        (["--codec", "quantize", "--bound", "nan"], "not nan; choose"),
        (["--codec", "quantize", "--rate", "32", "--bound", "1"], "quantize has no rate; it takes"),
        (["--bound", "0.1"], "the codec zvc has no bound; it takes no parameters"),
        (["--codec", "zfp", "--rate", "32", "--element-bytes", "2"], "4 bytes, fp32, not of 2; "),
    ],
)
def test_wrong_parameters(capsys, options, message):
    np.save("a.npy", activations())
    assert message in fails(capsys, "compress", "a.npy", "a.cz", *options)


@pytest.mark.parametrize("dtype", ["<f2", "<f8", "<i4"])
def test_lossy_codecs_are_for_float32(capsys, dtype):
    np.save("a.npy", activations(dtype))
    for options in (["zfp", "--rate", "32"], ["quantize", "--bound", "1"]):
        error = fails(capsys, "compress", "a.npy", "a.cz", "--codec", *options)
        assert "; convert the array, or choose a lossless codec" in error


def test_unknown_codec(capsys):
    np.save("a.npy", activations())
    error = fails(capsys, "compress", "a.npy", "a.cz", "--codec", "zip")
    assert "unknown codec 'zip'; choose from zvc, rle, csr, lz4, deflate, deflate-fast" in error


@pytest.mark.parametrize("size", ["3", "0", "-4", "8"])
def test_unknown_element_size(capsys, size):
    np.save("a.npy", activations())
    error = fails(capsys, "compress", "a.npy", "a.cz", "--element-bytes", size)
    assert f"no codec has elements of {size} bytes; choose from 4, 2, 1" in error


def test_element_size_that_is_no_number(capsys):
    np.save("a.npy", activations())
    fails(capsys, "compress", "a.npy", "a.cz", "--element-bytes", "four")


def test_too_many_dimensions(capsys):
    np.save("a.npy", np.zeros((1,) * 33, np.uint8))
    assert "33 dimensions" in fails(capsys, "compress", "a.npy", "a.cz")


def test_input_missing(capsys):
    assert "cannot read a.npy: No such file" in fails(capsys, "compress", "a.npy", "a.cz")
    assert "cannot read a.cz: No such file" in fails(capsys, "decompress", "a.cz", "a.npy")
    assert "cannot read a.cz: No such file" in fails(capsys, "inspect", "a.cz")


def test_cz_truncated_at_every_byte(capsys):
    np.save("a.npy", activations())
    main(["compress", "a.npy", "a.cz"])
    content = Path("a.cz").read_bytes()
    capsys.readouterr()
    for length in range(len(content)):
        Path("t.cz").write_bytes(content[:length])
        for command in (("decompress", "t.cz", "b.npy"), ("inspect", "t.cz")):
            error = fails(capsys, *command)
            assert "t.cz is empty" in error or "t.cz is truncated" in error


def test_cz_flipped_at_every_byte(capsys):
    np.save("a.npy", activations(shape=(2, 9)))
    main(["compress", "a.npy", "a.cz"])
    content = Path("a.cz").read_bytes()
    capsys.readouterr()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        Path("t.cz").write_bytes(damaged)
        assert "cdma: error: t.cz " in fails(capsys, "decompress", "t.cz", "b.npy")
        assert "cdma: error: t.cz " in fails(capsys, "inspect", "t.cz")


def test_damage_is_told_with_kind_and_place(capsys):
    np.save("a.npy", np.ones(32, np.float32))
    main(["compress", "a.npy", "a.cz"])
    content = bytearray(Path("a.cz").read_bytes())
    content[-4:] = bytes(4)
    Path("a.cz").write_bytes(content)
    capsys.readouterr()
    error = fails(capsys, "decompress", "a.cz", "b.npy")
    assert "a.cz is damaged: zero element at byte 128 of the stream; " in error


def test_npy_is_no_cz(capsys):
    np.save("a.npy", activations())
    assert "a.npy is not a .cz file; " in fails(capsys, "decompress", "a.npy", "b.npy")


@pytest.mark.parametrize("destination", ["missing/a.out", ".", "a.npy/a.out"])
def test_output_that_cannot_be_written(capsys, destination):
    np.save("a.npy", activations())
    main(["compress", "a.npy", "a.cz"])
    capsys.readouterr()
    assert f"cannot write {destination}: " in fails(capsys, "compress", "a.npy", destination)
    assert f"cannot write {destination}: " in fails(capsys, "decompress", "a.cz", destination)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_full_device(capsys):
    np.save("a.npy", activations())
    main(["compress", "a.npy", "a.cz"])
    capsys.readouterr()
    assert "cannot write /dev/full: No space left" in fails(
        capsys, "compress", "a.npy", "/dev/full"
    )
    assert "cannot write /dev/full: No space left" in fails(
        capsys, "decompress", "a.cz", "/dev/full"
    )


def test_write_that_fails_half_way_leaves_the_old_file():
    np.save("a.npy", np.arange(1, 5001, dtype=np.float32))
    Path("a.cz").write_bytes(b"precious")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "from cdma.cli import main; sys.exit(main(['compress', 'a.npy', 'a.cz', '--force']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("cdma: error: cannot write a.cz: File too large; ")
    assert Path("a.cz").read_bytes() == b"precious"
    assert sorted(path.name for path in Path().iterdir()) == ["a.cz", "a.npy"]


def test_failed_command_keeps_the_old_output(capsys):
    Path("b.npy").write_bytes(b"precious")
    Path("a.cz").write_bytes(b"junk")
    fails(capsys, "decompress", "a.cz", "b.npy")
    assert Path("b.npy").read_bytes() == b"precious"
