"""The steps of BPC's decoder: what the proof of each assumes, that of the one before asserts.

Which steps share a hardware, and which hardware follows which, is found in the decoder itself. The
benches are built and not solved, so this is quick.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
from amaranth.hdl import Fragment

from cdma.hw.codec.bpc.plane_decoder import BpcPlaneDecoder
from cdma.hw.codec.bpc.plane_steps import PlaneSteps
from cdma.hw.codec.bpc.step_reader import STEPS
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench
from tests.formal.codec.test_bpc_decoder import (
    GROUPS,
    REGISTERS,
    REST,
    SECTORS,
    decoder_proof,
    last_proof,
    steps_proof,
)
from tests.lib.shares import widths

ABOUTS = (REGISTERS, REST)

Proof = Callable[[pytest.MonkeyPatch], Bench]


def hardware_of(config: EntryConfig) -> list[range]:
    """The steps of each `PlaneSteps` of a decoder, in the order of the decoder's stages."""
    fragment = Fragment.get(BpcPlaneDecoder(config), None)
    parts = [part.origins[0] for part, _name, _src_loc in fragment.subfragments]
    return [range(part.first, part.last) for part in parts if isinstance(part, PlaneSteps)]


def proofs_of(config: EntryConfig) -> dict[str, Proof]:
    """The proofs that are about a decoder's codes, by what they are of, in the order of stages."""

    def of_steps(steps: range, about: str) -> Proof:
        def proof(patch: pytest.MonkeyPatch) -> Bench:
            bench = Bench()
            steps_proof(bench, steps, about, patch)
            return bench

        return proof

    def of_last(patch: pytest.MonkeyPatch) -> Bench:
        bench = Bench()
        last_proof(bench, patch)
        return bench

    found: dict[str, Proof] = {"decoder": lambda patch: decoder_proof(config, patch)}
    for steps in hardware_of(config):
        for about in ABOUTS:
            found[f"{about} of {steps.start}-{steps.stop}"] = of_steps(steps, about)
    return {**found, "last": of_last}


def open_contracts(proofs: dict[str, Proof]) -> set[str]:
    """Name what is assumed and not asserted, or asserted and assumed by none."""
    assumed, asserted = set(), set()
    for proof in proofs.values():
        with pytest.MonkeyPatch.context() as patch:
            bench = proof(patch)
            Fragment.get(bench, None)
        for _part, interface, side in bench.sides:
            (assumed if side == "assumed" else asserted).add(interface)
    assert assumed
    return {f"nobody asserts: {one}" for one in assumed - asserted} | {
        f"nobody assumes: {one}" for one in asserted - assumed
    }


@pytest.mark.parametrize("sector_bytes", widths(*SECTORS, quick=[64]))
def test_each_step_gets_what_its_proof_assumes(sector_bytes):
    config = EntryConfig(sector_bytes=sector_bytes)
    steps = hardware_of(config)
    assert (steps[0].start, steps[-1].stop) == (0, STEPS - 1)
    assert all(one.stop == behind.start for one, behind in pairwise(steps))
    # All that a decoder has is proven.
    assert all(one in GROUPS.values() for one in steps)
    assert open_contracts(proofs_of(config)) == set()


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        pytest.param(
            "decoder", {"nobody asserts: registers behind 0 steps"}, marks=pytest.mark.verify
        ),
        (
            "rest of 2-4",
            {"nobody asserts: rest behind 4 steps", "nobody assumes: rest behind 2 steps"},
        ),
        pytest.param(
            "last", {"nobody assumes: registers behind 8 steps"}, marks=pytest.mark.verify
        ),
    ],
)
def test_a_proof_that_is_missing_is_found(left_out, missing):
    proofs = proofs_of(EntryConfig(sector_bytes=64))
    del proofs[left_out]
    assert missing <= open_contracts(proofs)
