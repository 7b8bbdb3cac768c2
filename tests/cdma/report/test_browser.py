"""Pages in a real browser: no complaint, no request, tables that sort, bars that answer."""

import json

import pytest

from cdma.report import Document, html_of
from tests.cdma.report.results import COMMANDS, result, swap, trace
from tests.lib.browser import browser, opened

BARS = ".timeline .bar"


# Chromium takes seconds to start.
pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def chromium():
    with browser() as launched:
        yield launched


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = [Document(f"{kind}.json", result(kind)) for kind in COMMANDS]
    found += [Document("swap.json", swap()), Document("trace.json", trace())]
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html_of(found), encoding="utf-8")
    return file


@pytest.fixture
def page(chromium, path):
    with opened(chromium, path) as found:
        yield found.page
        assert found.complaints == []
        assert found.requests == []


def longest(page, kind):
    """The bar of the longest event of a kind that is shown, the event, and the timeline's data."""
    data = json.loads(page.locator("[id^=part][id$=data]").last.text_content())
    shown = [each for each in data["groups"] if each["shown"]]
    events = [
        (event[3], index, number)
        for index, group in enumerate(shown)
        for number, event in enumerate(group["events"])
        if data["kinds"][event[1]][0] == kind
    ]
    _, index, number = max(events)
    bar = page.locator(f"{BARS}[data-group='{index}'][data-event='{number}']")
    return bar, shown[index]["events"][number], data


def width_of(bar):
    return bar.bounding_box()["width"]


def view(page):
    """The range of time that is seen, in ms."""
    return page.locator(".timeline svg").evaluate(
        "svg => [Number(svg.dataset.from), Number(svg.dataset.to)]"
    )


def test_pictures_are_drawn(page):
    sizes = page.locator("main img").evaluate_all(
        "found => found.map(image => [image.complete, image.naturalWidth, image.alt.length])"
    )
    assert len(sizes) >= 10
    assert all(complete and width > 100 and words > 20 for complete, width, words in sizes)


def test_tables_hold_the_numbers_of_the_json(page):
    table = page.locator("#part-1-1 table")
    keys = table.locator("thead th").evaluate_all("found => found.map(th => th.dataset.key)")
    rows = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => JSON.parse(cell.dataset.value)))"
    )
    made = [dict(zip(keys, row, strict=True)) for row in rows]
    asked = result("schedule")["policies"]
    assert [row["policy"] for row in made] == [row["policy"] for row in asked]
    for row, wanted in zip(made, asked, strict=True):
        assert row["seconds"] == wanted["seconds"]
        assert row["link_bytes"] == wanted["link_bytes"]
        assert row["lossless"] == wanted["lossless"]
    first = table.locator("tbody tr").first.locator("td").nth(keys.index("seconds"))
    assert first.inner_text() == f"{asked[0]['seconds'] * 1e3:,.3f}"


def test_a_table_sorts_by_exact_values_both_ways(page):
    table = page.locator("#part-1-1 table")
    heading = table.locator("th[data-key='seconds']")

    def seconds():
        index = heading.evaluate("th => th.cellIndex")
        return table.locator("tbody tr").evaluate_all(
            "(rows, i) => rows.map(row => JSON.parse(row.cells[i].dataset.value))", index
        )

    unsorted = seconds()
    assert None in unsorted
    fit = sorted(value for value in unsorted if value is not None)
    nulls = [None] * unsorted.count(None)
    heading.locator("button").click()
    assert seconds() == fit + nulls
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert seconds() == fit[::-1] + nulls
    # A total stays below.
    arrays = page.locator("table:has(tfoot)").last
    arrays.locator("thead button").first.click()
    assert arrays.locator("tfoot td").first.inner_text() == "total"


def test_a_bar_tells_what_it_is_under_the_pointer(page):
    bar, event, data = longest(page, "offload")
    tip = page.locator(".timeline .tip")
    assert not tip.is_visible()
    bar.hover()
    assert tip.is_visible()
    text = tip.inner_text()
    assert data["names"][event[4]] in text
    assert "ms long" in text
    assert "GB/s" in text
    assert data["names"][event[6]] in text
    assert "hovered" in bar.get_attribute("class")
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert page.locator(".hovered").count() == 0


def test_bars_grow_when_the_page_zooms_in_and_shrink_back(page):
    bar, _, _ = longest(page, "offload")
    before, whole = width_of(bar), view(page)
    bar.dblclick()
    seen = view(page)
    assert seen[0] >= whole[0]
    assert seen[1] <= whole[1]
    assert seen[1] - seen[0] < (whole[1] - whole[0]) / 2
    assert width_of(bar) > 2 * before
    page.get_by_role("button", name="Show the whole step").click()
    assert view(page) == whole
    assert width_of(bar) == pytest.approx(before)


def test_buttons_keys_and_wheel_zoom_and_the_pointer_pans(page):
    svg = page.locator(".timeline svg")
    start, end = view(page)
    middle = (start + end) / 2
    page.get_by_role("button", name="Zoom in").click()
    assert view(page) == pytest.approx([middle - end / 4, middle + end / 4])
    svg.focus()
    page.keyboard.press("+")
    assert view(page) == pytest.approx([middle - end / 8, middle + end / 8])
    page.keyboard.press("ArrowRight")
    assert view(page) == pytest.approx([middle - end * 3 / 40, middle + end * 7 / 40])
    page.keyboard.press("0")
    assert view(page) == [start, end]
    box = svg.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(f"Number(document.querySelector('.timeline svg').dataset.to) < {end}")
    zoomed = view(page)
    assert start < zoomed[0] < zoomed[1] < end
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 40, box["y"] + 60)
    page.mouse.up()
    panned = view(page)
    assert panned[0] < zoomed[0]
    assert panned[1] - panned[0] == pytest.approx(zoomed[1] - zoomed[0])


def test_other_policies_appear_when_they_are_asked_for(page):
    shown = page.locator(".timeline text.title").all_text_contents()
    assert not any(title.startswith("oracle") for title in shown)
    before = page.locator(BARS).count()
    page.get_by_label("oracle", exact=True).check()
    assert page.locator(".timeline text.title").count() == len(shown) + 1
    assert page.locator(BARS).count() > before
    page.get_by_label("oracle", exact=True).uncheck()
    assert page.locator(BARS).count() == before


def test_every_color_of_a_bar_is_in_the_legend(page):
    fills = set(page.locator(BARS).evaluate_all("f => f.map(b => b.getAttribute('fill'))"))
    legend = page.locator(".timeline .legend i").evaluate_all("f => f.map(i => i.style.background)")
    as_rgb = {f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for c in fills}
    assert len(fills) > 3
    assert as_rgb <= set(legend)


def test_the_json_can_be_saved_from_the_page(page):
    button = page.get_by_role("button", name="Save schedule.json as JSON")
    with page.expect_download() as download:
        button.click()
    saved = download.value
    assert saved.suggested_filename == "schedule.json"
    with open(saved.path(), encoding="utf-8") as file:
        assert json.load(file) == result("schedule")


def test_a_script_in_a_document_does_not_run(chromium, tmp_path):
    content = swap()
    evil = (
        "<img src=x onerror=\"document.title='run'\"></script><script>document.title='run'</script>"
    )
    content["arrays"][0]["name"] = content["machine"] = evil
    file = tmp_path / "evil.html"
    file.write_text(html_of([Document("swap.json", content)]), encoding="utf-8")
    with opened(chromium, file) as found:
        assert found.page.locator("h1").inner_text() == f"swap: ZVC through {evil}"
        assert found.page.title() != "run"
        assert (found.complaints, found.requests) == ([], [])


def test_what_the_tests_look_for_is_found(chromium, tmp_path):
    file = tmp_path / "bad.html"
    file.write_text("<script>console.error('e'); missing()</script><img src='http://x.test/a'>")
    with opened(chromium, file) as found:
        found.page.wait_for_timeout(100)
    assert any("missing" in each for each in found.complaints)
    assert "http://x.test/a" in found.requests
