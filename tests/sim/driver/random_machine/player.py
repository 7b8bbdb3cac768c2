"""Plays steps of a random program on driver and engine, and holds both to the model."""

import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.stream import ByteArray, crc32
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status, WindowDetail
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.plan.platform.throttles import Throttle
from cdma.sim.driver import (
    Buffer,
    BusyError,
    ConcurrentUseError,
    CopyKind,
    DescriptorError,
    DriverError,
    DroppedError,
    Engine,
    FirstError,
    OutOfMemoryError,
    OverlapError,
    RingError,
    RingFullError,
    StuckError,
    Transfer,
    Windows,
)
from cdma.sim.machine import BusFault, Machine
from cdma.sim.machine.bus.bus import HOST as HOST_PORT
from tests.hw.codec.xc.lines import codings, elements_of
from tests.sim.driver.random_machine.misuse import misuses
from tests.sim.driver.random_machine.model import (
    DEVICE,
    HOST,
    Format,
    MemoryModel,
    Outcome,
    compressed,
    copied,
    draw_damage,
    draw_data,
    expanded,
    refused,
)
from tests.sim.driver.random_machine.setups import DEVICE_BYTES, HOST_BYTES, Setup, rtl

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
STOPPED = (RingError, StuckError)
PATIENCE_CYCLES = 5_000
"""The driver's is eighty times that, which nothing but tests of hangs would take."""
GOOD = (Status.OK, Status.OK_EXPANDED)
MOST_CYCLES = 1_000_000
"""A run takes some ten thousand; one that takes this many does not end."""
INTEGERS = (int, int, int, np.int64, np.uint32, np.uint16)
"""Types that a number may have when it is given to the driver."""

NUMBERS = {"zvc": 0, "xc": 1, "xc-fp16": 3, "xc-e4m3": 4, "xc-e5m2": 5, "xc-fp32": 6}
"""What descriptors call the codecs."""


class MismatchError(AssertionError):
    """Driver or engine and the model disagree."""


def require(condition: object, message: str) -> None:
    if not condition:
        raise MismatchError(message)


def in_another_thread(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """The results of calls, one after the other; of one that raises an error, that."""
    results: list[Any] = []

    def run() -> None:
        for call in calls:
            try:
                results.append(call())
            except BaseException as error:
                results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results


@dataclass(eq=False)
class Piece:
    """A buffer, as the model has it.

    Attributes
    ----------
    buffer : Buffer
        The driver's.
    memory : str
    address, nbytes : int
        As they were when it was allocated.
    stream : tuple of (offset, size, length, Format), optional
        The stream that lies in it.
    """

    buffer: Buffer
    memory: str
    address: int
    nbytes: int
    stream: tuple[int, int, int, Format] | None = None

    def __str__(self) -> str:
        return f"{self.memory}[{self.address:#x}:{self.address + self.nbytes:#x}]"


@dataclass(frozen=True)
class Region:
    """Addresses of a memory."""

    memory: str
    address: int
    nbytes: int

    def meets(self, other: "Region") -> bool:
        return (
            self.memory == other.memory
            and self.nbytes > 0
            and other.nbytes > 0
            and self.address < other.address + other.nbytes
            and other.address < self.address + self.nbytes
        )


NOWHERE = Region(HOST, 0, 0)


@dataclass(eq=False)
class Awaited:
    """A transfer whose record the driver has not shown.

    Attributes
    ----------
    transfer : Transfer
    index, tag : int
    reads, writes : Region
        Empty ones for a fence, and for a descriptor that is refused.
    outcome : callable
        What should come of it, by the bytes that it reads; None for those that are unknown.
    aborted : bool
        An abort or a reset may have ended it.
    lost : bool
        The ring stopped, or all was reset while it was in flight: it may have no record, and its
        destination may hold anything.
    pieces : tuple of Piece
    source : Region
        All that the driver was told to read from, which may be more than is read.
    streams_to : tuple of (Piece, offset, length, Format), optional
        Where a stream of so many bytes of data will be.
    fenced : bool
        Those that are submitted now begin when it has ended.
    """

    transfer: Transfer
    index: int
    tag: int
    reads: Region
    writes: Region
    outcome: Callable[[ByteArray], Outcome]
    pieces: tuple[Piece, ...] = ()
    source: Region = NOWHERE
    streams_to: tuple[Piece, int, int, Format] | None = None
    fenced: bool = False
    aborted: bool = False
    lost: bool = False

    def __str__(self) -> str:
        return str(self.transfer)


@dataclass
class Episode:
    """Trouble that was made since the engine was last at rest.

    Attributes
    ----------
    statuses : set of Status
        Those that faults which have hit may lead to.
    hits : int
        Of faults that hit once.
    failures : int
        Records that tell of a failure, of whatever kind.
    excused : bool
        Something has hidden what the faults lead to, as a reset does.
    """

    statuses: set[Status] = field(default_factory=set)
    hits: int = 0
    failures: int = 0
    excused: bool = False


class Player:
    """A machine, its driver and the model of both, which steps are played on.

    Parameters
    ----------
    setup : Setup
    log : list of str
        What was done, for people, is appended to it.
    """

    def __init__(self, setup: Setup, log: list[str]) -> None:
        self.setup = setup
        self.log = log
        config = setup.config
        self.element_bytes = config.codec.element_bytes
        # More of a stream than lines of this size is not read.
        masks = LINE_BYTES // self.element_bytes // 8
        heads = {"zvc": masks, "raw": 0, "xc-fp32": 2}
        self.worst_line_bytes = LINE_BYTES + max(heads.get(name, 1) for name in config.codecs)
        self.machine = Machine(
            rtl(config),
            setup.environment,
            device_bytes=DEVICE_BYTES,
            host_bytes=HOST_BYTES,
            device_base=setup.device_base,
            host_base=setup.host_base,
            stalls=setup.stalls,
            seed=setup.seed,
            sleep=setup.sleep,
            host_clock_hz=setup.host_clock_hz,
        )
        numbers = np.random.default_rng(setup.seed)
        for array in (self.machine.device, self.machine.host):
            array[:] = numbers.integers(0, 256, array.size, np.uint8)
        self.engine = Engine(self.machine, **setup.options)  # type: ignore[arg-type]
        self.engine._waiter.patience_cycles = PATIENCE_CYCLES
        windows = setup.options.get("windows")
        self.windows = windows if isinstance(windows, Windows) else Windows()
        self.entries = int(setup.options["ring_entries"])  # type: ignore[call-overload]
        self.interrupts = bool(setup.options["interrupts"])
        self.ring_base = self.engine.registers.read_long("RING_BASE")
        self.memories = {DEVICE: self.engine.device, HOST: self.engine.host}
        self.models = {
            DEVICE: MemoryModel(self.machine.device, setup.device_base),
            HOST: MemoryModel(self.machine.host, setup.host_base),
        }
        self.initially_free = {name: memory.free_bytes for name, memory in self.memories.items()}
        first = self.engine.fence()
        self.record_base = first.fields["record"]
        # Of what the driver keeps for itself the model knows nothing.
        self.own = [
            Region(HOST, self.ring_base, ENTRY_BYTES * self.entries),
            Region(HOST, self.record_base, ENTRY_BYTES * self.entries),
        ]
        for region in self.own:
            self.models[HOST].forget(region.address, region.nbytes)
        self.engine.wait(first)
        self.pieces: list[Piece] = []
        self.freed: list[Piece] = []
        self.awaited: list[Awaited] = []
        self.submitted = 1
        self.armed: list[BusFault] = []
        self.episode = Episode()
        self.first_error: FirstError | None = None
        self.errors_known = True
        # Where a burst that was given up may still arrive, since its data was on the bus before.
        self.late: list[Region] = []
        self.intruding = False
        self.threaded = False
        self._refuse_standstill()

    def close(self) -> None:
        self.engine.close()
        self.machine.close()

    # Playing

    def play(self, name: str, seed: int) -> None:
        """One step. What it does in particular depends on the seed and on what there is."""
        getattr(self, f"_{name}")(Random(seed))
        self.check()

    def finish(self) -> None:
        """Let all end, see that nothing is left, and that the engine is well."""
        self._come_to_rest("the end")
        device = self._allocated(DEVICE, 400, self.windows.device)
        host = self._allocated(HOST, 800, self.windows.host)
        back = self._allocated(DEVICE, 400, self.windows.device)
        if device and host and back:
            data = draw_data(Random(1), 400, self.element_bytes)
            self._fill(device, 0, data)
            for dst, src, kind in ((host, device, OUT), (back, host, IN)):
                self._submit(dst, 0, 400, src, 0, 400, 400, kind, None, {})
                self._wait_all(Random(0))
                self.check()
            require(np.array_equal(back.buffer.array, data), "the last round trip fails")
        for piece in list(self.pieces):
            self.memories[piece.memory].free(piece.buffer)
            self.pieces.remove(piece)
        for name, memory in self.memories.items():
            require(memory.free_bytes == self.initially_free[name], f"{name} memory leaks")

    def check(self) -> None:
        """Take the records that the driver has shown, and compare all memory."""
        self._absorb()
        require(self.engine.pending == len(self.awaited), "the driver counts other transfers")
        require(self.machine.cycles < MOST_CYCLES, "the run does not end")
        for name, actual in ((DEVICE, self.machine.device), (HOST, self.machine.host)):
            model = self.models[name]
            wrong = actual != model.bytes
            wrong &= ~model.unknown
            for region in (*(one.writes for one in self.awaited), *self.late):
                if region.memory == name:
                    wrong[model.place(region.address, region.nbytes)] = False
            if wrong.any():
                places = np.flatnonzero(wrong)
                raise MismatchError(
                    f"{places.size} bytes of {name} memory are wrong, from "
                    f"{model.base + int(places[0]):#x} to {model.base + int(places[-1]):#x}; in "
                    f"flight: {', '.join(map(str, self.awaited)) or 'nothing'}"
                )

    # What the driver is asked

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        """The result of a call of the driver, or its error; in another thread if that is due."""
        if not self.threaded:
            try:
                return call()
            except DriverError as error:
                return error
        self.threaded = False
        self.log[-1] += " in another thread"
        (result,) = in_another_thread([call])
        if isinstance(result, BaseException) and not isinstance(result, DriverError):
            raise result
        return result

    def _note(self, text: str) -> None:
        self.log.append(text)

    def _alloc(self, rng: Random) -> None:
        name = rng.choice((DEVICE, HOST))
        nbytes = rng.choice((1, 4, 64, 127, 128, 500, 1024, 2500, 4096, 9000, 40_000))
        window = getattr(self.windows, name) if rng.random() < 0.8 else None
        self._allocated(name, nbytes, window, 1 << rng.choice((0, 2, 5, 7, 7, 12)), rng)

    def _allocated(
        self,
        name: str,
        nbytes: int,
        window: range | None,
        alignment: int = LINE_BYTES,
        rng: Random | None = None,
    ) -> Piece | None:
        self._note(f"alloc {nbytes} of {name} at multiples of {alignment} within {window}")
        memory = self.memories[name]
        size = nbytes if rng is None else rng.choice(INTEGERS)(nbytes)
        given = self._call("alloc", lambda: memory.alloc(size, alignment=alignment, within=window))
        place = self._first_fit(name, nbytes, alignment, window)
        if place is None:
            require(isinstance(given, OutOfMemoryError), f"{given!r}, but there is no room")
            return None
        require(isinstance(given, Buffer), f"alloc gives {given!r}, but {place:#x} is free")
        require(
            (given.address, given.nbytes) == (place, nbytes),
            f"alloc gives {given!r}, not the first fit, {place:#x}",
        )
        piece = Piece(given, name, place, nbytes)
        self.pieces.append(piece)
        return piece

    def _first_fit(
        self, name: str, nbytes: int, alignment: int, window: range | None
    ) -> int | None:
        """The lowest address at which nothing else lies."""
        model = self.models[name]
        low, high = model.base, model.base + model.bytes.size
        if window is not None:
            low, high = max(low, window.start), min(high, window.stop)
        used = [Region(one.memory, one.address, one.nbytes) for one in self.pieces]
        used += self.own
        taken = sorted(
            (one.address, one.address + one.nbytes) for one in used if one.memory == name
        )
        place = -(-low // alignment) * alignment
        for start, end in taken:
            if place + nbytes <= start:
                break
            if end > place:
                place = -(-end // alignment) * alignment
        return place if place + nbytes <= high else None

    def _free(self, rng: Random) -> None:
        if not self.pieces:
            return
        piece = rng.choice(self.pieces)
        self._note(f"free {piece}")
        answer = self._call("free", lambda: self.memories[piece.memory].free(piece.buffer))
        if any(piece in one.pieces for one in self.awaited if not one.transfer.done):
            require(isinstance(answer, BusyError), f"{piece} is in use, and free says {answer!r}")
            return
        require(answer is None, f"free says {answer!r}")
        self.pieces.remove(piece)
        self.freed.append(piece)

    def _idle_pieces(self, memory: str) -> list[Piece]:
        """Those that nothing in flight uses."""
        return [
            piece
            for piece in self.pieces
            if piece.memory == memory
            and not any(piece in one.pieces for one in self.awaited)
            and not self._is_late(Region(memory, piece.address, piece.nbytes))
        ]

    def _fill(self, piece: Piece, offset: int, data: ByteArray) -> None:
        self._note(f"fill {data.size} bytes of {piece} at {offset}")
        piece.buffer.span(offset, data.size).array[:] = data
        self.models[piece.memory].write(piece.address + offset, data)

    def _write(self, rng: Random) -> None:
        idle = self._idle_pieces(rng.choice((DEVICE, HOST)))
        if idle:
            piece = rng.choice(idle)
            self._fill(piece, 0, draw_data(rng, piece.nbytes, self.element_bytes))

    def _form(self, rng: Random) -> Format:
        codecs = [name for name in self.setup.config.codecs if name != "raw"]
        codec = rng.choice([*codecs, *codecs, *codecs, None])
        parameters: tuple[tuple[str, int], ...] = ()
        elements = elements_of(codec)
        if elements is not None:
            centre, _ = codings(elements)[rng.choice((0, 1, 4, 5))]
            parameters = (("centre", centre), ("pattern", rng.randrange(4)))
        return Format(codec, self.element_bytes, parameters)

    def _part(self, rng: Random, piece: Piece, most: int = 1 << 20) -> tuple[int, int] | None:
        """Offset and size of an aligned part of a piece."""
        step = self.element_bytes
        first = -piece.address % step
        if first >= piece.nbytes:
            return None
        offset = first if rng.random() < 0.5 else rng.randrange(first, piece.nbytes, step)
        left = piece.nbytes - offset
        nbytes = left if rng.random() < 0.4 else rng.randint(1, left)
        return offset, min(nbytes, most)

    def _options(self, rng: Random, kind: CopyKind, form: Format) -> dict[str, Any]:
        options: dict[str, Any] = {"doorbell": rng.random() < 0.7}
        if rng.random() < 0.3:
            options["tag"] = rng.getrandbits(32)
        if rng.random() < 0.3:
            options["wait_for_slot"] = False
        if kind is OUT:
            options["throttle_class"] = rng.randrange(2)
            options["verify"] = form.codec is not None and rng.random() < 0.2
        if form.parameters:
            options["parameters"] = dict(form.parameters)
        return options

    def _send(self, rng: Random) -> None:
        """A copy to the host, of any format."""
        sources = [piece for piece in self.pieces if piece.memory == DEVICE]
        targets = [piece for piece in self.pieces if piece.memory == HOST]
        if not sources or not targets:
            return
        src, dst = rng.choice(sources), rng.choice(targets)
        form = self._form(rng)
        where, room = self._part(rng, src, 6000), self._part(rng, dst)
        if where is None or room is None:
            return
        nbytes = where[1]
        if form.codec is None:
            nbytes = min(nbytes, room[1])
        self._submit(dst, *room, src, *where, nbytes, OUT, form, self._options(rng, OUT, form), rng)

    def _receive(self, rng: Random) -> None:
        """A copy to the device: plain, of a stream that was sent, or of one made up."""
        sources = [piece for piece in self.pieces if piece.memory == HOST]
        targets = [piece for piece in self.pieces if piece.memory == DEVICE]
        if not sources or not targets:
            return
        src, dst = rng.choice(sources), rng.choice(targets)
        room = self._part(rng, dst, 6000)
        if room is None:
            return
        known = [piece for piece in sources if piece.stream is not None]
        if known and rng.random() < 0.5:
            src = rng.choice(known)
            assert src.stream is not None
            offset, size, nbytes, form = src.stream
            if nbytes > room[1]:
                nbytes = room[1]
        else:
            form = self._form(rng)
            where = self._part(rng, src, 6000)
            if where is None:
                return
            offset, size = where
            nbytes = min(room[1], size) if form.codec is None else room[1]
            if form.codec is not None and src in self._idle_pieces(HOST):
                data = draw_data(rng, nbytes, self.element_bytes)
                stream, _ = form.compress(data)
                if rng.random() < 0.5:
                    stream = draw_damage(rng, stream)
                size = min(size, stream.size)
                self._fill(src, offset, stream[:size])
        options = self._options(rng, IN, form)
        if form.codec is not None:
            options["stream_bytes"] = rng.choice(INTEGERS)(size)
            if rng.random() < 0.4:
                options["crc"] = rng.choice(("right", rng.getrandbits(32)))
        self._submit(dst, *room, src, offset, size, nbytes, IN, form, options, rng)

    def _submit(
        self,
        dst: Piece,
        dst_offset: int,
        dst_bytes: int,
        src: Piece,
        src_offset: int,
        src_bytes: int,
        nbytes: int,
        kind: CopyKind,
        form: Format | None,
        options: dict[str, Any],
        rng: Random | None = None,
    ) -> None:
        """Submit a copy, and expect whatever its arguments and what is in flight say."""
        form = form or Format(None, self.element_bytes)
        source = Region(src.memory, src.address + src_offset, src_bytes)
        target = Region(dst.memory, dst.address + dst_offset, dst_bytes)
        reads = nbytes if kind is OUT or form.codec is None else int(options["stream_bytes"])
        if options.get("crc") == "right":
            content = self.models[HOST].read(source.address, reads)
            whole = form.decode(content, nbytes) if content is not None else None
            options["crc"] = 0 if whole is None else crc32(whole.data)
        crc = options.get("crc")
        self._note(
            f"submit {kind.name} {form.codec} of {nbytes} bytes, {source} to {target}, {options}"
        )
        number = int if rng is None else rng.choice(INTEGERS)
        answer = self._call(
            "submit",
            lambda: self.engine.submit(
                dst.buffer.span(number(dst_offset), number(dst_bytes)),
                src.buffer.span(number(src_offset), number(src_bytes)),
                number(nbytes),
                kind,
                form.codec,
                **options,
            ),
        )
        active = [one for one in self.awaited if not one.transfer.done and not one.fenced]
        clash = any(
            target.meets(other) for one in active for other in (one.source, one.writes)
        ) or any(source.meets(one.writes) for one in active)
        refusal = self._window_refusal(kind, source.address, reads, target.address, dst_bytes)
        if isinstance(answer, DescriptorError):
            require(refusal, f"submit says {answer!r}")
            return
        require(not refusal, f"submit gives {answer}, outside of a window")
        if isinstance(answer, OverlapError):
            require(clash, f"submit says {answer!r}, but nothing overlaps")
            return
        if isinstance(answer, RingFullError):
            full = sum(not one.transfer.done for one in self.awaited) == self.entries
            require(full and options.get("wait_for_slot") is False, f"submit says {answer!r}")
            return
        if isinstance(answer, STOPPED):
            # Before or behind the descriptor's way into the ring.
            self._ring_has_stopped(answer)
            return
        require(isinstance(answer, Transfer), f"submit gives {answer!r}")
        require(not clash, f"{answer} is taken, but overlaps what is in flight")
        self._took(
            answer,
            tag=options.get("tag"),
            reads=Region(source.memory, source.address, reads),
            writes=target,
            outcome=_outcome(kind, form, nbytes, dst_bytes, crc, self.worst_line_bytes),
            pieces=(dst, src),
        )
        one = self.awaited[-1]
        one.source = source
        dst.stream = None
        if kind is OUT and form.codec is not None:
            one.streams_to = (dst, dst_offset, nbytes, form)
        flags = (
            (Flag.INTERRUPT if self.interrupts else 0)
            | (Flag.CHECK_CRC if crc is not None else 0)
            | (Flag.VERIFY if options.get("verify") else 0)
            | (Flag.THROTTLE_CLASS if options.get("throttle_class") else 0)
        )
        opcodes = {
            (OUT, True): Opcode.COMPRESS_OUT,
            (IN, True): Opcode.DECOMPRESS_IN,
            (OUT, False): Opcode.COPY_OUT,
            (IN, False): Opcode.COPY_IN,
        }
        opcode = opcodes[kind, form.codec is not None]
        parameters = dict(form.parameters)
        self._check_descriptor(
            one,
            opcode,
            NUMBERS[form.codec or "zvc"],
            self.element_bytes if form.codec else 0,
            flags,
            one.tag,
            source.address,
            target.address,
            nbytes,
            crc or 0,
            dst_bytes,
            reads if opcode is Opcode.DECOMPRESS_IN else 0,
            self.record_base + ENTRY_BYTES * (one.index % self.entries),
            parameters.get("centre", 0) | parameters.get("pattern", 0) << 8,
            0,
        )

    def _window_refusal(
        self, kind: CopyKind, src: int, reads: int, dst: int, capacity: int
    ) -> bool:
        source, target = (
            (self.windows.device, self.windows.host)
            if kind is OUT
            else (self.windows.host, self.windows.device)
        )
        return any(
            window is not None
            and nbytes > 0
            and not (window.start <= start and start + nbytes <= window.stop)
            for window, start, nbytes in ((source, src, reads), (target, dst, capacity))
        )

    def _check_descriptor(self, one: Awaited, *values: int) -> None:
        """The slot of the ring must hold these fields, if it is still the transfer's."""
        if one.transfer.done:
            return
        start = self.ring_base - self.setup.host_base + ENTRY_BYTES * (one.index % self.entries)
        found = self.machine.host[start : start + ENTRY_BYTES].tobytes()
        wanted = struct.pack("<BBBBIQQIIQQQII", *map(int, values))
        require(found == wanted, f"{one}: the ring has {found.hex()}, not {wanted.hex()}")

    def _took(
        self,
        transfer: Transfer,
        *,
        tag: int | None,
        reads: Region,
        writes: Region,
        outcome: Callable[[ByteArray], Outcome],
        pieces: tuple[Piece, ...] = (),
    ) -> None:
        index = self.submitted
        self.submitted += 1
        one = Awaited(
            transfer,
            index,
            index % 2**32 if tag is None else tag,
            reads,
            writes,
            outcome,
            pieces,
        )
        require(transfer.index == index, f"{transfer} should have number {index}")
        self.awaited.append(one)

    def _fence(self, rng: Random) -> None:
        self._note("fence")
        doorbell = rng.random() < 0.6
        answer = self._call("fence", lambda: self.engine.fence(doorbell=doorbell))
        if isinstance(answer, STOPPED):
            self._ring_has_stopped(answer)
            return
        require(isinstance(answer, Transfer), f"fence gives {answer!r}")
        for one in self.awaited:
            one.fenced = True
        self._took_nothing(answer, None, Status.OK)

    def _took_nothing(
        self, transfer: Transfer, tag: int | None, status: Status, detail: int = 0
    ) -> None:
        nowhere = Region(HOST, self.record_base, 0)
        self._took(
            transfer,
            tag=tag,
            reads=nowhere,
            writes=nowhere,
            outcome=lambda _: refused(status, detail),
        )

    def _raw(self, rng: Random) -> None:
        """A descriptor that the engine must refuse."""
        device, host = self.setup.device_base, self.setup.host_base
        if self.windows.device is not None:
            device = self.windows.device.start
        if self.windows.host is not None:
            host = self.windows.host.start
        if Region(HOST, host, ENTRY_BYTES).meets(self.own[1]):
            host = self.record_base + ENTRY_BYTES * self.entries
        good = {
            "opcode": Opcode.COPY_OUT,
            "src": device,
            "dst": host,
            "length": 64,
            "dst_capacity": 64,
            "tag": rng.getrandbits(32),
        }
        compress = {**good, "opcode": Opcode.COMPRESS_OUT, "element_bytes": self.element_bytes}
        choices: list[tuple[dict[str, int], Status, int]] = [
            ({**good, "opcode": rng.choice((0, 6, 255))}, Status.BAD_OPCODE, 0),
            ({**good, "flags": rng.choice((2, 4, 16, 128))}, Status.BAD_FLAG, 0),
            ({**good, "reserved": 1 << rng.randrange(32)}, Status.BAD_FLAG, 0),
            ({**good, "element_bytes": 1 << rng.randrange(3)}, Status.BAD_FLAG, 0),
            ({**compress, "element_bytes": 3}, Status.BAD_FLAG, 0),
            ({**compress, "codec": 77}, Status.BAD_FLAG, 0),
            ({**compress, "src_length": 5}, Status.BAD_FLAG, 0),
            ({**good, "length": 0}, Status.BAD_LENGTH, 0),
            ({**good, "src": (1 << 40) - 16}, Status.BAD_LENGTH, 0),
            ({**good, "dst": self.record_base, "dst_capacity": 1 << 12}, Status.OVERLAP, 0),
            ({**good, "opcode": Opcode.FENCE}, Status.BAD_FLAG, 0),
        ]
        if self.element_bytes > 1:
            choices.append(({**good, "src": device + 1}, Status.MISALIGNED, 0))
            choices.append(({**good, "dst": host + 1}, Status.MISALIGNED, 0))
        if self.windows.device is not None and self.windows.device.start:
            outside = {**good, "src": self.windows.device.start - 64}
            choices.append((outside, Status.OUTSIDE_WINDOW, WindowDetail.SOURCE))
        if self.windows.host is not None:
            outside = {**good, "dst": self.windows.host.stop - 32}
            if self.windows.host.stop + 32 <= 1 << 64:
                choices.append((outside, Status.OUTSIDE_WINDOW, WindowDetail.DESTINATION))
        fields, status, detail = rng.choice(choices)
        self._note(f"submit_raw {fields}")
        answer = self._call("submit_raw", lambda: self.engine.submit_raw(fields))
        if isinstance(answer, STOPPED):
            self._ring_has_stopped(answer)
            return
        require(isinstance(answer, Transfer), f"submit_raw gives {answer!r}")
        self._took_nothing(answer, fields["tag"], status, detail)

    def _doorbell(self, rng: Random) -> None:
        self._note("doorbell")
        answer = self._call("doorbell", self.engine.doorbell)
        if isinstance(answer, STOPPED):
            self._ring_has_stopped(answer)
            return
        require(isinstance(answer, int), f"doorbell gives {answer!r}")

    def _poll(self, rng: Random) -> None:
        self._note("poll")
        before = self.engine.pending
        answer = self._call("poll", self.engine.poll)
        require(answer == before - self.engine.pending, f"poll gives {answer!r}")

    def _wait(self, rng: Random) -> None:
        if not self.awaited:
            return
        one = rng.choice(self.awaited)
        self._note(f"wait for {one}")
        answer = self._call("wait", lambda: self.engine.wait(one.transfer))
        if isinstance(answer, STOPPED):
            self._ring_has_stopped(answer)
            return
        require(answer is one.transfer.record, f"wait gives {answer!r}")

    def _wait_all(self, rng: Random) -> None:
        self._note("wait for all")
        waiting = [one.transfer for one in self.awaited if not one.transfer.done]
        answer = self._call("wait_all", self.engine.wait_all)
        if isinstance(answer, STOPPED):
            self._ring_has_stopped(answer)
            return
        require(
            isinstance(answer, list) and answer == [one.record for one in waiting],
            f"wait_all gives {answer!r}",
        )

    def _run(self, rng: Random) -> None:
        cycles = rng.choice((1, 10, 50, 200, 1000))
        self._note(f"run {cycles} cycles")
        self.machine.run(cycles)

    def _abort(self, rng: Random) -> None:
        self._note("abort")
        for one in self.awaited:
            one.aborted = True
        self.episode.excused = True
        answer = self._call("abort", self.engine.abort)
        require(answer is None, f"abort gives {answer!r}")

    def _reset(self, rng: Random) -> None:
        """A reset of the engine, without buses that hang: it ends only when they answer."""
        if any(fault.kind == "hang" for fault in self.armed):
            self._lift(rng)
        self._note("reset")
        self._reset_driver()

    def _hard_reset(self, rng: Random) -> None:
        self._note("reset of the machine")
        for one in self.awaited:
            one.lost = True
        self.machine.reset()
        self._reset_driver()

    def _reset_driver(self) -> None:
        for one in self.awaited:
            one.aborted = True
        answer = self._call("reset", self.engine.reset)
        require(answer is None, f"reset gives {answer!r}")
        self._look_at_faults()
        for one in self.awaited:
            # Its record may be what a fault has hit.
            one.lost |= bool(self.episode.statuses)
        self.episode.excused = True
        require(all(one.transfer.done for one in self.awaited), "a reset leaves transfers")
        self._absorb()
        self.submitted = 0
        self.first_error, self.errors_known = None, True

    def _ring_has_stopped(self, error: RingError | StuckError) -> None:
        """It may have, if a fault has hit; and then a reset mends it."""
        self._look_at_faults()
        require(self.episode.statuses, f"{error!r}, without a fault")
        if isinstance(error, StuckError):
            # The engine is not idle, or cannot write records, while a bus does not answer.
            hung = Status.TIMEOUT in self.episode.statuses and self.armed
            require(hung, f"{error!r}, while nothing hangs")
        self.episode.excused = True
        for one in self.awaited:
            one.lost = True
        self._lift(Random(0))
        self._note(f"reset, since {error}")
        self.errors_known = False
        self._reset_driver()

    def _fault(self, rng: Random) -> None:
        if self.armed:
            return
        faults = []
        for _ in range(rng.randint(1, 2)):
            channel = rng.choice((*("r",) * 6, *("b",) * 4, "ar", "aw", "w"))
            kinds = {
                "r": ("slverr", "decerr", "slverr", "hang", "early-last", "late-last"),
                "b": ("slverr", "decerr", "hang"),
            }.get(channel, ("hang",))
            faults.append(
                BusFault(
                    rng.choice((*range(self.setup.config.units), HOST_PORT, HOST_PORT)),
                    channel,
                    rng.choice(kinds),
                    nth=rng.choice((0, 1, 2, 5, 12, 30)),
                )
            )
        self._note(f"faults: {faults}")
        self.machine.set_faults(faults)
        self.armed = faults

    def _look_at_faults(self) -> None:
        """Note what the faults that have hit may lead to."""
        if not self.armed:
            return
        self.episode.hits = 0
        for fault, hit in zip(self.armed, self.machine.delivered_faults(), strict=True):
            if not hit.times:
                continue
            if fault.kind == "hang":
                self.episode.statuses.add(Status.TIMEOUT)
                self.episode.excused = True
            else:
                writes = fault.channel == "b"
                self.episode.statuses.add(Status.WRITE_ERROR if writes else Status.READ_ERROR)
                self.episode.hits += 1
            # A late or early RLAST may leave the bus with too much or too little.
            if fault.kind in ("early-last", "late-last"):
                self.episode.statuses.add(Status.TIMEOUT)

    def _lift(self, rng: Random) -> None:
        if self.armed:
            self._look_at_faults()
            self._note("no more faults")
            self.machine.set_faults([])
            self.armed = []

    def _rest(self, rng: Random) -> None:
        self._come_to_rest("a pause")

    def _come_to_rest(self, why: str) -> None:
        """Until nothing is in flight and no fault is left; then everything is known again."""
        self._lift(Random(0))
        self._note(f"all ends: {why}")
        self._wait_all(Random(0))
        for _ in range(400):
            status = self.engine.registers.read("STATUS")
            if status["idle"]:
                break
            self.machine.run(20)
        require(status["idle"], f"not idle: {status}; {self.machine.outstanding()}")
        self.check()
        if status["ring_error"]:
            self._ring_has_stopped(RingError("STATUS.ring_error"))
            self.check()
        require(not self.awaited, f"{self.awaited} have no record")
        if not self.episode.excused:
            require(
                self.episode.failures or not self.episode.hits,
                f"{self.episode.hits} faults have hit, and no record tells",
            )
        if self.errors_known:
            found = self.engine.first_error()
            require(found == self.first_error, f"{found} instead of {self.first_error}")
        for name, actual in ((DEVICE, self.machine.device), (HOST, self.machine.host)):
            for region in self.late:
                if region.memory == name:
                    self.models[name].forget(region.address, region.nbytes)
            self.models[name].adopt(actual)
        self.late = []
        for region in self.own:
            self.models[HOST].forget(region.address, region.nbytes)
        self.episode = Episode()

    def _clear(self, rng: Random) -> None:
        self._note("clear the error")
        self._come_to_rest("before the error is cleared")
        self.engine.clear_error()
        self.first_error, self.errors_known = None, True

    def _throttle(self, rng: Random) -> None:
        rate = rng.choice((0.0, 2e9, 20e9))
        number = rng.randrange(2)
        self._note(f"throttle {number} to {rate} bytes per second")
        throttle = Throttle(name="random", bytes_per_s=rate, burst_bytes=rng.choice((512, 4096)))
        answer = self._call("set_throttle", lambda: self.engine.set_throttle(number, throttle))
        require(answer is None, f"set_throttle gives {answer!r}")

    def _misuse(self, rng: Random) -> None:
        """A call that must be refused, with one error of the driver, and change nothing."""
        choices = misuses(self, rng)
        name = rng.choice(sorted(choices))
        expected, call = choices[name]
        self._note(f"misuse: {name}")
        before = self.engine.pending, *(one.free_bytes for one in self.memories.values())
        try:
            result = call()
        except expected as error:
            require("\n" not in str(error) and str(error), f"{name}: {error!r}")
        except Exception as error:
            raise MismatchError(f"{name} is answered with {error!r}") from error
        else:
            raise MismatchError(f"{name} is not refused: {result!r}")
        after = self.engine.pending, *(one.free_bytes for one in self.memories.values())
        self._poll(rng)
        require(after == before, f"{name} changes something")

    def _thread(self, rng: Random) -> None:
        """The next call comes from another thread."""
        self.threaded = True

    def _intrude(self, rng: Random) -> None:
        """During the next wait, another thread calls the driver, and must be refused."""
        self.intruding = True

    # What hooks into the machine

    def _refuse_standstill(self) -> None:
        """Fail if the driver asks again and again while time stands still; let threads intrude."""
        machine = self.machine
        asked = {"cycle": -1, "times": 0}
        for name in ("run_until_word", "run_until_irq"):
            run: Callable[..., Any] = getattr(machine, name)

            def watched(*arguments: Any, _run: Callable[..., Any] = run, **options: Any) -> Any:
                again = machine.cycles == asked["cycle"]
                asked.update(cycle=machine.cycles, times=asked["times"] + 1 if again else 0)
                require(asked["times"] < 100, "the driver loops while time stands still")
                if self.intruding:
                    self.intruding = False
                    self._intruder()
                return _run(*arguments, **options)

            setattr(machine, name, watched)

    def _intruder(self) -> None:
        """Call everything from a thread while this one is in the driver."""
        engine = self.engine
        calls: list[Callable[[], object]] = [
            engine.poll,
            engine.doorbell,
            engine.fence,
            engine.wait_all,
            engine.abort,
            engine.reset,
            engine.close,
            engine.counters,
            lambda: engine.host.alloc(64),
            lambda: engine.submit(None, None, 0, OUT),  # type: ignore[arg-type]
        ]
        for answer in in_another_thread(calls):
            require(isinstance(answer, ConcurrentUseError), f"a second thread gets {answer!r}")

    # Records

    def _absorb(self) -> None:
        """Compare the records that the driver has, in order, and carry the transfers out."""
        self._look_at_faults()
        while self.awaited and self.awaited[0].transfer.done:
            one = self.awaited.pop(0)
            if one.transfer.dropped:
                require(one.aborted, f"{one} was dropped without a reset")
                if one.lost:
                    self.models[one.writes.memory].forget(one.writes.address, one.writes.nbytes)
                    self._may_come_late(one)
                try:
                    self.engine.wait(one.transfer)
                except DroppedError:
                    continue
                raise MismatchError(f"{one} was dropped, and wait does not say so")
            self._compare(one)
        require(
            not any(one.transfer.done for one in self.awaited),
            "records are not in the ring's order",
        )

    def _compare(self, one: Awaited) -> None:
        record = one.transfer.record
        assert record is not None
        require(record.tag == one.tag, f"{one}: tag {record.tag:#x} instead of {one.tag:#x}")
        require(record.index == one.index % 2**16, f"{one}: index {record.index}")
        model = self.models[one.writes.memory]
        source = self.models[one.reads.memory].read(one.reads.address, one.reads.nbytes)
        if record.status not in GOOD:
            self.episode.failures += 1
            if self.first_error is None:
                self.first_error = FirstError(
                    status=record.status,
                    detail=record.detail,
                    tag=record.tag,
                    fault_address=record.fault_address,
                )
        if one.streams_to is not None and record.status in GOOD:
            piece, offset, nbytes, form = one.streams_to
            piece.stream = offset, record.out_size, nbytes, form
        if record.status not in GOOD:
            self._may_come_late(one)
        if source is None or self._is_late(one.reads):
            model.forget(one.writes.address, one.writes.nbytes)
            return
        want = one.outcome(source)
        names = ("status", "detail", "src_done", "out_size", "fault_address", "crc32")
        got = {name: getattr(record, name) for name in names}
        right = {name: getattr(want, name) for name in names}
        if want.least_src_done is not None and want.least_src_done <= record.src_done:
            right["src_done"] = min(record.src_done, want.src_done)
        allowed = set(self.episode.statuses)
        if one.aborted or one.lost:
            allowed.add(Status.ABORTED)
        if allowed and want.status not in GOOD:
            # It goes before errors of writes, which may leave fewer bytes right.
            allowed.add(want.status)
        if got != right and record.status not in allowed:
            raise MismatchError(f"{one}: {got} instead of {right}")
        require(
            record.out_size <= min(one.writes.nbytes, want.data.size),
            f"{one}: {record.describe()}, of {want.data.size} into {one.writes.nbytes}",
        )
        actual = self.memories[one.writes.memory].at(one.writes.address, one.writes.nbytes)
        if not self._overwritten(one):
            wrong = np.flatnonzero(actual[: record.out_size] != want.data[: record.out_size])
            require(
                not wrong.size,
                f"{one}: {record.describe()}, but {wrong.size} of them are wrong from {wrong[:1]} "
                f"on",
            )
        if record.status not in GOOD:
            model.forget(one.writes.address, one.writes.nbytes)
        model.write(one.writes.address, want.data[: record.out_size])

    def _overwritten(self, one: Awaited) -> bool:
        """Whether a later transfer, behind a fence, may have written there already."""
        later = any(other.writes.meets(one.writes) for other in self.awaited)
        return later or self._is_late(one.writes)

    def _may_come_late(self, one: Awaited) -> None:
        """Note where a write may arrive when a bus goes on that hangs now."""
        if Status.TIMEOUT in self.episode.statuses:
            self.late.append(one.writes)

    def _is_late(self, region: Region) -> bool:
        return any(region.meets(other) for other in self.late)


def _outcome(
    kind: CopyKind, form: Format, nbytes: int, capacity: int, crc: int | None, worst: int
) -> Callable[[ByteArray], Outcome]:
    if form.codec is None:
        return copied
    if kind is OUT:
        return lambda data: compressed(data, capacity, form)
    return lambda stream: expanded(stream, nbytes, crc, form, worst)
