"""Pages: whole, self-contained, and made of text only, whatever a document contains."""

import copy
import json
import re
from html.parser import HTMLParser

import pytest

from cdma.builds.documents import body
from cdma.errors import UserError
from cdma.report import Document, html_of
from cdma.synth.gates.clock import ENGINE
from cdma.terminal import command_line
from cdma.versions import found_versions
from tests.cdma.report.results import COMMANDS, result, swap, trace

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&<!--"


class Elements(HTMLParser):
    """The elements of a page, the texts in them, and the cells with their values."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def values(self):
        """The exact values of all cells."""
        return [
            json.loads(attributes["data-value"])
            for tag, attributes in self.elements
            if tag == "td" and "data-value" in attributes
        ]


KINDS = (*COMMANDS, "swap", "trace")


def document(kind):
    contents = {"swap": swap, "trace": trace}
    return Document(f"{kind}.json", contents[kind]() if kind in contents else result(kind))


def documents():
    return [document(kind) for kind in KINDS]


@pytest.fixture(scope="module")
def page():
    return html_of(documents())


@pytest.mark.verify
def test_nothing_is_loaded_from_anywhere(page):
    elements = Elements(page).elements
    addresses = [
        value
        for _, attributes in elements
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "data", "action", "background")
    ]
    assert len(addresses) > 10
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert {tag for tag, _ in elements}.isdisjoint({"iframe", "object", "embed", "base", "form"})
    assert "url(" not in page.partition("</style>")[0]
    (policy,) = (a["content"] for t, a in elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")


def scalars(value):
    """All values in a JSON value that are neither lists nor objects."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from scalars(each)
    else:
        yield value


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_every_figure_of_a_document_is_in_a_table_exactly(kind):
    source = document(kind)
    values = Elements(html_of([source])).values
    shown = {json.dumps(value) for each in values for value in scalars(each)}
    content = body(source.content)
    missing = {json.dumps(value) for value in scalars(content)} - shown - {"null"}
    assert missing == set()


def test_a_document_s_head_is_a_sentence():
    texts = Elements(html_of([Document("x.json", result("synth"))])).texts
    told = [text for text in texts if text.strip().startswith("Computed by cdma")]
    (sentence,) = told
    assert sentence.strip().endswith(": cdma synth token-bucket --config tiny --force --json")
    older = Elements(html_of([Document("x.json", body(result("synth")))])).texts
    assert not any("Computed by cdma" in text for text in older)


def test_what_documents_contain_stays_text():
    content = copy.deepcopy(swap())
    content["arrays"][0]["name"] = EVIL
    content["arrays"][0]["faults"] = [EVIL]
    content["configuration"] = {"engine": {EVIL: EVIL}}
    content["machine"] = EVIL
    content["codec"] = EVIL
    evil = copy.deepcopy(trace())
    for event in evil["traceEvents"]:
        event["args"] = {k: EVIL if isinstance(v, str) else v for k, v in event["args"].items()}
        event["cat"] = EVIL
    harmless = Elements(html_of([Document("a.json", swap()), Document("t.json", trace())]))
    found = Elements(html_of([Document(f"{EVIL}.json", content), Document("t.json", evil)]))

    def counted(page, *tags):
        return [sum(tag == each for each, _ in page.elements) for tag in tags]

    tags = ("script", "img", "section", "figure", "style")
    assert counted(found, *tags) == counted(harmless, *tags)
    assert not any(name.startswith("on") for _, found_in in found.elements for name in found_in)
    # It is there, as text.
    assert EVIL in found.texts
    assert EVIL in found.values


def test_the_data_in_the_page_are_the_documents(page):
    found = re.findall(r'<script type="application/json" id="data-\d+">(.*?)</script>', page, re.S)
    assert [json.loads(each) for each in found] == [d.content for d in documents()[:-1]]


def test_command_and_versions_are_told():
    with command_line.given(["swap", "a file.npy", "--html", "<b>.html"]):
        texts = Elements(html_of([Document("swap.json", swap())])).texts
    assert "cdma swap 'a file.npy' --html '<b>.html'" in texts
    for name, version in found_versions().items():
        assert {name, version} <= set(texts)
    without = Elements(html_of([Document("swap.json", swap())])).texts
    assert not any(text.startswith("cdma swap") for text in without)


def test_the_configuration_is_told(page):
    configuration = result("estimate")["configuration"]
    values = Elements(page).values
    for value in configuration["machine"].values():
        assert value in values


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("schedule", "policies"),
        ("estimate", "total"),
        ("value", "values"),
        ("profile", "allocations"),
        ("synth", "components"),
        ("largest", "largest_batches"),
    ],
)
def test_documents_that_are_not_whole_are_refused(kind, key):
    damaged = {**result(kind), key: [{"some": "thing"}]}
    with pytest.raises(UserError) as caught:
        html_of([Document("x.json", damaged)])
    assert str(caught.value).startswith(
        f"x.json looks like the JSON of cdma {kind}, but is not whole"
    )


def test_other_commands_objects_have_tables():
    content = {"ratio": 2.0, "rows": [{"name": "a", "pj": 1.5}], "configuration": {"x": {"y": 3}}}
    found = Elements(html_of([Document("other.json", content)]))
    assert found.values == [2.0, "a", 1.5, 3]
    assert "other.json" in found.texts


@pytest.mark.parametrize("kind", KINDS)
def test_pages_with_times_tell_the_clock_that_the_rtl_reaches(kind):
    told = [text for text in Elements(html_of([document(kind)])).texts if "does not clock" in text]
    assert len(told) == (kind in ("swap", "schedule", "estimate", "value"))
    assert all(f"{ENGINE.mhz:.0f} MHz" in text for text in told)
