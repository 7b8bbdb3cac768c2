"""The engine's bench: descriptors for both directions, and the memories that come of them."""

import zlib
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Shape

from cdma.golden import LINE_BYTES
from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.codec.interface import LineCodec
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import (
    DESCRIPTOR_DTYPE,
    RECORD_DTYPE,
    Flag,
    Opcode,
    Status,
)
from cdma.hw.dma.control.registers import register_source
from cdma.hw.dma.limits import ENTRY_BYTES, HOST_BURST_BEATS
from cdma.hw.emit.bench.files import Bench, hex_rows, source
from cdma.hw.emit.reset import Reset
from cdma.hw.lib.clocks.async_fifo import RESET_CYCLES
from cdma.hw.registers.map import RegisterSource, in_page, pages, register_map
from cdma.hw.registers.map import address_bits as register_address_bits

_SEED = 1
_LOG2_ENTRIES = 4
_MEMORY_BURST_BEATS = 8
_LONGEST_CYCLES = 20_000
_LONGEST_CYCLES_OF_TWO_CLOCKS = 100_000
"""As a slow host needs."""
_GUARD_BYTES = 64
_MEMORY_BYTES = 16384
_BOUND = 2.0**-6
"""Of the errors of lossy codecs."""
_WRITE, _READ, _WAIT_FOR_IRQ, _WAIT_FOR_NO_IRQ = range(4)
_HOST_HALF_NS = 3.701
"""Half of the host's period, where half of the engine's is 5 ns: edges meet at ever other times."""
_HOST_CLOCK = f"""
  // The host's clock has no simple ratio to clk; any other one must do as well. Both resets come
  // from rst, last for some cycles of both clocks, and each ends with its own clock.
  localparam real HOST_HALF = {_HOST_HALF_NS};  // ns
  reg host_clk = 1'b0;
  reg [1:0] host_rsts = 2'b11;
  wire host_rst = host_rsts[1];
  integer host_cycles = 0;
  always #(HOST_HALF) host_clk = !host_clk;
  always @(posedge host_clk) begin
    host_rsts <= {{host_rsts[0], rst}};
    host_cycles <= host_cycles + 1;
  end
"""
_TEST_ENABLE = """
  // Stopped clocks go on with +test_enable, and nothing else differs.
  reg test_enable;
  initial test_enable = $test$plusargs("test_enable") != 0;
"""
_IGNORED = ("lock", "cache", "prot", "qos", "user")
"""Pins of an address channel that the bench's memory does without."""


class _Memory:
    """A memory before and after the run, random where nothing is placed.

    Attributes
    ----------
    before, after : uint8 (_MEMORY_BYTES,)
    matters : bool (_MEMORY_BYTES,)
        False where the content in the end is not known.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self.before = random.integers(0, 256, _MEMORY_BYTES, np.uint8)
        self.after = self.before.copy()
        self.matters = np.ones(_MEMORY_BYTES, bool)
        self._next = 0

    def reserve(self, nbytes: int, *, multiple: int) -> int:
        """Return an address for so many bytes, with guards around, odd beyond that multiple."""
        base = -(-(self._next + _GUARD_BYTES) // ENTRY_BYTES) * ENTRY_BYTES
        address = base if multiple == ENTRY_BYTES else base + 3 * multiple
        self._next = address + nbytes
        if self._next > _MEMORY_BYTES:
            raise ValueError(f"the bench's memory of {_MEMORY_BYTES} bytes is too small")
        return address

    def place(self, address: int, content: bytes) -> None:
        """Have this content there from the beginning."""
        for image in (self.before, self.after):
            image[address : address + len(content)] = np.frombuffer(content, np.uint8)

    def expect(self, address: int, content: bytes) -> None:
        """Have this content there in the end."""
        self.after[address : address + len(content)] = np.frombuffer(content, np.uint8)


class _Program:
    """Descriptors, and what they leave in both memories."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.random = np.random.default_rng(_SEED)
        self.device = _Memory(self.random)
        self.host = _Memory(self.random)
        self.ring = self.host.reserve(ENTRY_BYTES << _LOG2_ENTRIES, multiple=ENTRY_BYTES)
        self.count = 0
        self.first_error = Status.IN_PROGRESS

    def tensor(self, nbytes: int, density: float) -> bytes:
        """Return bytes of elements of which about that part is not zero."""
        element = self.config.codec.element_bytes
        values = self.random.integers(1, 256, nbytes, np.uint8)
        keep = self.random.random(-(-nbytes // element)) < density
        kept = np.repeat(keep, element)[:nbytes]
        return np.where(kept, values, np.uint8(0)).astype(np.uint8).tobytes()

    def numbers(self, count: int) -> bytes:
        """Return so many numbers of fp32 around 0, some infinite, for lossy codecs."""
        values = self.random.normal(size=count).astype(np.float32)
        values[self.random.random(count) < 0.01] = np.inf
        return values.tobytes()

    def add(self, status: Status, record: dict[str, int], *, unknown: bool, **fields: int) -> None:
        """Add a descriptor and its record; the record's `result` is not known if `unknown`."""
        place = self.host.reserve(ENTRY_BYTES, multiple=ENTRY_BYTES)
        descriptor = np.zeros(1, DESCRIPTOR_DTYPE)
        expected = np.zeros(1, RECORD_DTYPE)
        known = np.zeros(1, RECORD_DTYPE)
        tag = 0xA500 + self.count
        for name, value in {**fields, "tag": tag, "record": place}.items():
            descriptor[name] = value
        values = {**record, "tag": tag, "status": status, "phase": 1, "index": self.count}
        for name, value in values.items():
            expected[name] = value
        # The record's `cycles` depend on the memories.
        for name in ("cycles", *(("result",) if unknown else ())):
            known[name] = (1 << 8 * RECORD_DTYPE[name].itemsize) - 1
        self.host.place(self.ring + ENTRY_BYTES * self.count, descriptor.tobytes())
        self.host.expect(place, expected.tobytes())
        hidden = np.frombuffer(known.tobytes(), np.uint8) != 0
        self.host.matters[place : place + ENTRY_BYTES] &= ~hidden
        if status not in (Status.OK, Status.OK_EXPANDED) and not self.first_error:
            self.first_error = status
        self.count += 1

    def move(
        self,
        opcode: Opcode,
        data: bytes,
        *,
        codec: LineCodec | None = None,
        src: int | None = None,
        flags: int = 0,
        crc_error: int | None = None,
    ) -> int:
        """Add a transfer of uncompressed bytes and return where they come, as they are there.

        Parameters
        ----------
        opcode, flags
            As in the descriptor; CHECK_CRC is added with `crc_error`.
        data
            The uncompressed bytes.
        codec
            What compresses them, if they are compressed at the host.
        src
            The address where a descriptor before this one has brought them; they are placed in the
            memory if not given.
        crc_error
            Bits of the expected CRC-32 that are wrong.
        """
        shape = self.config.codec
        outward = opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        at_host, back, parameters = data, data, 0
        if codec is not None:
            given = {} if codec.lossless else codec.bounded_parameters(_BOUND)
            values = codec.all_parameters(given)
            model = codec.model(codec.array_element_bytes(shape.element_bytes), values)
            dtype = np.uint8 if codec.lossless else np.float32
            stream = model.compress(np.frombuffer(data, dtype))
            at_host, back = stream.tobytes(), model.decompress(stream, len(data)).tobytes()
            parameters = codec.packed_parameters(values)
        taken, left = (data, at_host) if outward else (at_host, back)
        origin, target = (self.device, self.host) if outward else (self.host, self.device)
        if src is None:
            src = origin.reserve(len(taken), multiple=shape.element_bytes)
            origin.place(src, taken)
        dst = target.reserve(len(left), multiple=shape.element_bytes)
        target.expect(dst, left)
        # Of what comes back, in both directions.
        own = zlib.crc32(back)
        status = Status.OK_EXPANDED if outward and len(left) > len(data) else Status.OK
        if crc_error is not None:
            flags |= Flag.CHECK_CRC
            if crc_error:
                status = Status.CRC_MISMATCH
        self.add(
            status,
            {"src_done": len(taken), "out_size": len(left), "crc32": own},
            unknown=codec is not None and codec.result_bits > 0,
            opcode=opcode,
            codec=codec.number or 0 if codec is not None else 0,
            element_bytes=shape.element_bytes if codec is not None else 0,
            flags=flags,
            src=src,
            dst=dst,
            length=len(data),
            crc32=0 if crc_error is None else own ^ crc_error,
            dst_capacity=len(left),
            src_length=len(taken) if opcode is Opcode.DECOMPRESS_IN else 0,
            parameters=parameters,
        )
        return dst

    def fence(self, flags: int = 0) -> None:
        """Add a fence."""
        self.add(Status.OK, {}, unknown=False, opcode=Opcode.FENCE, flags=flags)


def _program(config: EngineConfig) -> _Program:
    """All operations: out, and behind a fence back in from where they came out; then an error."""
    program = _Program(config)
    codecs = [entry for entry in config.codec.entries if entry.number is not None]
    sparse = program.tensor(1210, 0.3)
    dense = program.tensor(300, 1.0) if codecs[0].lossless else program.numbers(75)
    copied = program.move(Opcode.COPY_OUT, sparse)
    data = [sparse if codec.lossless else program.numbers(300) for codec in codecs]
    streams = [
        program.move(Opcode.COMPRESS_OUT, one, codec=codec)
        for one, codec in zip(data, codecs, strict=True)
    ]
    program.move(Opcode.COMPRESS_OUT, dense, codec=codecs[0], flags=Flag.VERIFY)
    program.fence()
    program.move(Opcode.COPY_IN, sparse, src=copied)
    for one, codec, src in zip(data, codecs, streams, strict=True):
        program.move(Opcode.DECOMPRESS_IN, one, codec=codec, src=src, crc_error=0)
    program.move(Opcode.DECOMPRESS_IN, dense, codec=codecs[0])
    program.move(Opcode.DECOMPRESS_IN, dense, codec=codecs[0], crc_error=1)
    program.fence(Flag.INTERRUPT)
    return program


@dataclass(frozen=True)
class _Bus:
    """AXI4 ports of the engine that one memory of the bench serves, by their prefixes."""

    memory: str
    prefixes: tuple[str, ...]
    signature: Axi4Signature

    def pins(self) -> list[tuple[str, int]]:
        """Names and widths of all pins of a port that the bench has."""
        return [
            (name, Shape.cast(member.shape).width)
            for name, member in self.signature.members.items()
            if name[2:] not in _IGNORED
        ]

    def wires(self) -> str:
        """Declarations of the nets, those of all ports side by side."""
        return "\n".join(
            f"  wire [{len(self.prefixes) * width - 1}:0] {self.memory}_{name};"
            for name, width in self.pins()
        )

    def memory_ports(self) -> str:
        """Connections of the memory."""
        return ",\n".join(f"    .{name}({self.memory}_{name})" for name, _ in self.pins())

    def engine_ports(self) -> list[str]:
        """Connections of the engine."""
        return [
            *(
                f"    .{prefix}_{name}({self.memory}_{name}[{index * width}+:{width}])"
                for index, prefix in enumerate(self.prefixes)
                for name, width in self.pins()
            ),
            *(
                f"    .{prefix}_{channel}{name}()"
                for prefix in self.prefixes
                for channel in ("aw", "ar")
                for name in _IGNORED
                if channel + name in self.signature.members
            ),
        ]


def engine_bench(config: EngineConfig, name: str, reset: Reset) -> Bench | None:
    """Return the engine's bench, if the golden models have lines of its size.

    All descriptors are in the last ring, whose page of registers lies farthest.
    """
    if config.codec.line_bytes != LINE_BYTES:
        return None
    program = _program(config)
    registers = register_source(config)
    address_bits = register_address_bits(registers)
    steps = _steps(registers, program)
    sector_bytes, host_bytes = config.codec.sector_bytes, config.host_bytes
    device = _Bus(
        "device",
        tuple(f"m_axi_mem{unit}" for unit in range(config.units)),
        Axi4Signature(
            sector_bytes,
            config.device_address_bits,
            config.device_id_bits,
            config.stream_id_bits,
        ),
    )
    host = _Bus(
        "host",
        ("m_axi_host",),
        Axi4Signature(
            host_bytes, config.host_address_bits, config.host_id_bits, config.stream_id_bits
        ),
    )
    clocking = f".clk(clk), {reset.connection('rst')}"
    if config.host_clock:
        host_clocking = ".clk(host_clk), .rst(host_rst)"
        clocking += f", .host_clk(host_clk), {reset.connection('host_rst', 'host_clk')}"
        least = RESET_CYCLES + 1
        reset_over = f"cycles >= {least} && host_cycles >= {least}"
    else:
        host_clocking, reset_over = ".clk(clk), .rst(rst)", "cycles == 4"
    if config.clock_gates:
        clocking += ", .test_enable(test_enable)"
    values = {
        "name": name,
        "clocking": clocking,
        "host_clock": _HOST_CLOCK if config.host_clock else "",
        "host_clocking": host_clocking,
        "test_enable": _TEST_ENABLE if config.clock_gates else "",
        "reset_over": reset_over,
        "units": config.units,
        "device_size": _MEMORY_BYTES,
        "host_size": _MEMORY_BYTES,
        "steps": len(steps),
        "address_bits": address_bits,
        "rings": config.rings,
        "ring": config.rings - 1,
        "descriptors": program.count,
        "longest": _LONGEST_CYCLES_OF_TWO_CLOCKS if config.host_clock else _LONGEST_CYCLES,
        "sector_bytes": sector_bytes,
        "host_bytes": host_bytes,
        "device_address_bits": config.device_address_bits,
        "host_address_bits": config.host_address_bits,
        "device_id_bits": config.device_id_bits,
        "host_id_bits": config.host_id_bits,
        "device_burst": _MEMORY_BURST_BEATS,
        "host_burst": HOST_BURST_BEATS,
        "wires": f"{device.wires()}\n{host.wires()}",
        "device_ports": device.memory_ports(),
        "host_ports": host.memory_ports(),
        "dut_ports": ",\n".join(device.engine_ports() + host.engine_ports()),
    }
    return Bench(
        top=f"{name}_tb",
        sources={
            f"{name}_tb.sv": source("engine_tb.sv", values),
            f"{name}_tb_memory.sv": source("axi_memory.sv", values),
        },
        vectors={
            f"{name}_program.hex": hex_rows(steps, 36 + address_bits),
            f"{name}_device.hex": hex_rows(program.device.before.tolist(), 8),
            f"{name}_host.hex": hex_rows(program.host.before.tolist(), 8),
            f"{name}_device_after.hex": hex_rows(_after(program.device), 9),
            f"{name}_host_after.hex": hex_rows(_after(program.host), 9),
        },
    )


def _after(memory: _Memory) -> list[int]:
    rows: list[int] = (memory.after + (memory.matters.astype(np.uint16) << 8)).tolist()
    return rows


def _steps(source: RegisterSource, program: _Program) -> list[int]:
    """Accesses to registers: what starts the engine, and what it must show in the end."""
    registers = register_map(source)
    page = pages(source)[-1]
    operation_at = 32 + register_address_bits(source)
    error = 2 if program.first_error else 0

    def step(operation: int, register: str = "ID", value: int = 0) -> int:
        offset = registers[in_page(page, register)].offset
        return operation << operation_at | offset << 32 | value

    return [
        *(
            step(_READ, name, registers[in_page(page, name)].reset)
            for name in ("ID", "VERSION", "CONFIG0", "CONFIG1")
        ),
        step(_WRITE, "RING_BASE_LO", program.ring),
        step(_WRITE, "RING_BASE_HI", 0),
        step(_WRITE, "RING_SIZE", _LOG2_ENTRIES),
        step(_READ, "RING_SIZE", _LOG2_ENTRIES),
        # Only `done`, which the last descriptor raises, when all others have their records.
        step(_WRITE, "IRQ_ENABLE", 1),
        step(_WRITE, "CONTROL", 1),
        step(_WRITE, "RING_TAIL", program.count),
        step(_WAIT_FOR_IRQ),
        step(_READ, "RING_HEAD", program.count),
        step(_READ, "RING_DONE", program.count),
        step(_READ, "IRQ_STATUS", 1 | error),
        step(_READ, "ERROR_STATUS", int(program.first_error)),
        step(_WRITE, "IRQ_STATUS", 1 | error),
        step(_WAIT_FOR_NO_IRQ),
        step(_READ, "IRQ_STATUS", 0),
    ]
