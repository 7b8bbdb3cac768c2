"""`cdma sweep`: axes, points, the table in its forms, and what is refused before anything runs."""

import csv
import io
import json
from importlib import import_module

import numpy as np
import pytest

from cdma.builds.documents import body
from cdma.cli import main
from cdma.commands.sweep.axes import Axis, axes_of_file, axes_of_line, grid
from cdma.commands.sweep.fields import fields_of
from cdma.commands.sweep.swept import CHECKS, FIELDS, REFUSED, SweptCommand
from cdma.errors import UserError
from cdma.sweep import command_line
from cdma.sweep.command_line import run_command
from tests.lib.shares import names

LINES = {
    "estimate": ["--network", "alexnet"],
    "schedule": ["--network", "alexnet", "--policy", "vdnn", "--bound", "none"],
    "swap": ["a.npy", "--engine", "codec"],
    "synth": ["packer", "--config", "tiny"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(64, dtype=np.float32))
    return tmp_path


@pytest.fixture
def no_command_runs(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(arguments)

    monkeypatch.setattr(command_line.subprocess, "run", refuse)


@pytest.fixture
def echo(monkeypatch):
    """Each command prints what it was asked; those with a bad batch fail."""
    asked = []

    def run(words, **options):
        arguments = words[words.index("cdma") + 1 :]
        asked.append(arguments)
        batch = int(arguments[arguments.index("--batch") + 1]) if "--batch" in arguments else 0
        failed = batch == 13
        return type(
            "Done",
            (),
            {
                "returncode": 2 if failed else 0,
                "stderr": "some progress\ncdma: error: batch must not be 13\n" if failed else "",
                "stdout": json.dumps({"batch": batch, "words": len(arguments)}),
            },
        )

    monkeypatch.setattr(command_line.subprocess, "run", run)
    return asked


def sweep(*words):
    return main(["sweep", "--results", "points", "--jobs", "1", *words])


@pytest.mark.parametrize("command", names(FIELDS, quick=["estimate", "schedule"]))
def test_every_command_s_usual_fields_are_there(capsys, command):
    """One point of each, by the command itself."""
    assert main([command, *LINES[command], "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert sweep("--json", command, *LINES[command]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(body(report)) == ["command", "axes", "points", "computed", "rows", "failures"]
    (row,) = report["rows"]
    assert sweep(command, *LINES[command]) == 0
    timed = command != "synth"
    told = " ".join(capsys.readouterr().out.split())
    assert ("RTL does not clock at 1 GHz yet" in told) == timed
    assert row["fields"] == {name: fields_of(alone)[name] for name in FIELDS[command]}
    assert None not in row["fields"].values()
    with open(row["file"], encoding="utf-8") as file:
        # A point's own command line has a folder for its files, too.
        assert body(json.load(file)["result"]) == body(alone)


def test_all_combinations_are_points_and_the_table_has_each(capsys, echo):
    axes = ("--network", "alexnet,nin", "--batch=4,8", "--link", "pcie3x16")
    assert sweep("--fields", "batch,words", "--csv", "estimate", *axes) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [
        ["network", "batch", "link", "batch", "words"],
        ["alexnet", "4", "pcie3x16", "4", "8"],
        ["alexnet", "8", "pcie3x16", "8", "8"],
        ["nin", "4", "pcie3x16", "4", "8"],
        ["nin", "8", "pcie3x16", "8", "8"],
    ]
    assert len(echo) == 4
    assert echo[0] == [
        *("estimate", "--network", "alexnet", "--batch", "4", "--link", "pcie3x16", "--json")
    ]
    assert sweep("--fields", "batch,nothing,words", "estimate", *axes) == 2
    assert "no point has a field 'nothing'; choose from batch, words" in capsys.readouterr().err
    assert sweep("--fields", "batch", "estimate", *axes) == 0
    text = capsys.readouterr().out
    # What all points have in common stands above.
    assert text.startswith("cdma estimate --link pcie3x16\n")
    assert text.count("alexnet") == text.count("nin") == 2
    assert len(echo) == 4


def test_the_last_axis_turns_fastest():
    axes = [Axis(name="a", values=(1, 2)), Axis(name="b", values=("x", "y"))]
    assert [tuple(each.values()) for each in grid(axes)] == [
        *((1, "x"), (1, "y")),
        *((2, "x"), (2, "y")),
    ]
    assert list(grid([])) == [{}]


def test_a_sweep_goes_on_and_shards_fill_one_table(capsys, echo):
    axes = ("estimate", "--network", "alexnet", "--batch", "1,2,3")
    assert sweep("--fields", "batch", "--shard", "1/2", *axes) == 0
    assert "1 of 3 points are not computed yet" in capsys.readouterr().out
    assert len(echo) == 2
    assert sweep("--fields", "batch", "--json", *axes) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["fields"]["batch"] for row in report["rows"]] == [1, 2, 3]
    assert len(echo) == 3


def test_a_point_that_fails_is_named_and_the_others_are_kept(capsys, echo, folder):
    axes = ("estimate", "--network", "alexnet", "--batch", "12,13,14")
    assert sweep("--fields", "batch", "--json", *axes) == 1
    told = capsys.readouterr()
    report = json.loads(told.out)
    line = "cdma estimate --network alexnet --batch 13"
    assert told.err == f"cdma: failed: {line}: batch must not be 13\n"
    assert report["failures"] == [{"command_line": line, "error": "batch must not be 13"}]
    assert [row["fields"]["batch"] for row in report["rows"]] == [12, 14]
    assert len(list((folder / "points").iterdir())) == 2


@pytest.mark.verify
def test_a_real_command_that_fails_tells_its_own_error(capsys):
    assert sweep("--csv", "estimate", "--network", "alexnet", "--density", "0.5,3") == 1
    told = capsys.readouterr()
    assert told.err.endswith("--density 3: density must be 0 to 1, not 3\n")
    assert [line.split(",")[:2] for line in told.out.splitlines()[1:]] == [["alexnet", "0.5"]]


def test_the_key_is_the_whole_configuration(folder):
    def key(command, *words):
        swept = SweptCommand(command)
        (values,) = grid(axes_of_line(swept, words))
        point = swept.point(values)
        return point.content, [content for _, content in point.files]

    plain = key("estimate", "--network", "alexnet")
    # Spelled defaults and the order of options are no other configuration.
    assert key("estimate", "--epochs", "90", "--network=alexnet", "--epoch", "0") == plain
    assert key("estimate", "--network", "alexnet", "--epoch", "1") != plain
    assert plain[0]["parameters"]["epochs"] == 90
    array = key("swap", "a.npy")
    assert len(array[1]) == 1
    np.save("a.npy", np.ones(64, np.float32))
    other = key("swap", "a.npy")
    assert other[0] == array[0]
    assert other[1] != array[1]
    (folder / "flat.json").write_text('{"relu": 0.5}')
    flat = key("estimate", "--network", "alexnet", "--density", "flat.json")
    (folder / "flat.json").write_text('{"relu": 0.6}')
    assert key("estimate", "--network", "alexnet", "--density", "flat.json") != flat
    (folder / "own.toml").write_text("[link]")
    assert len(key("estimate", "--network", "alexnet", "--link", "own.toml")[1]) == 1
    assert len(key("estimate", "--network", "alexnet", "--link", "own.toml/4")[1]) == 1


def test_words_without_an_option_are_the_arguments_axis(echo):
    np.save("b,c.npy", np.ones(4, np.float32))
    assert sweep("--fields", "words", "swap", "a.npy", "b,c.npy", "--stalls", "0,0.5") == 0
    assert [words[1] for words in echo] == ["a.npy", "a.npy", "b,c.npy", "b,c.npy"]
    assert [words[3] for words in echo] == ["0", "0.5", "0", "0.5"]


def test_flags_are_given_to_all_points():
    synth = SweptCommand("synth")
    assert axes_of_line(synth, ["packer", "--opensta"]) == [
        Axis(name="components", values=("packer",)),
        Axis(name="opensta", values=(True,)),
    ]
    assert "--opensta" in synth.point({"opensta": True, "components": "packer"}).name
    assert "--opensta" not in synth.point({"opensta": False, "components": "packer"}).name


AXES = {
    "toml": 'network = ["alexnet", "nin"]\nbatch = [4, 8]\nthrottle = "none"\n',
    "json": '{"network": ["alexnet", "nin"], "batch": [4, 8], "throttle": "none"}',
}


@pytest.mark.parametrize("kind", AXES)
def test_axes_come_from_a_file_and_from_the_line(capsys, echo, folder, kind):
    (folder / f"axes.{kind}").write_text(AXES[kind])
    words = ("--axes", f"axes.{kind}", "--fields", "batch", "--json", "estimate")
    assert sweep(*words, "--link", "pcie3x16") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["axes"] == {
        "network": ["alexnet", "nin"],
        "batch": [4, 8],
        "throttle": ["none"],
        "link": ["pcie3x16"],
    }
    assert report["computed"] == len(echo) == 4
    assert sweep(*words, "--batch", "4") == 2
    assert "batch is given twice" in capsys.readouterr().err


def test_a_file_has_values_with_commas_lists_and_flags(folder):
    (folder / "axes.toml").write_text('policy = ["vdnn,cdma", "home"]\nlargest-batch = [true]\n')
    schedule = SweptCommand("schedule")
    axes = axes_of_file(schedule, folder / "axes.toml")
    assert [axis.values for axis in axes] == [("vdnn,cdma", "home"), (True,)]
    (folder / "axes.json").write_text('{"components": [["packer", "unpacker"], "crc32"]}')
    synth = SweptCommand("synth")
    (axis,) = axes_of_file(synth, folder / "axes.json")
    assert synth.point({"components": axis.values[0]}).name == "cdma synth packer unpacker"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("swop",), "'swop' cannot be swept; choose from estimate, schedule, swap, synth"),
        (("estimate", "--network", "alexnet,vgg20"), "unknown network 'vgg20'"),
        (("estimate", "--network", "nin", "--link", "pcie3x16,pcie9"), "unknown link 'pcie9'"),
        (("estimate", "--network", "nin", "--config", "big"), "big"),
        (("schedule", "--network", "nin", "--device", "z80"), "unknown device 'z80'"),
        (("schedule", "--network", "nin", "--policy", "vdnn,no"), "unknown policy 'no'"),
        (("swap", "a.npy", "--codec", "zvc,lz4"), "unknown codec 'lz4'; choose from"),
        (("synth", "packer", "packet"), "unknown component 'packet'"),
        (("estimate", "--network", "nin", "--link", "my:link"), "--link my:link is a hook"),
        (("estimate", "--network", "no.toml"), "cannot read no.toml"),
        (("estimate", "--network", "nin", "--batch", "1,two"), "'--batch'"),
        (("estimate", "--netwerk", "nin"), "cdma estimate has no option --netwerk; see"),
        (("estimate", "--network", "nin,,vgg16"), "--network must have values with commas"),
        (("estimate", "--network"), "--network must have values with commas between, not ''"),
        (("estimate", "--network", "nin", "--network", "vgg16"), "network is given twice"),
        (("estimate", "nin"), "cdma estimate takes options only"),
        (("estimate", "--network", "nin", "--plot", "a.png"), "--plot writes a file"),
        (("estimate", "--network", "nin", "--html", "a.html"), "--html writes a file"),
        (("synth", "packer", "--opensta=1"), "--opensta takes no value; leave '=1' out"),
        (("synth", "packer", "--out", "x"), "--out is a folder that points would share"),
        (("estimate", "--network", "nin", "--json"), "--json is of the table"),
        (("--csv", "--json", "estimate", "--network", "nin"), "leave one of them out"),
        (("--fields", "a,,b", "estimate", "--network", "nin"), "--fields must be names"),
        (("--shard", "0/2", "estimate", "--network", "nin"), "--shard must be as 1/4"),
        (("--shard", "3/2", "estimate", "--network", "nin"), "shard must be 1/2 to 2/2, not 3/2"),
        (("--backend", "slurm", "estimate"), "unknown backend 'slurm'; choose local or dask"),
        (("--scheduler", "tcp://a:1", "estimate"), "--scheduler is for --backend dask"),
        (("--backend", "dask", "estimate"), "--jobs is for --backend local"),
        (("--axes", "a.npy", "estimate"), "--axes reads TOML and JSON, not 'a.npy'"),
        (("--axes", "no.toml", "estimate"), "cannot read no.toml"),
    ],
)
def test_bad_axes_are_refused_before_anything_runs(capsys, folder, no_command_runs, words, message):
    if "dask" in words:
        words = ("--scheduler", "tcp://127.0.0.1:1", *words)
    assert sweep(*words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
    assert told.err.count("\n") == 1
    assert not (folder / "points").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "axes.json is no JSON file"),
        ("[1]", "axes.json must hold an object of options, not list"),
        ('{"network": []}', "network in axes.json has no values"),
        ('{"network": [{"a": 1}]}', "values of network in axes.json must be strings, numbers"),
        ('{"network": [true]}', "values of network in axes.json must be strings, numbers"),
        ('{"netwerk": ["nin"]}', "cdma estimate has no option --netwerk"),
        ('{"plot": ["a.png"]}', "--plot writes a file"),
    ],
)
def test_bad_files_of_axes_are_refused(capsys, folder, no_command_runs, text, message):
    (folder / "axes.json").write_text(text)
    assert sweep("--axes", "axes.json", "estimate") == 2
    assert message in capsys.readouterr().err


def test_backend_dask_needs_an_address(capsys):
    assert main(["sweep", "--backend", "dask", "estimate", "--network", "nin"]) == 2
    assert "--backend dask needs --scheduler ADDRESS" in capsys.readouterr().err


def test_checks_and_refused_options_are_of_options_that_there_are():
    of_all = {"--help"}
    for name in FIELDS:
        command = import_module("cdma.app").root().commands[name].load()
        of_all |= {option for parameter in command.params for option in parameter.opts}
        own = {option.removeprefix("--") for p in command.params for option in p.opts}
        assert {axis for command, axis in CHECKS if command == name} <= own
    assert set(REFUSED) <= of_all


def test_a_killed_command_and_one_that_breaks_down_are_told_apart(monkeypatch):
    def run(status, text):
        done = type("Done", (), {"returncode": status, "stderr": text, "stdout": ""})
        monkeypatch.setattr(command_line.subprocess, "run", lambda *a, **o: done)
        with pytest.raises(UserError) as caught:
            run_command(("swap",), None, None)
        return str(caught.value)

    assert run(-9, "") == "ended by signal 9"
    assert run(1, "a.npy: byte 3 differs\n") == "exit status 1: a.npy: byte 3 differs"
    assert run(2, "cdma: points 1/2\ncdma: error: no such thing\n") == "no such thing"
    with pytest.raises(UserError, match="there is no folder /no/such on this worker"):
        run_command(("swap",), "/no/such", None)
