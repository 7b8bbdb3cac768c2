"""`cdma capture`: bad input ends in one line and leaves nothing behind; no PyTorch needed."""

import sys
from pathlib import Path

import pytest

from cdma.cli import main


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def _fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr."""
    before = sorted(Path().rglob("*"))
    assert main(["capture", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cdma: error: ")
    assert err.count("\n") == 1
    assert "; " in err
    assert sorted(path for path in Path().rglob("*") if "__pycache__" not in str(path)) == before
    return err


def _module(name: str, text: str) -> None:
    Path(f"{name}.py").write_text(text)


def test_unknown_network(capsys: pytest.CaptureFixture[str]) -> None:
    error = _fails(capsys, "alexnet")
    assert (
        "no built-in network 'alexnet'; name digits-cnn, digits-cnn-training, tiny-gpt, "
        "python-gpt or minilm," in error
    )


def test_bad_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'../x' cannot name a capture; " in _fails(capsys, "../x")


@pytest.mark.parametrize("hook", ["mynet", ":subject", "mynet:", ""])
def test_hook_without_module_or_function(capsys: pytest.CaptureFixture[str], hook: str) -> None:
    assert f"{hook!r} is no hook; write it as package.module:function" in _fails(
        capsys, "x", "--hook", hook
    )


def test_hook_module_missing(capsys: pytest.CaptureFixture[str]) -> None:
    error = _fails(capsys, "x", "--hook", "no_such_module_here:subject")
    assert (
        "no_such_module_here:subject: there is no module no_such_module_here; run the command"
        in error
    )


def test_hook_module_broken(capsys: pytest.CaptureFixture[str]) -> None:
    _module("cdma_broken_hook", "def subject(:\n")
    error = _fails(capsys, "x", "--hook", "cdma_broken_hook:subject")
    assert "cdma_broken_hook:subject: SyntaxError: " in error


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("other", "cdma_hook_without_function has no 'other'; define it, or name one of constant"),
        ("constant", "cdma_hook_without_function:constant is no function; name one that returns "),
    ],
)
def test_hook_function_missing(
    capsys: pytest.CaptureFixture[str], function: str, message: str
) -> None:
    _module("cdma_hook_without_function", "constant = 3\n")
    error = _fails(capsys, "x", "--hook", f"cdma_hook_without_function:{function}")
    assert message in error


@pytest.mark.parametrize("epochs", ["", "1,", "-1", "1.5", "all", "9999999"])
def test_bad_epochs(capsys: pytest.CaptureFixture[str], epochs: str) -> None:
    error = _fails(capsys, "digits-cnn", "--epochs", epochs)
    assert f"--epochs '{epochs}' is not a list of numbers; write it as 0,2,12" in error


def test_out_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("")
    for out in ("taken", "taken/deeper"):
        error = _fails(capsys, "digits-cnn", "--out", out)
        assert f"cannot write into {out}: " in error
        assert "taken is not a directory; name another one" in error


def test_out_holds_a_directory_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/digits-cnn.json").mkdir(parents=True)
    error = _fails(capsys, "digits-cnn", "--out", "out")
    assert "digits-cnn.json: it is a directory; " in error


def test_without_pytorch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    error = _fails(capsys, "digits-cnn")
    assert "capturing needs torch, which cannot be imported; pip install torch" in error
