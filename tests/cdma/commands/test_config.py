"""`cdma config`, and files of a user's own in the place of names: the same commands, the same
results, and one clear error."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdma.builds.documents import body
from cdma.cli import main
from cdma.commands.synth.configuration import configured, names_with
from cdma.config import ENGINE, MACHINE, find, tables_of
from cdma.hw.config import PRESETS, CodecConfig, EngineConfig
from cdma.synth import block_names
from tests.cdma.config.files import write_all

STRANGERS = EngineConfig(codec=CodecConfig(sector_bytes=64), units=3, host_bytes=64)
PLANNED = ("--memory", "900kB", "--policy", "vdnn,cdma,oracle")


@pytest.fixture(autouse=True)
def _in_a_folder_with_files(tmp_path, monkeypatch):
    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)


def output_of(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def json_of(capsys, *arguments: str) -> dict[str, Any]:
    return json.loads(output_of(capsys, *arguments, "--json"))


def error_of(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert err.count("\n") == 1
    return err


def test_show_prints_a_file_that_is_the_same(capsys):
    Path("both.toml").write_text(output_of(capsys, "config", "show", "v100_nvlink2"))
    assert find(ENGINE, "both.toml").value == PRESETS["v100_nvlink2"]
    assert find(MACHINE, "both.toml").value == find(MACHINE, "v100_nvlink2").value
    printed = output_of(capsys, "config", "show", "engine.toml")
    assert tomllib.loads(printed) == tables_of(STRANGERS)
    assert body(json_of(capsys, "config", "show", "engine.toml")) == {
        "configuration": tables_of(STRANGERS)
    }
    shared = output_of(capsys, "config", "show", "pcie4x16/2", "--kind", "link")
    assert tomllib.loads(shared)["link"]["bytes_per_s"] == 16e9
    assert "say which with --kind" in error_of(capsys, "config", "show", "my_hooks:engine")
    hook = output_of(capsys, "config", "show", "my_hooks:engine", "--kind", "engine")
    assert tomllib.loads(hook)["engine"]["units"] == 2
    assert "there is nothing named 'resnet5'; did you mean 'resnet50'?" in error_of(
        capsys, "config", "show", "resnet5"
    )


def test_check_says_what_a_file_is(capsys):
    assert output_of(capsys, "config", "check", "engine.toml") == (
        "engine.toml: [engine] is right: units 3, host_bytes 64, buffer_bytes 71680, "
        "read_buffer_bytes 16384\n"
    )
    Path("wide.toml").write_text("[engine]\nunits = 3\n[machine]\nchannels = 4\n")
    assert "channels must be 3, the units of engine wide.toml, not 4" in error_of(
        capsys, "config", "check", "wide.toml"
    )
    Path("empty.toml").write_text("")
    assert "empty.toml is empty; write a table" in error_of(capsys, "config", "check", "empty.toml")


def test_a_host_of_no_bus_s_width_is_told_by_all_commands_and_others_are_right(capsys):
    text = "[engine]\nunits = 3\nhost_bytes = 48\n[engine.codec]\nsector_bytes = 64\n"
    Path("engine.toml").write_text(text)
    error = (
        "cdma: error: engine.toml: [engine] host_bytes must be 4, 8, 16, 32, 64 or 128, not 48\n"
    )
    for command in (
        ("config", "check", "engine.toml"),
        ("generate", "engine", "--config", "engine.toml"),
        ("synth", "packer", "--config", "engine.toml"),
        ("swap", "--capture", "digits-cnn", "--config", "engine.toml"),
        ("estimate", "--network", "vgg16", "--config", "engine.toml"),
        ("schedule", "--network", "vgg16", "--config", "engine.toml"),
        ("energy", "--config", "engine.toml"),
        ("board", "ulx3s_85f", "--config", "engine.toml"),
    ):
        assert error_of(capsys, *command) == error
    for host, sector in ((64, 64), (32, 64), (64, 32)):
        other = text.replace("host_bytes = 48", f"host_bytes = {host}")
        Path("engine.toml").write_text(other.replace("_bytes = 64", f"_bytes = {sector}"))
        output_of(capsys, "config", "check", "engine.toml")


def test_estimate_is_that_of_the_file_and_its_report_gives_the_same_again(capsys):
    files = ("--config", "engine.toml", "--network", "network.toml", "--link", "link.toml")
    report = json_of(capsys, "estimate", *files)
    assert report["configuration"]["engine"] == tables_of(STRANGERS)["engine"]
    assert report["assumptions"]["machine"]["channels"] == 3
    assert report["assumptions"]["machine"]["link_out_bytes_per_s"] == 10e9
    assert [tensor["name"] for tensor in report["tensors"]] == ["relu1", "sum", "prob"]
    Path("run.json").write_text(json.dumps(report))
    again = json_of(capsys, "estimate", "--config", "run.json")
    assert (again["tensors"], again["total"]) == (report["tensors"], report["total"])
    assert again["configuration"] == report["configuration"]
    # What is given beside the report counts.
    faster = json_of(capsys, "estimate", "--config", "run.json", "--link", "pcie5x16")
    assert faster["total"]["offload_seconds"] < report["total"]["offload_seconds"]


def test_schedule_takes_all_files_and_its_report_gives_the_same_again(capsys):
    files = [f"--{name}={name}.toml" for name in ("network", "device", "link", "machine")]
    report = json_of(capsys, "schedule", *files, "--config", "engine.toml", *PLANNED)
    assert report["assumptions"]["engine"] == {
        "name": "engine.toml in machine.toml",
        "clock_hz": 8e8,
        "units_bytes_per_s": 3 * 64 * 8e8,
        "port_bytes_per_s": 64 * 8e8,
    }
    assert report["assumptions"]["device"]["name"] == "device"
    assert report["assumptions"]["efficiency"]["conv"] == 0.5
    assert report["assumptions"]["link"]["bytes_per_s"] == 10e9
    assert list(report["configuration"]) == ["engine", "machine", "device", "link", "network"]
    Path("run.json").write_text(json.dumps(report))
    again = json_of(capsys, "schedule", "--config", "run.json", *PLANNED)
    assert (again["policies"], again["bounds"]) == (report["policies"], report["bounds"])
    assert again["configuration"] == report["configuration"]


def test_a_report_of_a_step_without_engine_is_a_configuration_too(capsys):
    fast = ("--network", "network.toml", "--link", "nvlink4", "--policy", "vdnn,oracle")
    report = json_of(capsys, "schedule", *fast)
    assert report["assumptions"]["engine"] is None
    Path("run.json").write_text(json.dumps(report))
    again = json_of(capsys, "schedule", "--config", "run.json", "--policy", "vdnn,oracle")
    assert again["policies"] == report["policies"]


def test_an_engine_too_slow_for_the_link_is_told_with_what_limits_it(capsys):
    Path("small.toml").write_text("[engine]\nunits = 3\nread_buffer_bytes = 1024\n")
    error = error_of(
        capsys, "schedule", "--network", "network.toml", "--config", "small.toml", *PLANNED
    )
    assert "no engine passes the 12.8 GB/s that copies get of pcie3x16; small.toml passes " in error
    assert ", by its limit 'reads'. Choose another link" in error


def test_a_configuration_is_an_input_and_never_written_over(capsys):
    report = json_of(capsys, "schedule", "--network", "network.toml", *PLANNED)
    Path("run.json").write_text(json.dumps(report))
    again = ("schedule", "--config", "run.json", "--trace", "run.json", "--force", *PLANNED)
    assert "cannot write run.json: it is the input run.json" in error_of(capsys, *again)
    assert json.loads(Path("run.json").read_text()) == report


def test_a_generated_block_tells_the_configuration_that_it_has(capsys):
    first = ("generate", "token-bucket", "--config", "engine.toml", "--out", "one")
    output_of(capsys, *first)
    sidecar = json.loads(Path("one/token_bucket.json").read_text())
    assert sidecar["configuration"] == tables_of(STRANGERS)
    output_of(capsys, "generate", "token-bucket", "--config", "one/token_bucket.json", "--out", "2")
    assert Path("2/token_bucket.v").read_text() == Path("one/token_bucket.v").read_text()
    output_of(capsys, *first[:-1], "ip", "--ip")
    assert json.loads(Path("ip/token_bucket/rtl/token_bucket.json").read_text())[
        "configuration"
    ] == tables_of(STRANGERS)
    # Options change what a file says, as they change a preset.
    narrow = (*first[:-1], "3", "--sector-bytes", "32")
    output_of(capsys, *narrow)
    changed = json.loads(Path("3/token_bucket.json").read_text())["configuration"]["engine"]
    assert (changed["units"], changed["host_bytes"]) == (3, 32)


def test_synth_maps_components_in_their_part_of_a_file():
    Path("all.toml").write_text(
        Path("engine.toml").read_text() + "[buddy]\nreads = 8\n[buddy.entry]\nmode = 'bpc'\n"
    )
    names = ["packer", "token-bucket", "bpc-compressor", "sector-mapper"]
    blocks, tables, read = configured(names, "all.toml")
    assert [each.config for each in blocks] == ["all.toml"] * 4
    packer, bucket, compressor, mapper = (each.parameters for each in blocks)
    assert (packer["sector_bytes"], "units" in packer) == (64, False)
    assert bucket["units"] == 3
    assert (compressor["mode"], mapper["reads"]) == ("bpc", 8)
    assert (list(tables), read) == (["engine", "buddy"], [Path("all.toml")] * 2)
    assert names_with("all.toml") == block_names()
    assert "packer" in names_with("engine.toml")
    assert "sector-mapper" not in names_with("engine.toml")


def test_a_machine_s_file_is_simulated(capsys, monkeypatch):
    made = []

    def backend(config, environment, **options):
        made.append((config, environment, options["throttle"].bytes_per_s))
        raise SystemExit(7)

    monkeypatch.setattr("cdma.commands.swap.command.EngineBackend", backend)
    Path("slow.toml").write_text("[throttle]\nbytes_per_s = 3e10\n")
    np.save("a.npy", np.zeros(8, np.float32))
    files = ("--config", "engine.toml", "--machine", "machine.toml", "--throttle", "slow.toml")
    with pytest.raises(SystemExit):
        main(["swap", "a.npy", *files])
    (config, machine, bytes_per_s) = made[0]
    assert (config, bytes_per_s) == (STRANGERS, 3e10)
    assert (machine.channels, machine.clock_hz) == (3, 8e8)
    Path("oneway.toml").write_text("[link]\nbytes_per_s = 4e9\nin_bytes_per_s = 2e9\n")
    with pytest.raises(SystemExit):
        main(["swap", "a.npy", "--link", "oneway.toml"])
    machine = made[1][1]
    assert (machine.link_out_bytes_per_s, machine.link_in_bytes_per_s) == (4e9, 2e9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("estimate", "--network", "none.toml"), "cannot read none.toml: No such file or "),
        (("estimate", "--network", "device.toml"), "device.toml has no [network] but [device]; "),
        (("estimate", "--network", "vgg17"), "did you mean 'vgg16'?"),
        (("schedule", "--network", "vgg16", "--device", "link.toml"), "has no [device] but [link]"),
        (("schedule", "--network", "vgg16", "--link", "engine.toml"), "has no [link] but [engine]"),
        (("schedule", "--network", "my_hooks:engine"), "must be of class Network or Graph, or a "),
        (("synth", "--all", "--config", "device.toml"), "device.toml has no [engine] and no [budd"),
        (
            ("buddy", "replay", "--config", "engine.toml"),
            "has no [buddy] but [engine]; give a ",
        ),
    ],
)
def test_the_wrong_kind_of_file_is_told(capsys, arguments, message):
    assert message in error_of(capsys, *arguments)


@pytest.mark.verify
def test_a_strangers_engine_goes_all_the_way(capsys):
    """The engine of a file as Verilog, in gates, on data, in an estimate and in a schedule."""
    engine = ("--config", "engine.toml")
    output_of(capsys, "config", "check", "engine.toml")

    output_of(capsys, "generate", "engine", *engine, "--out", "rtl")
    sidecar = json.loads(Path("rtl/cdma_engine.json").read_text())
    assert sidecar["configuration"] == tables_of(STRANGERS)
    read_data = {
        port["name"]: port["width"]
        for interface in sidecar["interfaces"]
        for port in interface["ports"]
        if port["name"].endswith("rdata") and interface["name"] != "s_axil"
    }
    # A memory port at each unit, and the port to the link, each as wide as a sector.
    assert sorted(read_data.values()) == [512] * 4

    (row,) = json_of(capsys, "synth", "token-bucket", *engine, "--out", "gates")["components"]
    assert (row["config"], row["parameters"]["units"]) == ("engine.toml", 3)
    assert row["kge"] > 0

    rng = np.random.default_rng(3)
    values = rng.standard_normal(5000).astype(np.float32)
    np.save("a.npy", np.where(rng.random(5000) < 0.3, values, np.float32(0)))
    run = json_of(capsys, "swap", "a.npy", *engine)
    assert run["configuration"]["engine"] == tables_of(STRANGERS)["engine"]
    assert run["total"]["bit_exact"]
    assert run["total"]["ratio"] > 2

    files = (*engine, "--network", "network.toml", "--link", "link.toml")
    assert json_of(capsys, "estimate", *files)["assumptions"]["engine"]["units"] == 3
    plans = json_of(capsys, "schedule", *files, "--device", "device.toml", *PLANNED, "--run")
    assert plans["assumptions"]["engine"]["name"] == "engine.toml"
    (done,) = [one for one in plans["runs"]["plans"] if one["policy"] == "cdma"]
    assert done["copies"]
