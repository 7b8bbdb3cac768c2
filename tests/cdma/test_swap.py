"""`cdma swap`: real RTL, compared bit by bit, and numbers that fit together."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import golden
from cdma.cli import main
from sim.machine import Pipeline

ARRAY_KEYS = [
    "name",
    "dtype",
    "shape",
    "element_bytes",
    "bytes",
    "density",
    "compressed_bytes",
    "ratio",
    "cycles_out",
    "cycles_in",
    "bytes_per_cycle_out",
    "bytes_per_cycle_in",
    "bit_exact",
    "baseline_ratios",
    "link_seconds_raw",
    "link_seconds_compressed",
    "swap_out_seconds",
    "swap_in_seconds",
    "crc32",
    "faults",
]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def activations(dtype="<f4", shape=(4, 8, 20), density=0.4, seed=3):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape) * (rng.random(shape) < density)
    return values.astype(dtype)


def swap_json(capsys, *arguments):
    assert main(["swap", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("dtype", ["<f4", "<f2", "|u1", "<f8", ">f4", "|b1"])
def test_arrays_come_back_and_sizes_are_the_golden_models(capsys, dtype):
    array = activations(dtype)
    np.save("a.npy", array)
    report = swap_json(capsys, "a.npy")
    (row,) = report["arrays"]
    assert list(row) == ARRAY_KEYS
    element_bytes = min(array.itemsize, 4)
    stream = golden.codec("zvc", element_bytes).compress(array)
    assert row["bit_exact"] is True
    assert row["faults"] == []
    assert row["element_bytes"] == element_bytes
    assert row["compressed_bytes"] == stream.size
    assert row["ratio"] == array.nbytes / stream.size
    assert row["crc32"] == golden.crc32(array)
    for name, ratio in row["baseline_ratios"].items():
        assert ratio == array.nbytes / golden.codec(name, element_bytes).compress(array).size


def test_total_is_the_sum_of_the_arrays(capsys):
    for index in range(3):
        np.save(f"{index}.npy", activations(seed=index, density=0.2 + 0.3 * index))
    report = swap_json(capsys, "0.npy", "1.npy", "2.npy")
    total = report["total"]
    for key in ("bytes", "compressed_bytes", "cycles_out", "cycles_in", "link_seconds_raw"):
        assert math.isclose(total[key], sum(row[key] for row in report["arrays"]))
    assert total["ratio"] == total["bytes"] / total["compressed_bytes"]
    assert total["density"] == np.mean([row["density"] for row in report["arrays"]])


def test_link_time_is_the_slower_of_link_and_rtl(capsys):
    np.save("sparse.npy", np.zeros(1 << 18, np.float32))
    (row,) = swap_json(capsys, "sparse.npy", "--link", "pcie3x16")["arrays"]
    assert row["link_seconds_raw"] == (1 << 20) / 16e9
    # 32 times smaller on the link, but the RTL takes 32 B per cycle.
    assert row["link_seconds_compressed"] == row["link_seconds_raw"] / 32
    assert row["swap_out_seconds"] == row["cycles_out"] / 1e9


@pytest.mark.parametrize("sector_bytes", [32, 64, 128])
def test_sparse_data_moves_at_the_width_of_the_sector(capsys, sector_bytes):
    np.save("a.npy", activations(shape=(64, 1024)))
    (row,) = swap_json(capsys, "a.npy", "--sector-bytes", sector_bytes)["arrays"]
    assert 0.9 * sector_bytes < row["bytes_per_cycle_out"] <= sector_bytes
    assert 0.9 * sector_bytes < row["bytes_per_cycle_in"] <= sector_bytes


def test_stalls_cost_cycles_and_no_bits(capsys):
    np.save("a.npy", activations())
    (free,) = swap_json(capsys, "a.npy")["arrays"]
    (stalled,) = swap_json(capsys, "a.npy", "--stalls", "0.5", "--seed", "7")["arrays"]
    assert stalled["bit_exact"]
    assert stalled["cycles_out"] > 1.5 * free["cycles_out"]
    assert stalled["cycles_in"] > 1.5 * free["cycles_in"]


@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (33,)])
def test_odd_sizes(capsys, shape):
    np.save("a.npy", np.ones(shape, np.float32))
    (row,) = swap_json(capsys, "a.npy")["arrays"]
    assert row["bit_exact"]
    assert (row["ratio"] is None) == (row["bytes"] == 0)


def test_array_of_several_transfers(capsys, monkeypatch):
    monkeypatch.setattr("sim.swap.TRANSFER_BYTES", 1024)
    array = activations(shape=(1000,))
    np.save("a.npy", array)
    (row,) = swap_json(capsys, "a.npy")["arrays"]
    assert row["bit_exact"]
    assert row["compressed_bytes"] == golden.codec("zvc", 4).compress(array).size


def test_layout_rearranges_without_changing_zvcs_size(capsys):
    rng = np.random.default_rng(5)
    channels = rng.random((1, 16, 1, 1)) < 0.5
    np.save("a.npy", (channels * rng.random((4, 16, 8, 8))).astype(np.float32))
    reports = {
        layout: swap_json(capsys, "a.npy", "--layout", layout)["arrays"][0]
        for layout in ("NCHW", "NHWC", "CHWN")
    }
    assert len({row["compressed_bytes"] for row in reports.values()}) == 1
    assert reports["NHWC"]["baseline_ratios"]["rle"] < reports["NCHW"]["baseline_ratios"]["rle"]


def test_shipped_capture_prints_a_table_and_saves_it(capsys):
    assert main(["swap", "--capture", "digits-cnn", "--save", "saved"]) == 0
    out = capsys.readouterr().out
    assert "21 of 21 arrays came back bit for bit" in out
    assert Path("saved/swap.txt").read_text() == out
    total = json.loads(Path("saved/swap.json").read_text())["total"]
    assert total["bit_exact"] is True
    # Real activations: no line is so dense that the output could not keep up for long.
    assert total["bytes_per_cycle_out"] > 31.5


def test_waves_of_both_directions(capsys):
    np.save("a.npy", activations(shape=(64,)))
    swap_json(capsys, "a.npy", "--waves", "w.vcd")
    for block in ("compressor", "decompressor"):
        text = Path(f"w-{block}.vcd").read_text()
        assert "s_axis_tdata" in text
        assert "$enddefinitions" in text


def test_difference_is_told_and_is_exit_status_1(capsys, monkeypatch):
    np.save("a.npy", activations())
    run = Pipeline.run

    def flip_a_bit(self, *arguments, **options):
        batch = run(self, *arguments, **options)
        batch.output[5] ^= 1
        return batch

    monkeypatch.setattr(Pipeline, "run", flip_a_bit)
    assert main(["swap", "a.npy", "--json"]) == 1
    out, err = capsys.readouterr()
    (row,) = json.loads(out)["arrays"]
    assert row["bit_exact"] is False
    assert "the stream is not the golden model's" in row["faults"]
    assert "a.npy: " in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to swap"),
        (["a.npy", "--capture", "digits-cnn"], "nothing to swap, or too much"),
        (["missing.npy"], "cannot read missing.npy"),
        (["complex.npy"], "complex.npy has the wrong dtype: complex64"),
        (["text.npy"], "text.npy is not an .npy file"),
        (["a.npy", "--codec", "lz4"], "there is no RTL of codec 'lz4'"),
        (["a.npy", "--element-bytes", "3"], "element"),
        (["a.npy", "--sector-bytes", "48"], "sector_bytes must be 32, 64 or 128, not 48"),
        (["a.npy", "--stalls", "1"], "--stalls must be"),
        (["a.npy", "--link", "isdn"], "unknown link 'isdn'; choose from pcie3x16"),
        (["a.npy", "--layout", "WHCN"], "unknown layout 'WHCN'"),
        (["--capture", "imagenet"], "unknown capture 'imagenet'"),
        (["a.npy", "--waves", "w.gif"], "waves cannot be written to"),
        (["a.npy", "--waves", "missing/w.vcd"], "waves cannot be written to"),
        (["a.npy", "--save", "a.npy/x"], "cannot write a.npy/x"),
    ],
)
def test_bad_input_is_one_line_and_no_file(capsys, arguments, message):
    np.save("a.npy", activations(shape=(8,)))
    np.save("complex.npy", np.ones(3, np.complex64))
    Path("text.npy").write_text("hello")
    before = sorted(Path().iterdir())
    assert main(["swap", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(Path().iterdir()) == before
