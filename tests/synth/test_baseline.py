"""Every component synthesized again, and held to the committed figures."""

import pytest

from cdma.synth.baseline import GENERIC, read_baseline
from cdma.synth.components import block, block_names
from cdma.synth.report import changes, row_of
from tests.synth.gates.netlists import unit_gates


# The buddy controller takes ten minutes for its entry decompressor alone.
@pytest.mark.timeout(1200)
@pytest.mark.verify
@pytest.mark.parametrize("name", block_names())
def test_nothing_is_a_twentieth_worse(name, tmp_path):
    library = unit_gates()
    chosen = block(name)
    synthesis = chosen.synthesize(library, tmp_path)
    found = changes(row_of(chosen, synthesis, library, GENERIC), read_baseline())
    assert found is not None
    assert [change for change in found if change.regression] == []
