"""Energy of a codec at work, idle and stalled, from its netlist."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden import LINE_BYTES
from cdma.hw.config import CodecConfig
from cdma.synth.errors import SynthError
from cdma.synth.gates.asic import Synthesis
from cdma.synth.gates.library import Library
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.power.codec_bench import (
    COMPRESSOR,
    DECOMPRESSOR,
    Bytes,
    MeasuredActivity,
    lines_needed,
    work,
)
from cdma.synth.power.energy import Energy, EnergyModel, RegisterEnergy

CODECS = (COMPRESSOR, DECOMPRESSOR)

STREAMING, STALLED, IDLE = "streaming", "stalled", "idle"

CYCLES = 64
"""Of each of the 64 simulations, if nothing else is asked for."""


@dataclass(frozen=True)
class Load:
    """Data that go through the codec.

    Attributes
    ----------
    name : str
    data : Bytes
        Uncompressed, (64, bytes).
    element_bytes : int
    """

    name: str
    data: Bytes
    element_bytes: int

    @property
    def density(self) -> float:
        """The share of elements that are not zero."""
        return float(np.mean(self.data.view(f"<u{self.element_bytes}") != 0))


@dataclass(frozen=True)
class Measurement:
    """A codec's energy in one state.

    Attributes
    ----------
    load : str
    density : float
    state : str
        `STREAMING`, `STALLED` or `IDLE`.
    bytes_per_cycle : float
        Uncompressed.
    energy : Energy
        Per cycle.
    leakage_mw : float
    registers : list of RegisterEnergy
        What the clock does at them, from the most of its energy down.
    """

    load: str
    density: float
    state: str
    bytes_per_cycle: float
    energy: Energy
    leakage_mw: float
    registers: list[RegisterEnergy]

    def power_mw(self, clock_mhz: float) -> float:
        """Power at a clock in mW, leakage included."""
        return self.energy.total * clock_mhz / 1000 + self.leakage_mw

    def pj_per_byte(self, clock_mhz: float) -> float | None:
        """Energy per byte of tensor at a clock in pJ, leakage included; None if no byte passes."""
        if not self.bytes_per_cycle:
            return None
        return self.power_mw(clock_mhz) * 1000 / clock_mhz / self.bytes_per_cycle


def elements_needed(config: CodecConfig, cycles: int) -> int:
    """Elements of data that each simulation needs.

    Raises
    ------
    SynthError
        The configuration's lines are not those of the format.
    """
    if config.line_bytes != LINE_BYTES:
        raise SynthError(
            f"the configuration has lines of {config.line_bytes} B, and golden's have "
            f"{LINE_BYTES} B; choose another one"
        )
    return lines_needed(config, cycles) * config.elements


def measure(
    synthesis: Synthesis,
    library: Library,
    component: str,
    config: CodecConfig,
    loads: Sequence[Load],
    cycles: int = CYCLES,
) -> list[Measurement]:
    """Run loads through a codec's netlist.

    Parameters
    ----------
    synthesis
        The component, mapped.
    library
    component
        One of `CODECS`.
    config
    loads
        At least one, each of `elements_needed` elements per simulation.
    cycles
        Cycles that are measured, per simulation.

    Returns
    -------
    list of Measurement
        One for each load, streaming; then the last load stalled and idle.

    Raises
    ------
    SynthError
        If the netlist cannot be simulated, does not do what golden does, or the library has no
        voltage.
    """
    netlist = MappedNetlist(synthesis.module, library)
    model = EnergyModel(netlist)
    measurements = []
    for load in loads:
        done = work(netlist, component, config, load.data, cycles)

        def measurement(
            state: str, measured: MeasuredActivity, load=load, done=done
        ) -> Measurement:
            activity = measured.activity
            return Measurement(
                load=load.name,
                density=load.density,
                state=state,
                bytes_per_cycle=measured.tensor_bytes / activity.cycles,
                energy=model.energy(done.simulation, activity),
                leakage_mw=model.leakage_mw,
                registers=model.registers(done.simulation, activity),
            )

        measurements.append(measurement(STREAMING, done.streaming))
        if load is loads[-1]:
            measurements.append(measurement(STALLED, done.stalled))
            measurements.append(measurement(IDLE, done.idle))
    return measurements


def uniform(values: npt.NDArray[np.generic], density: float, elements: int, seed: int) -> Bytes:
    """Data of a density, uint8 (64, bytes): random positions hold some of the values, others zeros.

    Parameters
    ----------
    values
        Nonzero values of an element's type.
    density
    elements
        Elements per simulation.
    seed
    """
    random = np.random.default_rng(seed)
    chosen = random.choice(values, (64, elements))
    chosen[random.random((64, elements)) >= density] = 0
    return chosen.view(np.uint8)


def excerpts(tensor: npt.NDArray[np.generic], elements: int) -> Bytes:
    """Data of a tensor, uint8 (64, bytes): runs of it, evenly spaced from its beginning to its end.

    Raises
    ------
    SynthError
        If the tensor is shorter than one run.
    """
    flat = tensor.reshape(-1)
    if flat.size < elements:
        raise SynthError(
            f"the tensors have {flat.size} elements, of which a run takes {elements}; give a "
            "larger capture, or fewer cycles"
        )
    # Lines begin where the tensor's lines do.
    line = LINE_BYTES // flat.itemsize
    starts = np.linspace(0, (flat.size - elements) // line, 64).astype(np.int64) * line
    return np.stack([flat[start : start + elements] for start in starts]).view(np.uint8)
