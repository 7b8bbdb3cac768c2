"""Shell completion, as the shells ask for it: the words of a line, and what it could go on with."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from cdma.app import COMMANDS, root
from cdma.builds.extras import MissingPackageError
from cdma.cli import main
from cdma.commands.sweep_options import BACKENDS
from cdma.config import KINDS
from cdma.names import NAME_KINDS
from cdma.plan.timeline.placement import MODES

SHELLS = ("bash", "zsh", "fish")


def names(kind):
    return list(NAME_KINDS[kind].names())


@pytest.fixture
def completions(monkeypatch, capsys):
    """A function from a line's words, the last of which is not complete, to bash's completions."""

    def complete(*words):
        monkeypatch.setenv("_CDMA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["cdma", *map(shlex.quote, words)]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit) as ended:
            main([])
        assert ended.value.code == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out.split()

    return complete


def test_commands_and_options(completions):
    assert completions("sch") == ["schedule", "schema"]
    assert completions("") == list(COMMANDS)
    assert completions("compress", "--bo") == ["--bound"]
    assert completions("buddy", "re") == ["replay"]
    assert completions("buddy", "profile", "--heat") == ["--heat-map"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("generate", "components"),
        ("synth", "components"),
        ("synth packer", "components"),
        ("generate engine --config", "presets"),
        ("generate buddy --metadata-cache", "metadata-caches"),
        ("swap --config", "presets"),
        ("swap --machine", "machines"),
        ("swap --link", "links"),
        ("swap --throttle", "throttles"),
        ("swap --capture", "captures"),
        ("estimate --network", "networks"),
        ("schedule --network", "networks"),
        ("schedule --network vgg16 --device", "devices"),
        ("schedule --link", "links"),
        ("schedule --machine", "machines"),
        ("schedule --capture", "captures"),
        ("value --device", "devices"),
        ("train m:f 3GB --policy", "policies"),
        ("compress a.npy a.cz --codec", "codecs"),
        ("compress --element-format", "element-formats"),
        ("energy --capture", "captures"),
        ("board", "boards"),
        ("reproduce", "papers"),
        ("buddy profile", "captures"),
    ],
)
def test_names_are_those_that_cdma_list_lists(completions, line, kind):
    words = line.split()
    assert completions(*words, "") == names(kind)
    first = names(kind)[0]
    assert completions(*words, first[:3]) == [n for n in names(kind) if n.startswith(first[:3])]
    assert completions(*words, "no-such") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("list", list(NAME_KINDS)),
        ("completion", list(SHELLS)),
        ("config show --kind", list(KINDS)),
        ("schedule --mode", list(MODES)),
        ("schedule --density", ["capture", "curve"]),
        ("value --backend", list(BACKENDS)),
        ("generate engine --sector-bytes", ["32", "64", "128"]),
        ("swap --engine", ["dma", "codec"]),
        ("buddy replay --config", list(KINDS["buddy"].presets)),
        ("sweep", ["estimate", "schedule", "swap", "synth"]),
    ],
)
def test_words_that_are_no_names(completions, line, words):
    assert completions(*line.split(), "") == words


def test_names_with_commas_between(completions):
    assert completions("schedule", "--policy", "") == ["all", *names("policies")]
    assert completions("schedule", "--policy", "vdnn,cd") == [
        "vdnn,cdma",
        "vdnn,cdma-bandwidth-aware",
    ]
    # Each of them once, and all is not beside others.
    rest = completions("schedule", "--policy", "vdnn,")
    assert rest == [f"vdnn,{name}" for name in names("policies") if name != "vdnn"]


def test_configurations_of_all_kinds_can_be_shown(completions):
    found = completions("config", "show", "")
    assert found == list(dict.fromkeys(name for kind in KINDS.values() for name in kind.presets))


def test_files_are_left_to_the_shell(completions):
    assert completions("compress", "") == []
    assert completions("inspect", "a") == []
    assert completions("generate", "engine", "--config", "mine.t") == []


def test_what_cannot_be_completed_is_so_without_a_word(monkeypatch, capsys):
    """As where a package is missing: a message would stand in the middle of the line."""

    def refuse():
        raise MissingPackageError("there is no such package; install it")

    monkeypatch.setitem(NAME_KINDS, "boards", replace(NAME_KINDS["boards"], names=refuse))
    monkeypatch.setenv("_CDMA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "cdma board ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([]) == 1
    assert capsys.readouterr() == ("", "")


def parameters():
    """Every option and argument, with the command's name."""
    for name in COMMANDS:
        command = root().get_command(None, name).load()
        for inner in getattr(command, "commands", {"": command}).values():
            for parameter in inner.params:
                yield name, parameter


TAKEN_BY = {option for kind in NAME_KINDS.values() for option in kind.taken_by}


def test_every_option_of_a_listed_kind_is_completed():
    """Whatever command has one, also one that comes later."""
    plain = [
        (command, parameter.opts[0])
        for command, parameter in parameters()
        if parameter.opts[0] in TAKEN_BY and not parameter.shell_complete(None, "")
    ]
    assert plain == []
    # An option that takes one of several words has them between bars.
    unfinished = [
        (command, parameter.opts[0])
        for command, parameter in parameters()
        if parameter.metavar
        and all(word.isalnum() and word == word.lower() for word in parameter.metavar.split("|"))
        and not parameter.shell_complete(None, "")
    ]
    assert unfinished == []


# The scripts. ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_script_asks_cdma(capsys, shell):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_CDMA_COMPLETE=complete_{shell}" in script


def test_unknown_shell(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "no completion for 'tcsh'; choose bash, zsh, fish" in capsys.readouterr().err


@pytest.fixture
def with_cdma(tmp_path):
    """An environment in which `cdma` runs, whatever is installed."""
    tools = tmp_path / "bin"
    tools.mkdir()
    script = tools / "cdma"
    code = "import sys; from cdma.cli import main; sys.exit(main())"
    script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c '{code}' \"$@\"\n")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_the_script(with_cdma):
    script = (
        'eval "$(cdma completion bash)"\n'
        "complete -p cdma\n"
        "COMP_WORDS=(cdma schedule --network res); COMP_CWORD=3\n"
        '"$(complete -p cdma | sed "s/.*-F \\([^ ]*\\) .*/\\1/")" cdma\n'
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=with_cdma, capture_output=True, text=True
    )
    assert done.stderr == ""
    registered, completed = done.stdout.splitlines()
    # Files where there is no name.
    assert registered.startswith("complete -o default -F ")
    assert completed == "resnet50"


def asked(environment, shell, words, **more):
    """What `cdma` answers to the script of a shell."""
    return subprocess.run(
        ["cdma"],
        env={
            **environment,
            "_CDMA_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": words,
            **more,
        },
        capture_output=True,
        text=True,
    )


@pytest.mark.verify
def test_zsh_s_script_gets_an_answer(with_cdma):
    done = asked(with_cdma, "zsh", "cdma schedule --network res")
    assert (done.stdout, done.stderr) == ("_arguments '*: :((\"resnet50\"))'\n", "")
    assert asked(with_cdma, "zsh", "cdma inspect ").stdout == "_files\n"


@pytest.mark.verify
def test_fish_s_script_gets_an_answer(with_cdma):
    line, action = "cdma schedule --network res", "_TYPER_COMPLETE_FISH_ACTION"
    assert asked(with_cdma, "fish", line, **{action: "get-args"}).stdout == "resnet50\n"
    assert asked(with_cdma, "fish", line, **{action: "is-args"}).returncode == 0
    assert asked(with_cdma, "fish", "cdma inspect ", **{action: "is-args"}).returncode == 1
