"""The files of a bench: sources with names filled in, and vectors as rows of hexadecimal digits."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A bench of a block, to be run in the folder above `bench`.

    Attributes
    ----------
    top : str
        The module to simulate.
    sources : dict of str to str
        SystemVerilog files by name, which any order of compilation suits.
    vectors : dict of str to str
        Files for `$readmemh` by name, which the sources look for in `bench`.
    """

    top: str
    sources: dict[str, str]
    vectors: dict[str, str]


def source(name: str, values: Mapping[str, object]) -> str:
    """Return a SystemVerilog file beside this module, with values in the place of `@NAMES@`.

    Raises
    ------
    KeyError
        If the file has a name without a value.
    """
    text = Path(__file__).with_name(name).read_text("utf-8")
    return re.sub(r"@(\w+)@", lambda match: str(values[match[1]]), text)


def hex_rows(words: Iterable[int], bits: int) -> str:
    """Return words of so many bits, one in a line, as `$readmemh` takes them."""
    digits = -(-bits // 4)
    return "".join(f"{word:0{digits}x}\n" for word in words)
