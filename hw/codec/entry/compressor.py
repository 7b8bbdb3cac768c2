"""Compression of 128 B entries to what is kept of them (Buddy Compression, §3.1).

What that is, is specified by `cdma.golden.buddy.entry`.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS, SIZES
from cdma.hw.codec.bpc.compressor import BpcCompressor
from cdma.hw.codec.entry.payloads import EntrySector, KeptEntry
from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.config import EntryConfig
from cdma.hw.lib.count import total
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineControl, PipelineRegister

CODE_SIZES = SIZES[1:AS_IT_IS]
"""Bytes of the classes that codes are kept in."""
LONGEST_BITS = 8 * CODE_SIZES[-1]
"""An entry whose code is longer is kept as it is."""
ALL_ZERO_BITS = 10
"""Length of BPC's code of zeros, and of no other."""
CLASS_BITS = 3


class ZvcCode(data.StructLayout):
    """An entry's ZVC code.

    Members
    -------
    size_class
        1 to 7: the least that it fits.
    data
        Its bytes, the first in the low bits, and zeros behind them; meant in classes 1 to 6.
    """

    def __init__(self) -> None:
        super().__init__({"size_class": CLASS_BITS, "data": LONGEST_BITS})


class ZvcCollector(wiring.Component):
    """Puts the beats of a line together, as far as they fit the largest class of codes.

    Latency: 0 cycles: the code is there with the line's last beat. Throughput: a beat per cycle.

    Resources: registers for the beats of a line but the last, and its mask.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(LineBeat(config.zvc)))`
        Whole lines, neither damaged nor empty.
    o : `Out(stream.Signature(ZvcCode()))`
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config.zvc))),
                "o": Out(stream.Signature(ZvcCode())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config.zvc
        beat = self.i.payload
        parts = min(
            config.sectors, -(-(LONGEST_BITS // 8 - config.mask_bytes) // config.sector_bytes)
        )
        elements = Signal(8 * config.sector_bytes)
        mask = Signal(config.elements)
        count = Signal(range(config.elements + 1))
        m.d.comb += [
            elements.eq(Cat(beat.elements[k] for k in range(config.lanes))),
            mask.eq(beat.mask),
            count.eq(beat.count),
            self.o.valid.eq(self.i.valid & beat.eol),
            self.i.ready.eq(self.o.ready | ~beat.eol),
        ]
        payload: list[Value] = [elements]
        if config.sectors > 1:
            number = Signal(range(config.sectors))
            held_mask = Signal(config.elements, reset_less=True)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += number.eq(Mux(beat.eol, 0, number + 1))
                with m.If(beat.sol):
                    m.d.sync += held_mask.eq(beat.mask)
            m.d.comb += count.eq(number * config.lanes + beat.count)
            with m.If(~beat.sol):
                m.d.comb += mask.eq(held_mask)
            payload = []
            for k in range(parts):
                part = Signal(8 * config.sector_bytes, name=f"part_{k}")
                with m.If(number == k):
                    m.d.comb += part.eq(elements)
                if k < config.sectors - 1:
                    held = Signal.like(part, name=f"held_{k}", reset_less=True)
                    with m.If(number > k):
                        m.d.comb += part.eq(held)
                    with m.If(self.i.valid & self.i.ready):
                        m.d.sync += held.eq(part)
                payload.append(part)
        m.d.comb += [
            self.o.payload.data.eq(Cat(mask, *payload)),
            self.o.payload.size_class.eq(
                _class_of(
                    count,
                    [(size - config.mask_bytes) // config.element_bytes for size in CODE_SIZES],
                )
            ),
        ]
        return m


class EntryCompressor(wiring.Component):
    """Compresses a sector per cycle to what is kept of entries.

    BPC and, in the mode "best-of", ZVC work side by side on the same sectors. ZVC is the sooner:
    its codes wait in a queue.

    Latency: what is kept is valid `entry_latency` cycles after the entry's first sector was taken,
    if it and the others were taken in consecutive cycles: 11, 9 and 8 cycles for sectors of 32, 64
    and 128 B. Throughput: a sector per cycle while what comes out is taken when offered.

    Resources: a `BpcCompressor`, a `ZvcCompressor`, a queue of some codes of 96 B, and registers
    for an entry.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from an entry's first sector to what is kept of it.

    Members
    -------
    i : `In(stream.Signature(EntrySector(config)))`
    o : `Out(stream.Signature(KeptEntry()))`
        In the order of the entries.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        self._bpc = BpcCompressor(config, longest_bits=LONGEST_BITS)
        self.entry_latency = self._bpc.entry_latency + 1
        super().__init__(
            {
                "i": In(stream.Signature(EntrySector(config))),
                "o": Out(stream.Signature(KeptEntry())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.bpc = bpc = self._bpc

        bpc_class = Signal(CLASS_BITS)
        kept = Signal(KeptEntry(), reset_less=True)
        m.submodules.kept = control = PipelineControl()
        code = bpc.o.payload
        all_zero = Signal()
        m.d.comb += [
            all_zero.eq(code.bits == ALL_ZERO_BITS),
            bpc_class.eq(Mux(all_zero, 0, _class_of(code.bits, [8 * size for size in CODE_SIZES]))),
            bpc.i.payload.eq(self.i.payload),
            self.o.payload.eq(kept),
            self.o.valid.eq(control.o_valid),
            control.o_ready.eq(self.o.ready),
        ]
        if self.config.mode == "bpc":
            m.d.comb += [
                bpc.i.valid.eq(self.i.valid),
                self.i.ready.eq(bpc.i.ready),
                bpc.o.ready.eq(control.i_ready),
            ]
            both_valid: Value = bpc.o.valid
            metadata: Value = bpc_class
            bits: Value = code.data
        else:
            zvc = self._zvc(m, bpc)
            both_valid = Signal()
            of_zvc = Signal()
            m.d.comb += [
                both_valid.eq(bpc.o.valid & zvc.o.valid),
                bpc.o.ready.eq(control.i_ready & zvc.o.valid),
                zvc.o.ready.eq(control.i_ready & bpc.o.valid),
                of_zvc.eq(zvc.o.payload.size_class < bpc_class),
            ]
            metadata = Cat(Mux(of_zvc, zvc.o.payload.size_class, bpc_class), of_zvc)
            bits = Mux(of_zvc, zvc.o.payload.data, code.data)
        m.d.comb += control.i_valid.eq(both_valid)
        with m.If(control.load):
            m.d.sync += [kept.metadata.eq(metadata), kept.data.eq(Mux(all_zero, 0, bits))]
        return m

    def _zvc(self, m: Module, bpc: BpcCompressor) -> Fifo | PipelineRegister:
        """ZVC beside BPC: the queue of its codes."""
        config = self.config.zvc
        m.submodules.zvc = zvc = ZvcCompressor(config)
        m.submodules.collector = collector = ZvcCollector(self.config)
        # Deep enough for the shortest lines, which are there first.
        wait = bpc.entry_latency - zvc.line_latency
        depth = wait // config.sectors
        m.submodules.queue = queue = (
            PipelineRegister(ZvcCode()) if depth == 1 else Fifo(ZvcCode(), depth)
        )
        sector = zvc.i.payload
        element_bits = 8 * config.element_bytes
        m.d.comb += [
            # Both take a sector, or none does.
            zvc.i.valid.eq(self.i.valid & bpc.i.ready),
            bpc.i.valid.eq(self.i.valid & zvc.i.ready),
            self.i.ready.eq(bpc.i.ready & zvc.i.ready),
            *(
                sector.elements[k].eq(self.i.payload.data.word_select(k, element_bits))
                for k in range(config.lanes)
            ),
        ]
        wiring.connect(m, zvc.o, collector.i)
        wiring.connect(m, collector.o, queue.i)
        return queue


def _class_of(length: Value, limits: list[int]) -> Value:
    """The least class, from 1, whose limit a length does not exceed; 7 if there is none."""
    # The mask alone exceeds a limit below 0.
    always = sum(limit < 0 for limit in limits)
    return 1 + always + total([length > limit for limit in limits if limit >= 0])
