"""Streams that were damaged, and what a decoder may make of them."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from cdma.golden import StreamError, StreamStatus
from cdma.golden.formats.interface import Codec


def damaged(
    draw: st.DrawFn, stream: npt.NDArray[np.uint8], nbytes: int, *, garbage_bytes: int
) -> tuple[npt.NDArray[np.uint8], int]:
    """A stream with a bit flipped or garbage in front, or as it was with another length."""
    stream = stream.copy()
    kind = draw(st.sampled_from(["flip", "garbage", "length"]))
    if kind == "length":
        return stream, draw(st.integers(0, 6 * garbage_bytes))
    if kind == "garbage":
        garbage = np.frombuffer(draw(st.binary(max_size=garbage_bytes)), np.uint8)
        stream[: garbage.size] = garbage[: stream.size]
    elif stream.size:
        bit = draw(st.integers(0, stream.size * 8 - 1))
        stream[bit // 8] ^= 1 << bit % 8
    return stream, nbytes


def decoded_or_refused(
    codec: Codec, stream: npt.NDArray[np.uint8], nbytes: int
) -> npt.NDArray[np.uint8] | None:
    """All the bytes that a stream is said to have, or None after an error that makes sense."""
    refusal = None
    try:
        restored = codec.decompress(stream, nbytes)
    except StreamError as error:
        refusal = error
    if refusal is not None:
        assert refusal.status != StreamStatus.OK
        assert 0 <= refusal.offset <= stream.size
        assert 0 <= refusal.valid_bytes <= nbytes
        return None
    assert restored.size == nbytes
    return restored
