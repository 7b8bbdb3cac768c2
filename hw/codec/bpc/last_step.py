"""The end of the decoding of BPC's planes: the last plane, and what is behind its code."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.code_readers import (
    PLANE_CODE_BITS,
    PlaneCodeKind,
    PlaneCodeReader,
    or_of,
)
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
    empty : `Out(1)`
        There is no entry.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(PartlyRead(STEPS - 1))),
                "o": Out(stream.Signature(DecodedPlanes())),
                "empty": Out(1),
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

        m.submodules.builder = builder = PlaneBuilder(STEP_CODES)
        left = Signal.like(given.start, name="left")
        m.d.comb += [
            left.eq((given.size << 3) - given.start),
            builder.code.eq(given.codes),
            builder.in_run.eq(given.in_run),
            builder.left.eq(left),
            builder.above.eq(given.planes[:DELTAS]),
            builder.after_run.eq(given.after_run),
            builder.room.eq(STEP_CODES + 1),
        ]
        m.submodules.plane_code = plane_code = PlaneCodeReader()
        m.d.comb += [
            plane_code.code.eq(code),
            plane_code.in_run.eq(in_run),
            plane_code.above.eq(builder.planes[:DELTAS]),
            plane_code.after_run.eq(builder.next_after_run),
            plane_code.room.eq(1),
        ]

        # The last code is known late: what depends on its length is found for each that it may
        # have.
        last_place = builder.places[STEP_CODES]
        last_start = Signal(range(MAX_CODE_BITS + 1))
        m.d.comb += last_start.eq(given.start + last_place)
        exceeds = Signal()
        end = Signal(range(MAX_CODE_BITS + 1))
        m.d.comb += [
            exceeds.eq(
                or_of(is_kind & (last_place + length > left) for length, is_kind in kinds.items())
            ),
            end.eq(
                or_of(
                    is_kind.replicate(len(end)) & (last_start + length)[: len(end)]
                    for length, is_kind in {0: in_run, **kinds}.items()
                )
            ),
        ]
        # A code before it may be the one with the first error.
        failed_before = Signal()
        fails_last = Signal()
        m.d.comb += [
            failed_before.eq(given.failed | builder.fails.any()),
            fails_last.eq(exceeds | plane_code.bad),
        ]

        # Where the code ends, or the code with the first error starts: of all that may be, one.
        chosen = [given.failed, *(~given.failed & fails for fails in builder.fails)]
        starts = [given.before_error, *list(builder.places)[:STEP_CODES]]
        before = Signal.like(end, name="before")
        m.d.comb += before.eq(
            or_of(
                is_here.replicate(len(before)) & (given.start + place)[: len(before)]
                for is_here, place in zip(chosen, starts, strict=True)
            )
        )
        position = Mux(failed_before, before, Mux(fails_last, last_start, end))

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
            self.empty.eq(~control.o_valid),
            control.o_ready.eq(self.o.ready),
        ]
        with m.If(control.load):
            m.d.sync += [
                failed.eq(failed_before | fails_last),
                truncated.eq(
                    Mux(
                        failed_before,
                        Mux(given.failed, given.truncated, builder.truncated),
                        exceeds,
                    )
                ),
                nonzero.eq((fill >> (end - 1)[:3]).any()),
                base.eq(given.base),
                planes.eq(Cat(plane_code.plane, builder.planes, given.planes)),
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
