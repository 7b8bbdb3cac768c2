"""Structures that C++ and Python share: one table, and layouts that cannot differ unnoticed."""

import ctypes

import numpy as np
import pytest

from cdma.builds.compiler import compile_source
from cdma.builds.errors import BuildError
from cdma.builds.structs import (
    F64,
    I32,
    U8,
    U32,
    U64,
    Field,
    Struct,
    header,
    pointer,
    require_sizes,
)

INNER = Struct("Inner", (Field("a", U32, "first"), Field("b", U64)), "Has a hole behind a.")
OUTER = Struct(
    "Outer",
    (
        Field("tag", U8),
        Field("inner", INNER),
        Field("values", F64, count=3),
        Field("data", pointer(U8, mutable=True)),
        Field("sign", I32),
    ),
)
STRUCTS = (INNER, OUTER)

SOURCE = """#include "structs.h"
extern "C" __attribute__((visibility("default"))) void fill(Outer* outer) {
  *outer = {7, {1, ~uint64_t{0}}, {0.5, 1.5, 2.5}, outer->data, -3};
  outer->data[1] = 9;
}
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "source.cpp"
    path.write_text(SOURCE)
    return path


def test_python_reads_what_cpp_wrote(source):
    library = ctypes.CDLL(str(compile_source(source, {"structs.h": header(STRUCTS)})))
    require_sizes(library, STRUCTS)
    data = np.zeros(4, np.uint8)
    outer = OUTER.ctype(data=data.ctypes.data)
    library.fill(ctypes.byref(outer))
    assert (outer.tag, outer.inner.a, outer.inner.b, outer.sign) == (7, 1, 2**64 - 1, -3)
    assert list(outer.values) == [0.5, 1.5, 2.5]
    assert data.tolist() == [0, 9, 0, 0]
    (row,) = np.frombuffer(bytes(outer), OUTER_WITHOUT_POINTER.dtype(signed=True))
    assert (row["tag"], row["inner"]["a"], row["inner"]["b"]) == (7, 1, -1)
    assert row["values"].tolist() == [0.5, 1.5, 2.5]


OUTER_WITHOUT_POINTER = Struct(
    "Outer", tuple(Field("data", U64) if f.name == "data" else f for f in OUTER.fields)
)


def test_a_layout_that_differs_does_not_compile(source):
    text = header(STRUCTS).replace("  double values[3];", "  double values[2];")
    assert "values[2]" in text
    with pytest.raises(BuildError, match="static assertion failed"):
        compile_source(source, {"structs.h": text})


def test_a_header_is_part_of_what_the_cache_knows_a_library_by(source):
    one = compile_source(source, {"structs.h": header(STRUCTS)})
    other = compile_source(source, {"structs.h": header(STRUCTS) + "// changed\n"})
    assert one != other


def test_a_library_of_another_table_is_refused(source):
    library = ctypes.CDLL(str(compile_source(source, {"structs.h": header(STRUCTS)})))
    shorter = Struct("Outer", OUTER.fields[:-1])
    require_sizes(library, [OUTER])
    with pytest.raises(BuildError, match="Outer has 64 bytes in the compiled library and 56 in"):
        require_sizes(library, [shorter])


def test_the_header_has_the_tables_comments():
    text = header(STRUCTS)
    assert "// Has a hole behind a.\nstruct Inner {\n  uint32_t a;  // first\n" in text
    assert "static_assert(sizeof(Inner) == 16);" in text
    assert "static_assert(offsetof(Inner, b) == 8);" in text
