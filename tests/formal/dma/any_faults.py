"""Faults of a job at any time: of which job a fault is, `test_job_faults.py` proves."""

from amaranth.hdl import Module
from amaranth.hdl._ast import AnySeq

from cdma.hw.dma.job_faults import JobFaultFilter


class AnyFaults(JobFaultFilter):
    """Finds a fault of the present job whenever it likes."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += self.own.eq(AnySeq(1))
        return m
