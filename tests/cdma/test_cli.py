"""The shell around the commands: one line per error, and exit statuses."""

import os
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

from cdma.cli import REPORTED_ERRORS, main
from cdma.errors import UserError
from golden import CodecError, StreamError


def run(*arguments, **options):
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from cdma.cli import main; sys.exit(main())",
            *arguments,
        ],
        text=True,
        **options,
    )


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cdma {version('cdma')}\n"


@pytest.mark.parametrize("command", ["compress", "decompress", "inspect"])
def test_help_names_the_command(capsys, command):
    assert main(["--help"]) == 0
    assert command in capsys.readouterr().out
    assert main([command, "--help"]) == 0
    assert "IN." in capsys.readouterr().out


# Typer's wording changes from version to version, but not what it names.
@pytest.mark.parametrize(
    ("arguments", "named", "context"),
    [
        (["frobnicate"], "frobnicate", "cdma"),
        (["compress"], "IN.npy", "cdma compress"),
        (["inspect", "a.cz", "--yaml"], "--yaml", "cdma inspect"),
        (["inspect", "a.cz", "b.cz"], "b.cz", "cdma inspect"),
    ],
)
def test_usage_error_is_one_line(capsys, arguments, named, context):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert named in err
    assert err.endswith(f"; see '{context} --help'\n")
    assert err.count("\n") == 1


def test_expected_errors_are_reported_and_bugs_are_not():
    assert {UserError, CodecError, StreamError} <= set(REPORTED_ERRORS)
    for bug in (ValueError, TypeError, KeyError, RuntimeError, Exception):
        assert bug not in REPORTED_ERRORS


def test_reader_that_leaves_is_no_error(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(4, np.float32))
    main(["compress", str(tmp_path / "a.npy"), str(tmp_path / "a.cz")])
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = run("inspect", str(tmp_path / "a.cz"), stdout=write_end, stderr=subprocess.PIPE)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_full_standard_output_is_one_line(tmp_path, options):
    np.save(tmp_path / "a.npy", np.zeros(4, np.float32))
    main(["compress", str(tmp_path / "a.npy"), str(tmp_path / "a.cz")])
    with open("/dev/full", "w") as full:
        done = run("inspect", str(tmp_path / "a.cz"), *options, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith("cdma: error: cannot use the standard output: No space left")
    assert done.stderr.count("\n") == 1
