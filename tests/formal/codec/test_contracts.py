"""The blocks of ZVC: what the proof of each part assumes, that of the part before it asserts.

Which parts follow one another is found in the blocks themselves. The benches are built and not
solved, so this is quick.
"""

from typing import Any

import pytest
from amaranth.hdl import Fragment
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from cdma.hw.codec.stream.checker import StreamChecker
from cdma.hw.codec.stream.pack import Packer
from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.codec.zvc import axis
from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import CodecConfig
from tests.formal.codec.test_frame import checker_proof, meter_proof, padder_proof, trimmer_proof
from tests.formal.codec.test_pack import packer_proof, unpacker_proof
from tests.formal.codec.test_zvc import (
    compressor_proof,
    cut_decompressor_proof,
    decompressor_proof,
)
from tests.formal.dma.test_contracts import Stated
from tests.formal.lib.test_buffers import receiver_proof, sender_proof
from tests.formal.lines import TINY
from tests.formal.rules import ANY_LINE, BEAT, PADDED_BEAT, WHOLE_LINE

IMPLIED = {PADDED_BEAT: BEAT, WHOLE_LINE: ANY_LINE}
"""Contracts that another one implies."""

PAYLOADS = ("Beat", "ExpandedSector", "LineBeat", "ReceivedBeat", "Sector")

OF_WRITTEN_STREAMS = {("Unpacker", "ZvcDecompressor", WHOLE_LINE)}
"""What is assumed of streams that a compressor has written, and of no others: lines are cut from a
packet in one way only, so that the unpacker gives those that were packed."""

Edge = tuple[str, str, str]
"""A source, a sink, and the payload between them."""


def edges(block: wiring.Component, patch: pytest.MonkeyPatch) -> set[Edge]:
    """Streams between parts of a block, as it connects them."""
    joined: list[tuple[Any, Any]] = []
    connect, watch = wiring.connect, axis.Crc32.watch

    def connecting(m: Any, *ends: Any, **named: Any) -> None:
        joined.append((ends[0], ends[1]))
        connect(m, *ends, **named)

    def watching(crc: Any, m: Any, source: Any, sink: Any, **options: Any) -> None:
        joined.append((source, sink))
        watch(crc, m, source, sink, **options)

    patch.setattr(wiring, "connect", connecting)
    patch.setattr(axis.Crc32, "watch", watching)
    elaborate = type(block).elaborate
    modules: list[Any] = []

    def elaborating(block: Any, platform: Any) -> Any:
        modules.append(elaborate(block, platform))
        return modules[-1]

    patch.setattr(type(block), "elaborate", elaborating)
    # Amaranth warns of what is not elaborated.
    Fragment.get(block, None)
    owners = {}
    for part, _ in modules[0]._named_submodules.values():
        for name, member in part.signature.members.items():
            if member.is_signature and isinstance(member.signature, stream.Signature):
                owners[id(getattr(part, name))] = type(part).__name__, member
    found = set()
    for ends in joined:
        if not all(id(end) in owners for end in ends):
            continue
        (one, member), (other, _) = (owners[id(end)] for end in ends)
        source, sink = (one, other) if member.flow is Out else (other, one)
        found.add((source, sink, type(member.signature.members["payload"].shape).__name__))
    return {edge for edge in found if edge[2] in PAYLOADS}


def proofs(config: CodecConfig) -> list[Stated]:
    """Records of the benches of all parts."""
    width = config.sector_bytes
    benches = [
        receiver_proof(width),
        trimmer_proof(width),
        padder_proof(config),
        compressor_proof(config, ZvcCompressor(config)),
        packer_proof(config, Packer(config)),
        meter_proof(width),
        sender_proof(width),
        unpacker_proof(config, Unpacker(config)),
        decompressor_proof(config, ZvcDecompressor(config)),
        cut_decompressor_proof(config, ZvcDecompressor(config)),
        checker_proof(config, StreamChecker(config)),
    ]
    return [Stated.by(bench) for bench in benches]


def open_edges(found: set[Edge], stated: list[Stated]) -> set[str]:
    """Name each assumption that the part before does not assert, and each end that has no proof."""
    sides = {side for proof in stated for side in proof.sides}
    sides |= {
        (part, IMPLIED[i], side) for part, i, side in sides if i in IMPLIED and side == "asserted"
    }
    open_ = set()
    for source, sink, payload in found:
        given, taken = (
            {
                i
                for part, i, side in sides
                if part == name and side == kind and i.startswith(payload)
            }
            for name, kind in ((source, "asserted"), (sink, "assumed"))
        )
        if not given:
            open_.add(f"{source} asserts nothing of {payload}")
        if not taken:
            open_.add(f"{sink} assumes nothing of {payload}")
        open_ |= {
            f"{sink} assumes {contract} and {source} does not assert it"
            for contract in taken - given
            if (source, sink, contract) not in OF_WRITTEN_STREAMS
        }
    return open_


def all_edges() -> set[Edge]:
    found = set()
    for top in (ZvcCompressorAxis, ZvcDecompressorAxis):
        with pytest.MonkeyPatch.context() as patch:
            found |= edges(top(TINY), patch)
    return found


def test_each_part_gets_what_its_proof_assumes() -> None:
    found = all_edges()
    assert len(found) == 10
    assert open_edges(found, proofs(TINY)) == set()


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        ("LinePadder", "LinePadder asserts nothing of Sector"),
        ("Packer", "Packer assumes nothing of LineBeat"),
        ("Unpacker", "Unpacker asserts nothing of LineBeat"),
    ],
)
def test_a_proof_that_is_left_out_is_missed(left_out: str, missing: str) -> None:
    stated = [proof for proof in proofs(TINY) if proof.subject != left_out]
    assert missing in open_edges(all_edges(), stated)


def test_an_assumption_that_nobody_asserts_is_named() -> None:
    stated = proofs(TINY)
    sides = {("Packer", "LineBeat of short lines", "assumed")}
    stated.append(Stated("Packer", frozenset(sides), frozenset()))
    assert open_edges(all_edges(), stated) == {
        "Packer assumes LineBeat of short lines and ZvcCompressor does not assert it"
    }
