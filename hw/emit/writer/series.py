"""Parts of a value that differ in places and counts only, as one with an index.

The source makes them in a loop of Python, which the netlist has lost: byte `k` of a beat is kept if
`k` is below the size, for 32 of them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

FEWEST = 8
"""Parts from which on a loop is shorter."""

_PLACE = re.compile(r"\[(\d+)(?::(\d+))?\]|(?<!\w)(\d+)'d(\d+)")
_COMPARED = re.compile(r"(?:^|[(&|?:] ?|! ?)\w+(?:\[[^]]*\])? (?:==|!=|<=?|>=?) $")
_ZERO = re.compile(r" (!=|==) (\d+'d0)(?!\d)")


@dataclass(frozen=True)
class Series:
    """Parts `first` up to, not with, `end` are `text` with the index for the part's number.

    The numbers begin with 0 for the part `first`.
    """

    first: int
    end: int
    text: str


def find_series(parts: Sequence[tuple[int, str]], index: str) -> Series | None:
    """The longest series among parts, if one is long enough.

    Parameters
    ----------
    parts
        Width and text of each, in their order.
    index
        The name of the loop's variable.
    """
    found: Series | None = None
    first = 0
    while first <= len(parts) - FEWEST:
        end = first + 1
        while end < len(parts) and parts[end][0] == parts[first][0]:
            end += 1
        series = None
        while series is None and end - first >= FEWEST:
            text = _indexed([text for _, text in parts[first:end]], index)
            series = Series(first, end, text) if text else None
            end -= 1
        if series and (found is None or series.end - series.first > found.end - found.first):
            found = series
        first = series.end if series else first + 1
    return found


def _indexed(texts: Sequence[str], index: str) -> str | None:
    """A text that is each of several with a number for the index; None if there is none."""
    # What is not zero is greater than it, as others are greater than other numbers.
    if _shape(texts[0]) != _shape(texts[1]):
        texts = [_ZERO.sub(lambda m: f" {'>' if m[1] == '!=' else '<='} {m[2]}", t) for t in texts]
    if len(set(map(_shape, texts))) > 1:
        return None
    written: list[str] = []
    end = 0
    for matches in zip(*(list(_PLACE.finditer(text)) for text in texts), strict=True):
        first = matches[0]
        written.append(texts[0][end : first.start()])
        end = first.end()
        high, low, width, value = ([m[group] for m in matches] for group in range(1, 5))
        if len({m[0] for m in matches}) == 1:
            written.append(first[0])
        elif width[0] is not None:
            number = _linear([int(text) for text in value], index)
            # Elsewhere an index, which has 32 bits, would make what is around it wider.
            if number is None or len(set(width)) > 1 or not _COMPARED.search("".join(written)):
                return None
            written.append(number)
        else:
            lows = [int(a if b is None else b) for a, b in zip(high, low, strict=True)]
            sizes = {int(a) - start for a, start in zip(high, lows, strict=True)}
            place = _linear(lows, index)
            if place is None or len(sizes) > 1:
                return None
            (size,) = sizes
            written.append(f"[{place}]" if low[0] is None else f"[{place} +: {size + 1}]")
    text = "".join(written) + texts[0][end:]
    return text if index in re.findall(r"\w+", text) else None


def _shape(text: str) -> str:
    """A text without its places and counts."""
    return _PLACE.sub(lambda m: "[:]" if m[2] else "'" if m[4] else "[]", text)


def _linear(values: Sequence[int], index: str) -> str | None:
    """An expression that grows with the index; None if values do not grow evenly."""
    step = values[1] - values[0]
    if step <= 0 or any(b - a != step for a, b in pairwise(values)):
        return None
    scaled = index if step == 1 else f"{step}*{index}"
    return f"{scaled} + {values[0]}" if values[0] else scaled
