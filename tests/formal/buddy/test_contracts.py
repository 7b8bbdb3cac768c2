"""Bursts of Buddy: none names a sector that no translation names, whatever happens between.

The proofs are made as those of `tests/formal/dma/test_wiring.py`: components give anything that
keeps their contracts, and what a block does between them is what is proven.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import ResetSignal, Signal
from amaranth.lib.wiring import In

from cdma.golden.buddy.address_map import METADATA_RATIO, MapStatus
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.address.sector_runs import RunSplitter
from cdma.hw.buddy.address.translation import AddressTranslation
from cdma.hw.buddy.controller import BuddyController
from cdma.hw.buddy.frontend.admission import Admission
from cdma.hw.buddy.frontend.burst_splitter import BurstSplitter
from cdma.hw.buddy.frontend.dispatcher import AccessDispatcher
from cdma.hw.buddy.frontend.frontend import BuddyFrontend
from cdma.hw.buddy.frontend.scoreboard import Scoreboard
from cdma.hw.buddy.frontend.write_collector import WriteCollector
from cdma.hw.buddy.metadata.metadata import BuddyMetadata
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    CollectedWrite,
    Mapping,
    SectorRun,
)
from cdma.hw.buddy.read.issue import ReadIssue
from cdma.hw.buddy.read.read_path import ReadPath, outstanding_entries
from cdma.hw.buddy.write.encoder import WriteEncoder
from cdma.hw.buddy.write.run_writer import RunWriter
from cdma.hw.buddy.write.write_back import WriteBack
from cdma.hw.buddy.write.write_path import WritePath
from cdma.hw.bus.burst import ReadRequest, WriteRequest
from cdma.hw.bus.port import Axi4Port
from cdma.hw.config import BUDDY_PRESETS, BuddyConfig, MetadataCacheConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy import test_metadata_lines
from tests.formal.buddy.contracts import Choice, UnnamedSectors, contract_of, lines_of
from tests.formal.buddy.test_mapper import CONFIGS as PAGES
from tests.formal.buddy.test_mapper import FAULTS as FAULTS_OF_PLACES
from tests.formal.buddy.test_mapper import Entry, regions_of
from tests.formal.dma.test_contracts import Stated, open_contracts
from tests.formal.smtbmc import check, prove
from tests.formal.wiring import Shell, open_block, streams
from tests.lib.shares import configs


@pytest.fixture(autouse=True)
def _tables_are_known(monkeypatch):
    monkeypatch.setattr("cdma.hw.buddy.address.slots.Array", Choice)


METADATA_PORT = ("device", 1)
"""Where the requests of the metadata cache come to the port to device memory."""

LAST = ("bursts, device", "bursts, buddy", "bursts, metadata")


def is_pin(port: Any) -> bool:
    """Return whether a port is one of an AXI4 port's channels.

    Those of the GPU are of logical memory, and those of the ports show the cache's requests, too.
    """
    return isinstance(port, SimpleNamespace)


def wiring_proof(block: Any, cache: MetadataCacheConfig) -> Bench:
    """All components of a block give anything that keeps their contracts."""
    bench = Bench()
    sectors = UnnamedSectors.of(bench, cache.line_bytes)

    def contract_at(shape: Any, _place: int, port: Any, *, of_lines: bool = False) -> Any:
        if is_pin(port):
            return None
        if of_lines and isinstance(shape, ReadRequest | WriteRequest):
            return lines_of(sectors)
        return contract_of(shape, sectors)

    inside = open_block(bench, block, contract_at)
    for name, (part, src_loc) in list(inside._named_submodules.items()):
        if isinstance(part, Scoreboard):
            continue
        inside._named_submodules[name] = (Shell(part), src_loc)
        kind = type(part).__name__
        for flow, shape, place, port in streams(part):
            of_lines = isinstance(part, BuddyMetadata) or (name, place) == METADATA_PORT
            contract = contract_at(shape, place, port, of_lines=of_lines)
            if contract is None:
                continue
            if isinstance(part, Axi4Port):
                # What it does is proven of the engine's.
                bench.assert_item(port.valid, port.payload, contract)
                continue
            bench.child(kind, flow is In, port.valid, port.payload, contract)
    opened = bench.add(inside, ignored=True)
    if isinstance(block, BurstSplitter):
        bench.claim(~opened["continues"] | (opened["next_beats_left"] != 0))
    if isinstance(block, WriteCollector):
        shape = CollectedWrite(block.config)
        contract = contract_of(shape, sectors)
        assert contract is not None
        bench.hold(opened["complete"], shape(opened["collected"]), contract)
    return bench


BLOCKS: dict[str, Callable[[BuddyConfig], Any]] = {
    "burst-splitter": BurstSplitter,
    "frontend": BuddyFrontend,
    "collector": WriteCollector,
    "admission": Admission,
    "translation": AddressTranslation,
    "dispatcher": AccessDispatcher,
    "read-issue": lambda config: ReadIssue(config, outstanding_entries(config)),
    "read-path": ReadPath,
    "write-path": WritePath,
    "encoder": WriteEncoder,
    "write-back": WriteBack,
    "device-writer": lambda config: RunWriter(DEVICE_ADDRESS_BITS, config.writes),
    "buddy-writer": lambda config: RunWriter(BUDDY_ADDRESS_BITS, config.writes),
    "controller": BuddyController,
}
CONFIGS = {name: BUDDY_PRESETS[name] for name in ("tiny", "channel")}
CASES = {f"{block}-{name}": (block, config) for name, config in CONFIGS.items() for block in BLOCKS}


def block_proof(block: str, config: BuddyConfig) -> Bench:
    return wiring_proof(BLOCKS[block](config), config.cache)


@pytest.mark.verify
@pytest.mark.parametrize(("block", "config"), CASES.values(), ids=CASES)
def test_what_is_between_keeps_the_contracts(block, config, tmp_path):
    prove(block_proof(block, config), tmp_path, depth=1, cover_depth=2)


def run_proof(address_bits: int) -> Bench:
    """Any runs that spare a sector."""
    bench = Bench()
    splitter = RunSplitter(address_bits)
    inside = bench.add(splitter)
    sectors = UnnamedSectors.of(bench)
    run = bench.drive(splitter.i, contract_of(SectorRun(address_bits), sectors))
    bench.watch(splitter.o)
    burst, second = splitter.o, inside["second"]
    bursts = contract_of(ReadRequest(address_bits), sectors)
    assert bursts is not None
    # In reset, a run may go away between its bursts.
    lives = ~ResetSignal()
    bench.claim(~(second & lives) | (run.waiting & inside["crosses"]))
    bench.assert_item(burst.valid & lives, burst.payload, bursts)
    bench.cover(run.moves & second, run.moves & (run.payload.sectors == 4) & ~second)
    return bench


WIDTHS = {"device": DEVICE_ADDRESS_BITS, "buddy": BUDDY_ADDRESS_BITS}


@pytest.mark.parametrize("address_bits", configs(WIDTHS, quick=()))
def test_bursts_of_runs_keep_their_contract(address_bits, tmp_path):
    prove(run_proof(address_bits), tmp_path, depth=2)


def mapping_proof(config: BuddyConfig) -> Bench:
    """Any translation, and sectors outside of its regions."""
    bench = Bench()
    bench.subject = "SectorMapper"
    line_bytes = config.cache.line_bytes
    sectors = UnnamedSectors.of(bench, line_bytes)
    regions = regions_of(bench)
    mapping = Entry(bench, config, regions, "entry").mapping
    end, metadata_end = Signal(66), Signal(66)
    bench.m.d.comb += [
        end.eq(regions.gbbr + regions.carve_out_bytes),
        metadata_end.eq(
            regions.metadata_base + (regions.logical_bytes + METADATA_RATIO - 1) // METADATA_RATIO
        ),
    ]
    buddy, line = sectors.buddy.last, sectors.line.last
    bench.assume(
        sectors.device.last >= regions.metadata_base,
        (buddy < regions.gbbr) | (buddy - (SECTOR_BYTES - 1) >= end),
        (line < regions.metadata_base) | (line - (line_bytes - 1) >= metadata_end),
    )
    contract = contract_of(Mapping(config), sectors)
    assert contract is not None
    bench.assert_item(mapping.status == MapStatus.OK, mapping, contract)
    return bench


@pytest.mark.parametrize("config", configs(PAGES, quick=()))
def test_translations_keep_their_contract(config, tmp_path):
    check(mapping_proof(config), tmp_path, depth=1, cover_depth=1)


FAULTS = {
    "refuses nothing": (
        *("dispatcher", AccessDispatcher),
        *("Mux(admitted.status == AccessStatus.OK, mapping.status, admitted.status)", "0"),
    ),
    "compresses what is not": (
        *("dispatcher", AccessDispatcher),
        *("with m.Elif(~mapping.compressed):", "with m.Elif(0):"),
    ),
    "reads a slot too many": (
        *("read-issue", ReadIssue),
        *("slot_sectors(mapping.target),", "ENTRY_SECTORS,"),
    ),
    "reads a sector behind the access": (
        *("read-issue", ReadIssue),
        *("last[SECTOR_OFFSET_BITS:] - first + 1", "last[SECTOR_OFFSET_BITS:] - first + 2"),
    ),
    "reads the next slot of buddy memory": (
        *("read-issue", ReadIssue),
        "splitter.i.payload.address.eq(mapping.buddy_address)",
        "splitter.i.payload.address.eq(mapping.buddy_address + 32)",
    ),
    "writes from the first sector on": (
        *("write-back", WriteBack),
        *("Mux(uncompressed, first * SECTOR_BYTES, 0)", "first * SECTOR_BYTES"),
    ),
    "writes what has failed": (
        *("write-back", WriteBack),
        *("with m.If((status == AccessStatus.OK) & uncompressed):", "with m.If(uncompressed):"),
    ),
    "takes what failed for what is not compressed": (
        *("encoder", WriteEncoder),
        "order.i.payload.kind.eq(WriteKind.FAILED)",
        "order.i.payload.kind.eq(WriteKind.UNCOMPRESSED)",
    ),
    "goes on in the next entry": (
        *("burst-splitter", BurstSplitter),
        *("access.beats.eq(Mux(last, beats_left, beats_to_end))", "access.beats.eq(beats_left)"),
    ),
    "admits another access": (
        *("admission", Admission),
        *("self.o.valid.eq(Mux(write_grant, write_valid, read_valid))", "self.o.valid.eq(1)"),
    ),
    "writes another run": (
        *("device-writer", RunWriter),
        "run_requests.i.payload.eq(self.i.payload.run)",
        "run_requests.i.payload.eq(self.i.payload.run.as_value() + (1 << 5))",
    ),
    "mixes the memories up": (
        *("controller", BuddyController),
        "wiring.connect(m, write.device_request, device.write_request[0])",
        "wiring.connect(m, write.device_request, device.write_request[0]); "
        "m.d.comb += device.write_request[0].payload.eq(write.buddy_request.payload)",
    ),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_wiring_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    block, component, right, wrong = fault
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(block_proof(block, CONFIGS["tiny"]), tmp_path, depth=6)


@pytest.mark.verify
def test_splitter_that_goes_beyond_its_run_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RunSplitter, "run.sectors - first_sectors - 1", "run.sectors - 1")
    find_fault(run_proof(DEVICE_ADDRESS_BITS), tmp_path, depth=4)


MAPPER_FAULTS = {
    name: FAULTS_OF_PLACES[name]
    for name in ("a slot in the metadata", "a slot beyond the carve-out")
}


@pytest.mark.parametrize("fault", configs(MAPPER_FAULTS, quick=()))
def test_mapper_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    _proof, component, right, wrong = fault
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(mapping_proof(PAGES["8K"]), tmp_path, depth=1)


def test_both_sides_of_each_contract_are_stated(monkeypatch):
    config = CONFIGS["tiny"]
    benches = [block_proof(block, config) for block in BLOCKS]
    benches += [run_proof(address_bits) for address_bits in WIDTHS.values()]
    benches += [mapping_proof(PAGES["8K"])]
    proofs = [Stated.by(bench) for bench in benches]
    with monkeypatch.context() as patch:
        proofs += [Stated.by(bench) for bench in test_metadata_lines.contract_benches(patch)]
    assert open_contracts(proofs, LAST) == []
    without = [proof for proof in proofs if proof.subject != "ReadIssue"]
    assert "ReadPath: EntryRead of ReadIssue (In)" in open_contracts(without, LAST)
    without = [proof for proof in proofs if proof.subject != "MetadataTags"]
    assert "MetadataSlice: TagAccess of MetadataTags (In)" in open_contracts(without, LAST)
