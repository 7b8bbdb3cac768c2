"""What is generated from the map: a header that compilers accept, pages, and the document."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hw.config import EngineConfig
from hw.dma.register_docs import HEADER_NAME, c_header, markdown, write_html
from hw.dma.register_map import register_map

ROOT = Path(__file__).parents[2]
OTHER = EngineConfig(units=2, buffer_bytes=8192)

LANGUAGES = [
    ["gcc", "-x", "c", "-std=c11"],
    ["gcc", "-x", "c", "-std=gnu17"],
    ["g++", "-x", "c++", "-std=c++11"],
]


def compile_against_header(command, source, folder):
    assert shutil.which(command[0]), f"{command[0]} is missing: apt-get install g++"
    (folder / HEADER_NAME).write_text(c_header())
    (folder / "driver.c").write_text(f'#include <stddef.h>\n#include "{HEADER_NAME}"\n{source}')
    done = subprocess.run(
        [*command, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "driver.c"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    # Warnings are errors, so that stderr is empty unless it failed.
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", LANGUAGES, ids=lambda command: command[-1])
def test_header_compiles_and_has_the_map(command, tmp_path):
    claims = ["sizeof(cdma_engine_t) == 0x180"]
    for register in register_map().values():
        path = re.sub(rf"^({register.group})_(LO|HI)$", r"\1.\2", register.name, flags=re.I)
        name = "CDMA_ENGINE__" + path.replace(".", "__")
        claims += [
            f"offsetof(cdma_engine_t, {path}) == {register.offset}",
            f"sizeof(((cdma_engine_t *)0)->{path}) == 4",
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
    compile_against_header(command, source, tmp_path)


def test_wrong_claim_about_the_header_is_found(tmp_path):
    with pytest.raises(AssertionError, match="static assertion failed"):
        compile_against_header(
            LANGUAGES[0], 'static_assert(CDMA_ENGINE__ID_offset == 4, "");', tmp_path
        )


def test_header_has_no_bytewise_structs_and_the_configuration_s_constants():
    assert "__packed__" not in c_header()
    assert "#define CDMA_ENGINE__CONFIG0__UNITS_reset 0x6\n" in c_header()
    assert "#define CDMA_ENGINE__CONFIG0__UNITS_reset 0x2\n" in c_header(OTHER)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_pages_name_every_register_and_need_no_network(tmp_path):
    index = write_html(tmp_path / "new" / "html")
    assert index == tmp_path / "new" / "html" / "index.html"
    pages = contents(index.parent)
    text = "".join(
        page.decode() for name, page in pages.items() if name.endswith((".html", ".json"))
    )
    for register in register_map().values():
        assert f'"{register.group.upper()}"' in text
        for field in register.fields.values():
            assert field.name in text
    assert "Destination overflow" in text
    assert not re.search(r'(src|href)="(https?:)?//', pages["index.html"].decode())
    assert str(tmp_path) not in text
    assert str(ROOT) not in text


def test_output_is_the_same_every_time(tmp_path, monkeypatch):
    write_html(tmp_path / "a")
    # As the next day.
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_html(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert c_header() == c_header()


def test_document_is_up_to_date():
    text = (ROOT / "docs" / "registers.md").read_text()
    assert text == markdown(), "write docs/registers.md again, as it says in its head"
