"""Lines about as long as one may be, through the compressor: raw from where the format says so."""

import numpy as np

from cdma.golden.formats.xc.lines import ESCAPE_CLASS, ESCAPED, MAX_BEHIND_BYTES, RAW_HEADER
from tests.hw.codec.xc.lines import beats_of_line, golden, sectors_of
from tests.hw.codec.xc.test_widths import compressor, elements

__all__ = ["compressor", "elements"]


def lines_of_escapes(form, codec):
    """Lines of every number of escapes, and of one or two elements more with extras alone."""
    codes = np.frombuffer(codec.coding.codes, np.uint8)[1 : 1 << form.exponent_bits]
    far = 1 + int(np.flatnonzero(codes == ESCAPED)[0])
    with_extras = np.flatnonzero((codes % 4 == ESCAPE_CLASS) & (codes != ESCAPED))
    near = 1 + int(with_extras[0]) if with_extras.size else far
    number = form.line_elements
    words = [
        [exponent << form.mantissa_bits | 1 for exponent in [far] * escapes + [near] * others]
        for escapes in range(number + 1)
        for others in range(min(2, number - escapes) + 1)
    ]
    lines = np.zeros((len(words), number), f"<u{form.element_bytes}")
    for line, held in zip(lines, words, strict=True):
        line[: len(held)] = held
    return lines.view(np.uint8)


def test_line_is_raw_from_where_the_golden_model_has_it(compressor):
    component = compressor.component
    form, config = component.elements, component.config
    coding = 200, 0
    codec = golden(*coding, form)
    lines = lines_of_escapes(form, codec)
    streams = [codec.compress(line).tobytes() for line in lines]
    # Those about the limits: a few are enough of the others.
    behind = np.array([stream[0] & MAX_BEHIND_BYTES for stream in streams])
    raw = np.array([stream[0] == RAW_HEADER for stream in streams])
    about = np.convolve(raw[1:] != raw[:-1], np.ones(7), "same") > 0
    chosen = np.append(about, True) | (behind > MAX_BEHIND_BYTES - 3)
    chosen[::17] = True
    lines, streams = lines[chosen], [streams[i] for i in np.flatnonzero(chosen)]
    assert 0 < raw[chosen].sum() < len(streams)
    beats = [beat for stream in streams for beat in beats_of_line(config, stream)]
    beats[-1]["last"] = 1
    compressor.source(component.i, sectors_of(config, lines, *coding))
    taken = compressor.sink(component.o, len(beats))
    compressor.run()
    taken.assert_received(beats)
