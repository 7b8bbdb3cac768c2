"""A LiteX design around the codecs: packets come in, are kept compressed, and go out as they came.

    python examples/litex/store.py --codecs build/codecs --out build/litex

`build/codecs` has what `cdma generate zvc-compressor` and `zvc-decompressor` wrote. The command
writes `store.v`, which LiteX makes of this module and which instantiates the two codecs, and prints
the files that a simulator or a synthesis takes.
"""

import argparse
import sys
from pathlib import Path

from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from litex.soc.interconnect.axi import AXIStreamInterface
from migen import ClockDomain
from stages import CodecStage

BEATS = 512
"""Beats that the store holds, all of them compressed."""

PACKETS = 16
"""Packets that the store holds at most."""

LENGTH_BITS = 32


class CompressedStore(LiteXModule):
    """A first-in first-out store of packets, in which they are compressed.

    Between the codecs is a LiteX FIFO of `BEATS` beats; a DRAM, a network or a disk would be in its
    place. A packet leaves when all of it is in the store, since only then its record is there,
    which has its length and its CRC-32; the decompressor compares the latter. So a packet of more
    than `BEATS` beats once it is compressed never leaves.

    Parameters
    ----------
    codecs : Path
        Folder of `zvc_compressor.json`, `zvc_decompressor.json` and their Verilog.
    platform : litex.build.generic_platform.GenericPlatform, optional

    Attributes
    ----------
    sink, source : litex.soc.interconnect.axi.AXIStreamInterface
        Packets; `user` of a packet at `sink` is its length in bytes.
    kept : litex.soc.interconnect.stream.Endpoint
        The compressed packets on their way into the FIFO, and `stored` their records, both for
        looking at: `ready` of both is the store's.
    stored, restored : litex.soc.interconnect.stream.Endpoint
        The records of both codecs, as `CodecStage.status`. A packet that was not of its length has
        a `status` that is not 0 in `stored`; it still leaves, and is then damaged.
    """

    def __init__(self, codecs, platform=None):
        self.compressor = CodecStage(codecs / "zvc_compressor.json", platform)
        self.decompressor = CodecStage(codecs / "zvc_decompressor.json", platform)
        bits = len(self.compressor.sink.data)
        self.sink = AXIStreamInterface(bits, user_width=LENGTH_BITS, name="sink")
        self.source = AXIStreamInterface(bits, name="source")
        self.kept = self.compressor.source
        self.stored = self.compressor.status
        self.restored = self.decompressor.status

        # # #

        self.beats = stream.SyncFIFO(self.kept.description, BEATS, buffered=True)
        self.records = stream.SyncFIFO(self.stored.description, PACKETS)
        to_restore = self.decompressor.sink
        record = self.records.source
        self.comb += [
            # In: the packet's length is the compressor's command.
            self.sink.connect(self.compressor.sink, omit={"id", "dest", "user"}),
            self.compressor.sink.length.eq(self.sink.user),
            self.kept.connect(self.beats.sink),
            self.stored.connect(self.records.sink),
            # Out: beats pass while their packet's record is there, which leaves with the last one.
            self.beats.source.connect(to_restore, omit={"valid", "ready"}),
            to_restore.valid.eq(self.beats.source.valid & record.valid),
            self.beats.source.ready.eq(to_restore.ready & record.valid),
            record.ready.eq(to_restore.valid & to_restore.ready & to_restore.last),
            # Without an error the offset is where the compressor's input ended: its length.
            to_restore.length.eq(record.offset),
            to_restore.crc32.eq(record.crc32),
            to_restore.check_crc.eq(1),
            self.decompressor.source.connect(self.source),
        ]


class Top(LiteXModule):
    """The store at pins: `clk`, `rst`, the streams `s_axis` and `m_axis`, and what is looked at.

    `kept_*` has what is kept, and `stored_*` and `restored_*` the records, each valid for a cycle.
    """

    def __init__(self, platform, store):
        self.cd_sys = ClockDomain()
        self.store = store
        platform.add_extension(store.sink.get_ios("s_axis"))
        platform.add_extension(store.source.get_ios("m_axis"))
        self.comb += [
            self.cd_sys.clk.eq(platform.request("clk")),
            self.cd_sys.rst.eq(platform.request("rst")),
            *store.sink.connect_to_pads(platform.request("s_axis"), mode="slave"),
            *store.source.connect_to_pads(platform.request("m_axis"), mode="master"),
        ]
        self._show(platform, "kept", store.kept, "data", "keep", "last")
        self._show(platform, "stored", store.stored, "status", "out_size")
        self._show(platform, "restored", store.restored, "status", "out_size")
        self.comb += store.restored.ready.eq(1)

    def _show(self, platform, name, endpoint, *fields):
        """Pins for some fields of an endpoint, and for the cycles in which it passes something."""
        seen = {field: getattr(endpoint, field) for field in fields}
        seen["valid"] = endpoint.valid & endpoint.ready
        pins = [Subsignal(field, Pins(len(signal))) for field, signal in seen.items()]
        platform.add_extension([(name, 0, *pins)])
        pads = platform.request(name)
        self.comb += [getattr(pads, field).eq(signal) for field, signal in seen.items()]


def build(codecs, out):
    """Write the design as Verilog, and return all files of it.

    Parameters
    ----------
    codecs : Path
        As of `CompressedStore`.
    out : Path
        The folder for `store.v`; it is made.

    Returns
    -------
    list of Path
        The codecs' files and `store.v`, whose top is `store`.
    """
    platform = SimPlatform("SIM", [("clk", 0, Pins(1)), ("rst", 0, Pins(1))], name="store")
    store = CompressedStore(codecs, platform)
    text = str(platform.get_verilog(Top(platform, store), name="store"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "store.v").write_text(text)
    return [store.compressor.verilog, store.decompressor.verilog, out / "store.v"]


def main():
    parser = argparse.ArgumentParser(description="Write the compressed store as Verilog.")
    parser.add_argument("--codecs", type=Path, required=True, help="folder of the generated codecs")
    parser.add_argument("--out", type=Path, required=True, help="folder for store.v")
    options = parser.parse_args()
    try:
        files = build(options.codecs, options.out)
    except (OSError, ValueError) as error:
        sys.exit(f"store.py: {error}")
    print("\n".join(map(str, files)))


if __name__ == "__main__":
    main()
