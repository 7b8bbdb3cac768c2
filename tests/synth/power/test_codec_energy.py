"""The ZVC pipelines' netlists: what they do is golden's, and what clock gating saves."""

import copy

import numpy as np
import pytest

from cdma.hw.config import CodecConfig
from cdma.synth import block, synthesize
from cdma.synth.errors import SynthError
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.power.codec_bench import COMPRESSOR, DECOMPRESSOR, LANES, work
from cdma.synth.power.codec_energy import (
    IDLE,
    STALLED,
    STREAMING,
    Load,
    elements_needed,
    excerpts,
    measure,
    uniform,
)
from tests.synth.gates.netlists import unit_gates

CONFIG = CodecConfig()
CYCLES = 48


def load_of(density: float) -> Load:
    values = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
    elements = elements_needed(CONFIG, CYCLES)
    return Load("uniform", uniform(values, density, elements, seed=2), CONFIG.element_bytes)


def test_data_have_their_density():
    load = load_of(0.38)
    assert load.data.shape[0] == LANES
    assert load.data.shape[1] % CONFIG.line_bytes == 0
    assert load.density == pytest.approx(0.38, abs=0.01)
    assert load_of(0.0).density == 0
    assert load_of(1.0).density == 1


def test_excerpts_are_lines_of_the_tensor_from_its_beginning_to_its_end():
    tensor = np.arange(1, 32 * 200 + 1, dtype=np.float32)
    found = excerpts(tensor, 64).view(np.float32)
    assert found.shape == (LANES, 64)
    assert (found[0] == tensor[:64]).all()
    assert (found[-1] == tensor[-64:]).all()
    assert (found[:, 0] % 32 == 1).all()
    assert (np.diff(found, axis=1) == 1).all()
    with pytest.raises(SynthError, match="a run takes 7000; give a larger capture"):
        excerpts(tensor, 7000)


def test_narrow_lines_are_told():
    with pytest.raises(SynthError, match="lines of 8 B, and golden's have 128 B; choose another"):
        elements_needed(CodecConfig(element_bytes=1, sector_bytes=4, line_bytes=8), 1)


@pytest.fixture(scope="module", params=[COMPRESSOR, DECOMPRESSOR])
def both(request, tmp_path_factory):
    """A codec without and with clock gating, and what they take."""
    folder = tmp_path_factory.mktemp(request.param)
    chosen = block(request.param)
    found = []
    for gated in (False, True):
        synthesis = synthesize(
            chosen.verilog(), chosen.top, unit_gates(), folder / str(gated), clock_gating=gated
        )
        measured = measure(
            synthesis, unit_gates(), request.param, CONFIG, [load_of(0.38)], cycles=CYCLES
        )
        found.append((synthesis, measured))
    return request.param, found


@pytest.mark.verify
def test_clock_gating_saves_energy_streaming_stalled_and_idle(both):
    _name, ((plain, before), (gated, after)) = both
    assert [m.state for m in before] == [m.state for m in after] == [STREAMING, STALLED, IDLE]
    assert gated.gated_flip_flops > gated.flip_flops / 4
    assert gated.area < plain.area
    for was, is_now in zip(before, after, strict=True):
        # In a cycle every flip-flop has a clock, and its pin two edges.
        assert was.energy.clock_pins == pytest.approx(plain.flip_flops * 2 * 0.605 / 1000)
        assert is_now.power_mw(1000) < was.power_mw(1000)
    # A sector per cycle, with or without.
    assert before[0].bytes_per_cycle == after[0].bytes_per_cycle == CONFIG.sector_bytes
    assert before[1].pj_per_byte(1000) is None
    # What rests has no clock, and changes nothing.
    assert after[1].energy.clock < 0.75 * before[1].energy.clock
    assert after[1].energy.nets < before[0].energy.nets / 20


@pytest.mark.verify
def test_a_fault_in_the_netlist_is_found(both):
    name, ((plain, _before), _gated) = both
    module = copy.deepcopy(plain.module)
    # Two registers take each other's input.
    registers = [cell["connections"] for cell in module["cells"].values() if cell["type"] == "DFF"]
    one, other = registers[len(registers) // 3], registers[2 * len(registers) // 3]
    one["D"], other["D"] = other["D"], one["D"]
    netlist = MappedNetlist(module, unit_gates())
    with pytest.raises(SynthError, match=r"not do what golden does: in stream \d+ \w+ differs"):
        work(netlist, name, CONFIG, load_of(0.38).data, CYCLES)
