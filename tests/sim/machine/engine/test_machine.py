"""The machine around the DMA engine, on movers that measure their own time."""

import re

import numpy as np
import pytest

from cdma.sim.machine import HangError, MachineError, ProtocolError, RegisterError
from tests.sim.machine.copier import (
    BEAT,
    BEATS,
    COMMAND,
    DURATION,
    ERRORS,
    FIRST_ERROR,
    HOST,
    IRQ_ENABLE,
    IRQ_STATUS,
    LITE_BROKEN,
    MEMORY,
    NOWHERE,
    READ,
    WAITED,
    WRITE,
    Copier,
    broken,
)


class TestMemories:
    @pytest.mark.parametrize("stalls", [0.0, 0.5])
    def test_copies_between_all_ports(self, machine, stalls):
        made = machine(stalls=stalls, seed=3, host_base=0x12_3456_7000)
        movers = Copier(made)
        host, device = made.host.copy(), made.device.copy()
        movers.copy(HOST, made.host_base + 0x1000, 0, 0x800)
        host[0x1000:0x1100] = device[0x800:0x900]
        movers.copy(1, 0x2F00, HOST, made.host_base + 0x300)
        device[0x2F00:0x3000] = host[0x300:0x400]
        np.testing.assert_array_equal(made.host, host)
        np.testing.assert_array_equal(made.device, device)

    def test_strobes_choose_the_bytes(self, machine):
        made = machine()
        movers = Copier(made)
        expected = made.host.copy()
        movers.move(1, READ, 0x40, beats=3)
        movers.move(HOST, WRITE, 0x1005, beats=3, source=1, tail=7)
        expected[0x1005:0x1047] = made.device[0x45:0x87]
        np.testing.assert_array_equal(made.host, expected)

    def test_wide_ports(self, machine):
        made = machine(data_bytes=128, channels=1)
        assert (made.units, made.sector_bytes, made.link_port_bytes) == (1, 128, 128)
        expected = made.host.copy()
        movers = Copier(made)
        movers.copy(HOST, 0x2000, 0, 0x1000, beats=8)
        expected[0x2000:0x2400] = made.device[0x1000:0x1400]
        np.testing.assert_array_equal(made.host, expected)

    @pytest.mark.parametrize("port", [0, HOST])
    def test_addresses_outside_are_answered_with_decerr(self, machine, port):
        made = machine()
        movers = Copier(made)
        before = made.device.copy(), made.host.copy()
        movers.move(port, READ, MEMORY - BEAT)
        assert movers.get(port, ERRORS) == 0
        movers.move(port, READ, MEMORY - BEAT, bursts=3)
        assert (movers.get(port, ERRORS), movers.get(port, FIRST_ERROR)) == (2, 3 << 30 | 1)
        movers.move(port, WRITE, MEMORY, beats=2)
        assert (movers.get(port, ERRORS), movers.get(port, FIRST_ERROR)) == (1, 3 << 30)
        np.testing.assert_array_equal(before, (made.device, made.host))
        assert made.counters().decode_errors[made.units if port == HOST else port] == 3

    def test_below_the_base(self, machine):
        made = machine(device_base=0x10000)
        movers = Copier(made)
        movers.move(0, READ, 0xFFE0, bursts=2)
        assert (movers.get(0, ERRORS), movers.get(0, FIRST_ERROR)) == (1, 3 << 30)


class TestDram:
    @pytest.mark.parametrize("latency", [1, 7, 350])
    def test_latency(self, machine, latency):
        movers = Copier(machine(dram_latency_ns=latency))
        for command in (READ, WRITE):
            movers.move(1, command, 0x1000, beats=4)
            # Between the address, or the last data, and the response lie these cycles.
            assert movers.get(1, WAITED) == latency - 1

    @pytest.mark.parametrize("bytes_per_cycle", [8.0, 20.5, 31.0])
    @pytest.mark.parametrize("command", [READ, WRITE])
    def test_bandwidth(self, machine, bytes_per_cycle, command):
        made = machine(dram_bytes_per_s=2e9 * bytes_per_cycle)
        movers = Copier(made)
        movers.move(0, command, 0, bursts=400, beats=4)
        transfer = 400 * 4 * BEAT / bytes_per_cycle
        # Reads: the latency, and the last beat, which is offered when its service starts. Writes:
        # until the last burst, which is answered likewise, and the data of the first.
        assert movers.get(0, DURATION) == pytest.approx(transfer + 100, abs=5 * BEAT)
        counters = made.counters()
        moved = counters.dram_read_bytes if command == READ else counters.dram_written_bytes
        assert moved.tolist() == [400 * 4 * BEAT, 0]

    def test_a_port_is_never_faster_than_its_width(self, machine):
        movers = Copier(machine())
        movers.move(0, READ, 0, bursts=200, beats=8)
        # A beat per cycle without a bubble; the first address takes a cycle to be there.
        assert movers.get(0, DURATION) == 200 * 8 + 100 + 1

    def test_reads_wait_behind_writes_of_their_channel(self, machine):
        made = machine(dram_bytes_per_s=2 * 4e9)
        movers = Copier(made)
        # Taken within 600 cycles, and written in 4096.
        movers.start(0, WRITE, 0, bursts=64, beats=8)
        made.run(600)
        movers.set(0, COMMAND, READ)
        movers.start(1, READ, 0)
        made.run(3400)
        assert "64 read bursts outstanding, the first at beat 0 of 8" in made.outstanding()
        assert "m_axi_mem1" not in made.outstanding()
        made.run(200)
        assert "64 read bursts outstanding, the first at beat 0 of 8" not in made.outstanding()

    def test_channels_do_not_disturb_each_other(self, machine):
        shape = {"bursts": 200, "beats": 8}
        made = machine(dram_bytes_per_s=2 * 16e9)
        movers = Copier(made)
        movers.move(0, READ, 0, **shape)
        alone = movers.get(0, DURATION)
        movers.start(1, WRITE, 0x8000, **shape)
        movers.move(0, READ, 0, **shape)
        assert movers.get(0, DURATION) == alone

    def test_outstanding_bursts_are_limited(self, machine):
        made = machine(dram_outstanding=5)
        movers = Copier(made)
        for command in (READ, WRITE):
            movers.move(0, command, 0, bursts=100, beats=1)
        counters = made.counters()
        assert counters.most_reads.tolist() == counters.most_writes.tolist() == [5, 0, 0]
        # Five beats per latency, and a slot is free again a cycle after its response.
        assert movers.get(0, DURATION) == pytest.approx(100 / 5 * 101, abs=105)

    def test_refresh_takes_its_part_of_the_time(self, machine):
        times = {}
        for seed in (1, 1, 2):
            made = machine(
                dram_bytes_per_s=2 * 32e9, refresh_interval_ns=1000, refresh_ns=200, seed=seed
            )
            movers = Copier(made)
            movers.move(0, READ, 0, bursts=1500, beats=8)
            time = movers.get(0, DURATION)
            assert time == pytest.approx(1500 * 8 / 0.8, rel=0.03)
            assert times.setdefault(seed, time) == time
        assert times[1] != times[2]

    def test_traffic_away_from_home_is_counted(self, machine):
        made = machine(interleave_bytes=128)
        movers = Copier(made)
        movers.move(0, READ, 0, bursts=10, beats=4, step=256)
        movers.move(1, WRITE, 128, bursts=10, beats=4, step=256)
        assert made.counters().foreign_bytes.tolist() == [0, 0]
        movers.move(0, READ, 64, bursts=1, beats=8)
        assert made.counters().foreign_bytes.tolist() == [128, 0]
        made.clear_counters()
        assert not made.counters().dram_read_bytes.any()

    def test_the_busiest_window(self, machine):
        made = machine(dram_bytes_per_s=2 * 16e9, window_cycles=500)
        movers = Copier(made)
        movers.start(0, READ, 0, bursts=300, beats=8)
        movers.start(1, READ, 0, bursts=100, beats=8)
        movers.finish(0)
        # Both at 16 bytes per cycle; a burst is counted when its service starts.
        most = made.counters().window_dram_read_bytes
        assert 2 * 16 * 500 <= most <= 2 * (16 * 500 + 8 * BEAT)
        made.clear_counters()
        movers.move(0, READ, 0, bursts=3, beats=8)
        assert made.counters().window_dram_read_bytes == 3 * 8 * BEAT
        assert made.counters().window_dram_written_bytes == 0


class TestLink:
    @pytest.mark.parametrize("latency", [1, 50, 400])
    def test_latency(self, machine, latency):
        movers = Copier(machine(link_latency_ns=latency))
        movers.move(HOST, READ, 0, beats=2)
        # Two ways, and a cycle for 32 bytes at 32 bytes per cycle.
        assert movers.get(HOST, WAITED) == 2 * latency + 1 - 1
        movers.move(HOST, WRITE, 0, beats=3)
        assert movers.get(HOST, WAITED) == 3 + latency - 1

    @pytest.mark.parametrize("rate", [3.5, 16.0])
    @pytest.mark.parametrize("overhead", [0, 24])
    @pytest.mark.parametrize("efficiency", [1.0, 0.8])
    def test_bandwidth_each_way(self, machine, rate, overhead, efficiency):
        made = machine(
            link_out_bytes_per_s=rate * 1e9,
            link_in_bytes_per_s=2 * rate * 1e9,
            link_overhead_bytes=overhead,
            link_efficiency=efficiency,
        )
        movers = Copier(made)
        bursts, burst = 60, 16 * BEAT
        for command, ways, way_rate in ((WRITE, 1, rate), (READ, 2, 2 * rate)):
            made.clear_counters()
            movers.move(HOST, command, 0, bursts=bursts, beats=16)
            busy = bursts * (burst + overhead) / (way_rate * efficiency)
            # A write leaves when all of it is there.
            before = 16 if command == WRITE else overhead / (rate * efficiency)
            assert movers.get(HOST, DURATION) == pytest.approx(busy + before + 50 * ways, abs=4)
            counters = made.counters()
            if command == WRITE:
                assert counters.link_out_busy_cycles == pytest.approx(busy, abs=0.001)
                assert (counters.link_out_bytes, counters.link_in_bytes) == (bursts * burst, 0)
                assert counters.link_utilization_out == pytest.approx(busy / counters.cycles)
            else:
                assert counters.link_in_busy_cycles == pytest.approx(busy, abs=0.001)
                requests = bursts * overhead / (rate * efficiency)
                assert counters.link_out_busy_cycles == pytest.approx(requests, abs=0.001)
                assert (counters.link_out_bytes, counters.link_in_bytes) == (0, bursts * burst)

    def test_only_bytes_that_strobes_name_cross_the_link(self, machine):
        made = machine()
        Copier(made).move(HOST, WRITE, 0x105, beats=3, tail=7)
        assert made.counters().link_out_bytes == 3 * BEAT - 5 - (BEAT - 7)
        Copier(made).move(HOST, READ, 0x105, beats=3)
        assert made.counters().link_in_bytes == 3 * BEAT - 5

    def test_the_buffer_before_the_link_is_small(self, machine):
        made = machine(link_out_bytes_per_s=1e9, link_buffer_bursts=2)
        movers = Copier(made)
        movers.start(HOST, WRITE, 0, bursts=8, beats=16)
        # Two bursts were taken, and the rest waits until the first has left at a byte per cycle.
        made.run(300)
        assert movers.get(HOST, BEATS) == 2 * 16
        assert "WVALID waits for WREADY" in made.outstanding()
        made.run(300)
        assert movers.get(HOST, BEATS) == 3 * 16

    def test_memory_changes_no_later_than_the_response(self, machine):
        made = machine(link_latency_ns=200)
        movers = Copier(made)
        made.host[:64] = 0
        made.device[:64] = 255
        movers.move(0, READ, 0, beats=2)
        movers.start(HOST, WRITE, 0, beats=2, source=0)
        assert made.run_until_word(32, 1000) == 2**32 - 1
        first, last = (
            made.counters().first_write_cycle[2],
            made.counters().last_response_cycle[2],
        )
        # Its second beat comes a cycle after its address, and takes a cycle per beat to leave.
        assert last == first + 1 + 2 + 200
        assert made.cycles == last + 1


class TestStalls:
    def test_stalls_follow_the_seed(self, machine):
        times = []
        for seed in (1, 1, 2):
            made = machine(stalls=0.5, seed=seed)
            movers = Copier(made)
            movers.move(0, READ, 0, bursts=50, beats=8)
            movers.move(HOST, WRITE, 0, bursts=50, beats=8)
            times.append((movers.get(0, DURATION), movers.get(HOST, DURATION), made.cycles))
        assert times[0] == times[1]
        assert times[0] != times[2]
        # Half of the beats wait a cycle, a quarter two, and so on.
        assert times[0][0] == pytest.approx(2 * 400 + 100, rel=0.2)


class TestRegisters:
    @pytest.mark.parametrize("stalls", [0.0, 0.7])
    def test_values_and_cycles(self, machine, stalls):
        made = machine(stalls=stalls)
        before = made.cycles
        assert made.read_register(0) == 0x434F5059
        assert 2 <= made.cycles - before < 60
        before = made.cycles
        taken = made.write_register(IRQ_ENABLE, 1)
        assert before <= taken < made.cycles

    def test_error_responses(self, machine):
        made = machine()
        with pytest.raises(RegisterError, match="read of register 0xffc is answered with SLVERR"):
            made.read_register(NOWHERE)
        with pytest.raises(RegisterError, match="write of register 0xffc is answered with SLVERR"):
            made.write_register(NOWHERE, 1)
        assert made.read_register(0) == 0x434F5059

    def test_accesses_that_cannot_be(self, machine):
        made = machine()
        for address in (1, 4096, -4):
            with pytest.raises(ValueError, match="a multiple of 4 below 4096"):
                made.read_register(address)
        with pytest.raises(ValueError, match="fit 32 bits"):
            made.write_register(0, 2**32)

    def test_a_port_without_an_answer(self, machine):
        made = machine()
        made.write_register(LITE_BROKEN, broken("SILENT"))
        before = made.cycles
        message = "read of register 0x0 is not answered after 50 cycles: .*address is not accepted"
        with pytest.raises(HangError, match=message):
            made.read_register(0, budget=50)
        assert made.cycles == before + 50
        with pytest.raises(MachineError, match="call reset"):
            made.read_register(0)
        made.reset()
        assert made.read_register(0) == 0x434F5059

    @pytest.mark.parametrize(
        ("breaks", "message"),
        [
            ("UNASKED", "s_axil: BVALID unasked"),
            ("RDATA_CHANGED", "s_axil: R changed before RREADY"),
            ("R_WITHDRAWN", "s_axil: RVALID withdrawn before RREADY"),
        ],
    )
    def test_broken_rules(self, machine, breaks, message):
        made = machine(stalls=0.9, seed=4)

        def access() -> None:
            made.write_register(LITE_BROKEN, broken(breaks))
            made.read_register(0)
            made.run(5)

        with pytest.raises(ProtocolError, match=message):
            access()

    def test_the_interrupt(self, machine):
        made = machine()
        movers = Copier(made)
        with pytest.raises(HangError, match="no interrupt after 100 cycles: nothing is outstandi"):
            made.run_until_irq(100)
        made.write_register(IRQ_ENABLE, 1)
        movers.start(0, READ, 0, beats=4)
        assert not made.irq
        before = made.cycles
        made.run_until_irq(1000)
        assert made.irq
        assert 100 <= made.cycles - before <= 110
        made.run_until_irq(0)
        made.write_register(IRQ_STATUS, 1)
        assert not made.irq


class TestTime:
    def test_run_takes_its_cycles(self, machine):
        made = machine()
        before = made.cycles
        made.run(0)
        assert made.cycles == before
        made.run(123)
        assert made.cycles == before + 123

    def test_idle_takes_its_quiet_cycles(self, machine):
        made = machine()
        before = made.cycles
        made.run_until_idle(1000, quiet_cycles=40)
        assert made.cycles == before + 40

    def test_a_word_that_does_not_change(self, machine):
        made = machine(host_base=0x4000)
        made.host[:8] = [1, 0, 0, 0, 2, 0, 0, 0]
        assert made.run_until_word(0x4004, 0, mask=2, unlike=0) == 2
        message = "the word at 0x4000 stays 0x1 after 100 cycles: nothing is outstanding"
        with pytest.raises(HangError, match=message):
            made.run_until_word(0x4000, 100, unlike=1)
        for address in (0x4002, 0x3FFC, 0x4000 + MEMORY):
            with pytest.raises(ValueError, match="in host memory, aligned"):
                made.run_until_word(address, 1)

    def test_a_reset_forgets_what_is_under_way(self, machine):
        made = machine()
        movers = Copier(made)
        for command in (READ, WRITE):
            for cycles in range(0, 140, 7):
                movers.start(HOST, command, 0x1000, bursts=4, beats=8)
                movers.start(0, command, 0x1000, bursts=4, beats=8)
                made.run(cycles)
                made.reset()
                assert made.outstanding() == ""
                movers.move(HOST, READ, 0, beats=2)
                assert movers.get(HOST, WAITED) == 100
                movers.move(0, READ, 0)
                assert movers.get(0, WAITED) == 99

    def test_a_closed_machine(self, machine):
        made = machine()
        made.close()
        made.close()
        with pytest.raises(MachineError, match="the machine is closed"):
            made.run(1)

    @pytest.mark.verify
    def test_waves(self, machine, tmp_path):
        path = tmp_path / "engine.vcd"
        with machine(waves=path) as made:
            Copier(made).copy(HOST, 0x2000, 0, 0x1000)
            cycles = made.cycles
        text = path.read_text()
        assert re.search(r"\$var wire +256 \S+ m_axi_mem1_rdata ", text)
        times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.MULTILINE)]
        assert times[-1] // 1000 == cycles - 1
