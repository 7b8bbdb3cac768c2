"""A machine with an engine of Python inside: for tests of the driver that need no RTL.

It does what registers and rings promise, in a time that it makes up, and can be told to misbehave.
"""

from collections.abc import Callable

import numpy as np

from cdma import golden
from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.codec.registry import codec_of_number
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import DESCRIPTOR_DTYPE, RECORD_DTYPE, Flag, Opcode, Status
from cdma.hw.dma.control.registers import register_map
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver.errors import DescriptorError
from cdma.sim.driver.ring.descriptor import check
from cdma.sim.driver.windows import REGISTERS, Windows
from cdma.sim.machine import HangError, MachineConfig, RegisterError

MEMORY = 1 << 20
ACCESS_CYCLES = 5
PREFETCH = 4
COPY_CYCLES = 300
RESPONSE_CYCLES = 100
"""Cycles from a record's arrival to the engine's knowledge of it."""


class ModelMachine:
    """The part of `cdma.sim.machine.Machine` that `Engine` needs.

    Attributes
    ----------
    dead : bool
        The engine carries out nothing.
    loses : set of int
        Descriptors whose record cannot be written.
    registers : dict
        Fields that software wrote, by register, and those that the test wants it to read.
    """

    def __init__(
        self,
        config: EngineConfig | None = None,
        *,
        device_base=0,
        host_base=0x10000,
        memory_bytes=None,
    ):
        shape = config or EngineConfig()
        self.config = MachineConfig()
        self.units = shape.units
        self.sector_bytes = shape.codec.sector_bytes
        self.link_port_bytes = shape.host_bytes
        self.rings = shape.rings
        self.element_bytes = shape.codec.element_bytes
        self.codecs = shape.codec.codecs
        self.device = np.zeros(memory_bytes or MEMORY, np.uint8)
        self.host = np.zeros(memory_bytes or MEMORY, np.uint8)
        self.device_base = device_base
        self.host_base = host_base
        self.cycles = 0
        self.dead = False
        self.loses: set[int] = set()
        self._map = register_map(shape)
        self._names = {register.offset: name for name, register in self._map.items()}
        self.words = {name: register.reset for name, register in self._map.items()}
        self.interrupts = 0
        self._events: list[tuple[int, Callable[[], None]]] = []
        self._restart()

    # What software does

    def read_register(self, address: int) -> int:
        self.run(ACCESS_CYCLES)
        name = self._names[address]
        if name == "STATUS":
            idle = self.head == self.recorded == self.done_index() and not self._events
            return int(idle) | self.ring_error << 2
        live = {"RING_HEAD": self.head % 65536, "RING_DONE": self.done_index() % 65536}
        return live.get(name, self.words[name])

    def write_register(self, address: int, value: int) -> int:
        self.run(ACCESS_CYCLES)
        name = self._names[address]
        if name == "IRQ_STATUS":
            self.words[name] &= ~value
        elif name == "CONTROL":
            self._control(value)
        elif name == "WINDOW_LOCK":
            self.words[name] |= value & 1
        elif self._closed(name):
            raise RegisterError(f"write of {name} was answered with SLVERR")
        else:
            self.words[name] = value
        self._fetch()
        return self.cycles - 1

    def _closed(self, name: str) -> bool:
        """Whether a register refuses writes now."""
        closed = {field.closed for field in self._map[name].fields.values()}
        if closed == {None}:
            return False
        return bool(
            self.words["CONTROL"] & 1
            or (closed == {"windows_closed"} and self.words["WINDOW_LOCK"])
        )

    def _windows(self) -> Windows:
        """As the registers have them."""

        def long(name: str) -> int:
            return self.words[f"{name}_HI"] << 32 | self.words[f"{name}_LO"]

        found = {}
        for name, prefix in REGISTERS.items():
            base, last = long(f"{prefix}_BASE"), long(f"{prefix}_LAST") | (PAGE_BYTES - 1)
            found[name] = range(base, max(base, last + 1))
        return Windows(**found)

    def outstanding(self) -> str:
        return "nothing, it is a model"

    # Time

    def run(self, cycles: int) -> None:
        end = self.cycles + cycles
        while self._events and self._events[0][0] <= end:
            self.cycles, event = self._events.pop(0)
            event()
        self.cycles = end

    def run_until_irq(self, budget: int, *, line: int = 0) -> None:
        self._run_until(lambda: bool(self.words["IRQ_STATUS"] & self.words["IRQ_ENABLE"]), budget)
        self.interrupts += 1

    def run_until_word(self, address: int, budget: int, *, mask: int, unlike: int) -> int:
        def word() -> int:
            return int(self.host[address - self.host_base :][:4].view("<u4")[0])

        self._run_until(lambda: word() & mask != unlike, budget)
        return word()

    def _run_until(self, condition: Callable[[], bool], budget: int) -> None:
        for _ in range(budget):
            if condition():
                return
            self.run(1)
        raise HangError(self.cycles, "nothing came")

    # The engine

    def done_index(self) -> int:
        return self.recorded - self._unanswered

    def _restart(self) -> None:
        self.head = self.recorded = self._unanswered = 0
        self.ring_error = False
        self._events.clear()

    def _control(self, value: int) -> None:
        reset, abort, enable = value >> 2 & 1, value >> 1 & 1, value & 1
        self.words["CONTROL"] = enable
        if reset or abort:
            self._events.clear()
            self._unanswered = 0
            while self.recorded != self.head:
                self._end(self._descriptor(self.recorded), Status.ABORTED, 0, 0)
        if reset:
            self._restart()
            self.words["RING_TAIL"] = 0

    @property
    def _entries(self) -> int:
        return 1 << self.words["RING_SIZE"]

    def _descriptor(self, index: int):
        base = self.words["RING_BASE_HI"] << 32 | self.words["RING_BASE_LO"]
        start = base - self.host_base + ENTRY_BYTES * (index % self._entries)
        return self.host[start : start + ENTRY_BYTES].view(DESCRIPTOR_DTYPE)[0].copy()

    def _fetch(self) -> None:
        if self.dead or self.ring_error or not self.words["CONTROL"] & 1:
            return
        if (self.words["RING_TAIL"] - self.done_index()) % 65536 > self._entries:
            self._stop()
            return
        while self.head % 65536 != self.words["RING_TAIL"] and self.head < self.recorded + PREFETCH:
            self._after(COPY_CYCLES * (self.head + 1 - self.recorded), self._finish)
            self.head += 1

    def _after(self, cycles: int, event: Callable[[], None]) -> None:
        self._events.append((self.cycles + cycles, event))
        self._events.sort(key=lambda timed: timed[0])

    def _stop(self) -> None:
        self.ring_error = True
        self.words["IRQ_STATUS"] |= 4

    def _finish(self) -> None:
        d = self._descriptor(self.recorded)
        fields = {name: int(d[name]) for name in d.dtype.names}
        try:
            check(fields, self.element_bytes, self.codecs, self._windows())
            status, out_size, crc32 = self._copy(fields)
        except DescriptorError as error:
            status, out_size, crc32 = error.status, 0, 0
        result = self._result(fields) if status in (Status.OK, Status.OK_EXPANDED) else 0
        self._end(d, status, out_size, crc32, result)
        self._fetch()

    def _copy(self, d: dict[str, int]) -> tuple[Status, int, int]:
        codec = self._codec(d)
        device, host = (self.device, self.device_base), (self.host, self.host_base)
        if d["opcode"] == Opcode.FENCE:
            return Status.OK, 0, 0
        outward = d["opcode"] in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        (source, source_base), (target, target_base) = (device, host) if outward else (host, device)
        start = d["src"] - source_base
        size = d["src_length"] or d["length"]
        data = source[start : start + size]
        restored = data
        if d["opcode"] == Opcode.COMPRESS_OUT:
            # Lossy codecs know values.
            made = codec.compress(data if codec.lossless else data.view("<f4"))
            restored = data if codec.lossless else codec.decompress(made, data.size)
        elif d["opcode"] == Opcode.DECOMPRESS_IN:
            made = codec.decompress(data, d["length"])
        else:
            made = data
        raw = restored if outward else made
        crc32 = golden.crc32(raw)
        if d["flags"] & Flag.CHECK_CRC and d["crc32"] != crc32:
            return Status.CRC_MISMATCH, 0, crc32
        size = min(made.size, d["dst_capacity"])
        start = d["dst"] - target_base
        target[start : start + size] = made[:size]
        if size < made.size:
            # Not all was read, or expanded.
            return Status.DESTINATION_OVERFLOW, size, 0
        return Status.OK if made.size <= raw.size else Status.OK_EXPANDED, size, crc32

    def _codec(self, d: dict[str, int]) -> golden.Codec:
        entry = codec_of_number(d["codec"])
        values, place = {}, 0
        for name, bits in entry.parameters.items():
            values[name] = d["parameters"] >> place & ((1 << bits) - 1)
            place += bits
        return entry.model(entry.array_element_bytes(self.element_bytes), values)

    def _result(self, d: dict[str, int]) -> int:
        """The codec's result of what was compressed, packed."""
        entry = codec_of_number(d["codec"])
        if d["opcode"] != Opcode.COMPRESS_OUT or not entry.result:
            return 0
        start = d["src"] - self.device_base
        parts = entry.recorded_result(self.device[start : start + d["length"]])
        packed, place = 0, 0
        for name, bits in entry.result.items():
            packed |= parts[name] << place
            place += bits
        return packed

    def _end(self, d, status: Status, out_size: int, crc32: int, result: int = 0) -> None:
        if status not in (Status.OK, Status.OK_EXPANDED) and not self.words["IRQ_STATUS"] & 2:
            self.words["IRQ_STATUS"] |= 2
            self.words["ERROR_STATUS"] = int(status)
            self.words["ERROR_TAG"] = int(d["tag"])
        if self.recorded in self.loses:
            self.dead = True
            self._stop()
            self.head = self.recorded
            self._events.clear()
            return
        start = int(d["record"]) // 64 * 64 - self.host_base
        record = self.host[start : start + ENTRY_BYTES].view(RECORD_DTYPE)[0]
        record["status"] = status
        record["phase"] = self.recorded // self._entries % 2 == 0
        record["tag"] = d["tag"]
        record["out_size"] = out_size
        record["crc32"] = crc32
        record["result"] = result
        record["index"] = self.recorded % 65536
        self.recorded += 1
        self._unanswered += 1
        interrupt = bool(d["flags"] & Flag.INTERRUPT)
        self._after(RESPONSE_CYCLES, lambda: self._answered(interrupt))

    def _answered(self, interrupt: bool) -> None:
        self._unanswered -= 1
        if interrupt:
            self.words["IRQ_STATUS"] |= 1


def refuse_standstill(machine):
    """Let the test fail if software asks again and again for what has come already."""
    run_until_word = machine.run_until_word
    asked = {"cycle": -1, "times": 0}

    def watched(*arguments, **options):
        again = machine.cycles == asked["cycle"]
        asked.update(cycle=machine.cycles, times=asked["times"] + 1 if again else 0)
        assert asked["times"] < 100, "the driver loops while time stands still"
        return run_until_word(*arguments, **options)

    machine.run_until_word = watched
