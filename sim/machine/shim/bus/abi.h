// The C interface that designs on AXI share: memories around them, and registers.
// `sim/machine/bus/library.py` mirrors these structures. Times are in cycles of the design.
#pragma once

#include <cstdint>

#include "outcome.h"  // what the calls return

struct CdmaBus;

extern "C" {

struct CdmaMemory {
  uint8_t* data;
  uint64_t bytes;
  uint64_t base;  // the address of data[0]
};

struct CdmaSurroundings {
  CdmaMemory device;
  CdmaMemory host;              // behind the link
  double dram_bytes_per_cycle;  // of one channel
  uint64_t dram_latency;
  uint64_t dram_outstanding;  // bursts each way, per channel
  uint64_t refresh_interval;  // 0: none
  uint64_t refresh_length;
  uint64_t interleave_bytes;
  double link_out_bytes_per_cycle;
  double link_in_bytes_per_cycle;
  uint64_t link_latency;  // one way
  uint64_t link_overhead_bytes;
  uint64_t link_outstanding;
  uint64_t link_buffer_bursts;
  uint64_t window;  // over which the engine's DRAM traffic is summed
  double stall;     // probability per cycle and channel that the surroundings are not willing
  uint64_t seed;
};

enum CdmaFaultChannel : uint64_t { kAr = 0, kR = 1, kAw = 2, kW = 3, kB = 4 };
enum CdmaFaultKind : uint64_t {
  kSlaveError = 0,
  kDecodeError = 1,
  kHangs = 2,
  kEarlyLast = 3,
  kLateLast = 4,
};

// Hits the transfer `index` of a channel, or all that touch addresses [low, high).
struct CdmaFault {
  uint64_t port;  // its number among those to memories
  uint64_t channel;
  uint64_t kind;
  uint64_t index;  // all ones: by address
  uint64_t low;
  uint64_t high;
  uint64_t delivered;  // out: how often
  uint64_t cycle;      // out: when first, and at which address
  uint64_t address;
};

struct CdmaRun {
  uint64_t cycles;  // at most
  // When to stop before: the interrupt, so many cycles without traffic, (word & mask) != value.
  uint64_t irq;
  uint64_t idle_cycles;  // 0: never
  const uint8_t* word;   // 32 bits; null: never
  uint64_t mask;
  uint64_t value;
  uint64_t stopped;  // out: one of these came true
};

struct CdmaPortCounters {
  uint64_t read_bytes;  // served, whole beats
  uint64_t written_bytes;
  uint64_t foreign_bytes;  // of both, those whose home is another channel
  uint64_t read_bursts;    // asked for
  uint64_t write_bursts;
  uint64_t most_reads;  // outstanding at once
  uint64_t most_writes;
  uint64_t read_wait_cycles;  // a beat was offered and not taken
  uint64_t decode_errors;     // responses
  uint64_t first_read_cycle;  // of an address; all ones: none
  uint64_t first_write_cycle;
  uint64_t last_response_cycle;
};

void cdma_bus_close(CdmaBus* bus);
int32_t cdma_bus_reset(CdmaBus* bus);
int32_t cdma_bus_run(CdmaBus* bus, CdmaRun* run);
// One access on s_axil. False in `*done` when it took longer than `cycles`; the access then stays
// under way, and none else may start before a reset.
int32_t cdma_bus_read_register(CdmaBus* bus, uint32_t address, uint64_t cycles, uint32_t* value,
                               uint32_t* response, uint32_t* done);
int32_t cdma_bus_write_register(CdmaBus* bus, uint32_t address, uint32_t value, uint64_t cycles,
                                uint64_t* taken, uint32_t* response, uint32_t* done);
// The array stays the caller's, and must live until the next call. Lifts the hangs of faults.
void cdma_bus_set_faults(CdmaBus* bus, CdmaFault* faults, uint64_t count);
void cdma_bus_clear_counters(CdmaBus* bus);
// What is outstanding, for people.
const char* cdma_bus_describe(CdmaBus* bus);
const char* cdma_bus_message(const CdmaBus* bus);
uint64_t cdma_bus_cycle(const CdmaBus* bus);
int32_t cdma_bus_irq(const CdmaBus* bus);
}
