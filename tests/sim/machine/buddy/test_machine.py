"""The machine around the buddy controller, on a design that hands accesses through."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.hw.config import ConfigError
from cdma.sim.machine import BusFault, DeliveredFault, HangError, MachineError, ProtocolError
from cdma.sim.machine.buddy.config import BUDDY_MACHINES, BuddyMachineConfig, buddy_machine_config
from cdma.sim.machine.buddy.machine import BuddyMachine
from cdma.sim.machine.buddy.trace import DECERR, OKAY, SLVERR, Access, AccessTrace
from tests.plan.engine_cost.passthrough import BREAKS, BUDDY, passthrough_rtl

MEMORY = 1 << 20
QUIET = BuddyMachineConfig(
    clock_hz=1e9,
    device_bytes_per_s=32e9,
    device_latency_ns=100,
    link_bytes_per_s=32e9,
    channels=1,
    link_latency_ns=50,
)


@pytest.fixture
def machine():
    made = []

    def make(config=QUIET, **options):
        sizes = {"device_bytes": MEMORY, "buddy_bytes": MEMORY}
        made.append(BuddyMachine(passthrough_rtl(), config, **{**sizes, **options}))
        rng = np.random.default_rng(len(made))
        for memory in (made[-1].device, made[-1].buddy):
            memory[:] = rng.integers(0, 256, memory.size, np.uint8)
        return made[-1]

    yield make
    for each in made:
        each.close()


def random_trace(
    count: int, *, seed: int = 0, span: int = 4096, writes: float = 0.5
) -> AccessTrace:
    """Accesses of up to four beats to the start of both memories."""
    rng = np.random.default_rng(seed)
    buddy = rng.random(count) < 0.5
    nbytes = rng.integers(1, 129, count)
    # Four beats at most, whatever the alignment.
    address = rng.integers(0, span - 128, count) // 128 * 128 + rng.integers(0, 129 - nbytes)
    return AccessTrace.uniform(
        write=rng.random(count) < writes,
        address=address + np.where(buddy, BUDDY, 0),
        nbytes=nbytes,
        id=rng.integers(0, 8, count) * 2 + buddy,
        earliest=np.sort(rng.integers(0, 2 * count, count)),
        data=rng.integers(0, 256, int(nbytes.sum()), np.uint8),
        mask=rng.random(int(nbytes.sum())) < 0.8,
    )


def follow(trace: AccessTrace, device: np.ndarray, buddy: np.ndarray) -> list[np.ndarray]:
    """Play a trace: the bytes that each access reads or writes, in order; changes memories."""
    seen = []
    for i, address in enumerate(trace.address):
        memory = buddy if address >= BUDDY else device
        place = memory[address % BUDDY :][: trace.nbytes[i]]
        if trace.write[i]:
            mask = trace.bytes_of(i, trace.mask)
            place[mask] = trace.bytes_of(i)[mask]
            seen.append(trace.bytes_of(i))
        else:
            seen.append(place.copy())
    return seen


class TestPlay:
    @pytest.mark.parametrize("stalls", [0.0, 0.3, 0.8])
    @pytest.mark.parametrize("outstanding", [1, 3, 64])
    def test_accesses_happen_in_the_traces_order(self, machine, stalls, outstanding):
        made = machine(stalls=stalls, seed=7)
        device, buddy = made.device.copy(), made.buddy.copy()
        for seed in range(3):
            trace = random_trace(400, seed=seed)
            expected = follow(trace, device, buddy)
            played = made.play(trace, most_reads=outstanding, most_writes=outstanding)
            for i, row in enumerate(expected):
                np.testing.assert_array_equal(played.bytes_of(i), row, err_msg=f"access {i}")
            np.testing.assert_array_equal(made.device, device)
            np.testing.assert_array_equal(made.buddy, buddy)
            assert not played.failed()

    def test_accesses_under_way_at_once_need_not_wait_for_one_another(self, machine):
        made = machine()
        before = made.device[:32].copy()
        data = ~before
        accesses = [Access(0, 32, data), Access(0, 32, id=2)]
        np.testing.assert_array_equal(made.play(accesses).bytes_of(1), data)
        made.device[:32] = before
        # The read leaves at once, and is served before the write has arrived.
        played = made.play(accesses, apart=False)
        assert played.records["offered"][1] == 0
        np.testing.assert_array_equal(played.bytes_of(1), before)
        # Reads do not wait for reads, nor writes for writes with their ID.
        played = made.play([Access(0, 32, id=k) for k in range(0, 8, 2)])
        assert played.records["offered"].tolist() == [0, 1, 2, 3]

    def test_writes_of_one_place_with_two_ids_are_in_order(self, machine):
        made = machine(stalls=0.5, seed=1)
        data = [np.full(32, k, np.uint8) for k in range(40)]
        played = made.play([Access(64, 32, row, id=2 * (k % 4)) for k, row in enumerate(data)])
        assert (np.diff(played.records["end"]) > 0).all()
        np.testing.assert_array_equal(made.device[64:96], data[-1])

    def test_times_of_reads_and_writes(self, machine):
        made = machine()
        played = made.play([Access(0, 128), Access(256, 128, id=2)])
        # A latency, then a beat per cycle, the second one behind the first.
        assert played.records["offered"].tolist() == played.records["accepted"].tolist() == [0, 1]
        assert played.records["first"].tolist() == [100, 104]
        assert played.records["end"].tolist() == [103, 107]
        assert played.latencies.tolist() == [103, 106]
        assert played.cycles == 108
        # Requests to buddy memory take no time on the link, answers all of theirs.
        played = made.play([Access(BUDDY, 128, id=1)])
        assert played.records["end"].tolist() == [2 * 50 + 4]
        # The address in one cycle, four beats, and the time to get there.
        played = made.play([Access(0, 128, np.zeros(128, np.uint8))])
        assert played.records["end"].tolist() == [4 + 100]

    def test_accesses_wait_for_their_time(self, machine):
        made = machine()
        played = made.play([Access(0, 32, earliest=k) for k in (5, 700, 20)])
        assert played.records["offered"].tolist() == [5, 700, 701]

    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_no_more_are_outstanding_than_may_be(self, machine, limit):
        made = machine()
        made.play([Access(32 * k, 32) for k in range(40)], most_reads=limit)
        assert made.counters().device.most_reads == limit
        with pytest.raises(ConfigError, match="most_writes must be at least 1, not 0"):
            made.play([Access(0, 32)], most_writes=0)

    def test_bandwidth(self, machine):
        made = machine(buddy_machine_config("channel"))
        count = 2000
        for address, bytes_per_cycle in ((0, 32), (BUDDY, 150e9 / 32 / 875e6)):
            addresses = address + np.arange(count) * 128 % MEMORY
            trace = AccessTrace.uniform(
                write=False, address=addresses, nbytes=128, id=int(address == BUDDY)
            )
            made.clear_counters()
            cycles = made.play(trace, most_reads=256).cycles
            # The pass-through has 16 bursts outstanding, too few to hide the channel's latency.
            latency = 306 if address == 0 else 438
            expected = min(bytes_per_cycle, 16 * 128 / latency)
            assert count * 128 / cycles == pytest.approx(expected, rel=0.05)
        assert made.counters().link_in_busy_cycles == pytest.approx(
            count * 128 / bytes_per_cycle, rel=1e-3
        )

    def test_counters(self, machine):
        made = machine()
        made.play([Access(0, 64, np.zeros(64, np.uint8)), Access(BUDDY + 128, 100, id=1)])
        counted = made.counters()
        assert (counted.device.written_bytes, counted.device.write_bursts) == (64, 1)
        assert (counted.buddy.read_bytes, counted.buddy.read_bursts) == (128, 1)
        assert counted.device.read_bytes == counted.buddy.written_bytes == 0
        made.clear_counters()
        assert made.counters() == replace(
            counted,
            cycles=0,
            device=replace(counted.device, written_bytes=0, write_bursts=0, most_writes=0),
            buddy=replace(counted.buddy, read_bytes=0, read_bursts=0, most_reads=0),
            link_in_busy_cycles=0,
        )

    def test_registers_and_the_interrupt(self, machine):
        made = machine(stalls=0.5)
        assert not made.irq
        made.write_register(0, 0x12340001)
        made.play([Access(0, 32)])
        assert made.read_register(0) == 0x12340001
        assert made.irq

    def test_a_play_of_nothing(self, machine):
        played = machine().play([])
        assert (played.cycles, len(played.records), played.data.size) == (0, 0, 0)


class TestAccesses:
    @pytest.mark.parametrize(
        ("access", "message"),
        [
            (Access(0, 0), "access 1 must have 1 to 4096 bytes"),
            (Access(0, 4097), "access 1 must have 1 to 4096 bytes"),
            (Access(-1, 32), "access 1 must have an address of 40 bits"),
            (Access((1 << 40) - 1, 2), "access 1 must have an address of 40 bits"),
            (Access(4000, 97), "access 1 must not cross 4 KiB"),
            (Access(0, 32, id=16), "access 1 must have an ID of 4 bits"),
            (Access(0, 32, beat_bytes=24), "access 1 must have beats of a power of two of bytes"),
            (Access(0, 32, beat_bytes=64), "access 1 must have beats .* at most 32"),
            (Access(0, 257, beat_bytes=1), "access 1 must have 256 beats at most"),
            (Access(0, 32, earliest=-1), "access 1 must have an earliest cycle"),
            (Access(0, 32, burst=3), "access 1 must be FIXED, INCR or WRAP"),
        ],
    )
    def test_that_cannot_be(self, machine, access, message):
        with pytest.raises(ValueError, match=message):
            machine().play([Access(0, 32), access])

    def test_data_of_another_size(self):
        with pytest.raises(ValueError, match="data must have 3 bytes, not 4"):
            AccessTrace.of([Access(0, 3, np.zeros(4, np.uint8))])


class TestFaults:
    @pytest.mark.parametrize("port", ["device", "buddy"])
    @pytest.mark.parametrize(("kind", "response"), [("slverr", SLVERR), ("decerr", DECERR)])
    def test_error_responses(self, machine, port, kind, response):
        made = machine()
        base, id = (BUDDY, 1) if port == "buddy" else (0, 0)
        memory = getattr(made, port)
        before = memory.copy()
        zeros = np.zeros(32, np.uint8)
        accesses = [Access(base + 64 * k, 64, id=id) for k in range(4)]
        accesses += [Access(base + 4096 + 32 * k, 32, zeros, id=id) for k in range(4)]
        by_number = [BusFault(port, "r", kind, nth=3), BusFault(port, "b", kind, nth=2)]
        by_address = [
            BusFault(port, "r", kind, addresses=(96, 128)),
            BusFault(port, "b", kind, addresses=(4096 + 64, 4096 + 65)),
        ]
        for faults in (by_number, by_address):
            made.set_faults(faults)
            played = made.play(accesses)
            assert played.responses.tolist() == [0, response, 0, 0, 0, 0, response, 0]
            assert played.failed() == [1, 6]
            assert [fault.times for fault in made.delivered_faults()] == [1, 1]
            np.testing.assert_array_equal(memory[4160:4192], before[4160:4192])
        made.set_faults([])
        assert not made.play(accesses).failed()

    @pytest.mark.parametrize("port", ["device", "buddy"])
    @pytest.mark.parametrize("channel", ["ar", "r", "aw", "w", "b"])
    def test_hangs(self, machine, port, channel):
        made = machine()
        base, id = (BUDDY, 1) if port == "buddy" else (0, 0)
        accesses = [
            Access(base + 64 * k, 64, None if channel in "arr" else np.zeros(64, np.uint8), id=id)
            for k in range(4)
        ]
        made.set_faults([BusFault(port, channel, "hang", nth=1)])
        with pytest.raises(HangError, match=r"of 4 accesses are answered after 2000") as caught:
            made.play(accesses, budget=2000)
        assert "s_axi: " in str(caught.value)
        assert f"the oldest a {'read' if channel in 'arr' else 'write'} of 64 bytes" in str(
            caught.value
        )
        assert made.delivered_faults()[0].times == 1
        with pytest.raises(MachineError, match=r"the machine has stopped: .*; call reset"):
            made.play(accesses)
        made.reset()
        made.set_faults([])
        assert not made.play(accesses).failed()
        assert made.delivered_faults() == []

    def test_addresses_outside_the_memories(self, machine):
        made = machine(buddy_base=4096)
        played = made.play(
            [Access(MEMORY, 32), Access(BUDDY, 32, id=1), Access(BUDDY + 4096, 32, id=1)]
        )
        assert played.responses.tolist() == [DECERR, DECERR, OKAY]
        np.testing.assert_array_equal(played.bytes_of(2), made.buddy[:32])
        counted = made.counters()
        assert (counted.device.decode_errors, counted.buddy.decode_errors) == (1, 1)

    def test_a_port_that_there_is_not(self, machine):
        with pytest.raises(ValueError, match="port must be 'device' or 'buddy', not 0"):
            machine().set_faults([BusFault(0, "r", "slverr", nth=0)])

    def test_a_fault_that_has_not_hit(self, machine):
        made = machine()
        made.set_faults([BusFault("device", "r", "slverr", nth=9)])
        assert made.delivered_faults() == [DeliveredFault(0, -1, -1)]


class TestBrokenRtl:
    @pytest.mark.parametrize(
        ("breaks", "message"),
        [
            ("R withdrawn", "s_axi: RVALID withdrawn before RREADY"),
            ("RDATA changed", "s_axi: RDATA changed before RREADY"),
            ("RLAST early", "s_axi: RLAST on beat 0 of a burst of 2"),
            ("RID unasked", "s_axi: R with ID 8 unasked"),
            ("R unasked", "s_axi: R with ID .* unasked"),
            ("EXOKAY", "s_axi: RRESP is EXOKAY, and nothing was exclusive"),
            ("B withdrawn", "s_axi: BVALID withdrawn before BREADY"),
            ("BRESP changed", "s_axi: BRESP changed before BREADY"),
            ("B early", "s_axi: B before its write was accepted"),
            ("B unasked", "s_axi: B with ID 0 unasked"),
            ("ARADDR changed", "m_axi_device: ARADDR changed before ARREADY"),
        ],
    )
    def test_is_caught(self, machine, breaks, message):
        made = machine(stalls=0.6, seed=5)
        rows = [Access(64 * k, 64, np.zeros(64, np.uint8) if k % 2 else None) for k in range(40)]

        def provoke() -> None:
            # Some breaks show before anything is played.
            made.write_register(0, BREAKS.index(breaks) << 8)
            made.play(rows)

        with pytest.raises(ProtocolError, match=message):
            provoke()
        with pytest.raises(MachineError, match=r"the machine has stopped: .*; call reset"):
            made.play(rows)
        made.reset()
        assert not made.play(rows).failed()

    def test_a_burst_that_the_device_port_does_not_have(self, machine):
        message = "m_axi_device: ARLEN asks for 5 beats; the port's bursts have at most 4"
        with pytest.raises(ProtocolError, match=message):
            machine().play([Access(0, 160)])

    def test_valid_during_reset(self, machine):
        made = machine()
        made.write_register(0, BREAKS.index("valid in reset") << 8)
        with pytest.raises(ProtocolError, match="an output is valid during reset"):
            made.reset()

    def test_a_controller_that_accepts_nothing(self, machine):
        made = machine()
        made.write_register(0, BREAKS.index("nothing accepted") << 8)
        with pytest.raises(HangError, match="0 of 1 accesses are answered after 500 cycles"):
            made.play([Access(0, 32)], budget=500)


class TestMachine:
    @pytest.mark.verify
    def test_waves(self, machine, tmp_path):
        path = tmp_path / "passthrough.vcd"
        made = machine(waves=path)
        made.play([Access(0, 32)])
        made.close()
        text = path.read_text()
        assert " s_axi_araddr " in text
        assert " m_axi_buddy_rdata " in text

    def test_a_closed_machine(self, machine):
        made = machine()
        made.close()
        with pytest.raises(MachineError, match="closed"):
            made.play([Access(0, 32)])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"device_bytes": 5000}, "device_bytes must be a multiple of 4096, not 5000"),
            ({"buddy_base": 1}, "buddy_base must be a multiple of 4096, not 1"),
            ({"stalls": 1.0}, "stalls must be at least 0 and less than 1, not 1.0"),
        ],
    )
    def test_that_cannot_be(self, machine, options, message):
        with pytest.raises(ConfigError, match=message):
            machine(**options)


class TestConfig:
    def test_the_channel_is_the_papers(self):
        channel = buddy_machine_config("channel").environment
        assert channel.channel_bytes_per_cycle == 32
        assert channel.dram_latency_cycles == 306
        assert 2 * channel.link_latency_cycles == 438
        assert channel.link_in_bytes_per_cycle * 875e6 * 32 == pytest.approx(150e9)

    def test_another_link(self):
        config = buddy_machine_config("channel").with_link(50)
        assert config.link_bytes_per_s == 50e9
        assert config.environment.link_out_bytes_per_s == 50e9 / 32

    def test_a_preset_that_there_is_not(self):
        with pytest.raises(ConfigError, match=f"one of {', '.join(BUDDY_MACHINES)}, not 'a100'"):
            buddy_machine_config("a100")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"device_bytes_per_s": 0.0}, "device_bytes_per_s must be more than 0, not 0.0"),
            ({"link_bytes_per_s": -1.0}, "link_bytes_per_s must be more than 0, not -1.0"),
            ({"channels": 0}, "channels must be 1 to 1024, not 0"),
            ({"clock_hz": 0.0}, "clock_hz must be more than 0, not 0.0"),
            ({"link_latency_ns": 0.1}, "link_latency_ns must be 1 to 1,000,000 cycles"),
        ],
    )
    def test_values_that_no_machine_has(self, changes, message):
        with pytest.raises(ConfigError, match=message):
            replace(QUIET, **changes)
