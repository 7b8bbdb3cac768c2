"""Writing files: whole or not at all, never onto an input, over nothing unasked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdma.errors import UserError
from cdma.outputs import (
    claim_folder,
    open_atomically,
    require_folder,
    require_outputs,
    write_all,
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(path, content=b"precious"):
    Path(path).write_bytes(content)
    return Path(path)


def test_body_that_raises_leaves_nothing(tmp_path):
    def write_half():
        with open_atomically(tmp_path / "a", force=False) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_file_appears_when_whole_and_keeps_its_permissions(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    target.chmod(0o640)
    with open_atomically(target, force=True) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_links_are_followed(tmp_path):
    (tmp_path / "real").write_text("old")
    os.symlink("real", tmp_path / "link")
    with open_atomically(tmp_path / "link", "w", force=True) as file:
        file.write("neu – new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text("utf-8") == "neu – new"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_read_only_file_stays(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    target.chmod(0o444)
    with (
        pytest.raises(UserError, match="Permission denied; change its permissions"),
        open_atomically(target, force=True),
    ):
        pass
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/a", "No such file or directory; check the path"),
        ("file/a", "Not a directory; a part of the path is a file"),
        (".", "Is a directory; name a file"),
        ("x" * 300, "File name too long; give it a shorter name"),
    ],
)
def test_paths_that_cannot_be_written(tmp_path, name, message):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=message), open_atomically(tmp_path / name, force=False):
        pass


class TestInputs:
    """No command writes onto what it reads, whatever leads there."""

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize(
        "link", [lambda: "in", lambda: os.symlink("in", "x"), lambda: os.link("in", "x")]
    )
    @pytest.mark.parametrize("turned", [False, True])
    def test_an_input_is_never_an_output(self, force, link, turned):
        written("in")
        names = ["in", link() or "x"]
        if turned:
            names.reverse()
        source, target = names
        with pytest.raises(UserError, match=f"cannot write {target}: it is the input {source}; na"):
            require_outputs([target], inputs=["other", source], force=force)
        assert Path("in").read_bytes() == b"precious"

    def test_other_spellings_of_a_path(self):
        written("in")
        os.mkdir("d")
        for target in ("d/../in", "./in", os.path.abspath("in")):
            with pytest.raises(UserError, match="it is the input in"):
                require_outputs([target], inputs=["in"], force=True)

    def test_devices_may_be_both(self):
        require_outputs(["/dev/null"], inputs=["/dev/null"], force=False)

    def test_names_that_are_no_files_are_no_inputs(self):
        require_outputs(["out"], inputs=["out", "digits-cnn", "missing/x"], force=False)

    @pytest.mark.parametrize("exists", [False, True])
    def test_two_outputs_are_two_files(self, exists):
        if exists:
            written("out")
        os.symlink("out", "link")
        with pytest.raises(UserError, match="cannot write link: out is the same file; name anoth"):
            require_outputs(["out", "link"], force=True)
        require_outputs(["/dev/null", "/dev/null"], force=False)


class TestExisting:
    def test_needs_force(self):
        written("out")
        with pytest.raises(UserError, match=r"^out exists already; name another .* with --force"):
            require_outputs(["new", "out"], force=False)
        with (
            pytest.raises(UserError, match="out exists already"),
            open_atomically("out", force=False) as file,
        ):
            file.write(b"new")
        assert Path("out").read_bytes() == b"precious"
        require_outputs(["out"], force=True)
        with open_atomically("out", force=True) as file:
            file.write(b"new")
        assert Path("out").read_bytes() == b"new"

    def test_a_link_is_told_with_where_it_leads(self):
        written("real")
        os.symlink("real", "link")
        with pytest.raises(UserError, match=f"link exists already, by a link to {Path.cwd()}/real"):
            require_outputs(["link"], force=False)

    def test_a_file_that_came_meanwhile_stays(self):
        require_outputs(["out"], force=False)

        def write():
            with open_atomically("out", force=False) as file:
                file.write(b"new")
                written("out")

        with pytest.raises(UserError, match="out exists already"):
            write()
        assert Path("out").read_bytes() == b"precious"
        assert os.listdir() == ["out"]

    def test_what_a_shell_opened_is_nothing_to_overwrite(self):
        """`command /dev/stdout > file`, and `>> file`."""
        code = (
            "from cdma.outputs import open_atomically, require_outputs\n"
            "require_outputs(['/dev/stdout'], force=False)\n"
            "with open_atomically('/dev/stdout', force=False) as file: file.write(b'new')\n"
        )
        written("out")
        for mode, content in (("ab", b"preciousnew"), ("wb", b"new")):
            with open("out", mode) as file:
                subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
            assert Path("out").read_bytes() == content


class TestEarly:
    """Outputs that cannot be written are refused before there is anything to write."""

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("missing/a", "cannot write missing/a: No such file or directory; check the path"),
            ("file/a", "cannot write file/a: Not a directory; a part of the path is a file"),
            (".", "Is a directory; name a file"),
            ("x" * 300, "File name too long; give it a shorter name"),
            ("circle", "Too many levels of symbolic links; its symbolic links form a circle"),
        ],
    )
    def test_files(self, name, message):
        written("file")
        os.symlink("circle", "circle")
        before = sorted(os.listdir())
        with pytest.raises(UserError, match=message):
            require_outputs([name], force=True)
        assert sorted(os.listdir()) == before

    def test_folders_that_are_made(self):
        written("file")
        require_outputs(["new/folder/a"], force=False, makes_folders=True)
        require_folder("new/folder")
        assert os.listdir() == ["file"]
        for refuse in (
            lambda: require_outputs(["file/new/a"], force=True, makes_folders=True),
            lambda: require_folder("file/new"),
            lambda: require_folder("file"),
        ):
            with pytest.raises(UserError, match=r"cannot write file.*: Not a directory"):
                refuse()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_no_permission(self):
        os.mkdir("d", 0o555)
        for refuse in (
            lambda: require_outputs(["d/a"], force=False),
            lambda: require_outputs(["d/new/a"], force=False, makes_folders=True),
            lambda: require_folder("d/new"),
        ):
            with pytest.raises(UserError, match="Permission denied; change its permissions"):
                refuse()


class TestFolders:
    def test_all_files_or_none(self):
        written("b.txt")
        with pytest.raises(UserError, match=r"^b\.txt exists already"):
            write_all(Path(), {"a.txt": "new", "b.txt": "new"}, force=False)
        assert os.listdir() == ["b.txt"]
        paths = write_all(Path(), {"a.txt": "new", "d/b.bin": b"new"}, force=False)
        assert paths == [Path("a.txt"), Path("d/b.bin")]
        write_all(Path(), {"b.txt": "new"}, force=True)
        assert [Path(name).read_text() for name in ("a.txt", "b.txt", "d/b.bin")] == ["new"] * 3

    def test_what_is_there_already_is_left_alone(self):
        write_all(Path("d"), {"a": "same", "b": "same"}, force=False)
        before = os.stat("d/a")
        write_all(Path("d"), {"a": "same", "c": "new"}, force=False)
        after = os.stat("d/a")
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        assert sorted(os.listdir("d")) == ["a", "b", "c"]

    def test_a_folder_for_tools_is_cdmas_own(self):
        claim_folder(Path("work/x"), force=False)
        written("work/x/netlist.json", b"old")
        claim_folder(Path("work/x"), force=False)
        assert Path("work/x/netlist.json").read_bytes() == b"old"

    def test_a_folder_of_somebody_else_is_not(self):
        os.mkdir("work")
        claim_folder(Path("work"), force=False)
        os.mkdir("theirs")
        written("theirs/notes.txt")
        with pytest.raises(UserError, match=r"theirs has files .* as notes\.txt; .* --force"):
            claim_folder(Path("theirs"), force=False)
        assert os.listdir("theirs") == ["notes.txt"]
        claim_folder(Path("theirs"), force=True)

    @pytest.mark.parametrize("force", [False, True])
    def test_no_input_is_in_it(self, force):
        claim_folder(Path("work"), force=False)
        written("mine.lib")
        os.link("mine.lib", "work/cells.lib")
        with pytest.raises(UserError, match=r"write work/cells\.lib: it is the input mine\.lib"):
            claim_folder(Path("work"), inputs=["mine.lib"], force=force)
