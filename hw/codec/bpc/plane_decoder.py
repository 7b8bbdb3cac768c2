"""Decoding of BPC codes into bases and planes, four planes per cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.plane_steps import FILL_BITS, PlaneSteps
from cdma.hw.codec.bpc.step_reader import STEPS
from cdma.hw.codec.entry.payloads import ENTRY_BITS, STATUS_BITS
from cdma.hw.config import EntryConfig


class SizedCode(data.StructLayout):
    """A code and what there is of it.

    Members
    -------
    data
        Bytes, the first in the low bits; the first bit of the code is bit 7 of its byte.
    size
        How many bytes there are. What is behind them is not looked at.
    """

    def __init__(self) -> None:
        super().__init__({"data": ENTRY_BITS, "size": range(ENTRY_BYTES + 1)})


class DecodedPlanes(data.StructLayout):
    """An entry as a base and 33 planes; see `cdma.golden.formats.bpc.bit_planes`.

    Members
    -------
    base
        The first word.
    planes
        Plane p (DBP_p) is at bit 31 p. Unspecified, as is the base, if the code is bad.
    bits
        Length of the code up to its end or the first error.
    status
        A `cdma.golden.formats.stream.StreamStatus`; that the planes are those of words is not
        checked.
    offset
        The byte that the bad code, or the bad fill, starts in; 0 when OK.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "base": 32,
                "planes": PLANES * DELTAS,
                "bits": range(MAX_CODE_BITS + 1),
                "status": STATUS_BITS,
                "offset": range(ENTRY_BYTES + 1),
            }
        )


class BpcPlaneDecoder(wiring.Component):
    """Decodes a code per `sectors` cycles, whole or damaged, as `cdma.golden.formats.bpc.decoder`.

    `STEP_CODES` codes are read in a cycle, the base's and those of three planes in the first. Steps
    stand in a row, and where there are more cycles per entry, as many of them share one hardware.

    Latency: `STEPS` = 9 cycles. Throughput: an entry per `sectors` cycles.

    Resources: for sectors of 128, 64 and 32 B, readers for 34, 18 and 10 codes, and registers for
    9, 5 and 3 entries.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(SizedCode()))`
    o : `Out(stream.Signature(DecodedPlanes()))`
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(SizedCode())),
                "o": Out(stream.Signature(DecodedPlanes())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sectors = self.config.sectors
        code = self.i.payload

        upstream = None
        for group, first in enumerate(range(0, STEPS, sectors)):
            steps = PlaneSteps(first, min(STEPS, first + sectors))
            m.submodules[f"steps_{group}"] = steps
            if upstream is None:
                entering = steps.i.payload
                m.d.comb += [
                    steps.i.valid.eq(self.i.valid),
                    self.i.ready.eq(steps.i.ready),
                    # The first byte, and of each byte the first bit, are now the highest.
                    entering.rest.eq(
                        Cat(code.data.word_select(k, 8) for k in reversed(range(ENTRY_BYTES)))
                    ),
                    entering.left.eq(code.size << 3),
                ]
            else:
                wiring.connect(m, upstream, steps.i)
            upstream = steps.o
        assert upstream is not None

        read = upstream.payload
        out = self.o.payload
        # As many bits of the rest as there are up to the next byte.
        fill = Signal(FILL_BITS)
        m.d.comb += [
            fill.eq(read.rest >> ~read.left[:3]),
            self.o.valid.eq(upstream.valid),
            upstream.ready.eq(self.o.ready),
            out.base.eq(read.base),
            out.planes.eq(read.planes),
            out.bits.eq(read.position),
        ]
        with m.If(read.failed):
            m.d.comb += [
                out.status.eq(
                    Mux(read.truncated, StreamStatus.PAYLOAD_TRUNCATED, StreamStatus.BAD_TOKEN)
                ),
                out.offset.eq(read.position[3:]),
            ]
        with m.Elif(fill.any()):
            m.d.comb += [
                out.status.eq(StreamStatus.NONZERO_FILL),
                out.offset.eq(read.position[3:]),
            ]
        return m
