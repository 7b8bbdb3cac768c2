"""The parts between the proven ones: whatever these do, contracts at their inputs are kept.

A block is elaborated, and each component in it may then give anything that keeps the contracts of
its outputs, whenever it likes (`Shell`). The proof asserts the contracts of the components' inputs
and of the block's outputs: what the block itself does between them is all that is left.
"""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Value
from amaranth.lib.wiring import In

from cdma.hw.bus.burst import ReadGuard
from cdma.hw.bus.port import Axi4Port
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.bus.request_arbiter import RequestArbiter
from cdma.hw.bus.write_half import WriteHalf
from cdma.hw.config import PRESETS, EngineConfig
from cdma.hw.dma.control.dispatch import Dispatcher
from cdma.hw.dma.control.fetch_arbiter import FetchArbiter
from cdma.hw.dma.control.ring_arbiter import RingArbiter
from cdma.hw.dma.control.ring_parts import RingParts
from cdma.hw.dma.engine import DmaEngine, host_port, memory_port
from cdma.hw.dma.inbound.expansion import ExpansionUnit
from cdma.hw.dma.inbound.path import InJobSplitter, InPath
from cdma.hw.dma.outbound.path import OutJobSplitter, OutPath
from cdma.hw.dma.outbound.unit import CompressionUnit
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.round_robin import RoundRobinArbiter
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.dma.contracts import Memories, contract_of
from tests.formal.engines import codec_of
from tests.formal.smtbmc import prove
from tests.formal.wiring import Shell, open_block, streams
from tests.lib.shares import configs

TRANSPARENT = (Fork, RoundRobinArbiter)
"""Components that decide which of the block's streams moves, and keep none of their payloads."""

RING_NUMBERED = ("DescriptorChecker", "DescriptorFetcher")
"""Components of which each ring has its own; the ring's number is in their names."""


def carried(block: Any, parts: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Ports at which a block gives, or gets, bursts to write and their beats, and those inside.

    A burst's beats say nothing of where they go, so nothing may come between the two.
    """
    match block:
        case OutPath():
            outer, inner = [(block.write_request, block.write_beats)], [parts["writer"]]
        case InPath():
            outer = list(zip(block.write_request, block.write_beats, strict=True))
            inner = [parts[f"unit_{k}"] for k in range(len(outer))]
        case ExpansionUnit():
            outer, inner = [(block.request, block.beats)], [parts["writer"]]
        case DmaEngine():
            host, paths = parts["host"], (parts["out_path"], parts["in_path"])
            memories = [parts[f"memory_{k}"] for k in range(len(paths[1].write_request))]
            return [
                (host.write_request[0], paths[0].write_request),
                (host.write_beats[0], paths[0].write_beats),
                (host.write_request[1], parts["record_writer"].request),
                (host.write_beats[1], parts["record_writer"].beats),
                *(
                    (getattr(memory, name)[0], getattr(paths[1], name)[k])
                    for k, memory in enumerate(memories)
                    for name in ("write_request", "write_beats")
                ),
            ]
        case Axi4Port():
            half = parts["writes"]
            return [
                *zip(block.write_request, half.request, strict=True),
                *zip(block.write_beats, half.beats, strict=True),
            ]
        case _:
            return []
    return [
        pair
        for (request, beats), part in zip(outer, inner, strict=True)
        for pair in ((request, part.request), (beats, part.beats))
    ]


def wiring_proof(block: Any, config: EngineConfig, *, writes: bool = False) -> Bench:
    """All components of a block give anything that keeps their contracts.

    Parameters
    ----------
    block
        Not elaborated before.
    config
        The engine that it is of.
    writes
        It is one of those that lead reads or writes, and leads writes.
    """
    bench = Bench()
    memories = Memories.of(bench, config)

    def contract_at(shape: Any, place: int, port: Any, *, writes: bool = writes) -> Any:
        hidden = hides_ring(config, port)
        return None if hidden else contract_of(shape, config, memories, place, writes=writes)

    inside = open_block(bench, block, contract_at)
    parts = {}
    for name, (part, src_loc) in list(inside._named_submodules.items()):
        if isinstance(part, TRANSPARENT):
            continue
        parts[name] = part
        inside._named_submodules[name] = (Shell(part), src_loc)
        kind = type(part).__name__
        suffix = name.rpartition("_")[2]
        for flow, shape, place, port in streams(part):
            hint = int(suffix) if kind in RING_NUMBERED and suffix.isdigit() else place
            within = writes or isinstance(part, WriteHalf)
            contract = contract_at(shape, hint, port, writes=within)
            # No bound rests on what an inbound stream is cut into.
            if isinstance(block, InPath) and isinstance(shape, Beat):
                continue
            if contract is not None:
                bench.child(kind, flow is In, port.valid, port.payload, contract)
    if isinstance(block, DmaEngine):
        require_judged_rings(bench, config, parts)
    for outer, inner in carried(block, parts):
        bench.claim(
            outer.valid == inner.valid,
            outer.ready == inner.ready,
            Value.cast(outer.payload) == Value.cast(inner.payload),
        )
    bench.add(inside, ignored=True)
    return bench


def require_judged_rings(bench: Bench, config: EngineConfig, parts: dict[str, Any]) -> None:
    """State that a ring is judged by the registers by which its descriptors are fetched."""
    for number in range(config.rings):
        suffix = f"_{number}" if number else ""
        fetcher, window = (parts[f"{name}{suffix}"] for name in ("fetcher", "ring_window"))
        bench.claim(
            fetcher.base == window.base,
            fetcher.log2_entries == window.log2_entries,
            fetcher.outside == window.outside,
            ~fetcher.enable | parts[f"supervisor{suffix}"].fetch,
        )


def hides_ring(config: EngineConfig, port: Any) -> bool:
    """Return whether a port is one of pins, which do not tell the ring of a burst."""
    return config.rings > 1 and isinstance(port, SimpleNamespace)


ENGINES = {
    "tiny": PRESETS["tiny"],
    "titanx": PRESETS["titanx_gen3"],
    "wide": PRESETS["wide"],
    "wider-host": EngineConfig(codec=codec_of(32), host_bytes=64),
    "narrower-host": EngineConfig(codec=codec_of(64), host_bytes=32),
    "two-rings": replace(PRESETS["titanx_gen3"], rings=2),
}


def guard_of(make: Any, config: EngineConfig) -> ReadGuard:
    """A source's guard of a port."""
    half = half_of(ReadHalf, make, config)
    half._MustUse__used = True
    return ReadGuard(half.data_bytes, half.address_bits, half.bursts[0], half.owners)


def half_of(half: Any, make: Any, config: EngineConfig) -> Any:
    """One of the halves of a port of the engine's."""
    port = make(config)
    # It is not elaborated.
    port._MustUse__used = True
    bursts = port.reads if half is ReadHalf else port.writes
    return half(port.data_bytes, port.address_bits, port.id_bits, bursts, port.owners)


def requests_of(make: Any, config: EngineConfig) -> RequestArbiter:
    """An arbiter of a port's requests; its halves have the same one, with other sources."""
    half = half_of(ReadHalf, make, config)
    half._MustUse__used = True
    return RequestArbiter(half.address_bits, half.id_bits, len(half.bursts), half.owners)


BLOCKS = {
    "dispatcher": Dispatcher,
    "out-splitter": OutJobSplitter,
    "in-splitter": InJobSplitter,
    "out-path": OutPath,
    "in-path": InPath,
    "compression": lambda config: CompressionUnit(
        config.codec, config.unit_lines, config.units, config.rings
    ),
    "expansion": lambda config: ExpansionUnit(config.codec, config.unit_lines, config.rings),
    "ring-arbiter": lambda config: RingArbiter(config.rings),
    "fetch-arbiter": FetchArbiter,
    "engine": DmaEngine,
    "host-port": host_port,
    "memory-port": memory_port,
    **{
        f"{name}-{half.__name__.lower()}": partial(half_of, half, make)
        for name, make in (("host", host_port), ("memory", memory_port))
        for half in (ReadHalf, WriteHalf)
    },
    "host-guard": partial(guard_of, host_port),
    "memory-guard": partial(guard_of, memory_port),
    "host-requests": partial(requests_of, host_port),
    "memory-requests": partial(requests_of, memory_port),
    "host-write-requests": partial(requests_of, host_port),
    "memory-write-requests": partial(requests_of, memory_port),
}


LEAD_WRITES = (
    *(f"{port}-{name}" for port in ("host", "memory") for name in ("writehalf", "write-requests")),
)
BY_WIDTH = (
    *("out-splitter", "in-splitter", "out-path", "in-path"),
    *("compression", "expansion", "engine"),
)
"""Blocks that depend on more of an engine than its rings."""

CASES = {
    f"{block}-{name}": (block, config)
    for name, config in ENGINES.items()
    for block in (BLOCKS if name in ("tiny", "two-rings") else BY_WIDTH)
    # Only several rings share what arbiters give.
    if config.rings > 1 or block not in ("ring-arbiter", "fetch-arbiter")
}
PINS = ("engine-tiny", "host-port-tiny", "memory-port-tiny")
"""Pins do not tell the ring, so that they have contracts if there is one."""

OTHER_HOSTS = ("out-path-wider-host", "out-path-narrower-host")
QUICK = ["dispatcher-tiny", "out-splitter-tiny", "in-path-tiny", "engine-tiny"]


def proof_of(block: str, config: EngineConfig) -> Bench:
    return wiring_proof(BLOCKS[block](config), config, writes=block in LEAD_WRITES)


@pytest.mark.parametrize(
    ("block", "config"),
    [
        pytest.param(*case, id=name, marks=() if name in QUICK else pytest.mark.verify)
        for name, case in CASES.items()
    ],
)
def test_what_is_between_keeps_the_contracts(block, config, tmp_path):
    prove(proof_of(block, config), tmp_path, depth=1, cover_depth=2)


def contract_benches(_monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    return [
        proof_of(block, config)
        for name, (block, config) in CASES.items()
        if config.rings > 1 or name in (*OTHER_HOSTS, *PINS)
    ]


FAULTS = {
    "starts what was refused": (
        *("dispatcher", "tiny", Dispatcher),
        *("(self.i.payload.status == Status.OK) & ~abort", "~abort"),
    ),
    "has room for a byte more": (
        *("dispatcher", "tiny", Dispatcher),
        *("Mux(d.dst_capacity > largest, largest, d.dst_capacity)", "d.dst_capacity + 1"),
    ),
    "copies no bytes": (
        *("dispatcher", "tiny", Dispatcher),
        *("Mux(copied, d.length, Mux(", "Mux(copied, d.src_length, Mux("),
    ),
    "swaps the ends of a job": (
        *("dispatcher", "tiny", Dispatcher),
        *("ins.i.payload.dst.eq(d.dst[:DEVICE_ADDRESS_BITS])", "ins.i.payload.dst.eq(d.src)"),
    ),
    "writes the record to the destination": (
        *("dispatcher", "tiny", Dispatcher),
        *("starts.i.payload.record.eq(d.record)", "starts.i.payload.record.eq(d.dst)"),
    ),
    "reads back from elsewhere": (
        *("dispatcher", "tiny", Dispatcher),
        *("starts.i.payload.dst.eq(d.dst)", "starts.i.payload.dst.eq(d.record)"),
    ),
    "starts for another ring": (
        *("dispatcher", "two-rings", Dispatcher),
        *("ins.i.payload.ring.eq(ring)", "ins.i.payload.ring.eq(0)"),
    ),
    "reads what is to be written": (
        *("out-splitter", "tiny", OutJobSplitter),
        *("self.read.payload.src.eq(job.src)", "self.read.payload.src.eq(job.dst)"),
    ),
    "writes as much as was read": (
        *("out-splitter", "tiny", OutJobSplitter),
        *("self.write.payload.capacity.eq(job.capacity)", "self.write.payload.capacity.eq(-1)"),
    ),
    "begins at a unit that is not there": (
        *("out-splitter", "titanx", OutJobSplitter),
        *("self.read.payload.first_unit.eq(first_unit)", "self.read.payload.first_unit.eq(-1)"),
    ),
    "receives what comes out": (
        *("in-splitter", "tiny", InJobSplitter),
        *(
            "self.receive.payload.size.eq(job.src_length)",
            "self.receive.payload.size.eq(job.length)",
        ),
    ),
    "splits into all of the length": (
        *("in-splitter", "tiny", InJobSplitter),
        *(
            "self.split.payload.capacity.eq(job.capacity)",
            "self.split.payload.capacity.eq(job.length)",
        ),
    ),
    "writes where nothing was asked to be": (
        *("out-path", "tiny", OutPath),
        "connect(splitter.write, write_jobs.i)",
        "connect(splitter.write, write_jobs.i); m.d.comb += write_jobs.i.valid.eq(1)",
    ),
    "reads a line that was not issued": (
        *("out-path", "tiny", OutPath),
        "connect(issuer.o[k], unit.i)",
        "connect(issuer.o[k], unit.i); m.d.comb += unit.i.valid.eq(1)",
    ),
    "gives the writer half a beat": (
        *("out-path", "wider-host", OutPath),
        "wiring.connect(m, widener.o, writer.i)",
        "wiring.connect(m, widener.o, writer.i); m.d.comb += writer.i.payload.size.eq(1)",
    ),
    "gives the bus other beats": (
        *("out-path", "tiny", OutPath),
        "connect(writer.beats, wiring.flipped(self.write_beats))",
        "connect(writer.beats, wiring.flipped(self.write_beats)); "
        "m.d.comb += self.write_beats.payload.strobe.eq(-1)",
    ),
    "splits what is not there": (
        *("in-path", "tiny", InPath),
        "connect(split_jobs.o, splitter.job)",
        "connect(split_jobs.o, splitter.job); m.d.comb += splitter.job.valid.eq(1)",
    ),
    "expands to where the next line is": (
        *("in-path", "tiny", InPath),
        "connect(splitter.commands[k], unit.commands)",
        "connect(splitter.commands[k], unit.commands); "
        "m.d.comb += unit.commands.payload.address.eq(splitter.commands[k].payload.address + 4)",
    ),
    "reads another line": (
        *("compression", "tiny", CompressionUnit),
        "wiring.connect(m, wiring.flipped(self.i), reader.i)",
        "wiring.connect(m, wiring.flipped(self.i), reader.i); "
        "m.d.comb += reader.i.payload.address.eq(0)",
    ),
    "writes all of a line": (
        *("expansion", "tiny", ExpansionUnit),
        *(
            "payload.capacity.eq(to_job.payload.writable)",
            "payload.capacity.eq(to_job.payload.size)",
        ),
    ),
    "writes a line before its place": (
        *("expansion", "tiny", ExpansionUnit),
        *("payload.dst.eq(to_job.payload.address)", "payload.dst.eq(to_job.payload.address - 1)"),
    ),
    "mixes the rings up": (
        *("ring-arbiter", "two-rings", RingArbiter),
        *("payload.ring.eq(ring)", "payload.ring.eq(0)"),
    ),
    "fetches for another ring": (
        *("fetch-arbiter", "two-rings", FetchArbiter),
        *("requests.i.payload.owner.eq(ring)", "requests.i.payload.owner.eq(0)"),
    ),
    "reads back what was not written": (
        *("engine", "tiny", DmaEngine),
        *("in_path.job.valid.eq(dispatcher.job_in.valid | verify)", "in_path.job.valid.eq(1)"),
    ),
    "writes data as a record": (
        *("engine", "tiny", DmaEngine),
        "wiring.connect(m, parts.record_writer.beats, host.write_beats[1])",
        "wiring.connect(m, parts.record_writer.beats, host.write_beats[1]); "
        "m.d.comb += host.write_beats[1].payload.eq(out_path.write_beats.payload)",
    ),
    "watches another ring": (
        *("engine", "tiny", RingParts),
        "self.window.base.eq(registers.ring_base.address)",
        "self.window.base.eq(0)",
    ),
    "asks the bus for a beat more": (
        *("host-port", "tiny", Axi4Port),
        'pins["len"].eq(half.bus_request.payload.beats)',
        'pins["len"].eq(half.bus_request.payload.beats + 1)',
    ),
    "gives one source's beats as the other's": (
        *("host-port", "tiny", Axi4Port),
        "wiring.connect(m, wiring.flipped(self.write_beats[k]), writes.beats[k])",
        "wiring.connect(m, wiring.flipped(self.write_beats[k]), writes.beats[k]); "
        "m.d.comb += writes.beats[k].payload.eq(self.write_beats[0].payload)",
    ),
    "asks for what is not requested": (
        *("host-readhalf", "tiny", ReadHalf),
        *("offer.valid.eq(request.valid & request_allowed)", "offer.valid.eq(request_allowed)"),
    ),
    "addresses what is not requested": (
        *("host-writehalf", "tiny", WriteHalf),
        "offer.valid.eq(request.valid & request_allowed & ~state.dead)",
        "offer.valid.eq(request_allowed & ~state.dead)",
    ),
    "grants what is not there": (
        *("host-requests", "tiny", RequestArbiter),
        *("granted.eq(i.valid & (", "granted.eq(("),
    ),
    "guards another burst": (
        *("host-guard", "tiny", ReadGuard),
        "self.bus_request.payload.eq(self.request.payload)",
        "self.bus_request.payload.eq(self.request.payload.as_value() + 1)",
    ),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_wiring_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    block, name, component, right, wrong = fault
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(proof_of(block, ENGINES[name]), tmp_path, depth=2)
