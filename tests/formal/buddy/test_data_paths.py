"""Proofs on the paths of reads and writes: what one assumes of payloads, another one asserts.

The benches are built and not solved, so this is quick.
"""

import pytest

from tests.formal.buddy.payload_rules import FETCHED
from tests.formal.buddy.test_encoder import CONFIGS, merge_proof, open_encoder
from tests.formal.buddy.test_response import open_response, response_proof
from tests.formal.dma.test_contracts import Stated


def test_fetched_sectors_are_merged_as_the_response_gives_them():
    config = CONFIGS["tiny"]
    with pytest.MonkeyPatch.context() as patch:
        open_encoder(config, patch)
        open_response(config, patch)
        proofs = [Stated.by(proof(config)) for proof in (merge_proof, response_proof)]
    sides = {side for proof in proofs for side in proof.sides if side[1] == FETCHED}
    assert sides == {
        ("WriteEncoder", FETCHED, "assumed"),
        ("ReadResponse", FETCHED, "asserted"),
    }
