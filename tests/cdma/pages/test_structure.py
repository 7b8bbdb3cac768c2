"""The picture of the engine: its blocks and streams are the Verilog's, and the documents'."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from cdma.pages.structure import PLACES, Block, BlockDiagram, drawing
from tests.docs.pages import DOCS
from tests.lib.rtl.verilog import verilog_of

PICTURE = DOCS / "developer" / "engine.svg"
CHAINS = (
    # As architecture.md tells the trips, queues and registers left out.
    ("host", "fetcher", "checker", "dispatcher", "retire", "record_writer", "host"),
    ("memory", "out_path.unit", "out_path.buffer", "out_path.drain", "out_path.packer"),
    ("out_path.packer", "out_path.writer", "host", "host memory"),
    ("dispatcher", "out_path.splitter", "out_path.issuer", "out_path.unit", "memory"),
    ("host", "in_path.receiver", "in_path.splitter", "in_path.unit", "memory", "device memory"),
    ("dispatcher", "in_path.job_splitter", "in_path.gather", "retire"),
)


def drawn(text: str) -> set[tuple[str, str]]:
    """Streams of a picture."""
    return {
        (str(one.get("data-from")), str(one.get("data-to")))
        for one in ET.fromstring(text).iter()
        if one.get("data-from")
    }


def test_picture_has_the_trips_that_the_page_tells():
    streams = drawn(PICTURE.read_text("utf-8"))
    for chain in CHAINS:
        assert set(pairwise(chain)) <= streams
    # A way out has no way back.
    assert ("out_path.buffer", "out_path.unit") not in streams
    assert ("in_path.unit", "in_path.splitter") not in streams


def test_every_box_has_its_text():
    text = PICTURE.read_text("utf-8")
    for name in PLACES:
        assert f">{name.rpartition('.')[2]}</text>" in text


@pytest.mark.verify
def test_picture_is_what_its_generator_writes():
    structure = BlockDiagram(verilog_of("engine", "tiny", style="netlist").text)
    assert PICTURE.read_text("utf-8") == drawing(structure), (
        "write it again: .venv/bin/python -m cdma.pages.structure > docs/developer/engine.svg"
    )


TEXT = """
// Engine. Joins.
module top (
  input wire m_axi_host_rvalid,
  output wire m_axi_host_wvalid
);
  wire a_o_valid;
  assign gated_valid = open & queue_o_valid;
  Reader_x reader (
    .i_valid(m_axi_host_rvalid),
    .o_valid(a_o_valid)
  );
  Queue_x queue (
    .i_valid(a_o_valid),
    .o_valid(queue_o_valid)
  );
  Writer_x \\writer_0  (
    .i_valid(gated_valid),
    .m_axi_wvalid(m_axi_host_wvalid)
  );
endmodule

// Reader. Reads.
module Reader_x (
  input wire i_valid,
  output wire o_valid
);
endmodule

// Fifo. Queues.
// More about it.
module Queue_x (
  input wire i_valid,
  output wire o_valid
);
endmodule

// Writer. Writes.
module Writer_x (
  input wire i_valid,
  output wire m_axi_wvalid
);
endmodule
"""


def test_streams_lead_through_logic_and_queues():
    structure = BlockDiagram(TEXT)
    assert structure.streams == {
        ("host memory", "reader"),
        ("reader", "writer"),
        ("writer", "host memory"),
    }
    assert structure.blocks["writer"] == Block("writer", "Writer", True)
    assert structure.blocks["reader"] == Block("reader", "Reader", False)
    assert not re.search("queue", " ".join(structure.blocks))


def test_a_block_without_a_place_is_named():
    with pytest.raises(ValueError, match=r"'reader'.*give each block"):
        drawing(BlockDiagram(TEXT))
