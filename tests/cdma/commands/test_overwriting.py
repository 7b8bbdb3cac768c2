"""No command writes onto its input, nor over a file without `--force`, nor finds that out late."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdma.app import COMMANDS, root
from cdma.cli import main
from cdma.plan.workload import capture_files
from cdma.synth import UNIT_GATES
from tests.lib.shares import names

CAPTURE = "mine.json"
NETWORK = ("--network", "vgg16", "--density", "curve")
POINT = ("--network", "alexnet", "--device", "titanx", "--link", "pcie3x16")
HOOK = ("--hook", "hook_of_test_overwriting:subject")


@dataclass(frozen=True)
class Command:
    """A command that writes files.

    Attributes
    ----------
    arguments : tuple of str
    outputs : tuple of str
        The files that it writes.
    late : str
        What must not be called if they are refused: the work.
    inputs : tuple of str
        The files that it reads.
    option : str
        The argument that may also be an input, if there is one.
    """

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    late: str
    inputs: tuple[str, ...] = ()
    option: str = ""


COMMANDS_THAT_WRITE = {
    "compress": Command(
        ("compress", "a.npy", "out"),
        ("out",),
        "cdma.commands.compress.read_npy_layout",
        ("a.npy",),
        "out",
    ),
    "decompress": Command(
        ("decompress", "a.cz", "out"),
        ("out",),
        "cdma.commands.decompress.open_input",
        ("a.cz",),
        "out",
    ),
    "swap dma": Command(
        ("swap", "a.npy", "--waves", "w.vcd"),
        ("w.vcd",),
        "cdma.commands.swap.command.EngineBackend",
        ("a.npy",),
    ),
    "swap codec": Command(
        ("swap", "a.npy", "--engine", "codec", "--waves", "w.vcd"),
        ("w-compressor.vcd", "w-decompressor.vcd"),
        "cdma.commands.swap.command.PipelineBackend",
        ("a.npy",),
    ),
    "swap saved": Command(
        ("swap", "--capture", CAPTURE, "--save", "saved"),
        ("saved/swap.txt", "saved/swap.json"),
        "cdma.commands.swap.command.EngineBackend",
        (CAPTURE, "mine.npz"),
    ),
    "calibrate": Command(
        ("calibrate", "--out", "d.toml"),
        ("d.toml",),
        "cdma.commands.calibrate.command.find_device",
    ),
    "schedule": Command(
        ("schedule", *NETWORK, "--trace", "t.json", "--plot", "p.png"),
        ("t.json", "p.png"),
        "cdma.commands.schedule.command.compare",
    ),
    "schedule of a capture": Command(
        ("schedule", "--network", "vgg16", "--capture", CAPTURE, "--trace", "t.json"),
        ("t.json",),
        "cdma.commands.schedule.command.compare",
        (CAPTURE, "mine.npz"),
        "t.json",
    ),
    "schedule of densities": Command(
        ("schedule", "--network", "vgg16", "--density", "d.json", "--trace", "t.json"),
        ("t.json",),
        "cdma.commands.schedule.command.compare",
        ("d.json",),
        "t.json",
    ),
    "estimate": Command(
        ("estimate", *NETWORK, "--plot", "p.png"),
        ("p.png",),
        "cdma.commands.estimate.command.NetworkEstimate.of",
    ),
    "estimate as a page": Command(
        ("estimate", *NETWORK, "--plot", "p.svg", "--html", "e.html"),
        ("p.svg", "e.html"),
        "cdma.commands.estimate.command.NetworkEstimate.of",
    ),
    "schedule as a page": Command(
        ("schedule", *NETWORK, "--capture", CAPTURE, "--density", "capture", "--html", "s.html"),
        ("s.html",),
        "cdma.commands.schedule.command.compare",
        (CAPTURE, "mine.npz"),
    ),
    "swap as a page": Command(
        ("swap", "a.npy", "--html", "s.html"),
        ("s.html",),
        "cdma.commands.swap.command.EngineBackend",
        ("a.npy",),
    ),
    "value as a page": Command(
        ("value", *POINT, "--html", "v.html"), ("v.html",), "cdma.commands.value.command.compute"
    ),
    "buddy replay": Command(
        ("buddy", "replay", "--data", "a.npy", "--html", "r.html"),
        ("r.html",),
        "cdma.commands.buddy.replay.load_snapshots",
        ("a.npy",),
    ),
    "synth as a page": Command(
        ("synth", "packer", "--html", "s.html"),
        ("s.html",),
        "cdma.commands.synth.command.Library",
    ),
    "report": Command(
        ("report", "r.json", "--html", "r.html"),
        ("r.html",),
        "cdma.commands.report.write_report",
        ("r.json",),
    ),
    "buddy profile as a page": Command(
        ("buddy", "profile", "a.npy", "--html", "b.html"),
        ("b.html",),
        "cdma.commands.buddy.profile.load_snapshots",
        ("a.npy",),
    ),
    "buddy profile": Command(
        ("buddy", "profile", "a.npy", "--heat-map", "h.png"),
        ("h.png",),
        "cdma.commands.buddy.profile.load_snapshots",
        ("a.npy",),
    ),
    "value": Command(
        ("value", *POINT, "--plot", "p.png"), ("p.png",), "cdma.commands.value.command.compute"
    ),
    "capture": Command(
        ("capture", "x", *HOOK, "--out", "c"),
        ("c/x.json", "c/x.npz"),
        "cdma.commands.capture.record",
    ),
}

FOLDERS = {
    "synth": Command(
        ("synth", "packer", "--out", "o"),
        ("o/packer",),
        "cdma.synth.components.ComponentBlock.synthesize",
    ),
    "synth with a library": Command(
        ("synth", "packer", "--out", "o", "--liberty", "x.lib"),
        ("o/packer",),
        "cdma.synth.components.ComponentBlock.synthesize",
        ("x.lib",),
    ),
    "synth of an FPGA": Command(
        ("synth", "packer", "--out", "o", "--target", "ice40"),
        ("o/ice40/packer",),
        "cdma.commands.synth.command.map_to",
    ),
    "energy": Command(
        ("energy", "zvc-line-compressor", "--out", "o", "--capture", CAPTURE),
        ("o/zvc-line-compressor", "o/zvc-line-compressor-gated"),
        "cdma.commands.energy.command.synthesize",
        (CAPTURE, "mine.npz"),
    ),
    "board": Command(
        ("board", "ulx3s_85f", "--out", "o"),
        ("o/ulx3s_85f",),
        "cdma.commands.board.command.build_bitstream",
    ),
}


class TooLateError(Exception):
    """The work has begun."""


@pytest.fixture(autouse=True)
def _inputs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    np.save("a.npy", np.arange(64, dtype=np.float32).reshape(8, 8))
    main(["compress", "a.npy", "a.cz"])
    for source, name in zip(capture_files("digits-cnn"), (CAPTURE, "mine.npz"), strict=True):
        shutil.copy(source, name)
    Path("r.json").write_text('{"a": 1}')
    Path("d.json").write_text('{"relu": 0.5}')
    shutil.copy(UNIT_GATES, "x.lib")
    Path("hook_of_test_overwriting.py").write_text("def subject(): raise AssertionError\n")
    capsys.readouterr()


@pytest.fixture
def begins(monkeypatch):
    """Makes a command's work raise `TooLateError`, and tells whether a run came to it."""

    def run(command: Command, *more: str) -> bool:
        def too_late(*arguments: Any, **options: Any) -> None:
            raise TooLateError

        monkeypatch.setattr(command.late, too_late)
        try:
            assert main([*command.arguments, *more]) == 2
        except TooLateError:
            return True
        return False

    return run


@pytest.mark.parametrize("name", list(COMMANDS_THAT_WRITE))
def test_a_file_that_exists_is_refused_before_the_work(capsys, begins, name):
    command = COMMANDS_THAT_WRITE[name]
    assert begins(command)
    for output in command.outputs:
        Path(output).parent.mkdir(exist_ok=True)
        Path(output).write_bytes(b"precious")
        assert not begins(command)
        error = capsys.readouterr().err
        assert f"{output} exists already; name another file, or overwrite it with --force" in error
        assert error.count("\n") == 1
        assert Path(output).read_bytes() == b"precious"
        assert begins(command, "--force")
        assert Path(output).read_bytes() == b"precious"
        Path(output).unlink()


@pytest.mark.parametrize("name", [name for name, one in COMMANDS_THAT_WRITE.items() if one.inputs])
@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("more", [(), ("--force",)])
def test_a_link_to_an_input_is_refused(capsys, begins, name, link, more):
    command = COMMANDS_THAT_WRITE[name]
    for output in command.outputs:
        for source in command.inputs:
            before = Path(source).read_bytes()
            Path(output).parent.mkdir(exist_ok=True)
            link(Path(source).absolute(), output)
            assert not begins(command, *more)
            error = capsys.readouterr().err
            assert f"cannot write {output}: it is the input {source}; name another" in error
            assert Path(source).read_bytes() == before
            Path(output).unlink()


@pytest.mark.parametrize("name", [name for name, one in COMMANDS_THAT_WRITE.items() if one.option])
@pytest.mark.parametrize("more", [(), ("--force",)])
def test_the_input_itself_is_refused(capsys, begins, name, more):
    command = COMMANDS_THAT_WRITE[name]
    for source in command.inputs:
        before = Path(source).read_bytes()
        arguments = tuple(source if one == command.option else one for one in command.arguments)
        assert not begins(Command(arguments, (), command.late), *more)
        assert f"cannot write {source}: it is the input {source};" in capsys.readouterr().err
        assert Path(source).read_bytes() == before


def test_a_lossy_copy_does_not_replace_the_only_original(capsys):
    before = Path("a.npy").read_bytes()
    lossy = ("--codec", "quantize", "--bound", "0.5", "--force")
    assert main(["compress", "a.npy", "a.npy", *lossy]) == 2
    assert "cannot write a.npy: it is the input a.npy" in capsys.readouterr().err
    assert Path("a.npy").read_bytes() == before


@pytest.mark.parametrize("name", list(COMMANDS_THAT_WRITE))
def test_a_place_that_cannot_be_written_is_refused_before_the_work(capsys, begins, name):
    command = COMMANDS_THAT_WRITE[name]
    Path("file").write_text("")
    for output in command.outputs:
        # What `--out c` is to `c/x.json`.
        given = output.split("/")[0] if "/" in output else output
        stem = given.removesuffix("-compressor.vcd").removesuffix("-decompressor.vcd")
        found = [one for one in command.arguments if one.split(".")[0] == stem.split(".")[0]]
        arguments = tuple(f"file/{one}" if one in found else one for one in command.arguments)
        assert arguments != command.arguments
        assert not begins(Command(arguments, (), command.late))
        error = capsys.readouterr().err
        assert "cannot write" in error
        assert "file" in error


@pytest.mark.parametrize("name", names(FOLDERS, quick=set(FOLDERS) - {"energy", "synth"}))
def test_a_folder_of_somebody_else_is_refused_before_the_work(capsys, begins, name):
    command = FOLDERS[name]
    for folder in command.outputs:
        os.makedirs(folder)
        Path(folder, "notes.txt").write_text("precious")
        assert not begins(command)
        error = capsys.readouterr().err
        assert f"{folder} has files in it that cdma did not make, as notes.txt; name" in error
        assert begins(command, "--force")
        shutil.rmtree("o")
    # Its own it may fill again.
    assert begins(command)
    assert begins(command)
    assert all(Path(folder).is_dir() for folder in command.outputs)
    shutil.rmtree("o")
    Path("o").write_text("")
    assert not begins(command)
    assert "cannot write o/" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, one in FOLDERS.items() if one.inputs])
def test_a_folder_with_an_input_in_it_is_refused(capsys, begins, name):
    command = FOLDERS[name]
    assert begins(command)
    for folder in command.outputs:
        for source in command.inputs:
            os.link(source, Path(folder, "cells.lib"))
            assert not begins(command, "--force")
            error = capsys.readouterr().err
            assert f"cannot write {folder}/cells.lib: it is the input {source}" in error
            Path(folder, "cells.lib").unlink()


def test_generated_files_that_were_changed_are_refused_all_at_once(capsys):
    arguments = ["generate", "packer", "--out", "rtl"]
    assert main(arguments) == 0
    # The same again changes nothing, and so needs no permission.
    verilog = Path("rtl/packer.v")
    before = verilog.stat().st_mtime_ns
    assert main(arguments) == 0
    assert verilog.stat().st_mtime_ns == before
    generated = verilog.read_text()
    verilog.write_text(generated + "// by hand\n")
    Path("rtl/packer.json").unlink()
    capsys.readouterr()
    assert main(arguments) == 2
    assert "rtl/packer.v exists already; name another file, or" in capsys.readouterr().err
    assert verilog.read_text() == generated + "// by hand\n"
    assert not Path("rtl/packer.json").exists()
    assert main([*arguments, "--force"]) == 0
    assert verilog.read_text() == generated
    assert Path("rtl/packer.json").exists()


@pytest.mark.verify
def test_generated_pages_are_the_same_twice():
    arguments = ["generate", "engine", "--config", "tiny", "--out", "rtl"]
    assert main(arguments) == 0
    page = Path("rtl/cdma_engine_registers/index.html")
    before = page.stat().st_mtime_ns
    assert main(arguments) == 0
    assert page.stat().st_mtime_ns == before
    page.write_text("mine")
    assert main(arguments) == 2
    assert page.read_text() == "mine"


def test_a_folder_for_generated_files_is_looked_at_before_the_rtl(capsys, monkeypatch):
    def too_late(*arguments: Any, **options: Any) -> None:
        raise TooLateError

    monkeypatch.setattr("cdma.commands.generate.generate_verilog", too_late)
    Path("file").write_text("")
    for component in ("engine", "packer", "buddy"):
        assert main(["generate", component, "--out", "file/rtl"]) == 2
        assert "cannot write file/rtl: Not a directory" in capsys.readouterr().err


def commands():
    """Every command, with its name: also those in groups."""
    for name in COMMANDS:
        command = root().get_command(None, name).load()
        for inner_name, inner in getattr(command, "commands", {}).items():
            yield f"{name} {inner_name}", inner
        if not hasattr(command, "commands"):
            yield name, command


def test_every_command_that_writes_is_tested_and_has_force():
    reads_only = {"inspect", "reproduce"}
    reads_only |= {"list", "schema", "completion", "config show", "config check", "train"}
    # A sweep's results are files of their own, each of a point that was not there.
    reads_only.add("sweep")
    tested = {"generate"}
    for one in (*COMMANDS_THAT_WRITE.values(), *FOLDERS.values()):
        tested.add(" ".join(one.arguments[: 2 if one.arguments[0] == "buddy" else 1]))
    for name, command in commands():
        options = {option for param in command.params for option in param.opts}
        assert ("--force" in options) == (name not in reads_only), name
        assert (name in tested) == (name not in reads_only), name
