"""The page of tables: it is what its generator writes, and has every key with its limits."""

from dataclasses import fields

from cdma.config import KINDS, NETWORK
from cdma.config.operators import LEFT_OUT, operators
from cdma.config.reference import DOCUMENT, document
from cdma.plan.workload.builder import Builder
from tests.lib.paths import ROOT


def test_page_is_what_its_generator_writes():
    assert (ROOT / DOCUMENT).read_text(encoding="utf-8") == document(), (
        f"generate it again: .venv/bin/python -m cdma.config.reference > {DOCUMENT}"
    )


def test_every_kind_has_a_section_with_all_its_keys():
    sections = document().split("\n## ")[1:]
    assert [text.partition("\n")[0] for text in sections] == [f"[{name}]" for name in KINDS]
    for kind, section in zip(KINDS.values(), sections, strict=True):
        for name in kind.presets:
            assert f"`{name}`" in section
        if kind is not NETWORK:
            for field in fields(kind.config):
                assert f"\n| `{field.name}` | " in section


def test_limits_are_those_that_the_classes_refuse_by():
    page = document()
    assert "\n| `units` | whole number | `6` | 1 to 16 | " in page
    assert "| `sector_bytes` | whole number | `32` | 32, 64 or 128 | " in page
    assert "| `link_efficiency` | number | `1` | more than 0 and at most 1 | " in page
    assert '| `latency` | text | `"paper"` | paper or fast | ' in page
    # What a part has if its key is not given is what the whole has, not its class.
    assert "| `capacity_bytes` | whole number | `4096` | " in page


def test_every_layer_that_the_builder_writes_is_an_operator():
    public = {name for name in vars(Builder) if not name.startswith("_")}
    public |= {name for base in Builder.__mro__ for name in vars(base) if not name.startswith("_")}
    assert set(operators()) == public - set(LEFT_OUT)
