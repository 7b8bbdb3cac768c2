"""The Verilated library, on a device that hands packets through, whole and broken."""

import re
from pathlib import Path

import lz4.block
import numpy as np
import pytest

from cdma.golden import LINE_BYTES
from cdma.sim.machine import (
    CHANNELS,
    AssertionFailedError,
    CapacityError,
    Fault,
    HangError,
    MachineError,
    Packets,
    Pipeline,
    ProtocolError,
)
from tests.lib.requirements import FST_HEADERS, require

BEAT = 32
FULL = 2**BEAT - 1
THREE_BEATS = 3 * BEAT


def faulty(name: str) -> int:
    """A command's length that makes the device break the rule `name` of `echo.sv`."""
    text = (Path(__file__).parent / "echo.sv").read_text()
    number = re.search(rf"\b{name} = (\d+)", text)
    assert number, f"echo.sv has no fault {name}"
    return int(number[1]) << 24


def random_packets(*sizes: int) -> Packets:
    rng = np.random.default_rng(0)
    return Packets.of(rng.integers(0, 256, size, np.uint8) for size in sizes)


@pytest.fixture(scope="module")
def device(echo):
    with Pipeline.of_verilog(echo()) as pipeline:
        yield pipeline


class TestBatches:
    @pytest.mark.parametrize("stalls", [0.0, 0.4])
    @pytest.mark.parametrize("sector_bytes", [32, 64, 128])
    def test_packets_of_all_sizes_arrive_unchanged(self, echo, sector_bytes, stalls):
        packets = random_packets(*range(300), 0, 5000, 0)
        with Pipeline.of_verilog(echo(sector_bytes=sector_bytes)) as pipeline:
            assert pipeline.sector_bytes == sector_bytes
            for seed in range(3):
                batch = pipeline.run(packets, stalls=stalls, seed=seed)
                np.testing.assert_array_equal(batch.output, packets.data)
                np.testing.assert_array_equal(batch.offsets, packets.offsets)
                np.testing.assert_array_equal(batch.records["out_size"], packets.sizes)
                beats = np.maximum(1, -(-packets.sizes // sector_bytes)).sum()
                assert batch.input_beats == batch.output_beats == beats

    def test_arrays_of_any_dtype_are_taken_as_their_bytes(self, device):
        arrays = [np.arange(7, dtype=np.float32).reshape(7, 1), np.array(3, np.int16)]
        batch = device.run(arrays)
        for index, array in enumerate(arrays):
            np.testing.assert_array_equal(batch.packet(index), np.frombuffer(array.tobytes(), "u1"))

    def test_a_batch_of_nothing(self, device):
        batch = device.run([])
        assert len(batch) == 0
        assert batch.output.size == 0
        assert batch.cycles == 0

    def test_packets_are_found_by_number(self, device):
        packets = random_packets(5, 0, 9)
        batch = device.run(packets)
        assert [len(batch.packet(i)) for i in range(-3, 3)] == [5, 0, 9, 5, 0, 9]
        with pytest.raises(IndexError, match="there are 3 packets"):
            batch.packet(3)

    def test_commands_reach_the_rtl(self, echo):
        packets = random_packets(5, 0, 9)
        lengths = [1, 2, 2**24 - 1]
        crcs = [7, 0, 2**32 - 1]
        with Pipeline.of_verilog(echo(takes_crc=True)) as pipeline:
            assert pipeline.takes_crc
            records = pipeline.run(packets, lengths, crc32=crcs, check_crc=[True, False, True])
            assert records.records["offset"].tolist() == lengths
            assert records.records["crc32"].tolist() == crcs
            assert records.records["status"].tolist() == [1, 0, 1]
            assert pipeline.run(packets, lengths, crc32=crcs).records["status"].all()
            assert not pipeline.run(packets, lengths).records["status"].any()
            with pytest.raises(ValueError, match="lengths must be given"):
                pipeline.run(packets)
            with pytest.raises(ValueError, match="check_crc needs crc32"):
                pipeline.run(packets, lengths, check_crc=True)

    def test_lengths_are_the_packets_own_unless_given(self, device):
        assert device.run(random_packets(5, 0, 9)).records["offset"].tolist() == [5, 0, 9]

    def test_cycle_stamps_and_counts_without_stalls(self, device):
        # A command takes a cycle, then beats move one per cycle and leave one later; the status
        # follows the last. The device overlaps nothing.
        batch = device.run(random_packets(THREE_BEATS, 1))
        for start, beats, record in zip([0, 6], [3, 1], batch.records, strict=True):
            assert record["command_cycle"] == start
            assert record["input_first_cycle"] == start + 1
            assert record["input_last_cycle"] == start + beats
            assert record["output_first_cycle"] == start + 2
            assert record["output_last_cycle"] == start + 1 + beats
            assert record["status_cycle"] == start + 2 + beats
        assert batch.cycles == 10
        # Offered while the command is taken, and while the packet before drains.
        assert batch.input_stall_cycles == 1 + 3
        assert batch.output_idle_cycles == 0

    def test_stalls_follow_the_seed(self, device):
        packets = random_packets(1000, 1000)
        batches = [device.run(packets, stalls=0.5, seed=seed) for seed in (1, 1, 2)]
        np.testing.assert_array_equal(batches[0].records, batches[1].records)
        assert batches[0].cycles != batches[2].cycles

    @pytest.mark.parametrize("channel", CHANNELS)
    def test_each_channel_can_be_stalled_alone(self, device, channel):
        packets = random_packets(*[100] * 50)
        batch = device.run(packets, stalls={channel: 0.8}, seed=3)
        np.testing.assert_array_equal(batch.output, packets.data)
        free = device.run(packets)
        assert batch.cycles > free.cycles

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"stalls": 1.0}, "at least 0 and less than 1"),
            ({"stalls": {"outputs": 0.1}}, "not 'outputs'"),
            ({"lengths": [1]}, "lengths must be one per packet, 2"),
            ({"lengths": [1, -1]}, "lengths must fit 32 bits"),
            ({"lengths": [1, 2**32]}, "lengths must fit 32 bits"),
            ({"crc32": [0, 0]}, "only a decompressor"),
            ({"faults": [Fault(0, 1, 1), Fault(0, 1, 2)]}, "two faults are in the same beat"),
        ],
    )
    def test_arguments_that_do_not_fit(self, device, arguments, message):
        with pytest.raises(ValueError, match=message):
            device.run(random_packets(5, 6), **arguments)

    @pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 3, 99], [-1, 3, 5]])
    def test_packets_outside_their_data(self, device, offsets):
        with pytest.raises(ValueError, match="offsets must ascend"):
            device.run(Packets(np.zeros(10, np.uint8), np.array(offsets)))

    def test_a_closed_pipeline(self, echo):
        pipeline = Pipeline.of_verilog(echo())
        pipeline.close()
        pipeline.close()
        with pytest.raises(MachineError, match="closed"):
            pipeline.run([])

    def test_two_pipelines_of_one_design_do_not_mix(self, echo, device):
        packets = random_packets(300)
        with Pipeline.of_verilog(echo()) as other:
            device.run(packets)
            with pytest.raises(ProtocolError):
                other.run(packets, [faulty("TORN_BEAT")])
            np.testing.assert_array_equal(device.run(packets).output, packets.data)


class TestBrokenRtl:
    """A healthy transfer of the same seed tells in which cycle the broken one must be caught."""

    PACKETS = random_packets(5, THREE_BEATS, THREE_BEATS)

    def lengths(self, fault: str | None) -> list[int]:
        return [5, THREE_BEATS if fault is None else faulty(fault), THREE_BEATS]

    def healthy(self, device, **arguments) -> np.void:
        return device.run(self.PACKETS, self.lengths(None), **arguments).records[1]

    def caught(self, device, kind, fault, message, **arguments) -> int:
        with pytest.raises(kind, match=message) as caught:
            device.run(self.PACKETS, self.lengths(fault), **arguments)
        assert f"(cycle {caught.value.cycle} of the batch)" in str(caught.value)
        # The next batch finds a device that works.
        batch = device.run(self.PACKETS)
        np.testing.assert_array_equal(batch.output, self.PACKETS.data)
        return caught.value.cycle

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("WITHDRAWN_BEAT", "m_axis: tvalid withdrawn"),
            ("CHANGED_DATA", "m_axis: tdata changed"),
            ("CHANGED_KEEP", "m_axis: tkeep changed"),
            ("CHANGED_LAST", "m_axis: tlast changed"),
        ],
    )
    @pytest.mark.parametrize("seed", range(3))
    def test_a_beat_that_does_not_wait_as_it_is(self, device, fault, message, seed):
        arguments = {"stalls": {"output": 0.9}, "seed": seed}
        cycle = self.caught(device, ProtocolError, fault, message, **arguments)
        healthy = self.healthy(device, **arguments)
        assert healthy["output_first_cycle"] + 2 < cycle <= healthy["output_last_cycle"]

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("WITHDRAWN_STATUS", "m_sts: valid withdrawn"),
            ("CHANGED_STATUS", "m_sts: the record changed"),
        ],
    )
    @pytest.mark.parametrize("seed", range(3))
    def test_a_status_that_does_not_wait_as_it_is(self, device, fault, message, seed):
        arguments = {"stalls": {"status": 0.99}, "seed": seed}
        cycle = self.caught(device, ProtocolError, fault, message, **arguments)
        assert cycle == self.healthy(device, **arguments)["output_last_cycle"] + 2

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("TORN_BEAT", "m_axis: a partial beat before the last"),
            ("KEEP_HOLES", "m_axis: tkeep is not a run from bit 0"),
        ],
    )
    def test_a_malformed_packet(self, device, fault, message):
        packets = random_packets(5, 2 * THREE_BEATS)
        with pytest.raises(ProtocolError, match=message) as caught:
            device.run(packets, [5, faulty(fault)])
        healthy = device.run(packets).records[1]
        assert caught.value.cycle == healthy["output_first_cycle"] + 2

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("UNCOMMANDED_BEAT", "m_axis: a beat without a command"),
            ("UNCOMMANDED_STATUS", "m_sts: a status without a command"),
        ],
    )
    def test_output_without_a_command(self, device, fault, message):
        cycle = self.caught(device, ProtocolError, fault, message)
        assert cycle == self.healthy(device)["status_cycle"] + 1

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("UNCOMMANDED_BEAT", "m_axis: a beat after the last packet"),
            ("UNCOMMANDED_STATUS", "m_sts: a status after the last transfer"),
        ],
    )
    def test_output_after_the_end_of_a_batch(self, device, fault, message):
        with pytest.raises(ProtocolError, match=message) as caught:
            device.run(random_packets(THREE_BEATS), [faulty(fault)])
        healthy = device.run(random_packets(THREE_BEATS))
        assert caught.value.cycle == healthy.records[0]["status_cycle"] + 1

    def test_a_status_with_the_wrong_size(self, device):
        message = "transfer 1: out_size is 97, the packet has 96 bytes"
        cycle = self.caught(device, ProtocolError, "WRONG_SIZE", message)
        assert cycle == self.healthy(device)["status_cycle"]

    def test_a_failed_assertion(self, device):
        message = r"^echo.sv:\d+: Assertion failed in TOP.echo: the third beat arrived \(cycle"
        cycle = self.caught(device, AssertionFailedError, "ASSERTION", message)
        assert cycle == self.healthy(device)["input_last_cycle"] + 1

    def test_a_hang(self, device):
        message = "2 commands accepted, 1 packets in, 1 packets out, 1 statuses"
        packets = random_packets(5, 2 * THREE_BEATS, 5)
        for cycle_budget in (None, 500):
            with pytest.raises(HangError, match=message) as caught:
                device.run(packets, [5, faulty("HANG"), 5], cycle_budget=cycle_budget)
            assert caught.value.cycle == (cycle_budget or caught.value.cycle)
            assert caught.value.cycle < 5000

    def test_output_without_end(self, device):
        packets = random_packets(2 * THREE_BEATS)
        with pytest.raises(CapacityError, match="does not fit") as caught:
            device.run(packets, [faulty("TOO_MUCH")], cycle_budget=10**6)
        # Room for the two lines of a compressor, or as much as a decompressor could make of it.
        assert 2 * 144 / BEAT < caught.value.cycle < LINE_BYTES * 2 * THREE_BEATS / BEAT + 10

    def test_valid_during_reset(self, device):
        reset_at = int(self.healthy(device)["output_last_cycle"])
        message = "an output is valid during reset"
        arguments = {"reset_at": reset_at}
        cycle = self.caught(device, ProtocolError, "VALID_IN_RESET", message, **arguments)
        assert cycle == reset_at


class TestReset:
    def test_a_reset_in_every_cycle_leaves_a_working_device(self, device):
        packets = random_packets(5, 200, 0, 70)
        whole = device.run(packets, stalls=0.3, seed=5)
        for reset_at in range(whole.cycles + 2):
            batch = device.run(packets, stalls=0.3, seed=5, reset_at=reset_at)
            finished = int((whole.records["status_cycle"] < reset_at).sum())
            assert len(batch) == finished
            np.testing.assert_array_equal(batch.records, whole.records[:finished])
            np.testing.assert_array_equal(batch.output, packets.data[: packets.offsets[finished]])
            assert batch.cycles == min(reset_at, whole.cycles)
            np.testing.assert_array_equal(device.run(packets).output, packets.data)


class TestFaults:
    @pytest.mark.parametrize("keep", [0, 1, FULL >> 1, 0b101, FULL - 1])
    @pytest.mark.parametrize("beat", range(3))
    def test_the_beat_has_the_faults_keep(self, device, beat, keep):
        packets = random_packets(5, 200)
        with pytest.raises(ProtocolError, match=r"partial|not a run") as caught:
            device.run(packets, faults=[Fault(1, beat, keep)])
        first = device.run(packets).records[1]["output_first_cycle"]
        assert caught.value.cycle == first + beat

    def test_lanes_without_bytes_are_cleared(self, device):
        packets = random_packets(40)
        batch = device.run(packets, faults=[Fault(0, 1, FULL)])
        np.testing.assert_array_equal(batch.output, packets.data)

    @pytest.mark.parametrize("beats", [1, 2])
    def test_a_packet_can_end_with_a_null_beat(self, device, beats):
        packets = random_packets(3, beats * BEAT, 3)
        batch = device.run(packets, faults=[Fault(1, beats - 1, FULL, null_end=True)])
        np.testing.assert_array_equal(batch.output, packets.data)
        assert batch.input_beats == batch.output_beats == 1 + beats + 1 + 1

    def test_a_fault_in_a_beat_that_does_not_come(self, device):
        with pytest.raises(MachineError, match="transfer 0 has no beat 2 for a fault"):
            device.run(random_packets(40, 40), faults=[Fault(0, 2, 1), Fault(1, 0, 1)])


@pytest.mark.verify
class TestWaves:
    def test_vcd_has_the_ports_and_the_cycles(self, echo, tmp_path):
        path = tmp_path / "echo.vcd"
        with Pipeline.of_verilog(echo(), waves=path) as pipeline:
            batch = pipeline.run(random_packets(500))
        text = path.read_text()
        assert re.search(r"\$timescale\s+1ps\s+\$end", text)
        for name in ("clk", "s_axis_tdata", "m_sts_crc32", "state"):
            assert re.search(rf"\$var \w+ +\d+ \S+ {name} ", text)
        times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.MULTILINE)]
        assert times == sorted(times)
        assert times[-1] // 1000 > batch.cycles
        clock = re.search(r"\$var wire +1 (\S+) clk ", text)
        assert clock
        # A rising edge per cycle, and those of reset and drain.
        edges = len(re.findall(rf"^1{re.escape(clock[1])}$", text, re.MULTILINE))
        assert edges == times[-1] // 1000 + 1

    def test_fst_has_the_ports_and_the_cycles(self, echo, tmp_path):
        require(FST_HEADERS)
        path = tmp_path / "echo.fst"
        with Pipeline.of_verilog(echo(), waves=path) as pipeline:
            batch = pipeline.run(random_packets(500))
        blocks = fst_blocks(path.read_bytes())
        assert int.from_bytes(blocks[0][8:16]) // 1000 > batch.cycles
        names = lz4.block.decompress(blocks[6][8:], uncompressed_size=int.from_bytes(blocks[6][:8]))
        for name in (b"clk", b"s_axis_tdata", b"m_sts_crc32", b"state"):
            assert name in names

    def test_an_error_is_in_the_waves(self, echo, tmp_path):
        path = tmp_path / "echo.vcd"
        with Pipeline.of_verilog(echo(), waves=path) as pipeline:
            with pytest.raises(AssertionFailedError) as caught:
                pipeline.run(random_packets(500), [faulty("ASSERTION")])
        times = [int(time) for time in re.findall(r"^#(\d+)$", path.read_text(), re.MULTILINE)]
        # Four cycles of reset come first.
        assert times[-1] // 1000 == 4 + caught.value.cycle

    def test_another_suffix(self, echo, tmp_path):
        with pytest.raises(MachineError, match=r"name a file \.vcd or \.fst"):
            Pipeline.of_verilog(echo(), waves=tmp_path / "echo.wlf")

    def test_a_folder_that_is_not_there(self, echo, tmp_path):
        with pytest.raises(MachineError, match=r"no/echo\.vcd: No such file or directory; name"):
            Pipeline.of_verilog(echo(), waves=tmp_path / "no" / "echo.vcd")


def fst_blocks(content: bytes) -> dict[int, bytes]:
    """The blocks of an FST file by kind: 0 header, 6 names packed with LZ4, and others."""
    blocks = {}
    at = 0
    while at < len(content):
        length = int.from_bytes(content[at + 1 : at + 9])
        blocks[content[at]] = content[at + 9 : at + 1 + length]
        at += 1 + length
    return blocks
