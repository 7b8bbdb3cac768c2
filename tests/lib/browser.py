"""Debian's Chromium, without a window and without a network, for pages of the project."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lib.requirements import CHROMIUM, PLAYWRIGHT, require

SIZE = {"width": 1280, "height": 1000}


@dataclass
class OpenedPage:
    """A page in the browser, and what went wrong in it.

    Attributes
    ----------
    page : playwright.sync_api.Page
    complaints : list of str
        Errors and warnings of the console, and exceptions of scripts.
    requests : list of str
        Addresses that the page asked for, beside its own and those of its own content.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser for several pages; skips the test where there is none."""
    require(PLAYWRIGHT)
    require(CHROMIUM)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Without a sandbox of its own: in a container's root it cannot make one.
        launched = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def opened(launched: Any, path: Path) -> Iterator[OpenedPage]:
    """A file in a browser that has no network."""
    context = launched.new_context(viewport=SIZE, offline=True)
    try:
        found = OpenedPage(context.new_page())
        own = path.resolve().as_uri()

        def on_console(message: Any) -> None:
            if message.type in ("error", "warning"):
                found.complaints.append(message.text)

        def on_request(request: Any) -> None:
            if request.url != own and not request.url.startswith("data:"):
                found.requests.append(request.url)

        found.page.on("console", on_console)
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", on_request)
        found.page.goto(own)
        yield found
    finally:
        context.close()
