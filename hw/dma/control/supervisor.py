"""Start, abort and reset of a ring, and its status."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import (
    HOST_ADDRESS_BITS,
    Status,
    TimeoutDetail,
    WindowDetail,
)
from cdma.hw.dma.control.record import RecordInfo
from cdma.hw.dma.control.ring import RingFault

OPEN_BITS = 8
"""Width of the number of outstanding descriptors."""


class CapturedError(data.StructLayout):
    """The content of the error registers.

    Members
    -------
    status, detail, tag, address
        As in a record; a fault of the ring has no tag.
    """

    def __init__(self) -> None:
        super().__init__({"status": 8, "detail": 16, "tag": 32, "address": HOST_ADDRESS_BITS})


class Supervisor(wiring.Component):
    """Carries out a ring's CONTROL bits, and reports whether it is idle and its first error.

    An abort goes on until every descriptor of the ring that was fetched has its record; nothing is
    fetched meanwhile. A reset is an abort after which the ring begins again.

    Latency: 1 cycle from CONTROL's bits to `abort`.

    Parameters
    ----------
    rings
        The number of rings of the engine; each has its supervisor.

    Members
    -------
    abort_request, reset_request : `In(1)`
        CONTROL's bits; high for a cycle.
    enabled : `In(1)`
    fetch : `Out(1)`
        Descriptors may be fetched.
    abort : `Out(1)`
        All outstanding descriptors are to end.
    resetting : `Out(1)`
    clear : `Out(1)`
        The ring begins again; high for a cycle.
    fetched : `In(1)`
        No descriptor is being fetched, or waits to be started.
    start_fire : `In(1)`
        A descriptor is started in this cycle.
    record_done : `In(1)`
        A record's response is accepted in this cycle; `record_info` describes the record.
    record_info : `In(RecordInfo(rings))`
    all_retired : `Out(1)`
        Every descriptor that was started has its record.
    buses_idle : `In(1)`
        The buses owe nothing to a ring whose descriptors all have their records.
    idle : `Out(1)`
    ring_faulty : `In(1)`
    ring_fault : `In(RingFault())`
    record_error : `In(BusError)`
    record_outside : `In(1)`
        A record, at `record_address`, would leave its window.
    record_address : `In(64)`
    ring_error : `Out(1)`
        The ring has stopped.
    ring_stop : `Out(1)`
        The ring stops in this cycle.
    error_valid : `Out(1)`
        There is an error in this cycle, which `error` describes.
    error : `Out(CapturedError())`
    """

    def __init__(self, rings: int = 1) -> None:
        super().__init__(
            {
                "abort_request": In(1),
                "reset_request": In(1),
                "enabled": In(1),
                "fetch": Out(1),
                "abort": Out(1),
                "resetting": Out(1),
                "clear": Out(1),
                "fetched": In(1),
                "start_fire": In(1),
                "record_done": In(1),
                "record_info": In(RecordInfo(rings)),
                "all_retired": Out(1),
                "buses_idle": In(1),
                "idle": Out(1),
                "ring_faulty": In(1),
                "ring_fault": In(RingFault()),
                "record_error": In(BusError),
                "record_outside": In(1),
                "record_address": In(HOST_ADDRESS_BITS),
                "ring_error": Out(1),
                "ring_stop": Out(1),
                "error_valid": Out(1),
                "error": Out(CapturedError()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        outstanding = Signal(OPEN_BITS)
        m.d.sync += outstanding.eq(outstanding + self.start_fire - self.record_done)
        all_done = Signal()
        m.d.comb += [
            self.all_retired.eq(outstanding == 0),
            all_done.eq(self.fetched & self.all_retired),
            self.idle.eq(all_done & self.buses_idle & ~self.abort),
            self.fetch.eq(self.enabled & ~self.abort & ~self.ring_error),
            self.clear.eq(self.resetting & all_done),
        ]
        # A request in the cycle in which an abort ends begins another one.
        with m.If(self.abort_request | self.reset_request):
            m.d.sync += self.abort.eq(1)
        with m.Elif(all_done):
            m.d.sync += self.abort.eq(0)
        with m.If(self.reset_request):
            m.d.sync += self.resetting.eq(1)
        with m.Elif(all_done):
            m.d.sync += self.resetting.eq(0)

        faulty = Signal()
        record_failed = Signal()
        m.d.comb += record_failed.eq(self.record_error != BusError.NONE)
        m.d.comb += [
            faulty.eq(self.ring_faulty | record_failed | self.record_outside),
            self.ring_stop.eq(faulty & ~self.ring_error),
        ]
        m.d.sync += self.ring_error.eq(faulty & ~self.clear)

        error = self.error
        bus_error = Signal(BusError)
        is_read = Signal()
        outside = Signal()
        address = Signal(HOST_ADDRESS_BITS, reset_less=True)
        m.d.comb += [
            is_read.eq(self.ring_faulty),
            bus_error.eq(Mux(is_read, self.ring_fault.error, self.record_error)),
            # Only a record that is not written stops the ring without an answer of the bus.
            outside.eq(~is_read | self.ring_fault.outside),
            self.error_valid.eq((self.record_done & self.record_info.failed) | self.ring_stop),
        ]
        # A record's fault is known a cycle after the answer.
        m.d.sync += address.eq(self.record_info.address)
        with m.If(self.ring_stop):
            with m.If(is_read):
                m.d.comb += error.address.eq(self.ring_fault.address)
            with m.Else():
                m.d.comb += error.address.eq(Mux(record_failed, address, self.record_address))
            with m.If((bus_error == BusError.NONE) & outside):
                m.d.comb += [
                    error.status.eq(Status.OUTSIDE_WINDOW),
                    error.detail.eq(Mux(is_read, WindowDetail.RING, WindowDetail.RECORD)),
                ]
            with m.Elif(bus_error == BusError.NONE):
                m.d.comb += error.status.eq(Status.BAD_LENGTH)
            with m.Elif(bus_error == BusError.TIMEOUT):
                m.d.comb += [
                    error.status.eq(Status.TIMEOUT),
                    error.detail.eq(Mux(is_read, TimeoutDetail.READ, TimeoutDetail.WRITE)),
                ]
            with m.Else():
                m.d.comb += [
                    error.status.eq(Mux(is_read, Status.READ_ERROR, Status.WRITE_ERROR)),
                    error.detail.eq(bus_error),
                ]
        with m.Else():
            m.d.comb += [
                error.status.eq(self.record_info.status),
                error.detail.eq(self.record_info.detail),
                error.tag.eq(self.record_info.tag),
                error.address.eq(self.record_info.fault_address),
            ]
        return m
