"""Reading .npy files of all kinds."""

import struct

import numpy as np
import pytest

from cdma.errors import UserError
from cdma.files import load_npy, write_npy_header
from cdma.golden.container import Layout, memory_order


def npy(header, data=b""):
    """An .npy file of version 1.0 with this header text."""
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", "|i1", ">u2", "<i8", "|b1"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back(tmp_path, dtype, shape, order):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype, order=order)
    with open(tmp_path / "a.npy", "wb") as file:
        order = memory_order(array.shape, array.flags.f_contiguous)
        write_npy_header(file, Layout(array.dtype, array.shape, order))
        file.write(array.tobytes("A"))
    for restored in (load_npy(tmp_path / "a.npy"), np.load(tmp_path / "a.npy")):
        assert restored.dtype.str == np.dtype(dtype).str
        assert restored.flags.f_contiguous == array.flags.f_contiguous
        np.testing.assert_array_equal(restored, array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(tmp_path, version):
    array = np.arange(6, dtype=np.int16)
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, array, version)
    np.testing.assert_array_equal(load_npy(tmp_path / "a.npy"), array)


def test_truncation_at_every_byte(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(5, dtype=np.float32))
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(UserError, match=r"a\.npy .*; "):
            load_npy(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an .npy file"),
        (b"hello", "is not an .npy file"),
        (b"PK\x03\x04", "is an .npz archive"),
        (b"\x93NUMPY\x09\x00", "damaged .npy header"),
        (npy("{'descr': '<f4'"), "damaged .npy header"),
        (npy("{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}"), "damaged .npy header"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "damaged .npy header"),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1)}", bytes(4)),
            "damaged .npy header",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {2**62}, {2**62})}}"),
            "damaged .npy header",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {2**70})}}"),
            "damaged .npy header",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62},)}}", bytes(4)),
            "is damaged: its header announces 18446744073709551616 bytes",
        ),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", bytes(5)),
            "announces 4 bytes of data, but it holds 5",
        ),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "pickled objects"),
        (
            npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", bytes(4)),
            "records",
        ),
        (npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", bytes(8)), "complex"),
        (npy("{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", bytes(16)), "unsupported"),
    ],
)
def test_what_is_no_array_of_numbers(tmp_path, content, message):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_npy(tmp_path / "a.npy")


def test_every_flipped_bit_of_the_header_is_a_clear_error_or_an_array(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(4, dtype=np.float32))
    content = path.read_bytes()
    refused = 0
    for bit in range(128 * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            load_npy(path)
        except UserError:
            refused += 1
    assert refused > 400
