"""`python -m cdma.hw.registers NAME`: a block's registers as a document, to standard output."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from cdma.hw.buddy.registers import WITH_ALL_REGISTERS
from cdma.hw.buddy.registers import register_source as buddy
from cdma.hw.config import MAX_RINGS, MAX_STREAM_ID_BITS, EngineConfig
from cdma.hw.dma.control.registers import register_source as engine
from cdma.hw.registers.docs import markdown
from cdma.hw.registers.map import RegisterSource


@dataclass(frozen=True)
class Document:
    """A file in the repository, and the registers that it is about, of which configuration."""

    path: str
    source: Callable[[], RegisterSource]
    configuration: str = "the default configuration"


DOCUMENTS = {
    "engine": Document(
        "docs/reference/registers.md",
        lambda: engine(EngineConfig(ecc=True, rings=MAX_RINGS, stream_id_bits=MAX_STREAM_ID_BITS)),
        "the default configuration with `ecc`, all rings and AxUSER, which has all registers",
    ),
    "buddy": Document(
        "docs/reference/buddy-registers.md",
        lambda: buddy(WITH_ALL_REGISTERS),
        "the default configuration with the mode `best-of-three`, which has all registers",
    ),
}


def document(name: str) -> str:
    """The expected content of the file."""
    about = DOCUMENTS[name]
    command = f".venv/bin/python -m cdma.hw.registers {name} > {about.path}"
    return markdown(about.source(), about.configuration, command)


if __name__ == "__main__":
    (chosen,) = sys.argv[1:]
    print(document(chosen), end="")
