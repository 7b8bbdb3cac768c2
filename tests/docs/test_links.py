"""No link of the documentation is broken, and the index leads to every page."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, anchors, broken_links, links, pages
from tests.lib.paths import ROOT


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=named)
def test_no_link_is_broken(page):
    assert list(broken_links(page, page.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[here](index.md)", []),
        ("[here](index.md#start)", []),
        ("![picture](guide/plan/schedule.png)", []),
        ("[there](nowhere.md)", ["nowhere.md: no such file"]),
        ("[there](index.md#nowhere)", ["index.md#nowhere: no such heading"]),
        ("# A title: of `code`, 1 B\n[up](#a-title-of-code-1-b)", []),
        ("::: cdma.simulate\n[one](#cdma.simulate)", []),
        ("# A\n# A\n[one](#a) [two](#a-1) [three](#a-2)", ["#a-2: no such heading"]),
        ("```\n# no title\n[no](link.md)\n```\n`[nor](this.md)`", []),
        ("```\n# no title\n```\n[x](#no-title)", ["#no-title: no such heading"]),
        ("[web](https://amaranth-lang.org)", []),
    ],
)
def test_what_is_broken_is_found(text, broken):
    assert list(broken_links(DOCS / "page.md", text)) == broken


def test_anchors_are_those_of_a_browser():
    text = "# `cdma swap`\n## What it does, in figures\n### [a](b.md) – c_d\n"
    assert anchors(text) == {"cdma-swap", "what-it-does-in-figures", "a--c_d"}


def test_index_leads_to_every_page_in_one_step():
    linked = {
        (DOCS / target.partition("#")[0]).resolve()
        for target in links((DOCS / "index.md").read_text("utf-8"))
    }
    lists = (DOCS / "developer" / "decisions", DOCS / "reference" / "commands")
    listed = linked | {
        (folder / target).resolve()
        for folder in lists
        for target in links((folder / "index.md").read_text("utf-8"))
    }
    missing = {page for page in DOCS.rglob("*.md") if page not in listed} - {DOCS / "index.md"}
    assert sorted(map(named, missing)) == []


def test_pages_stand_by_reader():
    rooms = {path.name for path in DOCS.iterdir()}
    readers = {"start", "tutorials", "guide", "reference", "developer", "notebooks"}
    # `site` has what MkDocs needs beside the pages.
    assert rooms == {"index.md", *readers, "site"}
