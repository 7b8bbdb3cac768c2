"""The timeline's recurrence: what a plan does to a training step, stage by stage.

Three streams work in order: computation, copies to the host, copies to the device. The computation
has 2n steps, forward 0 … n-1 and backward n-1 … 0 of its n stages, and each goes as follows.

1. Computation *arrives* when the step before has ended. Memory for all that the step makes is
   reserved; where there is none, computation waits for offloads to end. It also waits while more
   bytes than the staging pool holds are behind their last forward use and not yet offloaded.
   What is recomputed on the way to something else counts as this step's, and so does the scratch
   memory of layers that are run again, where they take more than the step's own.
2. Prefetches whose turn it is are issued, in the order of their need, the latest tensor first;
   their memory is reserved, too. If there is none, this one and those behind it try again at the
   next step, but for those that this step needs, which wait.
3. The step starts when what it needs has arrived. It decompresses, recomputes what is missing, and
   runs its layers, one after another. A copy has arrived, or left, a latency after its last byte,
   and the next copy does not wait for that. A layer takes the longer of its arithmetic and its
   memory traffic, and copies that are under way take their share of the memory's bandwidth.
4. Forward: if the stage's tensor leaves, it is compressed, if that is done here, and then its
   offload may start. What is kept compressed is so after its last forward use.
5. What has had its last use is freed: tensors on their way out when they are out. A tensor that is
   back stays until no later step of backward wants it, be it for another's recomputation.

A prefetch starts when its tensor is out, and not before backward. On a link that is not duplex, all
copies are one stream in the order in which they are issued.

When a prefetch has its turn is decided before, from memory alone: as many steps before its need as
there is room for it beside all that is needed before it and all that must be there anyway, and at
most `lookahead`; never before backward, nor before the prefetch in front of it. So no step waits
for memory that only a later one frees, and a plan either fits or is refused; none hangs.

A search runs this millions of times, so it is C++ (`kernel.cpp`), compiled once and cached.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cdma.builds.compiler import compile_source

SOURCE = Path(__file__).with_name("kernel.cpp")

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Particles = npt.NDArray[np.int8]

EVENT = np.dtype(
    [
        ("stream", "i4"),
        ("kind", "i4"),
        ("tensor", "i4"),
        ("", "i4"),
        ("start", "f8"),
        ("end", "f8"),
        ("nbytes", "f8"),
    ]
)
"""Stream and kind by their places in `cdma.plan.timeline.trace`."""

MEMORY = np.dtype([("time", "f8"), ("nbytes", "f8")])
"""What is reserved from a time on."""


class Structure(NamedTuple):
    """What no plan changes. Lists per stage are flat, with a first index per stage and one more.

    Memory is in bytes, times in seconds. Tensors are those of the graph; managed are those that a
    plan decides about.
    """

    stages: int
    managed: int
    duplex: bool
    capacity: float
    dram_bytes_per_s: float
    out_latency_s: float  # from a copy's last byte to its completion
    in_latency_s: float
    output: Ints  # (stages,): the tensor that a stage makes
    producer: Ints  # (tensors,): its stage; -1 for inputs
    last_forward: Ints  # (tensors,): the stage of its last forward use, or its own
    managed_of: Ints  # (tensors,): its place among the managed; -1
    tensor_of: Ints  # (managed,)
    tensor_bytes: Floats  # (tensors,)
    input_start: Ints  # (stages + 1,)
    input_list: Ints
    saved_start: Ints  # (stages + 1,)
    saved_list: Ints
    ending_start: Ints  # (stages + 1,): managed whose last forward use is here
    ending_list: Ints
    fixed_bytes: Floats  # (2 stages,): memory in each step that is no managed tensor's
    scratch_bytes: Floats  # (stages,): what of it is there only while a layer runs
    layer_start: Ints  # (stages + 1,)
    forward_flop_s: Floats  # (layers,), in the order of stages
    forward_memory_s: Floats
    backward_flop_s: Floats
    backward_memory_s: Floats


class Options(NamedTuple):
    """What may become of each managed tensor: each (managed, options)."""

    options: int
    placement: Ints
    out_s: Floats
    in_s: Floats
    out_dram: Floats  # bytes/s of device memory that the copy takes
    in_dram: Floats
    codec_s: Floats  # of computation, each way
    held_bytes: Floats  # of its compressed form on the device; 0 if it has none
    link_bytes: Floats


class Outcome(NamedTuple):
    """What `run` finds.

    Attributes
    ----------
    seconds : float
        Infinity if the memory does not suffice.
    peak_bytes : float
        Most memory that was ever reserved; if it does not suffice, what would.
    least_bytes : float
        The least memory that the plan works with.
    events : array of EVENT
    memory : array of MEMORY
        Ascending by time; of several at one time, the last one stays.
    """

    seconds: float
    peak_bytes: float
    least_bytes: float
    events: npt.NDArray[Any]
    memory: npt.NDArray[Any]


class Recurrence:
    """One scenario's structure and options, for any number of plans.

    Calls do not hold the GIL.
    """

    def __init__(self, structure: Structure, options: Options) -> None:
        self._library = _library()
        # What the pointers point to lives as long as they do.
        self._kept = (structure, options)
        self._structure = _CStructure(*map(_c_value, structure))
        self._options = _COptions(*map(_c_value, options))
        self.managed = structure.managed
        self.options = options.options

    def run(self, particle: Particles, staging: float, lookahead: int) -> Outcome:
        """One plan: for each managed tensor its option, int8 (managed,)."""
        row = self._checked(np.asarray(particle)[np.newaxis])[0]
        outcome = _COutcome()
        events, changes = np.empty(0, EVENT), np.empty(0, MEMORY)
        # Once to count the events, and once to take them.
        for _ in range(2):
            record = _CRecord(events.ctypes.data, events.size, changes.ctypes.data, changes.size)
            self._library.timeline_run(
                ctypes.byref(self._structure),
                ctypes.byref(self._options),
                row.ctypes.data,
                staging,
                lookahead,
                ctypes.byref(record),
                ctypes.byref(outcome),
            )
            if (events.size, changes.size) == (outcome.events, outcome.changes):
                break
            events, changes = np.empty(outcome.events, EVENT), np.empty(outcome.changes, MEMORY)
        return Outcome(
            outcome.seconds, outcome.peak_bytes, outcome.least_bytes, events, _levels(changes)
        )

    def seconds(self, particles: Particles, staging: float, lookahead: int) -> Floats:
        """Of each plan, int8 (plans, managed); infinity where memory does not suffice."""
        rows = self._checked(particles)
        seconds = np.empty(len(rows))
        self._library.timeline_run_all(
            ctypes.byref(self._structure),
            ctypes.byref(self._options),
            rows.ctypes.data,
            len(rows),
            staging,
            lookahead,
            seconds.ctypes.data,
        )
        return seconds

    def _checked(self, particles: Particles) -> Particles:
        """As the compiled code reads them; it would read past its tables without a word."""
        rows = np.ascontiguousarray(particles, np.int8)
        if rows.ndim != 2 or rows.shape[1] != self.managed:
            raise ValueError(f"plans must be (plans, {self.managed}), not {rows.shape}")
        if rows.size and not 0 <= rows.min() <= rows.max() < self.options:
            raise ValueError(
                f"plans are of options 0 to {self.options - 1}, not {rows.min()} to {rows.max()}"
            )
        return rows


def _levels(changes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What there is after each change; the recurrence tells of an offload's end when it looks."""
    memory = changes[np.argsort(changes["time"], kind="stable")]
    memory["nbytes"] = np.cumsum(memory["nbytes"])
    return memory


def _fields(table: type[NamedTuple]) -> Sequence[tuple[str, Any]]:
    kinds = {int: ctypes.c_int32, bool: ctypes.c_int32, float: ctypes.c_double}
    return [
        (name, kinds.get(kind, ctypes.c_void_p)) for name, kind in table.__annotations__.items()
    ]


class _CStructure(ctypes.Structure):
    _fields_ = _fields(Structure)


class _COptions(ctypes.Structure):
    _fields_ = _fields(Options)


class _COutcome(ctypes.Structure):
    _fields_ = (
        ("seconds", ctypes.c_double),
        ("peak_bytes", ctypes.c_double),
        ("least_bytes", ctypes.c_double),
        ("events", ctypes.c_int64),
        ("changes", ctypes.c_int64),
    )


class _CRecord(ctypes.Structure):
    _fields_ = (
        ("events", ctypes.c_void_p),
        ("event_room", ctypes.c_int64),
        ("changes", ctypes.c_void_p),
        ("change_room", ctypes.c_int64),
    )


def _c_value(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    assert value.flags.c_contiguous
    assert value.dtype in (np.int32, np.float64)
    return value.ctypes.data


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compile_source(SOURCE)))
    pointer = ctypes.c_void_p
    library.timeline_run.argtypes = (
        pointer,
        pointer,
        pointer,
        ctypes.c_double,
        ctypes.c_int32,
        pointer,
        pointer,
    )
    library.timeline_run.restype = None
    library.timeline_run_all.argtypes = (
        pointer,
        pointer,
        pointer,
        ctypes.c_int64,
        ctypes.c_double,
        ctypes.c_int32,
        pointer,
    )
    library.timeline_run_all.restype = None
    return library
