"""Files of benches: names filled in, and rows as `$readmemh` takes them."""

import pytest

from cdma.hw.emit.bench.files import hex_rows, source


def test_rows_are_as_wide_as_the_words():
    assert hex_rows([0, 10, 0x1FF], 9) == "000\n00a\n1ff\n"
    assert hex_rows([], 8) == ""


def test_names_are_filled_in():
    text = source("axi_memory.sv", {"name": "block"})
    assert "module block_tb_memory #(" in text
    assert "@name@" not in text


def test_a_name_without_a_value_is_an_error():
    with pytest.raises(KeyError, match="name"):
        source("axi_memory.sv", {})
