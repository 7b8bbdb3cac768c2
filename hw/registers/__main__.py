"""`python -m cdma.hw.registers NAME`: a block's registers as a document, to standard output."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cdma.hw.buddy.registers import register_source as buddy
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.registers import register_source as engine
from cdma.hw.registers.docs import markdown
from cdma.hw.registers.map import RegisterSource


@dataclass(frozen=True)
class Document:
    """A file in the repository, and the registers that it is about."""

    path: str
    source: Callable[[], RegisterSource]


DOCUMENTS = {
    # With all registers that an engine can have.
    "engine": Document("docs/reference/registers.md", partial(engine, EngineConfig(ecc=True))),
    "buddy": Document("docs/reference/buddy-registers.md", buddy),
}


def document(name: str) -> str:
    """The expected content of the file."""
    path = DOCUMENTS[name].path
    return markdown(
        DOCUMENTS[name].source(), f".venv/bin/python -m cdma.hw.registers {name} > {path}"
    )


if __name__ == "__main__":
    (chosen,) = sys.argv[1:]
    print(document(chosen), end="")
