"""The Liberty file format: groups and attributes, as far as libraries of standard cells use it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cdma.synth.errors import SynthError

# Strings, names, and the marks between them. Comments and line continuations are gone by then.
_TOKEN = re.compile(r'"([^"]*)"|([^\s{}():;,"]+)|([{}():;,])|(\n)')
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class LibertyError(SynthError):
    """A Liberty file that cannot be read, or has not what synthesis needs; the message names it."""


@dataclass
class Group:
    """A group of the file, as `cell (NAND2) { … }`.

    Attributes
    ----------
    kind, name : str
        What it is, and what is between its parentheses.
    attributes : dict of str to str
        Simple attributes, and complex ones with their values joined by commas; of one that comes
        several times the last.
    groups : list of Group
        In the order of the file.
    statements : list of (str, str)
        All attributes in the order of the file, repeated ones too.
    """

    kind: str
    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)
    statements: list[tuple[str, str]] = field(default_factory=list)

    def all(self, kind: str) -> list["Group"]:
        """Groups of that kind in it."""
        return [group for group in self.groups if group.kind == kind]

    def numbers(self, attribute: str) -> tuple[float, ...]:
        """An attribute's numbers; none if it is not there."""
        return tuple(
            float(text) for text in re.findall(r"[^\s,\\]+", self.attributes.get(attribute, ""))
        )


def read_liberty(path: Path) -> Group:
    """Read a file's `library` group.

    Raises
    ------
    LibertyError
        If the file cannot be read or its text is no Liberty; the message tells the line.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LibertyError(
            f"cannot read the Liberty file {path}: {error.strerror}; check the path"
        ) from error
    # Comments leave their lines, so that messages count right.
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    tokens = _Tokens(text, path)
    library = tokens.take_statement()
    if not isinstance(library, Group) or library.kind != "library":
        raise tokens.error("it does not begin with `library (…) {`")
    return library


class _Tokens:
    """The file's tokens: (text, is a mark); and a parser by descent over them."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self.line = 1
        self._tokens = self._split(text)
        self._ahead: tuple[str, bool] | None = None

    def error(self, cause: str) -> LibertyError:
        return LibertyError(
            f"{self.path}, line {self.line}, is no Liberty: {cause}; give a library of standard "
            "cells"
        )

    def take_statement(self) -> Group | tuple[str, str]:
        """A group, or an attribute's name and value."""
        name = self._take_word("a name")
        mark = self._take_mark(":(")
        if mark == ":":
            words = []
            while self._peek() not in (";", "}"):
                words.append(self._take()[0])
            if self._peek() == ";":
                self._take()
            return name, " ".join(words)
        arguments = []
        while self._peek() != ")":
            token, is_mark = self._take()
            if is_mark and token != ",":
                raise self.error(f"{token!r} between parentheses")
            if not is_mark:
                arguments.append(token)
        self._take()
        if self._peek() != "{":
            if self._peek() == ";":
                self._take()
            return name, ",".join(arguments)
        self._take()
        group = Group(name, ",".join(arguments))
        while self._peek() != "}":
            statement = self.take_statement()
            if isinstance(statement, Group):
                group.groups.append(statement)
            else:
                group.attributes[statement[0]] = statement[1]
                group.statements.append(statement)
        self._take()
        if self._peek() == ";":
            self._take()
        return group

    def _take_word(self, what: str) -> str:
        token, is_mark = self._take()
        if is_mark:
            raise self.error(f"{token!r} instead of {what}")
        return token

    def _take_mark(self, marks: str) -> str:
        token, is_mark = self._take()
        if not is_mark or token not in marks:
            raise self.error(f"{token!r} instead of one of {' '.join(marks)}")
        return token

    def _peek(self) -> str:
        """The next token if it is a mark; empty for a word, and at the end, where `_take` fails."""
        if self._ahead is None:
            self._ahead = next(self._tokens, None)
        if self._ahead is None:
            return ""
        return self._ahead[0] if self._ahead[1] else ""

    def _take(self) -> tuple[str, bool]:
        token = self._ahead if self._ahead is not None else next(self._tokens, None)
        self._ahead = None
        if token is None:
            raise self.error("it ends early")
        return token

    def _split(self, text: str) -> Iterator[tuple[str, bool]]:
        for match in _TOKEN.finditer(text):
            string, word, mark, newline = match.groups()
            if newline:
                self.line += 1
            elif mark:
                yield mark, True
            elif string is not None:
                self.line += string.count("\n")
                yield string.replace("\\\n", " "), False
            elif word != "\\":
                yield word, False
