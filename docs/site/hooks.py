"""MkDocs' hooks: the pages beside `docs/` are pages of the site, too."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

BESIDE = {
    "README.md": "start/readme.md",
    "CONTRIBUTING.md": "developer/contributing.md",
    "CHANGELOG.md": "developer/changelog.md",
}
"""Pages of the repository's top, and where the site has them. A README.md would be an index."""

_FENCE = re.compile(r"^(```\w+) (?!title=)[^\n]*$", re.M)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie beside `docs/`."""
    top = Path(config.docs_dir).parent
    for name, place in BESIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(top / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to and from those pages lead where the site has them.

    Words behind a block's language are for tests. Superfences would take such a block for text, and
    what follows it for a block.
    """
    markdown = _FENCE.sub(r"\1", markdown)
    place = page.file.src_uri
    beside = {there: name for name, there in BESIDE.items()}
    # Where the page lies in the repository.
    origin = Path(beside.get(place, f"docs/{place}")).parent

    def moved(match: re.Match[str]) -> str:
        target = match[1]
        if re.match(r"[a-z]+:", target):
            return target
        path = _relative_to_top(origin / target)
        there = BESIDE.get(path, path.removeprefix("docs/"))
        return "../" * place.count("/") + there

    if place not in beside and not re.search(r"\]\([^)]*(README|CONTRIBUTING|CHANGELOG)", markdown):
        return markdown
    return _LINK.sub(moved, markdown)


def _relative_to_top(path: Path) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
