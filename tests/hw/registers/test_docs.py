"""Outputs generated from the map: a header that compilers accept, pages, and the document."""

import re
import shutil
import subprocess

import pytest

from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor_header import descriptor_header, descriptor_header_name
from cdma.hw.dma.control.registers import register_source
from cdma.hw.registers.__main__ import DOCUMENTS, document
from cdma.hw.registers.docs import c_header, header_name, write_html
from cdma.hw.registers.map import register_map
from tests.lib.paths import ROOT

ENGINE = register_source()
SMALLER = EngineConfig(units=2, buffer_bytes=8192)
OTHER = register_source(SMALLER)
TWO_ENGINES = {EngineConfig(): "swap_out", SMALLER: "swap_in"}
HEADERS = {
    "engine": (register_source(EngineConfig(ecc=True)), 0x190),
    # As large as with the most rings, however many there are.
    "rings": (register_source(EngineConfig(rings=3, stream_id_bits=4)), 0x70E0),
    "buddy": (DOCUMENTS["buddy"].source(), 0x188),
}

of_every_block = pytest.mark.parametrize("block", DOCUMENTS)

LANGUAGES = [
    ["gcc", "-x", "c", "-std=c11"],
    ["gcc", "-x", "c", "-std=gnu17"],
    ["g++", "-x", "c++", "-std=c++11"],
]


def compile_against_header(command, registers, source, folder):
    assert shutil.which(command[0]), f"{command[0]} is missing: apt-get install g++"
    header = folder / header_name(registers)
    header.write_text(c_header(registers))
    (folder / "driver.c").write_text(f'#include <stddef.h>\n#include "{header.name}"\n{source}')
    done = subprocess.run(
        [*command, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "driver.c"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    # Warnings are errors, so that stderr is empty unless it failed.
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", HEADERS)
@pytest.mark.parametrize("command", LANGUAGES, ids=lambda command: command[-1])
def test_header_compiles_and_has_the_map(command, block, tmp_path):
    registers, size = HEADERS[block]
    struct, prefix = f"{registers.name}_t", registers.name.upper()
    claims = [f"sizeof({struct}) == {size:#x}"]
    for register in register_map(registers).values():
        path = re.sub(rf"^({register.group})_(LO|HI)$", r"\1.\2", register.name, flags=re.I)
        if register.page:
            path = path.replace(f"{register.page}_", f"{register.page}.", 1)
        name = f"{prefix}__" + path.replace(".", "__")
        claims += [
            f"offsetof({struct}, {path}) == {register.offset}",
            f"sizeof((({struct} *)0)->{path}) == 4",
            f"{name}_offset == {register.offset}",
        ]
        for field in register.fields.values():
            claims += [
                f"{name}__{field.name.upper()}_bm == {field.mask}u",
                f"{name}__{field.name.upper()}_bp == {field.low}",
            ]
            claims += [
                f"{name}__{field.name.upper()}__{meaning.name} == {meaning.value}"
                for meaning in field.meanings
            ]
    assert len(claims) > 300
    source = "".join(f'static_assert({claim}, "{claim}");\n' for claim in claims)
    compile_against_header(command, registers, source, tmp_path)


def test_wrong_claim_about_the_header_is_found(tmp_path):
    with pytest.raises(AssertionError, match="static assertion failed"):
        compile_against_header(
            LANGUAGES[0], ENGINE, 'static_assert(CDMA_ENGINE__ID_offset == 4, "");', tmp_path
        )


@pytest.mark.parametrize("command", LANGUAGES, ids=lambda command: command[-1])
def test_headers_of_two_engines_fit_one_driver(command, tmp_path):
    one, other = (register_source(source, name=name) for source, name in TWO_ENGINES.items())
    (tmp_path / header_name(other)).write_text(c_header(other))
    for name in TWO_ENGINES.values():
        (tmp_path / descriptor_header_name(name)).write_text(descriptor_header())
    source = "".join(
        f'#include "{descriptor_header_name(name)}"\n' for name in TWO_ENGINES.values()
    )
    source += f"""#include "{header_name(other)}"
static_assert(SWAP_OUT__CONFIG0__UNITS_reset == 6, "");
static_assert(SWAP_IN__CONFIG0__UNITS_reset == 2, "");
static_assert(SWAP_OUT__ID_offset == SWAP_IN__ID_offset, "");
static_assert(sizeof(swap_out_t) == sizeof(swap_in_t), "");
static_assert(sizeof(struct cdma_descriptor) == 64, "");
"""
    compile_against_header(command, one, source, tmp_path)


def test_header_has_no_bytewise_structs_and_the_configuration_s_constants():
    assert "__packed__" not in c_header(ENGINE)
    assert "#define CDMA_ENGINE__CONFIG0__UNITS_reset 0x6\n" in c_header(ENGINE)
    assert "#define CDMA_ENGINE__CONFIG0__UNITS_reset 0x2\n" in c_header(OTHER)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@of_every_block
def test_pages_name_every_register_and_need_no_network(block, tmp_path):
    registers = DOCUMENTS[block].source()
    index = write_html(tmp_path / "new" / "html", registers)
    assert index == tmp_path / "new" / "html" / "index.html"
    pages = contents(index.parent)
    text = "".join(
        page.decode() for name, page in pages.items() if name.endswith((".html", ".json"))
    )
    for register in register_map(registers).values():
        assert f'"{register.group.upper().removeprefix(f"{register.page}_")}"' in text
        assert f'"{register.page}"' in text or not register.page
        for field in register.fields.values():
            assert field.name in text
    assert {"engine": "Destination overflow", "buddy": "Corrupt entry"}[block] in text
    assert not re.search(r'(src|href)="(https?:)?//', pages["index.html"].decode())
    assert str(tmp_path) not in text
    assert str(ROOT) not in text


def test_output_is_the_same_every_time(tmp_path, monkeypatch):
    write_html(tmp_path / "a", ENGINE)
    # As the next day.
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_html(tmp_path / "b", ENGINE)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert c_header(ENGINE) == c_header(ENGINE)


@of_every_block
def test_document_is_up_to_date(block):
    path = DOCUMENTS[block].path
    text = (ROOT / path).read_text()
    assert text == document(block), f"write {path} again, as it says in its head"
