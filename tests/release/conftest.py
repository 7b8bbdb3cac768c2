"""The source archive and the wheel, built, and an environment that has the wheel alone.

The checkout as git has it is packed, the wheel built from that archive as `make dist` does, and
installed into an environment of its own, which finds other people's packages where this one does.
"""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.lib.paths import ROOT
from tests.release.checkout import ROOMS, ok, tracked


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """Packed from a copy, as that leaves files beside the sources; the wheel is beside it."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to(os.readlink(ROOT / name))
        else:
            target.write_bytes((ROOT / name).read_bytes())
    folder = tmp_path_factory.mktemp("dist")
    # With the setuptools that is here, so that nothing need be downloaded.
    ok(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy)
    (packed,) = folder.glob("cdma_rtl-*.tar.gz")
    return packed


@pytest.fixture(scope="session")
def wheel(archive):
    """Built from the source archive."""
    (built,) = archive.parent.glob("cdma_rtl-*.whl")
    return built


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """The `bin` of an environment that has the wheel, and not the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    ok(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    ok(*pip, "install", "--no-deps", "--no-index", wheel)
    # Further entries of the path, of which no .pth file is read: an editable install stays unseen.
    others = [path for path in sys.path if path.endswith("site-packages")]
    assert sysconfig.get_path("purelib") in others
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(ok(python, "-c", query).strip())
    (site / "others.pth").write_text("\n".join(others) + "\n")
    return python.parent


@pytest.fixture
def users(tmp_path, monkeypatch):
    """A user's folder; its packages must not be taken for ours."""
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise RuntimeError('this is the user s')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path
