"""Generated RTL is kept under a hash of the sources that it comes from, and of no others."""

import json
import subprocess
import sys

import pytest

from cdma.builds.imports import imported
from cdma.sim.machine.build import rtl

ROOTS = {
    "codec": "cdma.hw.codec.zvc.axis",
    "engine": "cdma.hw.dma.engine",
    "buddy": "cdma.hw.buddy.controller",
}


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """Edits a copy of a module's folder, as far as the cache can see."""
    real = rtl.path_of

    def edit(module: str, file: str = "") -> None:
        source = real(module)
        copy = tmp_path / module
        copy.mkdir()
        for original in (source, *source.parent.glob("*.rdl")):
            (copy / original.name).write_text(original.read_text())
        target = copy / (file or source.name)
        target.write_text(target.read_text() + "\n# edited\n")
        monkeypatch.setattr(
            rtl, "path_of", lambda name: copy / source.name if name == module else real(name)
        )

    return edit


@pytest.mark.parametrize(
    ("module", "file", "changed"),
    [
        ("cdma.hw.codec.zvc.axis", "", {"codec"}),
        ("cdma.hw.lib.lanes", "", {"codec", "engine", "buddy"}),
        ("cdma.hw.dma.outbound.issue", "", {"engine"}),
        ("cdma.hw.dma.control.registers", "registers.rdl", {"engine"}),
        ("cdma.hw.buddy.registers", "registers.rdl", {"buddy"}),
        ("cdma.hw.registers.map", "common.rdl", {"engine", "buddy"}),
        ("cdma.hw.codec.bpc.planes", "", {"buddy"}),
        ("cdma.hw.emit.verilog", "", {"codec", "engine", "buddy"}),
        ("cdma.hw.emit.fast_conversion", "", {"codec", "engine", "buddy"}),
        ("cdma.hw.selftest.uart", "", set()),
    ],
)
def test_an_edit_changes_what_it_is_part_of(module, file, changed, edited):
    before = {name: rtl._source_texts(root) for name, root in ROOTS.items()}
    edited(module, file)
    after = {name: rtl._source_texts(root) for name, root in ROOTS.items()}
    assert {name for name in ROOTS if before[name] != after[name]} == changed


@pytest.mark.parametrize("root", ROOTS.values())
def test_no_module_that_python_imports_is_left_out(root):
    script = (
        f"import sys, json, {root}; "
        "print(json.dumps([n for n in sys.modules if n.startswith(('cdma.hw', 'cdma.golden'))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(json.loads(done.stdout)) <= imported([root], of=("cdma.hw", "cdma.golden"))


def test_what_is_kept_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path))
    made = []
    real = rtl.generate
    monkeypatch.setattr(rtl, "generate", lambda *a, **b: made.append(1) or real(*a, **b))
    first = rtl.generated("unpacker")
    assert rtl.generated("unpacker") == first
    assert len(made) == 1
    without = rtl.generated("unpacker", assertions=False)
    assert len(made) == 2
    assert ("assert (" in first.text, "assert (" in without.text) == (True, False)


def test_a_component_with_few_sources_depends_on_what_it_is_made_of(edited):
    module = rtl.find_component("crc32").module
    before = rtl._source_texts(module)
    edited("cdma.hw.lib.codes.crc")
    assert rtl._source_texts(module) != before


def test_what_is_kept_has_its_sidecar(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path))
    made = [rtl.generated("unpacker") for _ in range(2)]
    assert made[0].sidecar == made[1].sidecar
    assert made[0].sidecar["component"] == "unpacker"


def test_what_was_kept_with_other_files_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path))
    with monkeypatch.context() as earlier:
        earlier.setattr(rtl, "SIDECAR", "other.json")
        before = rtl.generated("packer")
    assert rtl.generated("packer") == before
    assert len(list(tmp_path.glob(f"rtl-*/{rtl.SIDECAR}"))) == 1
