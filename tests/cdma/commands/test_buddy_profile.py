"""`cdma buddy profile`: tables, JSON, the heat map, and bad input in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from cdma.cli import main
from cdma.plan.buddy.profile import profile
from cdma.sim.buddy import in_bf16, load_snapshots

MODES = ["naive", "per-allocation", "per-allocation+zero-page", "best-achievable"]
RATIOS = ["1", "1.33", "2", "4", "16"]
SIZES = ["0", "8", "16", "32", "64", "80", "96", "128"]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def snapshots() -> str:
    """Two times of an allocation that compresses, one of one that does not, and zeros."""
    random = np.random.default_rng(1)
    noise = random.integers(0, 256, 1 << 17).astype(np.uint8)
    ramp = np.arange(16384, dtype=np.int32)
    np.savez(
        "run.npz",
        **{"ramp@1": ramp, "ramp@2": ramp * 3, "noise@1": noise, "noise@2": noise[::-1]},
        zeros=np.zeros(65536, np.uint8),
    )
    return "run.npz"


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["buddy", "profile", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def _fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr."""
    before = sorted(Path().rglob("*"))
    assert main(["buddy", "profile", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert err.count("\n") == 1
    assert "; " in err
    assert sorted(Path().rglob("*")) == before
    return err


def test_json_is_the_profile(capsys: pytest.CaptureFixture[str], snapshots: str) -> None:
    report = _json(capsys, snapshots)
    made = profile(load_snapshots([snapshots]))
    assert list(report["modes"]) == MODES
    for name, mode in made.modes().items():
        assert report["modes"][name] == {
            "ratio": mode.ratio,
            "buddy_access_fraction": mode.buddy_access_fraction,
        }
    ratios = [mode["ratio"] for mode in report["modes"].values()]
    assert ratios == sorted(ratios)
    targets = {row["name"]: row["target"] for row in report["allocations"]}
    assert targets == {"ramp": 16, "noise": 1, "zeros": 16}
    assert targets == {name: target.ratio for name, target in made.targets().items()}
    for row, allocation in zip(report["allocations"], made.allocations, strict=True):
        assert list(row["overflow"]) == RATIOS
        assert list(row["histogram"]) == SIZES
        assert sum(row["histogram"].values()) == pytest.approx(1)
        assert list(row["overflow"].values()) == allocation.overflow.tolist()
        assert row["bytes"] == allocation.nbytes
    assert report["device_bytes"] == made.device_bytes == 4096 + 131072 + 4096
    assert report["buddy_bytes"] == 2 * 65536
    assert report["ratio"] == report["modes"]["per-allocation+zero-page"]["ratio"]
    assert [row["time"] for row in report["over_time"]] == ["1", "2"]
    assert "sweep" not in report


def test_options_reach_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    report = _json(
        capsys,
        *("heat", "--threshold", "0.4", "--codec", "bpc", "--no-zero-page"),
        *("--element-bytes", "2", "--carve-out", "1", "--page-bytes", "65536"),
        "--sweep-threshold",
    )
    made = profile(
        load_snapshots(["heat"]),
        threshold=0.4,
        codec="bpc",
        element_bytes=2,
        carve_out=1,
        zero_page=False,
        page_bytes=65536,
    )
    assert report["ratio"] == made.ratio <= 2
    assert report["modes"]["naive"]["ratio"] == made.modes()["naive"].ratio
    assert (report["codec"], report["element_bytes"]) == ("bpc", 2)
    assert (report["threshold"], report["zero_page"]) == (0.4, False)
    sweep = {row["threshold"]: row["ratio"] for row in report["sweep"]}
    assert list(sweep) == [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    assert list(sweep.values()) == sorted(sweep.values())
    assert sweep[0.4] == report["ratio"]


def test_third_code_and_rounding(capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(2)
    weights = random.standard_normal((2, 16384)).astype(np.float32)
    np.savez("run.npz", **{"weights@1": weights[0], "weights@2": weights[1]})
    arguments = ("run.npz", "--bf16", "--codec", "best-of-three")
    report = _json(capsys, *arguments, "--parameters", "own")
    assert (report["bf16"], report["parameters"]) == (True, "own")
    [row] = report["allocations"]
    assert row["bytes"] == 32768
    assert row["target"] == pytest.approx(4 / 3)
    made = profile(
        in_bf16(load_snapshots(["run.npz"])), codec="best-of-three", parameters="own"
    ).allocations[0]
    assert row["within_96"] == made.within_96 > 0.99
    assert row["within_96_without_xc"] == made.within_96_by_two < 0.01
    plain = _json(capsys, "run.npz", "--bf16")
    assert plain["allocations"][0]["target"] == 1
    assert not {"parameters", "within_96"} & {*plain, *plain["allocations"][0]}
    assert main(["buddy", "profile", *arguments]) == 0
    out = capsys.readouterr().out
    assert "entries by size (best-of-three)" in out
    assert "without XC" in out


def test_tables(capsys: pytest.CaptureFixture[str], snapshots: str) -> None:
    assert main(["buddy", "profile", snapshots, "--sweep-threshold"]) == 0
    out = capsys.readouterr().out
    for expected in (*MODES, "eight sizes", "ramp", "noise", "zeros", "threshold", "2: 0.00 %"):
        assert expected in out
    assert "262,144 bytes in pages of 8,192 take 139,264 of device memory" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert rows["noise"][-3:] == ["1x", "0.00", "%"]
    assert rows["zeros"][2] == "100%"


def test_narrow_terminals_get_targets_without_histograms(
    capsys: pytest.CaptureFixture[str], snapshots: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    monkeypatch.setattr("cdma.commands.buddy.profile_report.terminal", lambda: Console(width=80))
    assert main(["buddy", "profile", snapshots]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert rows["noise"] == ["noise", "131,072", "1x", "0.00", "%"]


def test_several_files_are_several_times(
    capsys: pytest.CaptureFixture[str], snapshots: str
) -> None:
    np.save("noise.npy", np.zeros(1 << 17, np.uint8))
    report = _json(capsys, snapshots, "noise.npy")
    (noise,) = (row for row in report["allocations"] if row["name"] == "noise")
    assert noise["snapshots"] == 3
    assert noise["histogram"]["0"] == pytest.approx(1 / 3)
    assert [row["time"] for row in report["over_time"]] == ["run@1", "run@2", "noise"]


def test_heat_map_is_written(capsys: pytest.CaptureFixture[str], snapshots: str) -> None:
    _json(capsys, snapshots, "--heat-map", "map.png")
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")


def test_bad_heat_maps(capsys: pytest.CaptureFixture[str], snapshots: str) -> None:
    error = _fails(capsys, snapshots, "--heat-map", "map.jpg")
    assert "--heat-map writes PNG, SVG or PDF, not 'map.jpg'; name a file that ends" in error
    error = _fails(capsys, snapshots, "--heat-map", "gone/map.png")
    assert "cannot write gone/map.png: No such file or directory; " in error


def test_bad_input(capsys: pytest.CaptureFixture[str], snapshots: str) -> None:
    assert "cannot read gone.npz: No such file or directory; name" in _fails(capsys, "gone.npz")
    assert "missing argument 'SNAPSHOTS…'; " in _fails(capsys)
    Path("text.npz").write_text("text")
    assert "text.npz is neither an .npz archive nor" in _fails(capsys, "text.npz")
    np.savez("objects.npz", a=np.array([{}]))
    assert "objects.npz, array a, holds pickled objects; " in _fails(capsys, "objects.npz")
    np.savez("empty.npz", a=np.zeros(0))
    assert "empty.npz, array a, is empty; " in _fails(capsys, "empty.npz")
    np.savez("other.npz", ramp=np.zeros(3))
    error = _fails(capsys, snapshots, "other.npz")
    assert "allocation ramp changes its size, from 65536 B at 'run@1' to 24 B at 'other'" in error


@pytest.mark.parametrize(
    ("option", "value", "cause"),
    [
        ("--threshold", "1.5", "the Buddy Threshold must be 0 to 1, not 1.5"),
        ("--threshold", "-0.1", "the Buddy Threshold must be 0 to 1, not -0.1"),
        ("--threshold", "nan", "the Buddy Threshold must be 0 to 1, not nan"),
        ("--codec", "lz4", "unknown codec 'lz4'; choose best-of or bpc or best-of-three"),
        ("--parameters", "next", "unknown origin of parameters 'next'; choose before or own"),
        ("--element-bytes", "3", "no codec has elements of 3 bytes; "),
        ("--carve-out", "-1", "the carve-out must be 0 or more, not -1"),
        ("--page-bytes", "5000", "a page must be a power of two of at least 8192 B, not 5000"),
    ],
)
def test_bad_options(
    capsys: pytest.CaptureFixture[str], snapshots: str, option: str, value: str, cause: str
) -> None:
    assert cause in _fails(capsys, snapshots, f"{option}={value}")
