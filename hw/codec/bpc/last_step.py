"""The end of the decoding of BPC's planes: the last plane, and what is behind its code."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.code_readers import PLANE_CODE_BITS, PlaneCodeKind, or_of
from cdma.hw.codec.bpc.plane_builder import PlaneBuilder
from cdma.hw.codec.bpc.plane_steps import FILL_BITS, PartlyRead, run_left_behind
from cdma.hw.codec.bpc.step_reader import BLOCK_BITS, STEP_CODES, STEPS, aligned, behind_code
from cdma.hw.codec.entry.payloads import STATUS_BITS
from cdma.hw.lib.pipeline import PipelineControl


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


class LastStep(wiring.Component):
    """Builds the planes that are left, and finds how the code has ended.

    The last plane is alone, and its code is found and built at once.

    Latency: 1 cycle. Throughput: an entry per cycle. Resources: registers for an entry.

    Members
    -------
    i : `In(stream.Signature(PartlyRead(8)))`
    o : `Out(stream.Signature(DecodedPlanes()))`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(PartlyRead(STEPS - 1))),
                "o": Out(stream.Signature(DecodedPlanes())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        given, out = self.i.payload, self.o.payload
        view = given.rest
        place = given.position[: (BLOCK_BITS - 1).bit_length()]
        window = aligned(m, view, place, PLANE_CODE_BITS + FILL_BITS)
        code = window[FILL_BITS:]
        in_run = Signal()
        m.d.comb += in_run.eq(run_left_behind(m, given).any())
        kinds = {
            length: ~in_run & is_kind for length, is_kind in PlaneCodeKind(code).by_length.items()
        }
        fill = behind_code(window, in_run, kinds, FILL_BITS)

        m.submodules.builder = builder = PlaneBuilder(STEP_CODES + 1)
        m.d.comb += [
            builder.code.eq(Cat(given.codes, code)),
            builder.in_run.eq(Cat(given.in_run, in_run)),
            builder.left.eq((given.size << 3) - given.start),
            builder.above.eq(given.planes[:DELTAS]),
            builder.after_run.eq(given.after_run),
            builder.room.eq(STEP_CODES + 1),
        ]

        # Where the code ends, or the code with the first error starts: of all that may be, one.
        ends = [given.start + place for place in builder.places]
        good = ~given.failed & ~builder.fails.any()
        chosen = [~given.failed & fails for fails in builder.fails]
        position = or_of(
            is_end.replicate(len(out.bits)) & end
            for is_end, end in zip(
                [*chosen, good, given.failed],
                [*ends, given.start + given.before_error],
                strict=True,
            )
        )

        m.submodules.control = control = PipelineControl()
        failed = Signal(reset_less=True)
        truncated = Signal(reset_less=True)
        # Of the bits behind the code, those up to the next byte.
        nonzero = Signal(reset_less=True)
        base = Signal.like(out.base, name="base", reset_less=True)
        planes = Signal.like(out.planes, name="planes", reset_less=True)
        bits = Signal.like(out.bits, name="bits", reset_less=True)
        m.d.comb += [
            control.i_valid.eq(self.i.valid),
            self.i.ready.eq(control.i_ready),
            self.o.valid.eq(control.o_valid),
            control.o_ready.eq(self.o.ready),
        ]
        with m.If(control.load):
            m.d.sync += [
                failed.eq(given.failed | builder.fails.any()),
                truncated.eq(Mux(given.failed, given.truncated, builder.truncated)),
                nonzero.eq((fill >> (ends[-1] - 1)[:3]).any()),
                base.eq(given.base),
                planes.eq(Cat(builder.planes, given.planes)),
                bits.eq(position),
            ]

        m.d.comb += [out.base.eq(base), out.planes.eq(planes), out.bits.eq(bits)]
        with m.If(failed):
            m.d.comb += out.status.eq(
                Mux(truncated, StreamStatus.PAYLOAD_TRUNCATED, StreamStatus.BAD_TOKEN)
            )
        with m.Elif(nonzero):
            m.d.comb += out.status.eq(StreamStatus.NONZERO_FILL)
        with m.If(failed | nonzero):
            m.d.comb += out.offset.eq(bits[3:])
        return m
