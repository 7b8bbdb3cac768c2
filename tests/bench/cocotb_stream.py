"""The bench that runs inside cocotb's simulator for `machine_speed`: one long packet, timed."""

import json
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from cdma.golden import StreamStatus
from tests.hw.cocotb.stream.benches import PERIOD_NS, Bench, Scenario
from tests.lib.rtl.transfers import Transfer, content, good_to_compress, good_to_decompress

PACKET_BYTES = 64 << 10
KINDS = {"zvc-compressor": good_to_compress, "zvc-decompressor": good_to_decompress}


def transfer(scenario: Scenario) -> Transfer:
    data = content(scenario.config, PACKET_BYTES, 2)
    return KINDS[scenario.component](scenario.config, data)


def report(scenario: Scenario, seconds: float, first_ns: float) -> None:
    cycles = (get_sim_time("ns") - first_ns) / PERIOD_NS
    told = {"cycles": cycles, "seconds": seconds, "nbytes": PACKET_BYTES}
    Path(scenario.log).write_text(json.dumps(told))


@cocotb.test()
async def with_the_drivers_of_the_tests(dut: Any) -> None:
    scenario = Scenario.from_env()
    bench = Bench(dut, scenario)
    await bench.reset()
    chosen = [transfer(scenario)]
    first_ns, start = get_sim_time("ns"), time.perf_counter()
    await bench.run(chosen)
    report(scenario, time.perf_counter() - start, first_ns)


@cocotb.test()
async def with_one_coroutine(dut: Any) -> None:
    """As quick as cocotb can be: whole beats as integers, sinks that are always ready."""
    scenario = Scenario.from_env()
    wanted = transfer(scenario)
    beats = [(int.from_bytes(data, "little"), keep) for data, keep in wanted.packet]
    edge = RisingEdge(dut.clk)
    dut.rst.value = 1
    dut.s_cmd_valid.value = dut.s_axis_tvalid.value = dut.s_axis_tlast.value = 0
    dut.m_axis_tready.value = dut.m_sts_ready.value = 1
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    for _ in range(3):
        await edge
    dut.rst.value = 0
    for name, value in wanted.command.items():
        getattr(dut, f"s_cmd_{name}").value = int(value)
    dut.s_cmd_valid.value = 1
    await edge
    while not dut.s_cmd_ready.value:
        await edge
    dut.s_cmd_valid.value = 0

    tvalid, tready, tlast = dut.s_axis_tvalid, dut.s_axis_tready, dut.s_axis_tlast
    tdata, tkeep = dut.s_axis_tdata, dut.s_axis_tkeep
    out_valid, out_data, out_keep = dut.m_axis_tvalid, dut.m_axis_tdata, dut.m_axis_tkeep
    told = dut.m_sts_valid
    output = []
    last = len(beats) - 1
    at = 0
    first_ns, start = get_sim_time("ns"), time.perf_counter()
    tdata.value, tkeep.value = beats[0]
    tvalid.value = 1
    while not told.value:
        await edge
        if at <= last and tready.value:
            at += 1
            if at > last:
                tvalid.value = 0
            else:
                tdata.value = beats[at][0]
                if at == last:
                    tkeep.value, tlast.value = beats[at][1], 1
        if out_valid.value:
            output.append((out_data.value, out_keep.value))
    seconds = time.perf_counter() - start
    assert int(dut.m_sts_status.value) == StreamStatus.OK
    got = b"".join(
        int(data).to_bytes(scenario.sector_bytes, "little")[: int(keep).bit_count()]
        for data, keep in output
    )
    assert got == wanted.output
    report(scenario, seconds, first_ns)
