"""A codec's netlist at work: lines of data through 64 simulations of it, checked by `golden`.

The check makes sure that the energies are those of a netlist that does what the RTL should do. The
codec is driven through its streams alone, whatever its latency: payloads are offered, and wait
until they are accepted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden import codec
from cdma.hw.config import CodecConfig
from cdma.synth.errors import SynthError
from cdma.synth.gates.bitwise import ALL, LANES, NONE, Words
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.simulation import Simulation
from cdma.synth.power.activity import Activity

Bytes = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.uint8]
"""Zeros and ones; the last axis is that of a port's bits."""

COMPRESSOR, DECOMPRESSOR = "zvc-line-compressor", "zvc-line-decompressor"

WARM_UP_CYCLES = 16
"""Until lines have gone through all registers."""
STALL_CYCLES = 8
"""Until all that can be taken has been."""
LONGEST_DRAIN = 64
"""Cycles without an output, after which none comes."""


@dataclass(frozen=True)
class MeasuredActivity:
    """Activity of a codec over measured cycles.

    Attributes
    ----------
    activity : Activity
    tensor_bytes : int
        Uncompressed bytes that it accepted or returned.
    """

    activity: Activity
    tensor_bytes: int


@dataclass(frozen=True)
class Work:
    """Measurements of a codec in its three states, `cycles` each.

    Attributes
    ----------
    simulation : Simulation
    streaming : MeasuredActivity
        Input valid and output ready in every cycle.
    stalled : MeasuredActivity
        Input valid, output not ready.
    idle : MeasuredActivity
        Input not valid; ports keep their last values.
    """

    simulation: Simulation
    streaming: MeasuredActivity
    stalled: MeasuredActivity
    idle: MeasuredActivity


def lines_needed(config: CodecConfig, cycles: int) -> int:
    """Lines that each simulation needs so that its input lasts for `cycles` cycles of streaming."""
    return -(-(WARM_UP_CYCLES + cycles + STALL_CYCLES) // config.sectors) + 2


def work(
    netlist: MappedNetlist, component: str, config: CodecConfig, data: Bytes, cycles: int
) -> Work:
    """Run a codec's netlist while streaming, stalled and idle, and check its output.

    Parameters
    ----------
    netlist
        The component, mapped.
    component
        `COMPRESSOR` or `DECOMPRESSOR`.
    config
    data
        Uncompressed, (64, bytes): whole lines, `lines_needed` at least.
    cycles
        Cycles that are measured in each state.

    Raises
    ------
    SynthError
        If the netlist cannot be simulated, or its output differs from golden's.
    """
    run = _Run(Simulation(netlist), component, config, data)
    run.steps(WARM_UP_CYCLES)
    streaming = run.measured(cycles)
    run.steps(STALL_CYCLES, willing=False)
    stalled = run.measured(cycles, willing=False)
    run.drain()
    idle = run.measured(cycles)
    run.check()
    return Work(run.simulation, streaming, stalled, idle)


class _Run:
    """One run: the state of the ports, and the output so far."""

    def __init__(
        self, simulation: Simulation, component: str, config: CodecConfig, data: Bytes
    ) -> None:
        self.simulation = simulation
        self._config = config
        self._compresses = component == COMPRESSOR
        takes, gives = (_sectors, _line_beats) if self._compresses else (_line_beats, _expanded)
        offers = [takes(config, own) for own in data]
        self._expected = [gives(config, own) for own in data]
        self._offers = _padded(offers)
        self._lengths = np.array([len(fields["last"]) for fields in offers])
        self._next = np.zeros(LANES, np.int64)
        self._given: list[list[Mapping[str, Bits]]] = [[] for _ in data]
        self._ended = np.zeros(LANES, bool)
        simulation.cycle({"rst": _one(True), "i_valid": _one(False), "o_ready": _one(False)})
        simulation.cycle({"rst": _one(False)})

    def steps(self, cycles: int, *, willing: bool = True, activity: Activity | None = None) -> int:
        """Run so many cycles; return the tensor bytes of their transfers."""
        return self._config.sector_bytes * sum(self._step(willing, activity) for _ in range(cycles))

    def measured(self, cycles: int, *, willing: bool = True) -> MeasuredActivity:
        """Run cycles and count their activity."""
        activity = Activity(self.simulation)
        return MeasuredActivity(activity, self.steps(cycles, willing=willing, activity=activity))

    def drain(self) -> None:
        """Run without input until all output has come out."""
        quiet = 0
        while not self._ended.all() and quiet < LONGEST_DRAIN:
            before = sum(map(len, self._given))
            self._step(True, None)
            quiet = 0 if sum(map(len, self._given)) > before else quiet + 1

    def _step(self, willing: bool, activity: Activity | None) -> int:
        """Run one cycle; return the sectors that were transferred, summed over all simulations."""
        offering = self._next < self._lengths
        # What is not offered stays on the ports.
        at = np.minimum(self._next, self._lengths - 1)
        inputs = {
            f"i_{field}": _words(bits[np.arange(LANES), at]) for field, bits in self._offers.items()
        }
        inputs["i_valid"] = _words(offering[:, None])
        inputs["o_ready"] = _one(willing)
        self.simulation.cycle(inputs, activity)
        taken = offering & self._bits("i_ready")[:, 0].astype(bool)
        given = willing & self._bits("o_valid")[:, 0].astype(bool)
        self._next += taken
        self._collect(given)
        return int((taken if self._compresses else given).sum())

    def _collect(self, given: npt.NDArray[np.bool_]) -> None:
        ports = {field: self._bits(f"o_{field}") for field in self._expected[0]}
        for k in np.flatnonzero(given):
            self._given[k].append({field: bits[k] for field, bits in ports.items()})
            self._ended[k] |= bool(ports["last"][k, 0])

    def _bits(self, port: str) -> Bits:
        """Bits of a port, (64, bits)."""
        words = self.simulation.read(port).astype("<u8")
        return np.unpackbits(words[:, None].view(np.uint8), axis=1, bitorder="little").T

    def check(self) -> None:
        """Compare all output with the golden model's.

        Raises
        ------
        SynthError
            Raised at the first difference; the message names simulation, field and transfer.
        """
        for k, (expected, given) in enumerate(zip(self._expected, self._given, strict=True)):
            for field, bits in expected.items():
                found = np.array([transfer[field] for transfer in given]).reshape(-1, bits.shape[1])
                size = min(len(bits), len(found))
                differs = np.flatnonzero((bits[:size] != found[:size]).any(axis=1))
                if differs.size or len(bits) != len(found):
                    at = int(differs[0]) if differs.size else size
                    raise SynthError(
                        f"the netlist does not do what golden does: in stream {k} {field} differs "
                        f"from transfer {at} on ({len(found)} of {len(bits)}); mend the component"
                    )


def _one(value: bool) -> Words:
    """Value of a one-bit port that is the same in all simulations."""
    return np.array([ALL if value else NONE])


def _words(bits: npt.NDArray[np.bool_] | Bits) -> Words:
    """Words of a port, (bits,), from the bits of each simulation, (64, bits)."""
    packed = np.packbits(bits.astype(np.uint8).T, axis=1, bitorder="little")
    words: Words = np.ascontiguousarray(packed).view("<u8").astype(np.uint64)[:, 0]
    return words


def _bits_of(numbers: npt.NDArray[np.int64], width: int) -> Bits:
    """Numbers in binary, (…, width), least significant bit first."""
    return ((numbers[..., None] >> np.arange(width)) & 1).astype(np.uint8)


def _sectors(config: CodecConfig, data: Bytes) -> dict[str, Bits]:
    """Input fields of a compressor, (sectors, bits) each."""
    sectors = data.reshape(-1, config.sector_bytes)
    last = np.zeros((len(sectors), 1), np.uint8)
    last[-1] = 1
    nothing = np.zeros_like(last)
    elements = np.unpackbits(sectors, axis=1, bitorder="little")
    return {"elements": elements, "last": last, "empty": nothing, "codec": nothing}


def _line_beats(config: CodecConfig, data: Bytes) -> dict[str, Bits]:
    """Fields of compressed lines, (beats, bits) each, from golden's stream."""
    zvc = codec("zvc", element_bytes=config.element_bytes)
    masks, elements, counts, firsts, ends = [], [], [], [], []
    for line in data.reshape(-1, config.line_bytes):
        stream = zvc.compress(line)
        mask, payload = stream[: config.mask_bytes], stream[config.mask_bytes :]
        beats = max(1, -(-len(payload) // config.sector_bytes))
        filled = np.zeros(beats * config.sector_bytes, np.uint8)
        filled[: len(payload)] = payload
        elements.append(filled.reshape(beats, -1))
        left = len(payload) - config.sector_bytes * np.arange(beats)
        counts.append(np.minimum(left, config.sector_bytes) // config.element_bytes)
        place = np.arange(beats)
        masks.append(np.where((place == 0)[:, None], mask, 0))
        firsts.append(place == 0)
        ends.append(place == beats - 1)
    first, end = np.concatenate(firsts), np.concatenate(ends)
    last = np.zeros(len(first), np.uint8)
    last[-1] = 1
    return {
        "elements": np.unpackbits(np.concatenate(elements), axis=1, bitorder="little"),
        "mask": np.unpackbits(np.concatenate(masks).astype(np.uint8), axis=1, bitorder="little"),
        "count": _bits_of(np.concatenate(counts), config.lanes.bit_length()),
        "sol": first[:, None].astype(np.uint8),
        "eol": end[:, None].astype(np.uint8),
        "last": last[:, None],
        "empty": np.zeros((len(first), 1), np.uint8),
        "truncation": np.zeros((len(first), 2), np.uint8),
    }


def _expanded(config: CodecConfig, data: Bytes) -> dict[str, Bits]:
    """Output fields of a decompressor, (sectors, bits) each."""
    sectors = _sectors(config, data)
    elements = data.view(f"<u{config.element_bytes}").reshape(-1, config.lanes)
    first = np.arange(len(elements)) % config.sectors == 0
    return {
        "elements": sectors["elements"],
        "present": (elements != 0).astype(np.uint8),
        "missing": np.zeros(elements.shape, np.uint8),
        "sol": first[:, None].astype(np.uint8),
        "last": sectors["last"],
    }


def _padded(streams: list[dict[str, Bits]]) -> dict[str, Bits]:
    """Pad each field of the streams to the longest one: (64, longest, bits)."""
    longest = max(len(fields["last"]) for fields in streams)
    return {
        name: np.array(
            [np.pad(own[name], ((0, longest - len(own[name])), (0, 0))) for own in streams]
        )
        for name in streams[0]
    }
