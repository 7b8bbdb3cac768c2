"""`cdma swap`: real RTL, compared bit by bit, and numbers that fit together."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from cdma import golden
from cdma.cli import main
from cdma.errors import UserError
from cdma.hw.config import preset
from cdma.hw.dma.control.descriptor import Opcode
from cdma.sim.driver import Engine
from cdma.sim.machine import Pipeline, machine_config
from cdma.synth.gates.clock import CODEC as CODEC_CLOCK
from cdma.synth.gates.clock import ENGINE as ENGINE_CLOCK
from cdma.synth.gates.clock import clock_note
from tests.lib.paths import ROOT
from tests.lib.shares import widths

ARRAY_KEYS = [
    "name",
    "dtype",
    "shape",
    "element_bytes",
    "codec",
    "parameters",
    "bytes",
    "density",
    "compressed_bytes",
    "ratio",
    "cycles_out",
    "cycles_in",
    "bytes_per_cycle_out",
    "bytes_per_cycle_in",
    "bit_exact",
    *(LOSS_KEYS := ["largest_error", "exact_values", "not_finite_values"]),
    "baseline_ratios",
    "link_seconds_raw",
    "link_seconds_compressed",
    "swap_out_seconds",
    "swap_in_seconds",
    *(
        ENGINE_KEYS := [
            "link_utilization_out",
            "link_utilization_in",
            "dram_read_bytes_per_s",
            "buffer_high_water_bytes",
            "stall_cycles",
            "status",
        ]
    ),
    "latency_cycles_out",
    "latency_cycles_in",
    "crc32",
    "faults",
]


CODEC = ("--engine", "codec")
DMA = ("--engine", "dma")
LOSSY = ("--codec", "quantize", "--bound")
ENGINES = pytest.mark.parametrize("engine", [CODEC, DMA], ids=["codec", "dma"])


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


@pytest.mark.parametrize(
    ("engine", "dtype"),
    [
        *((engine, dtype) for engine in (CODEC, DMA) for dtype in ("<f4", "<f8", ">f4")),
        # The RTL of another element size is more to build.
        *(pytest.param(CODEC, dtype, marks=pytest.mark.verify) for dtype in ("|u1", "|b1", "<f2")),
        pytest.param(DMA, "<f2", marks=pytest.mark.verify),
    ],
)
def test_arrays_come_back_and_sizes_are_the_golden_models(capsys, engine, dtype):
    array = activations(dtype)
    np.save("a.npy", array)
    report = swap_json(capsys, "a.npy", *engine)
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
    assert (report["bound"], row["parameters"]) == (None, {})
    assert {row[key] for key in LOSS_KEYS} == {None}
    for name, ratio in row["baseline_ratios"].items():
        assert ratio == array.nbytes / golden.codec(name, element_bytes).compress(array).size


def test_total_is_the_sum_of_the_arrays(capsys):
    for index in range(3):
        np.save(f"{index}.npy", activations(seed=index, density=0.2 + 0.3 * index))
    report = swap_json(capsys, "0.npy", "1.npy", "2.npy")
    total = report["total"]
    for key in ("bytes", "compressed_bytes", "cycles_out", "cycles_in", "link_seconds_raw"):
        assert math.isclose(total[key], sum(row[key] for row in report["arrays"]))
    busy = sum(row["link_utilization_out"] * row["cycles_out"] for row in report["arrays"])
    assert math.isclose(total["link_utilization_out"], busy / total["cycles_out"])
    assert total["ratio"] == total["bytes"] / total["compressed_bytes"]
    assert total["density"] == np.mean([row["density"] for row in report["arrays"]])


@pytest.mark.verify
@ENGINES
def test_arrays_of_several_element_sizes_stay_in_their_order(capsys, engine):
    files = ["words.npy", "halves.npy", "none.npy", "more-words.npy", "more-halves.npy"]
    types = ["<f4", "<f2", "<f4", "<f4", "<f2"]
    for seed, (file, dtype) in enumerate(zip(files, types, strict=True)):
        shape = (0,) if file == "none.npy" else (40 + seed, 30)
        np.save(file, activations(dtype, shape=shape, seed=seed))
    rows = swap_json(capsys, *files, *engine)["arrays"]
    assert [row["name"] for row in rows] == files
    assert [row["element_bytes"] for row in rows] == [4, 2, 4, 4, 2]
    for file, row in zip(files, rows, strict=True):
        stream = golden.codec("zvc", row["element_bytes"]).compress(np.load(file))
        assert (row["bit_exact"], row["compressed_bytes"]) == (True, stream.size)


def test_link_time_is_the_slower_of_link_and_codec(capsys):
    np.save("sparse.npy", np.zeros(1 << 18, np.float32))
    (row,) = swap_json(capsys, "sparse.npy", *CODEC, "--link", "pcie3x16")["arrays"]
    assert {row[key] for key in (*ENGINE_KEYS, "latency_cycles_out")} == {None}
    assert row["link_seconds_raw"] == (1 << 20) / 16e9
    # 32 times smaller on the link, but the RTL takes 32 B per cycle.
    assert row["link_seconds_compressed"] == row["link_seconds_raw"] / 32
    assert row["swap_out_seconds"] == row["cycles_out"] / 1e9


@pytest.mark.parametrize("sector_bytes", widths(32, 64, 128, quick=[32]))
def test_sparse_data_moves_at_the_width_of_the_sector(capsys, sector_bytes):
    np.save("a.npy", activations(shape=(64, 1024)))
    (row,) = swap_json(capsys, "a.npy", *CODEC, "--sector-bytes", sector_bytes)["arrays"]
    assert 0.9 * sector_bytes < row["bytes_per_cycle_out"] <= sector_bytes
    assert 0.9 * sector_bytes < row["bytes_per_cycle_in"] <= sector_bytes


def test_engine_time_is_its_cycles_with_the_link_in_them(capsys):
    np.save("dense.npy", activations(shape=(1 << 17,), density=1.0))
    report = swap_json(capsys, "dense.npy")
    assert (report["engine"], report["machine"]) == ("dma", "titanx_gen3")
    assert report["link"] == {"name": "titanx_gen3", "bytes_per_s": 16e9}
    (row,) = report["arrays"]
    assert row["swap_out_seconds"] == row["cycles_out"] / report["clock_hz"]
    assert row["swap_out_seconds"] > row["link_seconds_compressed"] > row["link_seconds_raw"]
    # Nothing but latency is lost, and the record is a few bytes more.
    for way in ("out", "in"):
        used = row["link_seconds_compressed"] / row[f"swap_{way}_seconds"]
        assert 0.95 < used <= row[f"link_utilization_{way}"] < 1
    assert row["status"] == "OK_EXPANDED"
    # What the queue as a whole has is not an array's.
    assert (row["stall_cycles"], row["buffer_high_water_bytes"]) == (None, None)
    assert report["total"]["stall_cycles"]["host_write"] > 0
    assert 60_000 < report["total"]["buffer_high_water_bytes"] <= 70 * 1024


@pytest.mark.verify
def test_another_link_changes_the_machine(capsys):
    np.save("dense.npy", activations(shape=(1 << 17,), density=1.0))
    times = [
        swap_json(capsys, "dense.npy", "--link", link)["total"]["cycles_out"]
        for link in ("pcie3x16-shared", "pcie3x16", "pcie4x16")
    ]
    assert 1.9 < times[0] / times[1] < 2
    assert 1.7 < times[1] / times[2] < 2


def test_throttle_holds_reads_of_device_memory_down(capsys):
    np.save("sparse.npy", np.zeros(1 << 18, np.float32))
    free, held = (
        swap_json(capsys, "sparse.npy", *options)["total"]
        for options in ((), ("--throttle", "bandwidth-aware"))
    )
    assert free["dram_read_bytes_per_s"] > 100e9
    assert 44e9 < held["dram_read_bytes_per_s"] <= 48e9
    assert held["stall_cycles"]["throttle"] > 0.5 * held["cycles_out"]
    assert free["stall_cycles"]["throttle"] == 0


@ENGINES
def test_stalls_cost_cycles_and_no_bits(capsys, engine):
    np.save("a.npy", activations(shape=(1 << 14,)))
    (free,) = swap_json(capsys, "a.npy", *engine)["arrays"]
    (stalled,) = swap_json(capsys, "a.npy", *engine, "--stalls", "0.8", "--seed", "7")["arrays"]
    assert stalled["bit_exact"]
    assert stalled["cycles_out"] > 1.5 * free["cycles_out"]
    assert stalled["cycles_in"] > 1.5 * free["cycles_in"]


@ENGINES
@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (33,)])
def test_odd_sizes(capsys, engine, shape):
    np.save("a.npy", np.ones(shape, np.float32))
    (row,) = swap_json(capsys, "a.npy", *engine)["arrays"]
    assert row["bit_exact"]
    assert (row["ratio"] is None) == (row["bytes"] == 0)


def test_an_empty_array_is_no_transfer(capsys):
    np.save("a.npy", np.ones((0,), np.float32))
    (row,) = swap_json(capsys, "a.npy")["arrays"]
    assert (row["cycles_out"], row["cycles_in"], row["compressed_bytes"]) == (0, 0, 0)
    for key in ("bytes_per_cycle_out", "link_utilization_in", "dram_read_bytes_per_s", "status"):
        assert row[key] is None
    assert main(["swap", "a.npy"]) == 0
    assert "1 of 1 arrays came back bit for bit" in capsys.readouterr().out


@ENGINES
def test_array_of_several_transfers(capsys, monkeypatch, engine):
    monkeypatch.setattr("cdma.sim.swap.swapper.TRANSFER_BYTES", 1024)
    # More than the engine has in flight at once.
    array = activations(shape=(5000,))
    np.save("a.npy", array)
    (row,) = swap_json(capsys, "a.npy", *engine)["arrays"]
    assert row["bit_exact"]
    assert row["compressed_bytes"] == golden.codec("zvc", 4).compress(array).size


def test_layout_rearranges_without_changing_zvcs_size(capsys):
    rng = np.random.default_rng(5)
    channels = rng.random((1, 16, 1, 1)) < 0.5
    np.save("a.npy", (channels * rng.random((4, 16, 8, 8))).astype(np.float32))
    reports = {
        layout: swap_json(capsys, "a.npy", *CODEC, "--layout", layout)["arrays"][0]
        for layout in ("NCHW", "NHWC", "CHWN")
    }
    assert len({row["compressed_bytes"] for row in reports.values()}) == 1
    assert reports["NHWC"]["baseline_ratios"]["rle"] < reports["NCHW"]["baseline_ratios"]["rle"]


@ENGINES
def test_shipped_capture_prints_a_table_and_saves_it(capsys, engine):
    assert main(["swap", "--capture", "digits-cnn", *engine, "--save", "saved"]) == 0
    out = capsys.readouterr().out
    assert "21 of 21 arrays came back bit for bit" in out
    assert clock_note(1e9, CODEC_CLOCK if engine is CODEC else ENGINE_CLOCK) in " ".join(
        out.split()
    )
    assert "…" not in out
    assert Path("saved/swap.txt").read_text() == out
    total = json.loads(Path("saved/swap.json").read_text())["total"]
    assert total["bit_exact"] is True
    if engine is CODEC:
        # Real activations: no line is so dense that the output could not keep up for long.
        assert total["bytes_per_cycle_out"] > 31.5
    else:
        assert total["status"] == "OK"
        assert "99.2 99.1" in out
        # Of the whole, only the first array's latency is left.
        assert total["link_utilization_out"] >= 0.99
        assert total["link_utilization_in"] >= 0.99


@pytest.fixture
def one_unit():
    """An engine of one unit, which is a minute's work to build with the lossy codec."""
    tables = {"engine": "units = 1", "machine": "channels = 1"}
    text = [f'[{name}]\npreset = "titanx_gen3"\n{line}\n' for name, line in tables.items()]
    Path("one.toml").write_text("\n".join(text))
    return ("--config", "one.toml", "--codec", "quantize", "--bound")


@pytest.mark.verify
def test_a_lossy_codec_brings_values_back_within_the_bound(capsys, one_unit):
    rng = np.random.default_rng(8)
    array = rng.standard_normal((60, 50)).astype(np.float32)
    array.flat[[40, 41, -1]] = np.nan, np.inf, 1e30
    np.save("a.npy", array)
    np.save("b.npy", array.astype(">f4"))
    np.save("none.npy", array[:0])
    report = swap_json(capsys, "a.npy", "b.npy", "none.npy", *one_unit, "0.01", "--power-of-two")
    bound = 0.0078125
    assert (report["codec"], report["bound"]) == ("quantize", bound)
    model = golden.codec("quantize", bound=bound)
    stream = model.compress(array)
    returned = model.decompress(stream, array.nbytes)
    finite = np.isfinite(array)
    errors = np.abs(returned.view("<f4").reshape(array.shape)[finite].astype(float) - array[finite])
    for row in report["arrays"][:2]:
        assert list(row) == ARRAY_KEYS
        assert (row["bit_exact"], row["faults"]) == (True, [])
        assert (row["parameters"], row["compressed_bytes"]) == ({"k": 121}, stream.size)
        assert row["crc32"] == golden.crc32(returned)
        assert 0 < row["largest_error"] == errors.max() <= bound
        # The line of the first two, and the last one, of 24 values.
        assert (row["exact_values"], row["not_finite_values"]) == (32 + 24, 2)
        assert 0 < row["link_utilization_out"] < 1
    empty = report["arrays"][2]
    assert [empty[key] for key in LOSS_KEYS] == [0, 0, 0]
    assert [report["total"][key] for key in LOSS_KEYS] == [errors.max(), 112, 4]
    # The document is a configuration, and has the codec and the bound.
    Path("swap.json").write_text(json.dumps(report))
    again = ("--config", "swap.json", "--codec", report["codec"], "--bound", report["bound"])
    assert swap_json(capsys, "a.npy", "b.npy", "none.npy", *again)["arrays"] == report["arrays"]


@pytest.mark.verify
@pytest.mark.parametrize("columns", [80, 140])
def test_a_lossy_table_fits_its_console(capsys, monkeypatch, one_unit, columns):
    array = np.random.default_rng(8).standard_normal(1000).astype(np.float32)
    array[5] = np.nan
    np.save("conv2.relu@epoch2.npy", array)
    monkeypatch.setattr("cdma.commands.swap.command.terminal", lambda: Console(width=columns))
    arguments = ("conv2.relu@epoch2.npy", *one_unit, "0.3", "--power-of-two", "--html", "p.html")
    assert main(["swap", *arguments]) == 0
    out, err = capsys.readouterr()
    assert "the bound 0.3 was rounded down to 0.25\n" in err
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= columns
    told = " ".join(out.split())
    assert "1 of 1 arrays came back as the golden model restores them, bit for bit" in told
    assert "with a bound of 0.25; 32 values were kept exactly, 1 of them NaN or infinite." in told
    page = Path("p.html").read_text()
    assert "1 of 1 arrays came back as the golden model restores them." in page
    assert "error is 0.25, and 32 values were kept exactly, 1 of them NaN" in page


@pytest.mark.verify
def test_shipped_capture_comes_back_within_the_bound(capsys):
    words = ("--capture", "digits-cnn", "--codec", "quantize", "--bound", "0.0078125")
    assert main(["swap", *words]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "21 of 21 arrays came back as the golden model restores them, bit for bit" in told
    assert "The largest error is 0.0078125, with a bound of 0.0078125; no value had to be" in told
    assert "8.51x smaller, 8.09x faster." in told


@pytest.mark.verify
def test_first_run_and_readme_show_what_a_run_prints(capsys):
    assert main(["swap", "--capture", "digits-cnn"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    page = (ROOT / "docs" / "start" / "first-run.md").read_text()
    first = page.index(printed[0])
    above, below = page[first : page.index("```", first)].split(" …\n")
    shown_above, shown_below = above.splitlines(), below.splitlines()
    assert shown_above == printed[: len(shown_above)]
    assert shown_below == printed[-len(shown_below) :]
    assert printed[-1] in (ROOT / "README.md").read_text().splitlines()


@pytest.mark.verify
def test_waves_of_both_directions(capsys):
    np.save("a.npy", activations(shape=(64,)))
    swap_json(capsys, "a.npy", *CODEC, "--waves", "w.vcd")
    for block in ("compressor", "decompressor"):
        text = Path(f"w-{block}.vcd").read_text()
        assert "s_axis_tdata" in text
        assert "$enddefinitions" in text


@ENGINES
def test_difference_is_told_and_is_exit_status_1(capsys, monkeypatch, engine):
    np.save("a.npy", activations())
    run, wait = Pipeline.run, Engine.wait

    def flip_a_bit(self, *arguments, **options):
        batch = run(self, *arguments, **options)
        batch.output[5] ^= 1
        return batch

    def flip_a_bit_of_the_stream(self, transfer):
        record = wait(self, transfer)
        if transfer.fields["opcode"] == Opcode.COMPRESS_OUT and record.index == 0:
            transfer.writes[0].array[5] ^= 1
        return record

    monkeypatch.setattr(Pipeline, "run", flip_a_bit)
    monkeypatch.setattr(Engine, "wait", flip_a_bit_of_the_stream)
    np.save("b.npy", activations(seed=4))
    assert main(["swap", "a.npy", "b.npy", *engine, "--json"]) == 1
    out, err = capsys.readouterr()
    row, other = json.loads(out)["arrays"]
    assert row["bit_exact"] is False
    assert "the stream is not the golden model's" in row["faults"]
    assert "a.npy: " in err
    if engine is DMA:
        assert row["status"] == "CRC_MISMATCH"
        assert "the way in's status is CRC_MISMATCH" in row["faults"]
        assert other["bit_exact"] is True
        assert "b.npy" not in err


def test_a_machine_is_an_engine_with_its_environment(monkeypatch):
    np.save("a.npy", activations(shape=(8,)))
    made = []

    def backend(config, environment, **options):
        made.append((config, environment, options["throttle"].name))
        raise UserError("seen enough")

    monkeypatch.setattr("cdma.commands.swap.command.EngineBackend", backend)
    assert main(["swap", "a.npy", "--machine", "v100_nvlink2"]) == 2
    assert made == [(preset("v100_nvlink2"), machine_config("v100_nvlink2"), "none")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to swap"),
        (["a.npy", "--capture", "digits-cnn"], "nothing to swap, or too much"),
        (["missing.npy"], "cannot read missing.npy"),
        (["complex.npy"], "complex.npy has the wrong dtype: complex64"),
        (["text.npy"], "text.npy is not an .npy file"),
        (["a.npy", "--codec", "lz4"], "there is no RTL of codec 'lz4'"),
        (["a.npy", "--codec", "quantize"], "the codec quantize needs a bound; give one by --bound"),
        (["a.npy", *LOSSY, "nan"], "the bound must be a number from 5.9e-39 to 8.5e+37, not nan"),
        (["a.npy", *LOSSY, "0"], "the bound must be a number from 5.9e-39 to 8.5e+37, not 0.0"),
        (["a.npy", *LOSSY, "nan", "--power-of-two"], "the bound must be a number from 5.9e-39"),
        (["a.npy", *LOSSY, "0.3"], "is no power of two; choose one next to it, 0.25 or 0.5"),
        (["a.npy", "--bound", "1"], "zvc has no bound; leave --bound out, or choose quantize"),
        (["a.npy", "--codec", "auto", "--power-of-two"], "auto has no bound; leave --power-of-two"),
        (["a.npy", *LOSSY, "1", *CODEC], "--codec quantize is for --engine dma; choose --codec"),
        (["a.npy", "int.npy", "--round-to", "bf16"], "for float32 arrays, and int.npy has int32"),
        (["--capture", "tiny-gpt", "--round-to", "bf16"], "and there are none; leave it out"),
        (["a.npy", "--round-to", "fp8"], "must be bf16, fp16, e4m3, e5m2, not 'fp8'"),
        (["infinite.npy", "--round-to", "e4m3"], "e4m3 is for finite numbers, which are scaled"),
        (["half.npy", *LOSSY, "1"], "takes elements of 4 bytes, which are fp32, not 2; convert"),
        (["double.npy", *LOSSY, "1"], "quantize is for float32, not float64; convert the array"),
        (["int.npy", *LOSSY, "1"], "quantize is for float32, not int32; convert the array"),
        (["a.npy", "--element-bytes", "3"], "element"),
        (["a.npy", *CODEC, "--sector-bytes", "48"], "sector_bytes must be 32, 64 or 128, not 48"),
        (["a.npy", "--sector-bytes", "64"], "--sector-bytes is for --engine codec; leave it out"),
        (["a.npy", *CODEC, "--machine", "titanx_gen3"], "--machine is for --engine dma"),
        (["a.npy", *CODEC, "--throttle", "none"], "--throttle is for --engine dma"),
        (["a.npy", "--engine", "gpu"], "unknown engine 'gpu'; choose dma or codec"),
        (["a.npy", "--machine", "a100"], "machine must be one of titanx_gen3"),
        (["a.npy", "--throttle", "slow"], "throttle must be one of none"),
        (["a.npy", "half.npy", "--waves", "w.vcd"], "--waves is for one element size, not 2 and 4"),
        (["a.npy", "--stalls", "1"], "--stalls must be"),
        (["a.npy", "--link", "isdn"], "unknown link 'isdn'; choose from pcie3x16"),
        (["a.npy", "--layout", "WHCN"], "unknown layout 'WHCN'"),
        (["--capture", "imagenet"], "unknown capture 'imagenet'"),
        (["a.npy", *CODEC, "--waves", "w.gif"], "waves cannot be written to"),
        (
            ["a.npy", *CODEC, "--waves", "missing/w.vcd"],
            "cannot write missing/w-compressor.vcd: ",
        ),
        (["a.npy", "--waves", "missing/w.vcd"], "cannot write missing/w.vcd: No such file"),
        (["a.npy", "--save", "a.npy/x"], "cannot write a.npy/x"),
    ],
)
def test_bad_input_is_one_line_and_no_file(capsys, arguments, message):
    np.save("a.npy", activations(shape=(8,)))
    np.save("half.npy", activations("<f2", shape=(8,)))
    np.save("double.npy", activations("<f8", shape=(8,)))
    np.save("int.npy", activations("<i4", shape=(8,)))
    np.save("complex.npy", np.ones(3, np.complex64))
    np.save("infinite.npy", np.float32([1.0, np.inf]))
    Path("text.npy").write_text("hello")
    before = sorted(Path().iterdir())
    assert main(["swap", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(Path().iterdir()) == before
