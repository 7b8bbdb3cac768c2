"""Boolean functions as Liberty writes them: `!((A & B) | C)`, `A B'`, `A*B + !C`."""

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\w+|[!'^&*+|()]")


def pins_of(function: str) -> set[str]:
    """Names of the pins in it; 0 and 1 are constants."""
    return set(re.findall(r"\w+", function)) - {"0", "1"}


def evaluate(function: str, pins: Mapping[str, bool]) -> bool:
    """The function's value.

    Binding from the tightest: `!` before and `'` behind; `^`; `&`, `*` or nothing; `|` or `+`.

    Raises
    ------
    ValueError
        If it is no function, or one of a pin that is not given.
    """
    parser = _Parser(function, pins)
    value = parser.either()
    if parser.tokens:
        raise ValueError(f"{function!r} is no function")
    return value


class _Parser:
    """Descent over the tokens; what is taken is gone from the list."""

    def __init__(self, function: str, pins: Mapping[str, bool]) -> None:
        self.function = function
        self.pins = pins
        self.tokens = _TOKEN.findall(function)

    def either(self) -> bool:
        value = self.both()
        while self.tokens and self.tokens[0] in "|+":
            self.tokens.pop(0)
            # Not `value or …`: what follows must be taken in any case.
            value = self.both() | value
        return value

    def both(self) -> bool:
        value = self.different()
        while self.tokens and self.tokens[0] not in ("|", "+", ")"):
            if self.tokens[0] in "&*":
                self.tokens.pop(0)
            value = self.different() & value
        return value

    def different(self) -> bool:
        value = self.single()
        while self.tokens and self.tokens[0] == "^":
            self.tokens.pop(0)
            value = self.single() ^ value
        return value

    def single(self) -> bool:
        token = self.tokens.pop(0) if self.tokens else ""
        if token == "!":
            return not self.single()
        if token == "(":
            value = self.either()
            if not self.tokens or self.tokens.pop(0) != ")":
                raise ValueError(f"{self.function!r} is no function")
        elif token in ("0", "1"):
            value = token == "1"
        elif token in self.pins:
            value = self.pins[token]
        else:
            raise ValueError(f"{self.function!r} is no function of {', '.join(self.pins)}")
        while self.tokens and self.tokens[0] == "'":
            self.tokens.pop(0)
            value = not value
        return value
