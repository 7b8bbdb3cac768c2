"""`cdma estimate`: keys that stay, figures that fit together, errors that help, files whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdma import golden
from cdma.builds.documents import body
from cdma.cli import main
from cdma.plan.engine_cost import Setup
from cdma.plan.platform.link import LINKS
from cdma.plan.workload import load_capture
from cdma.synth.gates.clock import ENGINE, clock_note

VGG = ("--network", "vgg16")
LOSSY = (*VGG, "--codec", "quantize", "--bound")

TENSOR_KEYS = [
    "name",
    "density",
    "raw_bytes",
    "stream_bytes",
    "ratio",
    "measured_on",
    "offload_seconds",
    "offload_cycles",
    "offload_bytes_per_s",
    "raw_offload_seconds",
    "offload_speedup",
    "offload_limit",
    "prefetch_seconds",
    "prefetch_cycles",
    "prefetch_bytes_per_s",
    "raw_prefetch_seconds",
    "prefetch_speedup",
    "prefetch_limit",
]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def estimate_json(capsys, *arguments: str) -> dict[str, Any]:
    assert main(["estimate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_keys_are_stable(capsys):
    report = estimate_json(capsys, *VGG, "--sweep", "units=4,8")
    assert list(body(report)) == ["assumptions", "configuration", "tensors", "total", "sweep"]
    assert list(report["assumptions"]) == [
        *("network", "dataset", "batch", "density", "config", "codec", "bound"),
        *("engine", "machine", "throttle"),
    ]
    for row in report["tensors"]:
        assert list(row) == TENSOR_KEYS
    both = {"offload_limits", "prefetch_limits"}
    kept = set(TENSOR_KEYS) - {"name", "density", "measured_on", "offload_limit", "prefetch_limit"}
    assert set(report["total"]) == kept | both
    assert report["sweep"]["parameter"] == "units"
    for row in report["sweep"]["rows"]:
        assert list(row) == ["value", *report["total"]]


def test_the_total_is_the_sum_of_tensors(capsys):
    report = estimate_json(capsys, *VGG, "--batch", "16")
    total, rows = report["total"], report["tensors"]
    for key in ("raw_bytes", "stream_bytes", "offload_seconds", "prefetch_cycles"):
        assert total[key] == pytest.approx(sum(row[key] for row in rows))
    assert total["ratio"] == total["raw_bytes"] / total["stream_bytes"]
    assert sum(total["offload_limits"].values()) == pytest.approx(total["offload_seconds"])
    assert total["offload_bytes_per_s"] == total["raw_bytes"] / total["offload_seconds"]
    assert total["offload_speedup"] == total["raw_offload_seconds"] / total["offload_seconds"]


def test_each_tensor_is_what_the_closed_form_says(capsys):
    report = estimate_json(
        capsys, *VGG, "--batch", "8", "--density", "0.05", "--throttle", "bandwidth-aware"
    )
    setup = Setup.named("titanx_gen3", throttle="bandwidth-aware")
    for row in report["tensors"]:
        stream = setup.stream_bytes(row["raw_bytes"], 0.05)
        assert row["stream_bytes"] == stream
        out, back = (setup.cost(row["raw_bytes"], stream, way) for way in ("out", "in"))
        assert (row["offload_cycles"], row["offload_limit"]) == (out.cycles, "throttle")
        assert (row["prefetch_seconds"], row["prefetch_limit"]) == (back.seconds, "units")


def test_assumptions_say_what_the_options_did(capsys):
    facts = estimate_json(
        capsys,
        *("--network", "alexnet", "--dataset", "cifar", "--batch", "4", "--config", "v100_nvlink2"),
        *("--link", "v100-pcie", "--throttle", "performance-optimal", "--density", "curve"),
        *("--epoch", "3", "--epochs", "7"),
    )["assumptions"]
    assert (facts["network"], facts["dataset"], facts["batch"]) == ("alexnet", "cifar", 4)
    assert facts["density"]["source"] == "curve"
    assert (facts["density"]["epoch"], facts["density"]["epochs"]) == (3, 7)
    assert (facts["config"], facts["engine"]["units"]) == ("v100_nvlink2", 8)
    assert facts["machine"]["link"] == "v100-pcie"
    assert facts["machine"]["link_out_bytes_per_s"] == 11.7e9
    assert facts["machine"]["link_in_bytes_per_s"] == 10.6e9
    assert facts["throttle"] == {"name": "performance-optimal", "bytes_per_s": 200e9}


@pytest.mark.parametrize(
    ("sweep", "values"),
    [
        ("units=1,4", [1, 4]),
        ("sector_bytes=32,64", [32, 64]),
        ("clock=5e8,1.3e9", [5e8, 1.3e9]),
        ("link=pcie3x16,pcie6x16", ["pcie3x16", "pcie6x16"]),
        ("buffer=4KiB,70KiB", [4096, 71680]),
    ],
)
def test_more_of_any_parameter_takes_less_time(capsys, sweep, values):
    """At a density at which all of them count."""
    report = estimate_json(capsys, *VGG, "--density", "0.03", "--sweep", sweep)
    rows = report["sweep"]["rows"]
    assert [row["value"] for row in rows] == values
    assert rows[0]["offload_seconds"] > rows[1]["offload_seconds"]


def test_a_sweep_over_what_is_there_changes_nothing(capsys):
    report = estimate_json(capsys, *VGG, "--sweep", "buffer=70KiB")
    (row,) = report["sweep"]["rows"]
    assert row == {"value": 71680, **report["total"]}


def test_the_table_tells_tensors_limits_and_the_sweep(capsys):
    assert main(["estimate", *VGG, "--density", ".03", "--sweep", "link=pcie3x16,nvlink2"]) == 0
    text = capsys.readouterr().out
    assert "6 units of 32 B at 1 GHz take 192 GB/s; buffer of 70 KiB" in text
    assert clock_note(1e9, ENGINE) in " ".join(text.split())
    for heading in ("stream MB", "ratio", "limit out", "cycles in", "vs raw"):
        assert heading in text
    assert "relu1_1" in text
    assert "units: units, a sector per cycle each" in " ".join(text.split())
    assert any(line.strip().startswith("nvlink2 ") for line in text.splitlines())


def test_a_lossy_codec_has_the_golden_model_s_streams(capsys):
    options = ("--network", "digits_cnn", "--codec", "quantize", "--bound")
    report = estimate_json(capsys, *options, "0.01", "--power-of-two", "--sweep", "units=4,6")
    facts = report["assumptions"]
    assert (facts["codec"], facts["bound"]) == ("quantize", 0.0078125)
    model = golden.codec("quantize", bound=0.0078125)
    arrays = {a.layer: a.array for a in load_capture("digits-cnn").activations if a.epoch == 0}
    for row in report["tensors"]:
        array = arrays.get(row["name"])
        if array is None:
            assert (row["measured_on"], row["ratio"]) == ("worst case", pytest.approx(128 / 129))
        else:
            assert row["measured_on"] == "tensor"
            share = model.compress(array).size / array.nbytes
            assert row["stream_bytes"] == pytest.approx(share * row["raw_bytes"])
    assert report["sweep"]["rows"][1] == {"value": 6, **report["total"]}
    looser = estimate_json(capsys, *options, "0.25")["total"]
    assert looser["stream_bytes"] < report["total"]["stream_bytes"]
    assert looser["offload_seconds"] < report["total"]["offload_seconds"]


def test_a_lossy_codec_s_table_and_page_tell_what_sizes_are_of(capsys):
    options = ("--network", "alexnet", "--codec", "quantize", "--bound", "0.25")
    assert main(["estimate", *options, "--html", "p.html"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "quantize, bound 0.25; tensors: 8 of those of its kind of layer, 5 without any, every line "
        "kept whole" in told
    )
    page = Path("p.html").read_text()
    assert "worst case" in page
    assert "Effective bandwidth by density" not in page


def test_xc_is_a_codec_of_an_estimate(capsys):
    report = estimate_json(capsys, "--network", "digits_cnn", "--codec", "xc")
    assert (report["assumptions"]["codec"], report["assumptions"]["bound"]) == ("xc", None)
    assert {row["measured_on"] for row in report["tensors"]} == {None}
    assert report["configuration"]["engine"]["codec"]["codecs"] == ["xc", "raw"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*LOSSY, "0.25", "--density", "0.4"), "depends on its values, and 0.4 has only densities"),
        ((*LOSSY, "0.25", "--density", "curve"), "and curve has only densities; give a capture"),
        ((*LOSSY, "0.25", "--density", "d.json"), "and d.json has only densities; give a capture"),
        (LOSSY[:-1], "the codec quantize needs a bound; give one by --bound ERROR"),
        ((*LOSSY, "0.3"), "is no power of two; choose one next to it, 0.25 or 0.5"),
        ((*LOSSY, "0.25", "--plot", "p.png"), "--plot draws bandwidth against density, of which"),
        ((*VGG, "--bound", "1"), "zvc has no bound; leave --bound out, or choose quantize"),
        ((*VGG, "--codec", "lz4"), "codecs: unknown codec 'lz4'; choose from zvc, raw, xc"),
        (("--network", "vgg"), "unknown network 'vgg'; name one of alexnet, "),
        (
            (*VGG, "--config", "k80"),
            "config must be one of titanx_gen3, titanxp_gen3, ",
        ),
        ((*VGG, "--link", "usb"), f"unknown link 'usb'; choose from {', '.join(LINKS)}"),
        ((*VGG, "--throttle", "slow"), "throttle must be one of none, performance-optimal, "),
        ((*VGG, "--density", "1.5"), "density must be 0 to 1, not 1.5"),
        ((*VGG, "--density", "nan"), "density must be 0 to 1, not nan"),
        ((*VGG, "--density", "dense"), "unknown densities 'dense'; name one of curve, "),
        ((*VGG, "--density", ".5", "--capture", "x"), "--capture is for --density capture"),
        ((*VGG, "--epoch", "90"), "epoch must be 0 to 89, not 90"),
        ((*VGG, "--sweep", "units"), "a sweep is written as units=4,6,8, not 'units'"),
        (
            (*VGG, "--sweep", "speed=1"),
            "unknown parameter 'speed' to sweep; choose from units, engines, sector_bytes, clock, ",
        ),
        ((*VGG, "--sweep", "units="), "values of units are written as 4,6,8, not ''"),
        ((*VGG, "--sweep", "clock=-1"), "values of clock are written as 1e9,1.3e9, not '-1'"),
        ((*VGG, "--sweep", "buffer=7XB"), "values of buffer are written as 35KiB,70KiB, not"),
        ((*VGG, "--sweep", "units=99"), "units must be 1 to 16, not 99"),
        ((*VGG, "--sweep", "sector_bytes=48"), "sector_bytes must be 32, 64 or 128, not 48"),
        ((*VGG, "--sweep", "link=pcie3x16,usb"), "unknown link 'usb'; choose from "),
        ((*VGG, "--plot", "x.jpg"), "--plot writes PNG, SVG or PDF, not 'x.jpg'; name a file"),
        ((*VGG, "--plot", "no/x.png"), "cannot write no/x.png: No such file or directory"),
        ((), "no network given; name one with --network: alexnet, "),
    ],
)
def test_bad_input_is_told_in_one_line(capsys, arguments, message):
    Path("d.json").write_text('{"relu": 0.4}')
    assert main(["estimate", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("cdma: error: ")
    assert message in told.err
    assert told.err.count("\n") == 1


def test_the_plot_appears_whole(capsys, tmp_path):
    assert main(["estimate", *VGG, "--plot", "p.png"]) == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [tmp_path / "p.png"]


def test_a_run_that_is_stopped_leaves_what_was_there(capsys, tmp_path, monkeypatch):
    (tmp_path / "p.png").write_text("before")

    def stopped(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cdma.outputs.os.fsync", stopped)
    assert main(["estimate", *VGG, "--plot", "p.png", "--force"]) == 130
    assert (tmp_path / "p.png").read_text() == "before"
    assert list(tmp_path.iterdir()) == [tmp_path / "p.png"]
