"""Benches of blocks with AXI4-Stream ports, a command before and a status record after a packet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.lib import data

from cdma.hw.emit.bench.files import Bench, hex_rows, source
from cdma.hw.emit.reset import Reset

_CYCLES_PER_BEAT = 16
"""The most that a run may take, on average: with both sides stalled for half of the cycles."""


@dataclass(frozen=True, kw_only=True)
class Packet:
    """A packet and what must come of it.

    Attributes
    ----------
    command, status : dict of str to int
        Fields of the records before and after it.
    content, output : bytes
        The packet at the input and that at the output.
    """

    command: dict[str, int]
    content: bytes
    output: bytes
    status: dict[str, int]


def stream_bench(
    name: str,
    packets: Sequence[Packet],
    *,
    data_bytes: int,
    command: data.StructLayout,
    status: data.StructLayout,
    reset: Reset,
) -> Bench:
    """Return the bench of a block with ports `s_cmd`, `s_axis`, `m_axis` and `m_sts`.

    Parameters
    ----------
    name
        The block's module.
    packets
        The packets, in order.
    data_bytes
        Width of the streams.
    command, status
        Layouts of the records at `s_cmd` and `m_sts`.
    reset
        The block's.
    """
    inputs = [row for packet in packets for row in _rows(packet.content, data_bytes)]
    outputs = [row for packet in packets for row in _rows(packet.output, data_bytes)]
    values = {
        "name": name,
        "reset": reset.connection("rst"),
        "bytes": data_bytes,
        "packets": len(packets),
        "beats_in": len(inputs),
        "beats_out": len(outputs),
        "longest": 1000 + _CYCLES_PER_BEAT * (len(inputs) + len(outputs) + 4 * len(packets)),
        "command_bits": command.size,
        "status_bits": status.size,
        "command_ports": _ports("s_cmd", "cmd", command),
        "status_ports": _ports("m_sts", "sts", status),
    }
    beat_bits = 9 * data_bytes + 1
    return Bench(
        top=f"{name}_tb",
        sources={
            f"{name}_tb.sv": source("stream_tb.sv", values),
            f"{name}_tb_streams.sv": source("stream_ports.sv", values),
        },
        vectors={
            f"{name}_commands.hex": hex_rows(
                (_packed(packet.command, command) for packet in packets), command.size
            ),
            f"{name}_input.hex": hex_rows(inputs, beat_bits),
            f"{name}_output.hex": hex_rows(outputs, beat_bits),
            f"{name}_status.hex": hex_rows(
                (_packed(packet.status, status) for packet in packets), status.size
            ),
        },
    )


def _rows(packet: bytes, data_bytes: int) -> list[int]:
    """Beats of a packet: data, then a bit per byte that counts, then the packet's end."""
    parts = [packet[i : i + data_bytes] for i in range(0, max(len(packet), 1), data_bytes)]
    rows = [
        int.from_bytes(part, "little") | ((1 << len(part)) - 1) << 8 * data_bytes for part in parts
    ]
    rows[-1] |= 1 << 9 * data_bytes
    return rows


def _packed(values: Mapping[str, int], layout: data.StructLayout) -> int:
    if values.keys() != {name for name, _ in layout}:
        raise ValueError(f"fields of the record must be {dict(layout)}, not {values}")
    return sum(values[name] << field.offset for name, field in layout)


def _ports(port: str, row: str, layout: data.StructLayout) -> str:
    """Connections of a record's ports to bits of its row."""
    return "\n".join(
        f"    .{port}_{name}({row}[{field.offset}+:{field.width}])," for name, field in layout
    )
