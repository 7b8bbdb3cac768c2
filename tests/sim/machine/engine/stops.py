"""Faults in the middle of transfers among others, and the bursts that are asked for behind them."""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cdma.golden import LINE_BYTES, StreamStatus
from cdma.golden.formats.stream import ByteArray, Decoded
from cdma.golden.formats.xc.decoder import decode as decode_xc
from cdma.golden.formats.zvc import Zvc, decode
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.descriptor import Opcode, Status, TimeoutDetail
from cdma.hw.dma.reach import Reach, reach
from cdma.sim.driver import CompletionRecord, Transfer
from cdma.sim.machine import BusEvent, BusFault
from cdma.sim.machine.bus.bus import HOST
from tests.hw.codec.quantize.lines import golden as quantize_model
from tests.hw.codec.xc.lines import bf16_lines
from tests.hw.codec.xc.lines import golden as xc_model
from tests.sim.machine.engine.bench import TIMEOUT_CYCLES
from tests.sim.machine.engine.cases import (
    SMALL,
    WIDTH,
    Burst,
    Ending,
    Job,
    Shape,
)
from tests.sim.machine.engine.rings import Owner, RingsBench, rings_config
from tests.sim.machine.engine.test_aborts import check_aborted

CENTRE, PATTERN = 127, 0
K = 118
OUT, IN = Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN
COPY_OUT, COPY_IN = Opcode.COPY_OUT, Opcode.COPY_IN

VICTIM, BEFORE, BEHIND, BACK = 0, 4, 5, 6
"""Areas: the transfer that fails has four, as it is long."""

READ_KINDS = ("slverr", "decerr", "early-last", "late-last", "hang")
WRITE_KINDS = ("slverr", "decerr", "hang")
STREAM_KINDS = ("cut", "flipped", "longer")
DETAILS = {
    "slverr": BusError.SLVERR,
    "decerr": BusError.DECERR,
    "early-last": BusError.FRAMING,
    "late-last": BusError.FRAMING,
}


def _with_codecs(rings: int, units: int, *codecs: str) -> EngineConfig:
    codec = CodecConfig(element_bytes=1, codecs=("zvc", "raw", *codecs))
    return rings_config(rings, units=units, buffer_bytes=2048 * units, codec=codec)


CONFIGS: dict[str, EngineConfig] = {
    "two units": SMALL,
    "two rings": rings_config(2),
    "one unit": rings_config(1, units=1, buffer_bytes=2048),
    "three units and rings": rings_config(3, units=3, buffer_bytes=6144, split_lines=1),
    "chunks": rings_config(1, drain_beats=2, split_beats=2),
    "wide port": rings_config(1, host_bytes=128, read_buffer_bytes=4096),
    "narrow port": rings_config(1, host_bytes=8),
    "xc": _with_codecs(2, 2, "xc"),
    "quantize": _with_codecs(1, 1, "quantize"),
}


@dataclass(frozen=True)
class Cell:
    """A transfer that fails, between others.

    Attributes
    ----------
    config : str
        One of `CONFIGS`.
    shape : Shape
    codec : str
        "zvc", "xc", "quantize"; "raw" for copies.
    what : str
        "reads" or "writes" for a bus's answers; "stream", "capacity", "abort".
    kind : str
        Of a bus's answers a `BusFault`'s, of streams one of `STREAM_KINDS`.
    place : int
        Where in the transfer, in thirds of it.
    ring : int
        The ring to which it happens.
    """

    config: str
    shape: Shape
    codec: str
    what: str
    kind: str
    place: int
    ring: int

    def __str__(self) -> str:
        return (
            f"{self.kind} of the {self.what} after {self.place} thirds of {self.shape}, "
            f"{self.codec}, ring {self.ring} of {self.config}"
        )


@dataclass
class CodedJob(Job):
    """A transfer of an engine with elements of one byte, and with codecs beside ZVC.

    Attributes
    ----------
    codec : str
        As of `Cell`.
    """

    codec: str = field(kw_only=True)

    def _take(self, data: ByteArray) -> None:
        if not self.compressed or self.codec == "raw":
            super()._take(data)
            return
        rng = np.random.default_rng(self.shape.seed)
        length = self.shape.length
        model: Any = Zvc(1)
        if self.codec == "xc":
            model = xc_model(CENTRE, PATTERN)
            data = bf16_lines(rng, self.lines).reshape(-1)[:length].copy()
        elif self.codec == "quantize":
            model = quantize_model(K)
            values = rng.normal(size=length // 4).astype("<f4")
            data = model.decompress(model.compress(values), length)
        self.data = data
        array = data.view("<f4") if self.codec == "quantize" else data
        stream = model.compress(array)
        sizes = model.line_sizes(array)
        self.line_ends = [0, *np.minimum(np.cumsum(sizes), stream.size).tolist()]
        self.source, self.wanted = (data, stream) if self.outward else (stream, data)
        self._settle()

    def _settle(self) -> None:
        super()._settle()
        if self.compressed:
            number = line_codec(self.codec).number
            assert number is not None
            parameters = {"xc": CENTRE | PATTERN << 8, "quantize": K}.get(self.codec, 0)
            self.fields |= {"element_bytes": 1, "codec": number, "parameters": parameters}

    def valid_bytes(self, size: int) -> int:
        if not self.compressed:
            return size
        if self.codec == "quantize":
            # It takes a line as a whole.
            lines = sum(end <= size for end in self.line_ends) - 1
            return min(lines * LINE_BYTES, self.shape.length)
        return decoded(self, self.source[:size]).valid_bytes


def decoded(job: Job, stream: ByteArray, length: int | None = None) -> Decoded:
    """Decode a stream in the job's codec by its golden model."""
    nbytes = job.shape.length if length is None else length
    codec = getattr(job, "codec", "zvc")
    if codec == "xc":
        return decode_xc(stream, nbytes, xc_model(CENTRE, PATTERN).coding)
    return decode(stream, nbytes, 1 if isinstance(job, CodedJob) else 4)


class StopsBench(RingsBench):
    """Lets transfers fail among others, in all rings of an engine."""

    def __init__(self, name: str, *, stalls: float, seed: int = 0) -> None:
        config = CONFIGS[name]
        self.config = config
        self.reach: Reach = reach(config)
        super().__init__(
            config.rings, stalls=stalls, seed=seed, timeout_cycles=TIMEOUT_CYCLES, config=config
        )

    def job(self, owner: Owner, shape: Shape, slot: int, codec: str) -> Job:
        plain = owner.job(shape, slot)
        if self.config.codec.element_bytes == 4:
            return plain
        return CodedJob(shape, plain.units, plain.src, plain.dst, plain.host_bytes, codec=codec)

    # What happens

    def carry_out(self, cell: Cell) -> dict[str, float]:
        """Let it happen, and check everything; returns what was asked, of each bound."""
        try:
            return self._carry_out(cell)
        except Exception as error:
            error.add_note(f"cell: {cell}")
            raise

    def _carry_out(self, cell: Cell) -> dict[str, float]:
        self.remember()
        owner = self.owners[cell.ring]
        victim = self.job(owner, cell.shape, VICTIM, cell.codec)
        ending, faults, place = self._prepare(cell, victim)
        hangs = cell.kind == "hang"
        others = [] if hangs else [other for other in self.owners if other is not owner]
        loads = []
        for other in others:
            jobs = [
                self.job(other, _other(opcode, n + other.ring), n, "zvc")
                for n, opcode in enumerate((OUT, COPY_IN, IN))
            ]
            loads.append((other, jobs, self.submit(other, jobs)))
        before, behind = [], []
        if not hangs:
            before = [self.job(owner, _other(COPY_IN if victim.outward else OUT, 7), BEFORE, "zvc")]
            behind = [
                self.job(owner, _other(cell.shape.opcode, 8), BEHIND, cell.codec),
                self.job(owner, _other(IN if victim.outward else COPY_OUT, 9), BACK, "zvc"),
            ]
        jobs = [*before, victim, *behind]
        transfers = self.submit(owner, jobs)
        self.machine.set_faults(faults)
        self.machine.watch()
        for other in others:
            other.engine.doorbell()
        owner.engine.doorbell()
        start = self.machine.cycles
        if cell.what == "abort":
            self.machine.run(200 + 150 * cell.place)
            start = self.machine.cycles
            owner.engine.abort()
        self._check_transfers(owner, jobs, transfers, victim, ending, aborts=cell.what == "abort")
        for fault, delivered in zip(faults, self.machine.delivered_faults(), strict=True):
            assert delivered.times >= 1, f"{fault} did not happen"
        if hangs:
            start = self.machine.delivered_faults()[0].cycle + TIMEOUT_CYCLES
        self.machine.set_faults([])
        for other, other_jobs, other_transfers in loads:
            self.check(other, other_jobs, other_transfers)
        for each in self.owners:
            self.settle(each)
        # Another ring's record may be on its way still.
        self.machine.run_until_idle(2000)
        self.check_memory()
        owner.engine.clear_error()
        return self._check_reach(cell, victim, self.machine.events(), start, place)

    def _check_transfers(
        self,
        owner: Owner,
        jobs: Sequence[Job],
        transfers: Sequence[Transfer],
        victim: Job,
        ending: Ending | None,
        *,
        aborts: bool,
    ) -> None:
        for job, transfer in zip(jobs, transfers, strict=True):
            record = owner.engine.wait(transfer)
            if aborts and record.status is Status.ABORTED:
                check_aborted(job, record, may_hang=False)
            else:
                wanted = ending if job is victim and ending is not None else job.good()
                assert wanted.agrees(record), f"{job.shape}:\n{record} instead of\n{wanted}"
            self._check_right_bytes(job, record)

    def _check_right_bytes(self, job: Job, record: CompletionRecord) -> None:
        base = self.machine.host_base if job.outward else self.machine.device_base
        memory = self.machine.host if job.outward else self.machine.device
        got = memory[job.dst - base :][: record.out_size]
        right = job.wanted[: record.out_size]
        assert record.out_size <= job.capacity
        assert np.array_equal(got, right), f"{job.shape}: {record.out_size} bytes are not right"

    def _prepare(
        self, cell: Cell, job: Job
    ) -> tuple[Ending | None, list[BusFault], tuple[int, int]]:
        """Find how the transfer must end, its faults, and the place from which no byte is needed.

        That is a byte of what is read, and one of what is written.
        """
        if cell.what == "capacity":
            # Not at a line's end, and not in the last line.
            space = job.wanted.size * cell.place // 4 + 3
            job.capacity = space
            job.fields["dst_capacity"] = space
            ending = job.good()
            if job.outward:
                read = _bytes_before(job.device_reads(), job._whole_lines(space) + 1)
                return ending, [], (read, space)
            lines = min(space // LINE_BYTES + 1, job.lines)
            return ending, [], (job.line_ends[lines], _bytes_before(job.device_writes(), lines))
        if cell.what == "stream":
            return self._damage(cell, job)
        if cell.what == "abort":
            return None, [], (0, 0)
        writes = cell.what == "writes"
        at_host = job.outward == writes
        if writes:
            bursts = job.host_writes() if job.outward else job.device_writes()
        else:
            bursts = job.device_reads() if job.outward else job.host_reads()
        # Lines that follow each other may lie in the same beat; no fault is there.
        touched = Counter((b.port, address) for b in bursts for address in b.beat_addresses)
        hits = [
            (burst, address)
            for burst in bursts
            for address in burst.beat_addresses
            if touched[burst.port, address] == 1 and _can_be_hit(cell.kind, burst, address)
        ]
        burst, address = hits[min(len(hits) - 1, len(hits) * cell.place // 3)]
        port = HOST if at_host else burst.port
        # The first byte of the transfer that is there: another may end in the same beat.
        byte = max(address, job.dst if writes else job.src)
        fault = BusFault(port, "b" if writes else "r", cell.kind, addresses=(byte, byte + 1))
        if cell.kind == "hang":
            detail = TimeoutDetail.WRITE if writes else TimeoutDetail.READ
            status, code = Status.TIMEOUT, int(detail)
        else:
            status = Status.WRITE_ERROR if writes else Status.READ_ERROR
            code = DETAILS[cell.kind].value
        if writes:
            ending = job.destination_fails(status, code, burst)
        else:
            at = burst.beat_addresses[-1] if cell.kind == "late-last" else address
            ending = job.source_fails(status, code, burst, at)
        return ending, [fault], (0, 0)

    def _damage(self, cell: Cell, job: Job) -> tuple[Ending, list[BusFault], tuple[int, int]]:
        """Another stream in the place of the right one."""
        stream = job.source.copy()
        line = min(job.lines - 1, job.lines * cell.place // 3)
        at = job.line_ends[line]
        if cell.kind == "cut":
            stream = stream[: max(1, at)]
        elif cell.kind == "longer":
            stream = np.concatenate([stream, np.full(40 + 900 * cell.place, 0x55, np.uint8)])
        else:
            stream[at : job.line_ends[line + 1]] = 0xFF
            stream[(at + job.line_ends[line + 1]) // 2] = 0
        found = decoded(job, stream)
        job.source = stream
        job.fields["src_length"] = stream.size
        job.wanted = found.data
        worst = -(-job.shape.length // LINE_BYTES) * self.config.codec.worst_line_bytes
        most = min(stream.size, worst + self.config.codec.element_bytes)
        if found.status == StreamStatus.OK:
            # The damage gave another good stream.
            ending = Ending(
                status=Status.OK,
                src_done=most,
                out_size=job.shape.length,
                crc32=zlib.crc32(found.data),
            )
            return ending, [], (stream.size, _bytes_before(job.device_writes(), job.lines))
        truncated = found.status in (
            StreamStatus.MASK_TRUNCATED,
            StreamStatus.PAYLOAD_TRUNCATED,
        )
        ending = Ending(
            status=Status.STREAM_TRUNCATED if truncated else Status.STREAM_CORRUPT,
            detail=found.status,
            src_done=most,
            least_src_done=min(found.offset, most),
            out_size=found.valid_bytes,
            fault_address=found.offset,
        )
        written = _bytes_before(job.device_writes(), found.valid_bytes // LINE_BYTES + 1)
        return ending, [], (found.offset, written)

    # What was asked of the buses

    def _check_reach(
        self,
        cell: Cell,
        job: Job,
        events: Sequence[BusEvent],
        start: int,
        place: tuple[int, int],
    ) -> dict[str, float]:
        bound = self.reach
        widths = (WIDTH, job.host_bytes) if job.outward else (job.host_bytes, WIDTH)
        source = range(job.src // widths[0] * widths[0], job.src + job.source.size)
        target = range(job.dst // widths[1] * widths[1], job.dst + max(1, job.capacity))
        asked = {}
        for name, kind, there in (("reads", "read", source), ("writes", "write", target)):
            asked[name] = [
                event
                for event in events
                if event.kind == kind
                and event.address in there
                and (event.port == HOST) == (job.outward == (name == "writes"))
            ]
        if cell.what in ("capacity", "stream"):
            read = _bytes(asked["reads"], widths[0]) - place[0]
            written = _bytes(asked["writes"], widths[1]) - place[1]
            if job.outward:
                # Nothing is written behind the capacity.
                beyond = 2 * job.host_bytes
                return _within(reads=(read, bound.out_reads_beyond), writes=(written, beyond))
            return _within(reads=(read, bound.in_reads_beyond), writes=(written, bound.in_writes))
        fails = [event.cycle for event in events if event.kind.endswith("failed")]
        known = fails[0] if fails else start
        read = _bytes([event for event in asked["reads"] if event.cycle > known], widths[0])
        written = _bytes([event for event in asked["writes"] if event.cycle > known], widths[1])
        of_write = cell.what == "writes"
        if job.outward:
            return _within(
                reads=(read, bound.out_reads),
                writes=(written, bound.out_writes if of_write else bound.out_writes_owed),
            )
        if of_write:
            return _within(reads=(read, bound.in_reads_beyond), writes=(written, bound.in_writes))
        return _within(reads=(read, bound.in_reads))


def _can_be_hit(kind: str, burst: Burst, address: int) -> bool:
    if kind == "early-last":
        return address != burst.beat_addresses[-1]
    return True


def _other(opcode: Opcode, seed: int) -> Shape:
    """A good transfer beside the one that fails."""
    length = 1100 + 4 * seed
    return Shape(opcode=opcode, length=length, src=0x64, dst=0xFB4, density=0.4, seed=seed)


def _bytes_before(bursts: Sequence[Burst], lines: int) -> int:
    """Count the bytes of bursts for the first lines."""
    return sum(burst.beats * burst.width for burst in bursts if burst.line < lines)


def _bytes(events: Sequence[BusEvent], width: int) -> int:
    return sum(event.beats for event in events) * width


def _within(**counts: tuple[int, int]) -> dict[str, float]:
    for name, (count, most) in counts.items():
        assert count <= most, f"{name} of {count} bytes behind the error, at most {most} expected"
    return {name: max(0, count) / most for name, (count, most) in counts.items()}


def cells(
    config: str, lengths: Sequence[int], offsets: Sequence[tuple[int, int]]
) -> Iterator[Cell]:
    """Each kind of fault at four places of each kind of transfer."""
    shape = CONFIGS[config]
    codecs = [name for name in shape.codecs if name != "raw"]
    operations = [(opcode, codec) for codec in codecs for opcode in (OUT, IN)]
    operations += [(COPY_OUT, "raw"), (COPY_IN, "raw")]
    count = 0
    for length in lengths:
        for opcode, codec in operations:
            kinds = [("reads", kind) for kind in READ_KINDS]
            # Where no write of host memory is answered, no record can be told of, either.
            hangs_at_host = opcode in (OUT, COPY_OUT)
            kinds += [("writes", kind) for kind in WRITE_KINDS[: 2 if hangs_at_host else 3]]
            kinds += [("capacity", "end"), ("abort", "abort")]
            if opcode is IN and codec != "quantize":
                kinds += [("stream", kind) for kind in STREAM_KINDS]
            for what, kind in kinds:
                for place in range(4):
                    for src, dst in offsets:
                        count += 1
                        drawn = Shape(
                            opcode=opcode,
                            length=length,
                            src=src,
                            dst=dst,
                            density=(0.1, 0.5, 0.9)[count % 3],
                            seed=count % 5,
                        )
                        yield Cell(config, drawn, codec, what, kind, place, count % shape.rings)
