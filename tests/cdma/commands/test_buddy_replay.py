"""`cdma buddy replay`: figures as JSON and as a table, and bad input in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from cdma.cli import main
from cdma.synth.gates.clock import BUDDY, clock_note

SMALL = ["--config", "tiny", "--accesses", "300"]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data() -> str:
    """Two allocations, one of which compresses."""
    random = np.random.default_rng(1)
    ramp = np.arange(4096, dtype=np.int32)
    noise = random.integers(0, 256, 20_000).astype(np.uint8)
    np.savez("run.npz", **{"ramp@1": ramp, "ramp@2": ramp * 3, "noise": noise})
    return "run.npz"


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["buddy", "replay", *SMALL, *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


@pytest.mark.verify
def test_json(capsys: pytest.CaptureFixture[str], data: str) -> None:
    report = _json(capsys, "--data", data, "--read-fraction", "0.5", "--pattern", "random")
    assert report["bit_exact"]
    assert (report["config"], report["pattern"], report["trace"]) == ("tiny", "random", None)
    assert (report["accesses"], report["bytes"]) == (300, 300 * 128)
    assert [(a["name"], a["bytes"], a["target"]) for a in report["allocations"]] == [
        ("ramp", 16384, 16.0),
        ("noise", 20_000, 1.0),
    ]
    baseline, (run,) = report["baseline"], report["runs"]
    assert (baseline["name"], run["name"]) == ("uncompressed", "compressed")
    assert baseline["slowdown"] == 0
    assert run["slowdown"] == pytest.approx(run["cycles"] / baseline["cycles"] - 1)
    assert run["bytes_per_s"] == pytest.approx(300 * 128 / run["cycles"] * 875e6)
    assert run["reads"] + run["writes"] == 300
    assert baseline["metadata_hit_rate"] is None
    assert 0 < run["metadata_hit_rate"] < 1
    assert report == _json(capsys, "--data", data, "--read-fraction", "0.5", "--pattern", "random")


def test_several_channels(capsys: pytest.CaptureFixture[str], data: str) -> None:
    few = ("--data", data, "--read-fraction", "1")
    one, two = (_json(capsys, *few, "--channels", str(number)) for number in (1, 2))
    assert two["bit_exact"]
    assert (one["channels"], two["channels"]) == (1, 2)
    assert two["runs"][0]["reads"] == one["runs"][0]["reads"] == 300
    assert two["baseline"]["cycles"] < one["baseline"]["cycles"]


def test_a_sweep_of_several_channels_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["buddy", "replay", *SMALL, "--channels", "2", "--sweep", "link"]) == 2
    assert "a sweep is of one channel, not of 2" in capsys.readouterr().err


def test_a_target_for_all(capsys: pytest.CaptureFixture[str], data: str) -> None:
    report = _json(capsys, "--data", data, "--target", "4", "--read-fraction", "1")
    assert {a["target"] for a in report["allocations"]} == {4.0}
    # The stream comes to the noise behind the 128 entries of the ramp.
    (run,) = report["runs"]
    assert run["spilled"] == 156
    assert run["buddy_sectors_read"] == 3 * run["spilled"]
    assert run["buddy_sectors_written"] == 0


def test_links(capsys: pytest.CaptureFixture[str], data: str) -> None:
    report = _json(
        capsys, "--data", data, "--target", "4", "--sweep", "link", "--link-gb-per-s", "150"
    )
    assert [run["link_gb_per_s"] for run in report["runs"]] == [50, 100, 150, 200]
    cycles = [run["cycles"] for run in report["runs"]]
    assert cycles == sorted(cycles, reverse=True)
    assert report["baseline"]["link_gb_per_s"] == 150


def test_three_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer entries of the same numbers in bf16 spill."""
    numbers = np.random.default_rng(2).standard_normal(16_384).astype(np.float32)
    np.savez("run.npz", **{"weights@1": numbers, "weights@2": numbers[::-1]})
    given = ("--data", "run.npz", "--bf16", "--target", "1.33", "--pattern", "random")
    two, three = (_json(capsys, *given, *more) for more in ((), ("--codec", "best-of-three")))
    assert (two["bf16"], three["bf16"]) == (True, True)
    assert two["bit_exact"] == three["bit_exact"] is True
    modes = [report["configuration"]["buddy"]["entry"]["mode"] for report in (two, three)]
    assert modes == ["best-of", "best-of-three"]
    assert two["runs"][0]["buddy_access_fraction"] > 0.9
    assert three["runs"][0]["buddy_access_fraction"] < 0.05


def test_a_trace_from_a_file(capsys: pytest.CaptureFixture[str], data: str) -> None:
    np.savez("trace.npz", address=[0, 16384, 3], bytes=[128, 64, 1000], write=[1, 0, 0])
    report = _json(capsys, "trace.npz", "--data", data)
    assert (report["trace"], report["pattern"], report["accesses"]) == ("trace.npz", None, 3)
    assert (report["runs"][0]["writes"], report["runs"][0]["reads"]) == (1, 9)


def test_the_table(capsys: pytest.CaptureFixture[str], data: str) -> None:
    assert main(["buddy", "replay", *SMALL, "--data", data]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "300 accesses, 38,400 bytes" in out
    assert "uncompressed" in out
    assert "device sectors read / written" in out
    assert clock_note(875e6, BUDDY) in " ".join(out.split())
    assert "bit for bit" in out


def test_a_replay_that_is_wrong_ends_with_status_1(
    capsys: pytest.CaptureFixture[str], data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(playback: object, driver: object) -> list[str]:
        return ["it is wrong"]

    monkeypatch.setattr("cdma.sim.buddy.replay._failed", failed)
    assert main(["buddy", "replay", *SMALL, "--data", data]) == 1
    out, err = capsys.readouterr()
    assert err.splitlines() == ["uncompressed: it is wrong", "compressed: it is wrong"]
    assert "NOT" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pattern", "zigzag"], "unknown pattern 'zigzag'; choose stream"),
        (["--sweep", "clock"], "unknown sweep 'clock'; choose cache or link"),
        (["--target", "3"], "unknown target '3'; choose profile, 1, 1.33, 2, 4, 16"),
        (["--config", "huge"], "config must be one of channel"),
        (["--metadata-cache", "big"], "unknown metadata cache 'big'; choose paper_3_2"),
        (["--metadata-cache", "100"], "capacity_bytes must be a power of two"),
        (["--buddy-fraction", "2"], "must be 0 to 1, not 2"),
        (["--buddy-fraction", "0.1", "--data", "mixed"], "leave --data out"),
        (["--buddy-fraction", "0.1", "--bf16"], "leave --bf16 out"),
        (["--codec", "lz4"], "unknown codec 'lz4'; choose best-of, bpc, best-of-three"),
        (["--buddy-fraction", "0.1", "--target", "profile"], "give --target 1.33, 2, 4 or 16"),
        (["--link-gb-per-s", "0"], "link_bytes_per_s must be more than 0"),
        (["none.npz"], "none.npz is no trace that can be read"),
        (["--data", "none.npz"], "cannot read none.npz"),
        (["--data", "mixed"], "pages, the page table has 16; give less"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str], data: str, arguments: list[str], message: str
) -> None:
    given = [] if "--data" in arguments or "--buddy-fraction" in arguments else ["--data", data]
    assert main(["buddy", "replay", *SMALL, *given, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert message in err
    assert err.count("\n") == 1
