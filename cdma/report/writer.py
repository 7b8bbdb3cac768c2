"""Documents to sections, to a page, to a file: the one way of all reports."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cdma.builds.documents import MADE_BY, body
from cdma.errors import UserError
from cdma.outputs import open_atomically
from cdma.report.content import Section
from cdma.report.documents import OTHER, Document
from cdma.report.page import render
from cdma.report.sections import buddy, estimate, other, schedule, swap, synth, value
from cdma.terminal.command_line import command_line
from cdma.versions import found_versions

Builder = Callable[[Document, Sequence[Document]], Section]

BUILDERS: dict[str, Builder] = {
    "trace": schedule.trace_section,
    "schedule": schedule.section,
    "largest": schedule.largest_section,
    "estimate": estimate.section,
    "value": value.section,
    "swap": swap.section,
    "synth": synth.section,
    "profile": buddy.profile_section,
    "replay": buddy.replay_section,
    OTHER: other.section,
}
"""A function per kind, of a document and of all that are on the page."""


def write_report(path: Path, documents: Sequence[Document], *, force: bool) -> int:
    """Write the page of documents to a file, and return how many bytes it has.

    Raises
    ------
    UserError
        A document is not what its keys say, or the file cannot be written.
    MissingPackageError
        A picture needs matplotlib, which is not installed.
    """
    page = html_of(documents)
    with open_atomically(path, "w", force=force) as file:
        file.write(page)
    return len(page.encode())


def html_of(documents: Sequence[Document]) -> str:
    """The page of documents, self-contained: nothing in it is loaded from anywhere."""
    sections = [_section(document, documents) for document in documents]
    results = sum(document.kind != "trace" for document in documents)
    return render(
        title=f"{sections[0].title}, and more" if results > 1 else sections[0].title,
        sections=sections,
        # Timelines have a form of their own in the page, a tenth of the trace's size.
        data={d.name: d.content for d in documents if d.kind != "trace"},
        command=command_line(),
        versions=found_versions(),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _section(document: Document, documents: Sequence[Document]) -> Section:
    # What a head says is in a sentence of its own.
    headless = Document(document.name, body(document.content))
    try:
        section = BUILDERS[document.kind](headless, documents)
        return replace(section, sentences=(*section.sentences, *_made_by(document)))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{document.name} looks like the JSON of cdma {document.kind}, but is not whole "
            f"({type(error).__name__}: {error}); give what the command printed"
        ) from error


def _made_by(document: Document) -> Iterator[str]:
    """Yield what made a document, as its head says; nothing of one that has none."""
    made = document.content.get(MADE_BY)
    if made is not None:
        command = f": {made['command']}" if made["command"] else ""
        yield f"Computed by cdma {made['cdma']}{command}"
