"""The site: every page is on it, nothing is loaded from elsewhere, no link is broken, search finds.

A build takes seconds, so all but the list of pages is of the long tests; `test_links` holds links
of the sources on every run.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, FRONT, anchors
from tests.lib.browser import browser, opened
from tests.lib.paths import ROOT
from tests.lib.requirements import MKDOCS, require

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements of a page that make a browser load something, and the attribute that says what."""

BESIDE = {
    "README.md": "start/readme.md",
    "CONTRIBUTING.md": "developer/contributing.md",
    "CHANGELOG.md": "developer/changelog.md",
}


def built(top: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The site of a checkout, as `make site` builds it, in a folder of the test's."""
    require(MKDOCS)
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", folder],
        cwd=top,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = built(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loads(HTMLParser):
    """Addresses that a page makes a browser load.

    Attributes
    ----------
    addresses : list of str
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag in LOADING and known.get(LOADING[tag]):
            self.addresses.append(str(known[LOADING[tag]]))


def elsewhere(folder: Path) -> list[str]:
    """Addresses that pages and style sheets load from another place, or miss on the site."""
    found = []
    for page in folder.rglob("*.html"):
        for address in Loads(page.read_text("utf-8")).addresses:
            if address.startswith("data:"):
                continue
            # A server shows 404.html at any depth, so its addresses begin at the top.
            file = folder / address[1:] if page.name == "404.html" else page.parent / address
            if re.match(r"[a-z]+:|//", address):
                found.append(f"{page.name}: {address}")
            elif not file.exists():
                found.append(f"{page.name}: {address} is not there")
    for sheet in folder.rglob("*.css"):
        for address in re.findall(r"url\(\s*['\"]?([^)'\"]+)", sheet.read_text("utf-8")):
            if re.match(r"https?:|//", address):
                found.append(f"{sheet.name}: {address}")
    return found


@pytest.mark.verify
def test_every_page_is_on_the_site(site):
    sources = [path.relative_to(DOCS) for path in DOCS.rglob("*.md")]
    sources += [Path(BESIDE[path.name]) for path in FRONT]
    missing = [path for path in sources if not (site / path.with_suffix(".html")).exists()]
    assert missing == []


@pytest.mark.verify
def test_every_heading_is_on_its_page(site):
    missing = [
        f"{path.name}: {anchor}"
        for path in DOCS.rglob("*.md")
        for anchor in sorted(anchors(path.read_text("utf-8")))
        if f'id="{anchor}"'
        not in (site / path.relative_to(DOCS).with_suffix(".html")).read_text("utf-8")
    ]
    assert missing == []


@pytest.mark.verify
def test_nothing_is_loaded_from_elsewhere(site):
    assert elsewhere(site) == []


def test_what_is_loaded_from_elsewhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn/x.js"></script><img src="no.png"><a href="https://fine">x</a>'
        '<link rel="stylesheet" href="//fonts/y.css"><img src="data:image/png;base64,">'
    )
    (tmp_path / "a.css").write_text("@import url(https://fonts/z.css); a {b: url('x.png')}")
    assert elsewhere(tmp_path) == [
        "a.html: https://cdn/x.js",
        "a.html: no.png is not there",
        "a.html: //fonts/y.css",
        "a.css: https://fonts/z.css",
    ]


@pytest.mark.verify
@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ("[there](nowhere.md)", "nowhere.md"),
        ("[there](../reference/engine.md#nowhere)", "#nowhere"),
        ("![picture](nowhere.svg)", "nowhere.svg"),
        ("::: cdma.no_such_name", "no_such_name"),
    ],
)
def test_a_broken_link_fails_the_build(planted, told, tmp_path):
    for name in ("docs", "cdma", "hw", "golden", "plan", "sim", "synth", "reproduce"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").unlink()
    shutil.copytree(DOCS, tmp_path / "docs")
    for name in ("mkdocs.yml", *BESIDE):
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / "docs" / "start" / "tour.md"
    page.write_text(f"{page.read_text('utf-8')}\n{planted}\n", "utf-8")
    done = built(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert told in done.stdout + done.stderr


@pytest.mark.verify
def test_pages_open_as_files_and_search_finds_without_a_network(site):
    with browser() as launched, opened(launched, site / "start" / "tour.html") as one:
        one.page.locator(".md-search__input").click()
        # The search answers to keys.
        one.page.locator(".md-search__input").press_sequentially("sector mapper")
        one.page.wait_for_selector(".md-search-result__item")
        first = one.page.locator(".md-search-result__item a").first.get_attribute("href")
        assert "components.html" in first
        assert one.complaints == []
        assert all(address.startswith(site.as_uri()) for address in one.requests)
        one.page.goto(first)
        assert "metadata" in one.page.locator("article").inner_text().lower()
