"""The generated codecs as LiteX stream stages, from nothing but what `cdma generate` wrote.

A stage takes packets at `sink` and gives packets at `source`, both LiteX AXI4-Stream endpoints, and
one record per packet at `status`. What a codec must be told of a packet is in the parameters of
`sink`, which LiteX keeps for the length of a packet: the stage makes the codec's command of them.
"""

import json
from pathlib import Path

from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import ClockSignal, If, Instance, ResetSignal, Signal


class CodecStage(LiteXModule):
    """A `zvc-compressor` or a `zvc-decompressor` of cdma as a stage between LiteX streams.

    Before a packet's first beat passes, the stage hands its parameters to the codec, which costs
    one cycle; from then on nothing is between the endpoints and the codec's ports.

    Parameters
    ----------
    sidecar : Path
        The JSON file that `cdma generate` wrote; the Verilog file is beside it.
    platform : litex.build.generic_platform.GenericPlatform, optional
        The build that gets the Verilog file as a source. Without it the caller adds `verilog`.

    Attributes
    ----------
    sink, source : litex.soc.interconnect.stream.Endpoint
        `data` of 8S bits and `keep` of S bits for sectors of S bytes, as the codec has them. The
        parameters of `sink` are those of the codec's command: `length`, the packet's uncompressed
        bytes; for a decompressor also `crc32` and `check_crc`.
    status : litex.soc.interconnect.stream.Endpoint
        A record per packet, in order: `status` (0 if all is well), `offset`, `out_size` in bytes,
        and `crc32` of the uncompressed bytes.
    verilog : Path
        The codec's Verilog file.

    Raises
    ------
    ValueError
        The file describes no codec with AXI4-Stream ports.
    """

    def __init__(self, sidecar, platform=None):
        description = json.loads(Path(sidecar).read_text())
        interfaces = {one["name"]: one for one in description["interfaces"]}
        if not {"s_cmd", "s_axis", "m_axis", "m_sts"} <= interfaces.keys():
            raise ValueError(
                f"{sidecar} describes {description['component']}, which is no stream stage; "
                "generate zvc-compressor or zvc-decompressor"
            )
        self.verilog = Path(sidecar).with_name(description["file"])
        if platform is not None:
            platform.add_source(str(self.verilog))

        def layout(interface):
            """LiteX' fields of an interface: its ports without prefix, but for the handshake's."""
            prefix = f"{interface}_t" if interface.endswith("axis") else f"{interface}_"
            ports = interfaces[interface]["ports"]
            fields = [(port["name"].removeprefix(prefix), port["width"]) for port in ports]
            return [field for field in fields if field[0] not in ("valid", "ready", "last")]

        command, record = layout("s_cmd"), layout("m_sts")
        packets = stream.EndpointDescription(layout("s_axis"), command)
        self.sink = sink = stream.Endpoint(packets)
        self.source = source = stream.Endpoint(layout("m_axis"))
        self.status = status = stream.Endpoint(record)

        # # #

        # A packet's command goes first; its beats wait until the codec has it.
        commanded = Signal()
        command_ready = Signal()
        beat_ready = Signal()
        self.comb += sink.ready.eq(commanded & beat_ready)
        self.sync += [
            If(
                commanded,
                If(sink.valid & sink.ready & sink.last, commanded.eq(0)),
            ).Elif(sink.valid & command_ready, commanded.eq(1))
        ]

        self.specials += Instance(
            description["module"],
            name="codec",
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            i_s_cmd_valid=sink.valid & ~commanded,
            o_s_cmd_ready=command_ready,
            **{f"i_s_cmd_{name}": getattr(sink.param, name) for name, _ in command},
            i_s_axis_tvalid=sink.valid & commanded,
            o_s_axis_tready=beat_ready,
            i_s_axis_tdata=sink.data,
            i_s_axis_tkeep=sink.keep,
            i_s_axis_tlast=sink.last,
            o_m_axis_tvalid=source.valid,
            i_m_axis_tready=source.ready,
            o_m_axis_tdata=source.data,
            o_m_axis_tkeep=source.keep,
            o_m_axis_tlast=source.last,
            o_m_sts_valid=status.valid,
            i_m_sts_ready=status.ready,
            **{f"o_m_sts_{name}": getattr(status.payload, name) for name, _ in record},
        )
        # Each record is a packet of its own.
        self.comb += [status.first.eq(status.valid), status.last.eq(status.valid)]
