"""The page of documents: it is what its generator writes, and has every key of every schema."""

import re

from cdma.schemas import SCHEMAS
from cdma.schemas.json_schema import json_schema
from cdma.schemas.reference import DOCUMENT, document
from tests.lib.paths import ROOT


def test_page_is_what_its_generator_writes():
    assert (ROOT / DOCUMENT).read_text(encoding="utf-8") == document(), (
        f"generate it again: .venv/bin/python -m cdma.schemas.reference > {DOCUMENT}"
    )


def test_every_schema_has_a_section_with_all_its_keys():
    sections = document().split("\n## ")[1:]
    assert [text.partition("\n")[0] for text in sections] == list(SCHEMAS)
    for schema, section in zip(SCHEMAS.values(), sections, strict=True):
        made = json_schema(schema)
        keys = set(made["properties"]) - {"schema", "version", "made_by"}
        assert keys <= set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        assert f"| [`{schema.name}`](#{schema.name}) | {schema.version} | " in document()
