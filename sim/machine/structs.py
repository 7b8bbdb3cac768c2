"""The structures that Python and the shims share: one table for C++, ctypes and numpy.

The build generates a header of each shim's structures, which its `abi.h` includes; libraries are
checked against the same table when they are loaded (`cdma.builds.structs`). Times are in cycles of
the design.
"""

from cdma.builds.structs import F64, U8, U32, U64, Field, Struct, pointer


def _counts(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, U64) for name in names)


# A codec's pipeline.

PIPELINE_FAULT = Struct(
    "CdmaFault",
    (
        Field("transfer", U64),
        Field("beat", U64),
        Field("keep", U64, "is sent as tkeep; its lanes, lowest first, carry the next bytes", 2),
        Field("null_end", U64, "non-zero: behind the last byte, a null beat with tlast follows"),
    ),
    "Replaces the framing of one input beat.",
)
RECORD = Struct(
    "CdmaRecord",
    (
        *_counts("offset", "out_size", "command_cycle", "input_first_cycle", "input_last_cycle"),
        *_counts("output_first_cycle", "output_last_cycle", "status_cycle"),
        Field("crc32", U32),
        Field("status", U32),
    ),
    "A transfer's status record, and when its beats were accepted since the batch began.",
)
BATCH = Struct(
    "CdmaBatch",
    (
        Field("transfers", U64, "one command and one packet each"),
        Field("length", pointer(U32)),
        Field("crc32", pointer(U32)),
        Field("check_crc", pointer(U8)),
        Field("data", pointer(U8)),
        Field("data_offset", pointer(U64), "transfers + 1"),
        Field("fault", pointer(PIPELINE_FAULT), "ordered by transfer, then by beat"),
        Field("faults", U64),
        Field("stall", F64, "probability per cycle: command, input, output, status", 4),
        Field("seed", U64),
        Field("cycle_budget", U64),
        Field("reset_at", U64, "assert reset in this cycle and stop there"),
        Field("out", pointer(U8, mutable=True), "out: `finished` transfers, in order"),
        Field("out_capacity", U64),
        Field("out_offset", pointer(U64, mutable=True), "transfers + 1"),
        Field("record", pointer(RECORD, mutable=True), "transfers"),
        *_counts("finished", "cycles", "input_beats", "output_beats", "input_stall_cycles"),
        *_counts("output_idle_cycles"),
    ),
)

# Designs on AXI.

MEMORY = Struct(
    "CdmaMemory",
    (
        Field("data", pointer(U8, mutable=True)),
        Field("bytes", U64),
        Field("base", U64, "the address of data[0]"),
        Field("mirrored", U64, "non-zero: it is at every address, again and again"),
    ),
)
ENVIRONMENT = Struct(
    "CdmaEnvironment",
    (
        Field("device", MEMORY),
        Field("host", MEMORY, "behind the link"),
        Field("dram_bytes_per_cycle", F64, "of one channel"),
        Field("dram_latency", U64),
        Field("dram_outstanding", U64, "bursts each way, per channel"),
        Field("refresh_interval", U64, "0: none"),
        Field("refresh_length", U64),
        Field("interleave_bytes", U64),
        Field("link_out_bytes_per_cycle", F64),
        Field("link_in_bytes_per_cycle", F64),
        Field("link_latency", U64, "one way"),
        Field("link_overhead_bytes", U64),
        Field("link_outstanding", U64),
        Field("link_buffer_bursts", U64),
        Field("host_period", F64, "of the engine's bus to the host, if it has a clock of its own"),
        Field("host_phase", F64, "of the first edge of that clock, in its periods"),
        Field("window", U64, "over which the engine's DRAM traffic is summed"),
        Field("stall", F64, "probability per cycle and channel that the environment stalls"),
        Field("seed", U64),
    ),
)
FAULT = Struct(
    "CdmaFault",
    (
        Field("port", U64, "its number among those to memories"),
        Field("channel", U64),
        Field("kind", U64),
        Field("index", U64, "all ones: by address"),
        Field("low", U64),
        Field("high", U64),
        Field("delivered", U64, "out: how often"),
        Field("cycle", U64, "out: when first, and at which address"),
        Field("address", U64),
    ),
    "Hits the transfer `index` of a channel, or all that touch addresses [low, high).",
)
RUN = Struct(
    "CdmaRun",
    (
        Field("cycles", U64, "at most"),
        Field("irq", U64, "when to stop before: at one of these lines of the interrupt"),
        Field("idle_cycles", U64, "after so many cycles without traffic; 0: never"),
        Field("word", pointer(U8), "32 bits, when (word & mask) != value; null: never"),
        Field("mask", U64),
        Field("value", U64),
        Field("computed", U64, "when nothing is computed any more"),
        Field("stopped", U64, "out: one of these came true"),
    ),
)
PORT_COUNTERS = Struct(
    "CdmaPortCounters",
    (
        Field("read_bytes", U64, "served, whole beats"),
        Field("written_bytes", U64),
        Field("foreign_bytes", U64, "of both, those whose home is another channel"),
        Field("read_bursts", U64, "requested"),
        Field("write_bursts", U64),
        Field("most_reads", U64, "outstanding at once"),
        Field("most_writes", U64),
        Field("read_wait_cycles", U64, "a beat was offered and not accepted"),
        Field("decode_errors", U64, "responses"),
        Field("first_read_cycle", U64, "of an address; all ones: none"),
        Field("first_write_cycle", U64),
        Field("last_response_cycle", U64),
    ),
)

BUS_EVENT = Struct(
    "CdmaBusEvent",
    (
        Field("cycle", U64),
        Field("kind", U64, "a read, a write, a beat that failed, a write that failed"),
        Field("address", U64),
        Field("beats", U64),
    ),
    "An address that was accepted, or an answer with an error.",
)

# The engine.

LAYER = Struct(
    "CdmaLayer",
    (
        Field("arithmetic_cycles", F64),
        Field("memory_cycles", F64, "for which all channels serve nothing else"),
    ),
    "A layer of a computation, which takes the longer of both.",
)
ENGINE_COUNTERS = Struct(
    "CdmaCounters",
    (
        Field("link_out_busy_cycles", F64),
        Field("link_in_busy_cycles", F64),
        Field("window_read_bytes", U64, "the most in any window, all channels"),
        Field("window_written_bytes", U64),
        Field("since", U64, "the cycle of the last clearing"),
    ),
)

# The buddy controller.

ACCESS = Struct(
    "CdmaAccess",
    (
        Field("write", U64),
        Field("address", U64),
        Field("bytes", U64),
        Field("id", U64),
        Field("size", U64, "log2 of the bytes per beat"),
        Field("burst", U64, "as AxBURST"),
        Field("earliest", U64, "cycle of the play in which its address may be offered"),
        Field("offset", U64, "of its first byte in the data"),
    ),
    "A burst on s_axi.",
)
ACCESS_RECORD = Struct(
    "CdmaAccessRecord",
    (
        Field("offered", U64, "its address"),
        Field("accepted", U64, "its address"),
        Field("first", U64, "beat of a read"),
        Field("end", U64, "its last beat, or its response"),
        Field("response", U64, "the worst of its beats'"),
    ),
    "The course of an access; cycles of the play, all ones: never.",
)
PLAY = Struct(
    "CdmaPlay",
    (
        Field("access", pointer(ACCESS)),
        Field("accesses", U64),
        Field("data", pointer(U8, mutable=True), "of all accesses: to write, and as read"),
        Field("mask", pointer(U8), "of each byte of data: write it; null: all"),
        Field("most_reads", U64, "outstanding at once"),
        Field("most_writes", U64),
        Field("apart", U64, "accesses to the same bytes wait for one another"),
        Field("cycles", U64, "at most"),
        Field("record", pointer(ACCESS_RECORD, mutable=True), "out"),
        Field("finished", U64, "out"),
        Field("took", U64, "out: cycles"),
    ),
)
BUDDY_COUNTERS = Struct(
    "CdmaBuddyCounters",
    (
        Field("link_out_busy_cycles", F64),
        Field("link_in_busy_cycles", F64),
        Field("since", U64, "the cycle of the last clearing"),
    ),
)

PIPELINE_STRUCTS = (PIPELINE_FAULT, RECORD, BATCH)
BUS_STRUCTS = (MEMORY, ENVIRONMENT, FAULT, RUN, PORT_COUNTERS, BUS_EVENT)
ENGINE_STRUCTS = (LAYER, ENGINE_COUNTERS)
BUDDY_STRUCTS = (ACCESS, ACCESS_RECORD, PLAY, BUDDY_COUNTERS)

HEADERS = {
    "pipeline_structs.h": PIPELINE_STRUCTS,
    "bus_structs.h": BUS_STRUCTS,
    "engine_structs.h": ENGINE_STRUCTS,
    "buddy_structs.h": BUDDY_STRUCTS,
}
"""Generated headers by name, as the shims include them."""
