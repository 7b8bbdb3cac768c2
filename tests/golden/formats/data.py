"""Arrays to compress: every density, length and odd value."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

ODD_FLOATS = np.array(
    [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1.17e-38, 3.4e38, 1.0],
    np.float32,
)
DTYPES = ["<f4", ">f4", "<f2", "<f8", "u1", "i1", "<i2", ">i8", "?"]
ELEMENT_SIZES = (4, 2, 1)


def sparse_bytes(
    seed: int, nbytes: int, density: float, element_bytes: int
) -> npt.NDArray[np.uint8]:
    """uint8 (nbytes,): whole elements are zero, the others have no zero byte."""
    generator = np.random.default_rng(seed)
    data = generator.integers(1, 256, nbytes).astype(np.uint8)
    zero = generator.random(nbytes // element_bytes + 1) >= density
    data[np.repeat(zero, element_bytes)[:nbytes]] = 0
    return data


@st.composite
def byte_arrays(draw: st.DrawFn, max_bytes: int = 9000) -> npt.NDArray[np.uint8]:
    """Bytes of any length, sparse in elements of 4, 2 or 1 bytes."""
    return sparse_bytes(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.one_of(st.integers(0, 300), st.integers(0, max_bytes))),
        draw(st.sampled_from([0.0, 0.01, 0.1, 0.38, 0.5, 0.9, 0.99, 1.0])),
        draw(st.sampled_from(ELEMENT_SIZES)),
    )


def typed_arrays() -> st.SearchStrategy[npt.NDArray]:
    """Small arrays of every type and shape, with NaNs, infinities, denormals and −0.0."""
    return st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(
            dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
        )
    )


def sparse_floats(
    generator: np.random.Generator, length: int, density: float
) -> npt.NDArray[np.float32]:
    """float32 (length,): normal noise of a random size, and zeros at independent places."""
    values = generator.standard_normal(length) * 10.0 ** generator.integers(-3, 4)
    values[generator.random(length) >= density] = 0
    return values.astype(np.float32)
