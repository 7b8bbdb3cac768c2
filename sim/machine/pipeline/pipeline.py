"""A codec's RTL as an object: packets in, packets, status records and cycles out."""

import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cdma.golden import LINE_BYTES
from cdma.golden.formats.interface import Array, IntArray
from cdma.hw.config import CodecConfig
from cdma.sim.machine.build.build import VerilogText, build_library
from cdma.sim.machine.build.rtl import generated
from cdma.sim.machine.errors import (
    AssertionFailedError,
    CapacityError,
    HangError,
    MachineError,
    ProtocolError,
    RunError,
    readable,
)
from cdma.sim.machine.pipeline import library as lib
from cdma.sim.machine.pipeline.batch import Batch, Fault, Packets
from cdma.sim.machine.waves import require_writable, trace_kind

CHANNELS = ("command", "input", "output", "status")
"""The channels that can be stalled."""

_RUN_ERRORS: dict[int, type[RunError]] = {
    lib.HANG: HangError,
    lib.ASSERTION: AssertionFailedError,
    lib.PROTOCOL: ProtocolError,
    lib.CAPACITY: CapacityError,
}
_NEVER = 2**64 - 1
_HEAD_BYTES = (1, 16)
"""The least and the most that a line's head takes (XC's header, ZVC's mask of 1-byte elements)."""


class Pipeline:
    """One instance of a component with the ports of the ZVC blocks, simulated by Verilator.

    Each `run` sends a batch of packets through in one call that does not hold the GIL, so threads
    with a pipeline each run in parallel. State survives from batch to batch as it does in hardware:
    the component is reset at first use, on `reset_at` and after an error, not in between.

    Parameters
    ----------
    component_name : str
        "zvc-compressor", "zvc-decompressor": what `cdma.hw.emit.verilog.generate` knows.
    element_bytes, sector_bytes : int
        Its configuration.
    waves : path, optional
        Write all signals there, as VCD or FST, whichever the suffix says. Costs about nine
        tenths of the speed. Time in it is a nanosecond per cycle. Complete after `close`.

    Raises
    ------
    cdma.hw.config.ConfigError
        The component cannot have that configuration.
    BuildError
        The simulator cannot be built; the message tells what to mend.
    MachineError
        `waves` cannot be written.
    """

    def __init__(
        self,
        component_name: str,
        *,
        element_bytes: int = 4,
        sector_bytes: int = 32,
        waves: str | Path | None = None,
    ) -> None:
        config = CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes)
        rtl = generated(component_name, config)
        self._open(rtl, waves)

    @classmethod
    def of_verilog(cls, verilog: VerilogText, *, waves: str | Path | None = None) -> Self:
        """A pipeline of RTL from elsewhere that has the same ports.

        For each packet it may put out as many bytes as a ZVC compressor or decompressor could.
        """
        self = cls.__new__(cls)
        self._open(verilog, waves)
        return self

    def _open(self, verilog: VerilogText, waves: str | Path | None) -> None:
        trace = None if waves is None else trace_kind(Path(waves))
        self._library = lib.load(build_library(verilog, trace=trace))
        if waves is not None:
            require_writable(Path(waves))
        self._handle = self._library.cdma_open(None if waves is None else str(waves).encode())
        if self._handle is None:
            raise MachineError(f"the simulator of {verilog.name} cannot be started")
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, self._library.cdma_close, self._handle)
        self.sector_bytes = int(self._library.cdma_sector_bytes())
        self.takes_crc = bool(self._library.cdma_takes_crc())

    def run(
        self,
        packets: Packets | Sequence[Array],
        lengths: npt.ArrayLike | None = None,
        *,
        crc32: npt.ArrayLike | None = None,
        check_crc: npt.ArrayLike | None = None,
        faults: Sequence[Fault] | Array = (),
        stalls: float | Mapping[str, float] = 0.0,
        seed: int = 0,
        cycle_budget: int | None = None,
        reset_at: int | None = None,
    ) -> Batch:
        """Send packets through, each with a command, and collect packets and status records.

        Commands are offered ahead of the data, and everything as fast as the component takes it.
        tdata, tkeep and the command's fields are random whenever they must not matter.

        The room for the output is its worst case. It is reserved, not filled: only pages that are
        written to become memory.

        Parameters
        ----------
        packets : Packets, or sequence of arrays
            The input packets; of arrays, their bytes.
        lengths : int array (n,), optional
            The commands' lengths: uncompressed bytes. Those of the packets if absent, which only a
            compressor can work with.
        crc32 : int array (n,), optional
            The commands' expected checksums (decompressors only).
        check_crc : bool array (n,), optional
            Which of them to check; all if absent.
        faults : sequence of Fault, or array of `FAULT`
            Beats with broken framing, in any order.
        stalls : float, or mapping from "command", "input", "output" and "status" to float
            The probability, per cycle, that an idle source offers nothing or that a sink is not
            ready. At least 0 and less than 1.
        seed : int
            What stalls and random bytes are drawn from.
        cycle_budget : int, optional
            Give up after so many cycles. By default four times of what a component needs that
            moves a beat per cycle between stalls.
        reset_at : int, optional
            Assert reset in this cycle of the batch, for four cycles, and stop there. The `Batch`
            then holds the transfers that were finished, if it was not over by then anyway.

        Raises
        ------
        HangError
            The cycle budget ran out.
        AssertionFailedError
            An assertion of the RTL failed.
        ProtocolError
            An output broke a rule: valid withdrawn or a payload changed before ready, a torn
            packet, anything without a command, `out_size` unlike the packet's size, valid during
            reset.
        CapacityError
            More output than the worst case.
        MachineError
            The pipeline is closed, or a fault names a beat that does not come.
        ValueError
            The arguments do not fit together.
        """
        packets = packets if isinstance(packets, Packets) else Packets.of(packets)
        data = _contiguous(packets.data, np.uint8)
        offsets = _contiguous(packets.offsets, np.uint64)
        sizes = packets.sizes
        count = len(sizes)
        if (sizes < 0).any() or packets.offsets[0] < 0 or packets.offsets[-1] > data.size:
            raise ValueError("packet offsets must ascend and lie inside the data")
        if lengths is None and self.takes_crc:
            raise ValueError("lengths must be given: packets do not tell their uncompressed size")
        if not self.takes_crc and (crc32 is not None or check_crc is not None):
            raise ValueError("only a decompressor takes crc32 and check_crc")
        if crc32 is None and check_crc is not None:
            raise ValueError("check_crc needs crc32")
        length = _per_transfer("lengths", sizes if lengths is None else lengths, count, np.uint32)
        expected = _per_transfer("crc32", 0 if crc32 is None else crc32, count, np.uint32)
        if check_crc is None:
            check_crc = crc32 is not None
        check = _per_transfer("check_crc", check_crc, count, np.uint8)
        stall = _stall_probabilities(stalls)
        fault = _fault_array(faults)

        worst_bytes = _worst_output_bytes(sizes, length.astype(np.int64))
        if cycle_budget is None:
            cycle_budget = _cycle_budget(sizes, worst_bytes, len(fault), self.sector_bytes, stall)
        out = np.empty(int(worst_bytes.sum()), np.uint8)
        out_offsets = np.zeros(count + 1, np.int64)
        records = np.zeros(count, lib.RECORD)
        batch = lib.BatchStruct(
            transfers=count,
            length=length.ctypes.data,
            crc32=expected.ctypes.data,
            check_crc=check.ctypes.data,
            data=data.ctypes.data,
            data_offset=offsets.ctypes.data,
            fault=fault.ctypes.data,
            faults=len(fault),
            stall=tuple(stall),
            seed=seed % 2**64,
            cycle_budget=cycle_budget,
            reset_at=_NEVER if reset_at is None else reset_at,
            out=out.ctypes.data,
            out_capacity=out.size,
            out_offset=out_offsets.ctypes.data,
            record=records.ctypes.data,
        )
        with self._lock:
            self._require_open()
            self._check(self._library.cdma_run(self._handle, batch))
        finished = batch.finished
        return Batch(
            packets=Packets(out[: out_offsets[finished]], out_offsets[: finished + 1]),
            records=records[:finished],
            cycles=batch.cycles,
            input_beats=batch.input_beats,
            output_beats=batch.output_beats,
            input_stall_cycles=batch.input_stall_cycles,
            output_idle_cycles=batch.output_idle_cycles,
        )

    def close(self) -> None:
        """Free the simulator and complete the waves. Closing twice does no harm."""
        with self._lock:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if not self._close.alive:
            raise MachineError("the pipeline is closed; open another one")

    def _check(self, outcome: int) -> None:
        if outcome == lib.DONE:
            return
        message = readable(self._library.cdma_message(self._handle))
        if outcome == lib.HANG:
            message = f"the cycle budget ran out: {message}"
        if outcome in _RUN_ERRORS:
            raise _RUN_ERRORS[outcome](self._library.cdma_cycle(self._handle), message)
        raise MachineError(message)


def _contiguous(array: Array, dtype: npt.DTypeLike) -> Array:
    return np.ascontiguousarray(array, dtype)


def _per_transfer(
    name: str, values: npt.ArrayLike, count: int, dtype: type[np.unsignedinteger[Any]]
) -> Array:
    """One value per transfer, in the shim's type."""
    array = np.asarray(values)
    if array.ndim == 0:
        array = np.broadcast_to(array, count)
    if array.shape != (count,):
        raise ValueError(f"{name} must be one per packet, {count}, not {array.shape}")
    if count and not 0 <= int(array.min()) <= int(array.max()) <= np.iinfo(dtype).max:
        raise ValueError(f"{name} must fit {8 * np.dtype(dtype).itemsize} bits")
    return _contiguous(array, dtype)


def _stall_probabilities(stalls: float | Mapping[str, float]) -> list[float]:
    if isinstance(stalls, Mapping):
        if unknown := set(stalls) - set(CHANNELS):
            raise ValueError(f"stalls are of {', '.join(CHANNELS)}, not {unknown.pop()!r}")
        probabilities = [float(stalls.get(channel, 0.0)) for channel in CHANNELS]
    else:
        probabilities = [float(stalls)] * len(CHANNELS)
    if not all(0 <= p < 1 for p in probabilities):
        raise ValueError(f"stalls must be at least 0 and less than 1, not {stalls!r}")
    return probabilities


def _fault_array(faults: Sequence[Fault] | Array) -> Array:
    if isinstance(faults, np.ndarray):
        array = faults.astype(lib.FAULT)
    else:
        array = np.zeros(len(faults), lib.FAULT)
        for row, fault in zip(array, faults, strict=True):
            row["transfer"], row["beat"] = fault.transfer, fault.beat
            row["keep"] = fault.keep % 2**64, fault.keep >> 64
            row["null_end"] = fault.null_end
    array = array[np.lexsort((array["beat"], array["transfer"]))]
    same = (array["transfer"][1:] == array["transfer"][:-1]) & (
        array["beat"][1:] == array["beat"][:-1]
    )
    if same.any():
        raise ValueError("two faults are in the same beat")
    return array


def _worst_output_bytes(sizes: IntArray, lengths: IntArray) -> IntArray:
    """The most that a codec's block puts out for packets of these sizes."""
    least_head, most_head = _HEAD_BYTES
    compressed = -(-sizes // LINE_BYTES) * (LINE_BYTES + most_head)
    decompressed = np.minimum(sizes // least_head * LINE_BYTES, lengths)
    return np.maximum(compressed, decompressed)


def _cycle_budget(
    sizes: IntArray, worst_bytes: IntArray, faults: int, sector_bytes: int, stall: list[float]
) -> int:
    # A transfer may cost a pipeline's latency, if the component does not overlap them.
    beats = ((sizes + worst_bytes) // sector_bytes + 64).sum() + faults
    return 1000 + int(4 * beats / np.prod(1 - np.array(stall)))
