"""The contracts from descriptors to the buses: what one proof assumes, another one asserts.

The benches are built and not solved, so this is quick. What they have recorded is compared with
each other, and with the engine, of which every component that has a contract's port must be there.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from cdma.hw.bus.write_half import WriteHalf
from cdma.hw.codec.stream.checker import StreamChecker
from cdma.hw.codec.stream.pack import ElementPacker
from cdma.hw.config import PRESETS, EngineConfig
from cdma.hw.dma.engine import DmaEngine
from tests.formal.bench import Bench
from tests.formal.codec.test_frame import checker_proof
from tests.formal.codec.test_pack import chunk_packer_proof
from tests.formal.dma import (
    test_burst_sender,
    test_lines,
    test_reads,
    test_record_places,
    test_ring,
    test_shifter,
    test_windows,
    test_wiring,
    test_writer,
)
from tests.formal.dma.contracts import Memories, contract_of
from tests.formal.dma.test_wiring import TRANSPARENT
from tests.formal.engines import codec_of
from tests.formal.lib.test_width_converter import narrower_proof, widener_proof
from tests.formal.rules import BEAT, LINE_STREAMS, PADDED_BEAT
from tests.formal.wiring import streams

MODULES = (
    *(test_windows, test_ring, test_record_places, test_wiring, test_lines, test_reads),
    *(test_shifter, test_writer, test_burst_sender),
)

CARRIERS = (
    *("Fifo", "HalfRateRegister", "LateValidRegister", "PingPongBuffer", "PipelineRegister"),
    *("ReverseRegister", "SkidBuffer"),
)
"""Queues: whatever is in them came, so they keep what contract they get (`test_buffers.py`)."""

ELSEWHERE = {
    ("DescriptorFetcher", "ring"): "RingWindowChecker",
    ("RetireUnit", "WriteOutcome"): "StreamWriter",
}
"""Contracts that no stream's payload keeps alone, by who assumes them; and who asserts them."""

LAST = (
    *(f"{kind}Request, {side}" for kind in ("Read", "Write") for side in ("device", "host")),
    *(f"beats of WriteRequest, {side}" for side in ("device", "host")),
)
"""What comes to the buses in the end: nobody assumes any more of that."""


@dataclass(frozen=True)
class Stated:
    """A bench's record of contracts: its component's name, and as of `Bench`."""

    subject: str
    sides: frozenset[tuple[str, str, str]]
    children: frozenset[tuple[str, str, str]]

    @classmethod
    def by(cls, bench: Bench) -> "Stated":
        # Amaranth warns of what is not elaborated.
        Fragment.get(bench, None)
        return cls(bench.subject, frozenset(bench.sides), frozenset(bench.children))


@pytest.fixture(scope="module")
def proofs() -> list[Stated]:
    """Records of the benches of all proofs that state contracts."""
    codec = codec_of(32)
    stated = []
    for module in MODULES:
        with pytest.MonkeyPatch.context() as patch:
            stated += [Stated.by(bench) for bench in module.contract_benches(patch)]
    others = [
        chunk_packer_proof(codec, ElementPacker(codec)),
        checker_proof(codec, StreamChecker(codec)),
        widener_proof(32, 64),
        narrower_proof(64, 32),
    ]
    return [*stated, *map(Stated.by, others)]


def open_contracts(proofs: Sequence[Stated], last: Collection[str] = LAST) -> list[str]:
    """Name each side of a contract whose other side no bench states."""
    sides = {side for proof in proofs for side in proof.sides}
    sides |= {
        (component, BEAT, "asserted")
        for component, interface, side in sides
        if (interface, side) == (PADDED_BEAT, "asserted")
    }
    children = {child for proof in proofs for child in proof.children}
    found = []
    for proof in proofs:
        for component, interface, flow in proof.children:
            if component in CARRIERS:
                other = (component, interface, "In" if flow == "Out" else "Out") in proof.children
            else:
                side = "asserted" if flow == "Out" else "assumed"
                other = (component, interface, side) in sides
            if not other:
                found.append(f"{proof.subject}: {interface} of {component} ({flow})")
    for component, interface, side in sides:
        if interface == PADDED_BEAT or interface in LINE_STREAMS:
            continue
        if side == "assumed" and (component, interface) in ELSEWHERE:
            other = (ELSEWHERE[component, interface], interface, "asserted") in sides
        elif side == "assumed":
            other = (component, interface, "In") in children
        else:
            other = (
                (component, interface, "Out") in children
                or interface in last
                or component in {e for (_, i), e in ELSEWHERE.items() if i == interface}
            )
        if not other:
            found.append(f"{interface} is {side} by {component} alone")
    return sorted(set(found))


def test_both_sides_of_each_contract_are_stated(proofs):
    assert open_contracts(proofs) == []


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        ("LineIssuer", "OutPath: LineRequest of LineIssuer (Out)"),
        ("LineReader", "CompressionUnit: LineRequest of LineReader (In)"),
        ("InPath", "SplitJob is assumed by LineSplitter alone"),
        ("Dispatcher", "DmaEngine: OutJob of Dispatcher (Out)"),
        ("BurstSender", "StreamWriter: WriteRequest, host of BurstSender (Out)"),
        ("RingWindowChecker", "ring is assumed by DescriptorFetcher alone"),
        ("PacketShifter", "ExpansionUnit: Beat of PacketShifter (Out)"),
    ],
)
def test_a_proof_that_is_missing_is_found(subject, found, proofs):
    assert found in open_contracts([proof for proof in proofs if proof.subject != subject])


def components(config: EngineConfig) -> Iterator[wiring.Component]:
    """Give the components of an engine, down to the last one."""
    fragments = [Fragment.get(DmaEngine(config), None)]
    while fragments:
        fragment = fragments.pop()
        yield from (
            origin for origin in fragment.origins or () if isinstance(origin, wiring.Component)
        )
        fragments += [subfragment for subfragment, _name, _src_loc in fragment.subfragments]


def unstated(
    component: wiring.Component,
    config: EngineConfig,
    memories: Memories,
    sides: set[tuple[str, str, str]],
) -> Iterator[str]:
    """Name each of a component's ports whose contract is not among the sides."""
    kind = type(component).__name__
    if kind in CARRIERS or isinstance(component, TRANSPARENT):
        return
    writes = isinstance(component, WriteHalf)
    for flow, shape, _place, _port in streams(component):
        contract = contract_of(shape, config, memories, writes=writes)
        if contract is None:
            continue
        side = "assumed" if flow is In else "asserted"
        names = {contract.interface, *([PADDED_BEAT] if contract.interface == BEAT else [])}
        if not sides & {(kind, name, side) for name in names}:
            yield f"{contract.interface} is not {side} by {kind}"


def unproven(config: EngineConfig, proofs: Sequence[Stated]) -> list[str]:
    """Name each port in an engine that has a contract which no bench of its component states."""
    sides = {side for proof in proofs for side in proof.sides}
    bench = Bench()
    memories = Memories.of(bench, config)
    Fragment.get(bench, None)
    found = {
        missing
        for component in components(config)
        for missing in unstated(component, config, memories, sides)
    }
    return sorted(found)


ENGINES = {
    "tiny": PRESETS["tiny"],
    "two-rings": replace(PRESETS["titanx_gen3"], rings=2),
    "wider-host": EngineConfig(codec=codec_of(32), host_bytes=64),
    "narrower-host": EngineConfig(codec=codec_of(64), host_bytes=32),
}


@pytest.mark.parametrize("config", ENGINES.values(), ids=ENGINES)
def test_each_component_of_an_engine_is_among_the_proofs(config, proofs):
    assert unproven(config, proofs) == []


def test_a_component_without_a_proof_is_found(proofs):
    others = [proof for proof in proofs if proof.subject != "LineSplitter"]
    assert unproven(ENGINES["tiny"], others) == [
        "LineCommand is not asserted by LineSplitter",
        "SplitJob is not assumed by LineSplitter",
    ]
