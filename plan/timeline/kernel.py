"""The timeline kernel computes what a plan does to a training step, stage by stage.

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
   memory traffic, and copies in flight take their share of the memory's bandwidth.
4. Forward: if the stage's tensor leaves, it is compressed, if that is done here, and then its
   offload may start. What is kept compressed is so after its last forward use.
5. What has had its last use is freed: tensors that leave, when they are out. A tensor that is
   back stays until no later step of backward wants it, be it for another's recomputation.

A prefetch starts when its tensor is out, and not before backward. On a link that is not duplex, all
copies are one stream in the order in which they are issued.

When a prefetch has its turn is decided before, from memory alone: as many steps before its need as
there is room for it beside all that is needed before it and all that must be there anyway, and at
most `lookahead`; never before backward, nor before the prefetch in front of it. So no step waits
for memory that only a later one frees, and a plan either fits or is refused; none hangs.

Each event says what it waited for: all its waits, and the one that bound it, which is the latest.
The event starts exactly when that one is over, to the bit:

============= ===================================================================================
`start`       Nothing: the step begins.
`computed`    The computation before it; of copies, the one that issues them. A prefetch that found
              no memory at an earlier step is issued at the end of the computation before this one.
`staging`     An offload, until which the staging pool was full.
`memory`      An offload, until which there was no memory.
`offloaded`   Of a prefetch: its tensor's offload.
`link`        Of a copy: the copy that had the link before it.
`arrived`     Of computation: the prefetch of a tensor that it needs.
============= ===================================================================================

`computed` and `link` are over at the end of their event, all others a latency behind it. Waits are
in this order, and of several that are over at the same time the first one is the one that bound the
event. Where both memory and staging pool are full, the reason is `memory`. A prefetch waits for all
that its step has waited for when it is issued, and pieces of computation behind the first one of a
step for the piece before them only.

A search runs this millions of times, so it is C++ (`kernel.cpp`), compiled once and cached.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cdma.builds.compiler import compile_source
from cdma.builds.structs import F64, I32, I64, CType, Field, Struct, header, pointer, require_sizes

SOURCE = Path(__file__).with_name("kernel.cpp")
HEADER = "kernel_structs.h"

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Assignments = npt.NDArray[np.int8]
"""For each managed tensor, the index of its option."""


class ProblemArrays(NamedTuple):
    """Arrays that no plan changes. Lists per stage are flat, with a first index per stage.

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
    """Options of each managed tensor: arrays are (managed, options)."""

    options: int
    placement: Ints
    out_s: Floats
    in_s: Floats
    out_dram: Floats  # bytes/s of device memory that the copy takes
    in_dram: Floats
    codec_s: Floats  # of computation, each way
    held_bytes: Floats  # of its compressed form on the device; 0 if it has none
    link_bytes: Floats


_TYPES: dict[Any, CType] = {
    int: I32,
    bool: I32,
    float: F64,
    Ints: pointer(I32),
    Floats: pointer(F64),
}


def _struct(table: type[NamedTuple], note: str) -> Struct:
    """The C++ structure of a tuple's scalars and arrays, name for name."""
    fields = tuple(Field(name, _TYPES[kind]) for name, kind in table.__annotations__.items())
    return Struct(table.__name__, fields, note)


PROBLEM_STRUCT = _struct(ProblemArrays, "Lists per stage are flat, with a first index per stage.")
OPTIONS_STRUCT = _struct(Options, "Per managed tensor and option: [tensor * options + option].")
WAIT_STRUCT = Struct(
    "Wait",
    (Field("reason", I32), Field("event", I32, "by index; -1: none")),
)
EVENT_STRUCT = Struct(
    "Event",
    (
        Field("stream", I32),
        Field("kind", I32),
        Field("tensor", I32),
        Field("waits", I32, "how many"),
        Field("bound", WAIT_STRUCT, "the one of them that decided the start"),
        Field("start", F64),
        Field("end", F64),
        Field("nbytes", F64),
    ),
)
CHANGE_STRUCT = Struct("Change", (Field("time", F64), Field("nbytes", F64)))
OUTCOME_STRUCT = Struct(
    "Outcome",
    (
        *(Field(name, F64) for name in ("seconds", "peak_bytes", "least_bytes")),
        *(Field(name, I64) for name in ("events", "waits", "changes")),
    ),
)
RECORD_STRUCT = Struct(
    "Record",
    (
        Field("events", pointer(EVENT_STRUCT, mutable=True)),
        Field("event_room", I64),
        Field("waits", pointer(WAIT_STRUCT, mutable=True), "in the order of events"),
        Field("wait_room", I64),
        Field("changes", pointer(CHANGE_STRUCT, mutable=True)),
        Field("change_room", I64),
    ),
    "Where a run's events, waits and changes of memory go, and how many there is room for.",
)
STRUCTS = (
    *(PROBLEM_STRUCT, OPTIONS_STRUCT, WAIT_STRUCT, EVENT_STRUCT),
    *(CHANGE_STRUCT, OUTCOME_STRUCT, RECORD_STRUCT),
)
"""All that Python and `kernel.cpp` share, in the order of the header."""

EVENT = EVENT_STRUCT.dtype()
WAIT = WAIT_STRUCT.dtype()
CHANGE = CHANGE_STRUCT.dtype()


class Outcome(NamedTuple):
    """The result of `TimelineKernel.run`.

    Attributes
    ----------
    seconds : float
        Infinity if the memory does not suffice.
    peak_bytes : float
        Most memory that was ever reserved; if it does not suffice, what would.
    least_bytes : float
        The least memory that the plan works with.
    events : array of EVENT
        Stream, kind and reasons are indices into `cdma.plan.timeline.trace`'s names. Events are in
        the order in which they were issued, those of a stream in the order of their start.
    waits : array of WAIT
        Those of the first event, then those of the second: `events["waits"]` counts them.
    memory : array of CHANGE
        Ascending by time; of several at one time, the last one stays.
    """

    seconds: float
    peak_bytes: float
    least_bytes: float
    events: npt.NDArray[Any]
    waits: npt.NDArray[Any]
    memory: npt.NDArray[Any]


class TimelineKernel:
    """The compiled kernel with one scenario's problem and options, for any number of plans.

    Calls do not hold the GIL.
    """

    def __init__(self, problem: ProblemArrays, options: Options) -> None:
        self._library = _library()
        # What the pointers point to lives as long as they do.
        self._kept = (problem, options)
        self._problem = PROBLEM_STRUCT.ctype(*map(_c_value, problem))
        self._options = OPTIONS_STRUCT.ctype(*map(_c_value, options))
        self.managed = problem.managed
        self.options = options.options

    def run(self, assignment: Assignments, staging: float, lookahead: int) -> Outcome:
        """Time, memory and events of one assignment, int8 (managed,)."""
        row = self._checked(np.asarray(assignment)[np.newaxis])[0]
        outcome = OUTCOME_STRUCT.ctype()
        # Once to count the events, and once to take them.
        arrays = [np.empty(0, dtype) for dtype in (EVENT, WAIT, CHANGE)]
        for _ in range(2):
            buffers = [part for array in arrays for part in (array.ctypes.data, array.size)]
            self._library.timeline_run(
                ctypes.byref(self._problem),
                ctypes.byref(self._options),
                row.ctypes.data,
                staging,
                lookahead,
                ctypes.byref(RECORD_STRUCT.ctype(*buffers)),
                ctypes.byref(outcome),
            )
            counts = (outcome.events, outcome.waits, outcome.changes)
            if tuple(array.size for array in arrays) == counts:
                break
            arrays = [np.empty(n, array.dtype) for n, array in zip(counts, arrays, strict=True)]
        events, waits, changes = arrays
        return Outcome(
            seconds=outcome.seconds,
            peak_bytes=outcome.peak_bytes,
            least_bytes=outcome.least_bytes,
            events=events,
            waits=waits,
            memory=_levels(changes),
        )

    def seconds(self, assignments: Assignments, staging: float, lookahead: int) -> Floats:
        """The step's seconds under each of the assignments, int8 (plans, managed).

        They are infinite where the memory does not suffice.
        """
        rows = self._checked(assignments)
        seconds = np.empty(len(rows))
        self._library.timeline_run_all(
            ctypes.byref(self._problem),
            ctypes.byref(self._options),
            rows.ctypes.data,
            len(rows),
            staging,
            lookahead,
            seconds.ctypes.data,
        )
        return seconds

    def _checked(self, assignments: Assignments) -> Assignments:
        """Check the arrays as the compiled code reads them; it would read past its tables without
        notice.
        """
        rows = np.ascontiguousarray(assignments, np.int8)
        if rows.ndim != 2 or rows.shape[1] != self.managed:
            raise ValueError(f"plans must be (plans, {self.managed}), not {rows.shape}")
        if rows.size and not 0 <= rows.min() <= rows.max() < self.options:
            raise ValueError(
                f"plans are of options 0 to {self.options - 1}, not {rows.min()} to {rows.max()}"
            )
        return rows


def _levels(changes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reserved bytes after each change, by time: the kernel reports an offload's end late."""
    memory = changes[np.argsort(changes["time"], kind="stable")]
    memory["nbytes"] = np.cumsum(memory["nbytes"])
    return memory


def _c_value(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    assert value.flags.c_contiguous
    assert value.dtype in (np.int32, np.float64)
    return value.ctypes.data


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compile_source(SOURCE, {HEADER: header(STRUCTS)})))
    require_sizes(library, STRUCTS)
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
