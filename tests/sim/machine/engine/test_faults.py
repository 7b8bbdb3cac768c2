"""Faults that the machine makes, and rules of the bus that it finds broken."""

import numpy as np
import pytest

from cdma.sim.machine import (
    AssertionFailedError,
    BusFault,
    HangError,
    Machine,
    MachineError,
    ProtocolError,
)
from tests.sim.machine.copier import (
    BEAT,
    BEATS,
    BROKEN,
    BUSY,
    ERRORS,
    FIRST_ERROR,
    HOST,
    LAST_FAULTS,
    READ,
    WRITE,
    Copier,
    broken,
)


class TestFaults:
    RESPONSES = {"slverr": 2, "decerr": 3}

    @pytest.mark.parametrize("kind", ["slverr", "decerr"])
    @pytest.mark.parametrize("port", [0, 1, HOST])
    @pytest.mark.parametrize("index", [0, 5, 11])
    def test_a_read_error_hits_its_beat(self, machine, kind, port, index):
        made = machine()
        movers = Copier(made)
        made.set_faults([BusFault(port, "r", kind, index)])
        movers.move(port, READ, 0x1000, bursts=3, beats=4)
        assert movers.get(port, ERRORS) == 1
        assert movers.get(port, FIRST_ERROR) == self.RESPONSES[kind] << 30 | index
        [delivered] = made.delivered_faults()
        assert (delivered.times, delivered.address) == (1, 0x1000 + index * BEAT)
        # Other ports are not concerned, and this one no more.
        movers.move(port, READ, 0x1000, bursts=3, beats=4)
        assert movers.get(port, ERRORS) == 0

    def test_read_errors_by_address(self, machine):
        made = machine()
        movers = Copier(made)
        # The last byte of one beat and the first of the next.
        made.set_faults([BusFault(0, "r", "slverr", addresses=(0x105F, 0x1061))])
        for _ in range(2):
            movers.move(0, READ, 0x1000, beats=8)
            assert movers.get(0, ERRORS) == 2
            assert movers.get(0, FIRST_ERROR) == 2 << 30 | 2
        assert made.delivered_faults()[0].times == 4
        movers.move(1, READ, 0x1000, beats=8)
        assert movers.get(1, ERRORS) == 0

    @pytest.mark.parametrize("kind", ["slverr", "decerr"])
    @pytest.mark.parametrize("by_address", [False, True])
    def test_a_write_error_changes_nothing(self, machine, kind, by_address):
        made = machine()
        movers = Copier(made)
        expected = made.host.copy()
        where = {"addresses": (0x21C0, 0x21C1)} if by_address else {"nth": 1}
        made.set_faults([BusFault(HOST, "b", kind, **where)])
        movers.move(0, READ, 0, bursts=3, beats=8)
        movers.move(HOST, WRITE, 0x2000, bursts=3, beats=8, source=0)
        assert movers.get(HOST, ERRORS) == 1
        assert movers.get(HOST, FIRST_ERROR) == self.RESPONSES[kind] << 30 | 1
        expected[0x2000:0x2100] = made.device[:0x100]
        expected[0x2200:0x2300] = made.device[0x200:0x300]
        np.testing.assert_array_equal(made.host, expected)
        assert made.delivered_faults()[0].address == 0x2100

    @pytest.mark.parametrize(
        ("channel", "index", "moved"), [("ar", 2, 8), ("r", 5, 5), ("aw", 2, 12), ("w", 7, 7)]
    )
    @pytest.mark.parametrize("port", [1, HOST])
    def test_a_hang_stops_its_channel_there(self, machine, channel, index, moved, port):
        made = machine()
        movers = Copier(made)
        command = READ if channel in ("ar", "r") else WRITE
        made.set_faults([BusFault(port, channel, "hang", index)])
        movers.start(port, command, 0x1000, bursts=3, beats=4)
        made.run(1000)
        assert movers.get(port, BEATS) == moved
        assert movers.get(port, BUSY) == 1
        assert made.delivered_faults()[0].times == 1
        beat = index if channel in ("r", "w") else index * 4
        assert made.delivered_faults()[0].address == 0x1000 + beat * BEAT
        with pytest.raises(HangError) as caught:
            made.run_until_idle(100)
        assert caught.value.cycle == made.cycles
        name = "m_axi_host" if port == HOST else f"m_axi_mem{port}"
        expected = {
            "ar": f"{name}: ARVALID waits for ARREADY",
            "r": f"{name}: 2 read bursts outstanding, the first at beat 1 of 4 from 0x1080",
            "aw": f"{name}: 4 beats of write data without an address; "
            f"{name}: AWVALID waits for AWREADY",
            "w": f"{name}: 2 write bursts outstanding, 2 of them short of data, the first to "
            f"0x1080; {name}: WVALID waits for WREADY",
        }
        assert expected[channel] in str(caught.value)
        assert "not idle after 100 cycles: " in str(caught.value)
        # Lifted, everything comes.
        made.set_faults([])
        movers.finish(port)
        assert (movers.get(port, BEATS), movers.get(port, ERRORS)) == (12, 0)

    def test_a_response_that_does_not_come(self, machine):
        made = machine()
        movers = Copier(made)
        made.set_faults([BusFault(0, "b", "hang", 1)])
        movers.start(0, WRITE, 0x1000, bursts=3, beats=4)
        with pytest.raises(HangError, match="m_axi_mem0: 2 write bursts outstanding, 0 of them"):
            made.run_until_idle(1000)
        made.set_faults([])
        movers.finish(0)

    def test_a_write_error_that_is_lifted_has_hit_or_has_not(self, machine):
        """Whenever it is lifted: the count, the response and the memory say the same."""
        hits = []
        for cycles in range(0, 200, 8):
            made = machine()
            movers = Copier(made)
            movers.move(HOST, READ, 0)
            before, written = made.device[0x1000:0x1020].copy(), made.host[:BEAT].copy()
            made.set_faults([BusFault(0, "b", "slverr", 0)])
            movers.start(0, WRITE, 0x1000, source=made.units)
            made.run(cycles)
            hits.append(made.delivered_faults()[0].times)
            made.set_faults([])
            movers.finish(0)
            assert movers.get(0, ERRORS) == hits[-1]
            np.testing.assert_array_equal(
                made.device[0x1000:0x1020], before if hits[-1] else written
            )
        assert hits == sorted(hits)
        assert set(hits) == {0, 1}

    @pytest.mark.parametrize("port", [0, HOST])
    def test_an_early_rlast_ends_the_burst(self, machine, port):
        made = machine()
        movers = Copier(made)
        made.set_faults([BusFault(port, "r", "early-last", 5)])
        movers.move(port, READ, 0x1000, bursts=3, beats=4)
        assert movers.get(port, LAST_FAULTS) == 1
        assert movers.get(port, BEATS) == 4 + 2 + 4

    @pytest.mark.parametrize("index", [4, 7])
    @pytest.mark.parametrize("port", [0, HOST])
    def test_a_late_rlast_adds_a_beat(self, machine, port, index):
        made = machine()
        movers = Copier(made)
        made.set_faults([BusFault(port, "r", "late-last", index)])
        movers.move(port, READ, 0x1000, bursts=3, beats=4)
        # Missing on the fourth beat, and there on the fifth.
        assert movers.get(port, LAST_FAULTS) == 2
        assert movers.get(port, BEATS) == 4 + 5 + 4

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            (BusFault(2, "r", "slverr", 0), "port must be 0, 1 or 'host', not 2"),
            (BusFault(0, "x", "slverr", 0), "channel must be ar, r, aw, w, b, not 'x'"),
            (BusFault(0, "b", "early-last", 0), "kind must be slverr, decerr, hang on b, not"),
            (BusFault(0, "ar", "slverr", 0), "kind must be hang on ar, not 'slverr'"),
            (BusFault(0, "r", "slverr"), "either nth or addresses"),
            (BusFault(0, "r", "slverr", 0, (0, 1)), "either nth or addresses"),
            (BusFault(0, "r", "slverr", -1), "nth must be at least 0, not -1"),
            (BusFault(0, "aw", "hang", None, (0, 1)), "a fault on aw must have nth"),
            (BusFault(0, "r", "slverr", None, (4, 4)), "addresses must be a first and a later one"),
        ],
    )
    def test_faults_that_cannot_be(self, machine, fault, message):
        with pytest.raises(ValueError, match=message):
            machine().set_faults([fault])


class TestBrokenEngines:
    """A healthy twin tells in which cycle the broken mover does what must be caught."""

    def caught(self, made: Machine, kind, message: str, port, command, address, **shape) -> int:
        movers = Copier(made)
        with pytest.raises(kind, match=message) as caught:
            movers.provoke(port, command, address, **shape)
        assert str(caught.value).endswith(f"(cycle {caught.value.cycle})")
        assert caught.value.cycle == made.cycles
        with pytest.raises(MachineError, match=f"has stopped: .*{message}.*; call reset"):
            made.run(1)
        made.reset()
        movers.copy(HOST, 0x2000, 0, 0x1000)
        np.testing.assert_array_equal(made.host[0x2000:0x2100], made.device[0x1000:0x1100])
        return caught.value.cycle

    @pytest.mark.parametrize("port", [1, HOST])
    @pytest.mark.parametrize(
        ("breaks", "command", "message"),
        [
            ("AR_WITHDRAWN", READ, "ARVALID withdrawn before ARREADY"),
            ("AR_CHANGED", READ, "ARADDR changed before ARREADY"),
            ("AW_WITHDRAWN", WRITE, "AWVALID withdrawn before AWREADY"),
            ("W_WITHDRAWN", WRITE, "WVALID withdrawn before WREADY"),
            ("W_CHANGED", WRITE, "WDATA changed before WREADY"),
        ],
    )
    def test_what_does_not_wait_as_it_is(self, machine, port, breaks, command, message):
        name = "m_axi_host" if port == HOST else f"m_axi_mem{port}"
        shape = {"bursts": 4, "beats": 4}
        twin = machine(stalls=0.9, seed=1)
        Copier(twin).move(port, command, 0x1000, **shape)
        made = machine(stalls=0.9, seed=1)
        message = f"{name}: {message}"
        cycle = self.caught(
            made, ProtocolError, message, port, command, 0x1000, **shape, breaks=breaks
        )
        assert cycle < twin.counters().last_response_cycle.max()

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ({"address": 0xFC0, "beats": 3}, "ADDR 0xfc0: the burst of 3 beats crosses a 4 KiB"),
            ({"address": 0xFFF, "beats": 2}, "ADDR 0xfff: the burst of 2 beats crosses a 4 KiB"),
            ({"beats": 9}, "LEN asks for 9 beats; the port's bursts have at most 8"),
            ({"axi_id": 1}, "ID is 1, more than the port's 0"),
            ({"breaks": "WRONG_SIZE"}, "SIZE is 4, not the port's 5"),
            ({"breaks": "WRONG_BURST"}, "BURST is 0, not INCR"),
        ],
    )
    @pytest.mark.parametrize(("command", "channel"), [(READ, "AR"), (WRITE, "AW")])
    def test_bursts_that_must_not_be(self, machine, shape, message, command, channel):
        twin = machine()
        Copier(twin).move(0, command, 0x1000)
        first = twin.counters().first_read_cycle, twin.counters().first_write_cycle
        shape = {"address": 0x1000, **shape}
        message = f"m_axi_mem0: {channel}{message}"
        cycle = self.caught(machine(), ProtocolError, message, 0, command, **shape)
        assert cycle == first[channel == "AW"][0]

    def test_a_burst_that_ends_at_the_boundary(self, machine):
        movers = Copier(machine())
        movers.move(0, READ, 0xF00, beats=8, bursts=2)
        movers.move(HOST, WRITE, 0xE05, beats=16)
        assert movers.get(HOST, ERRORS) == 0

    def test_limits_of_the_host_port(self, machine):
        made = machine()
        Copier(made).move(HOST, READ, 0x1000, beats=16, axi_id=1)
        message = "m_axi_host: ARLEN asks for 17 beats; the port's bursts have at most 16"
        self.caught(made, ProtocolError, message, HOST, READ, 0x1000, beats=17)
        message = "m_axi_host: AWID is 2, more than the port's 1"
        self.caught(made, ProtocolError, message, HOST, WRITE, 0x1000, axi_id=2)

    @pytest.mark.parametrize(
        ("breaks", "beat", "message"),
        [
            ("NO_WLAST", 3, "no WLAST on beat 3 of a burst of 4"),
            ("EARLY_WLAST", 0, "WLAST on beat 0 of a burst of 4"),
            ("NO_STROBES", 0, "WSTRB names no byte"),
            ("STROBES_BEFORE", 0, "WSTRB names bytes before AWADDR"),
        ],
    )
    def test_write_data_that_is_wrong(self, machine, breaks, beat, message):
        twin = machine()
        Copier(twin).move(0, WRITE, 0x1001, beats=4)
        shape = {"beats": 4, "breaks": breaks}
        message = f"m_axi_mem0: {message}"
        cycle = self.caught(machine(), ProtocolError, message, 0, WRITE, 0x1001, **shape)
        # The first beat comes with its address.
        assert cycle == twin.counters().first_write_cycle[0] + beat

    @pytest.mark.parametrize("channel", ["aw", "w", "b"])
    @pytest.mark.parametrize("port", [1, HOST])
    def test_strobes_may_lack_where_writes_have_hung(self, machine, port, channel):
        made = machine()
        movers = Copier(made)
        memory = made.host if port == HOST else made.device
        before = memory.copy()
        shape = {"bursts": 2, "beats": 4, "breaks": "NO_STROBES"}
        made.set_faults([BusFault(port, channel, "hang", 1)])
        movers.start(port, WRITE, 0x1000, **shape)
        made.run(500)
        assert movers.get(port, BUSY) == 1
        # Lifted, what is owed comes. It names no byte, and changes none.
        made.set_faults([])
        movers.finish(port)
        np.testing.assert_array_equal(memory, before)
        # Until the next reset, and on that port alone.
        other = 1 if port == HOST else HOST
        with pytest.raises(ProtocolError, match="WSTRB names no byte"):
            movers.provoke(other, WRITE, 0x1000, **shape)
        made.reset()
        with pytest.raises(ProtocolError, match="WSTRB names no byte"):
            movers.provoke(port, WRITE, 0x1000, **shape)

    def test_hang_of_reads_excuses_no_write(self, machine):
        made = machine()
        made.set_faults([BusFault(1, "r", "hang", 0), BusFault(0, "w", "hang", 5)])
        with pytest.raises(ProtocolError, match="m_axi_mem1: WSTRB names no byte"):
            Copier(made).provoke(1, WRITE, 0x1000, beats=4, breaks="NO_STROBES")

    def test_valid_during_reset(self, machine):
        made = machine()
        Copier(made).set(0, BROKEN, broken("VALID_IN_RESET"))
        with pytest.raises(ProtocolError, match="an output is valid during reset"):
            made.reset()
        made.reset()

    def test_a_failed_assertion(self, machine):
        twin = machine()
        Copier(twin).move(0, READ, 0x1000, beats=4)
        message = r"cdma_engine.sv:\d+: Assertion failed in .*: the third beat arrived"
        shape = {"beats": 4, "breaks": "ASSERTION"}
        cycle = self.caught(machine(), AssertionFailedError, message, 0, READ, 0x1000, **shape)
        assert cycle == twin.counters().last_response_cycle[0]

    def test_responses_that_are_not_taken(self, machine):
        made = machine()
        movers = Copier(made)
        movers.start(0, READ, 0x1000, beats=4, breaks="NEVER_READY")
        with pytest.raises(HangError, match="m_axi_mem0: RVALID waits for RREADY"):
            made.run_until_idle(1000)
        assert made.counters().read_wait_cycles[0] > 800
        # A hang is no broken rule: the machine goes on.
        movers.set(0, BROKEN, 0)
        movers.finish(0)
