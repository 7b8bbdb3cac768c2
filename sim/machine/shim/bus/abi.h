// The C interface that designs on AXI share: memories around them, and registers.
// sim/machine/structs.py generates `bus_structs.h`. Times are in cycles of the design.
#pragma once

#include <cstdint>

#include "bus_structs.h"
#include "outcome.h"  // what the calls return

struct CdmaBus;

extern "C" {

enum CdmaFaultChannel : uint64_t { kAr = 0, kR = 1, kAw = 2, kW = 3, kB = 4 };
enum CdmaFaultKind : uint64_t {
  kSlaveError = 0,
  kDecodeError = 1,
  kHangs = 2,
  kEarlyLast = 3,
  kLateLast = 4,
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
// A bit for each line of the interrupt.
int32_t cdma_bus_irq(const CdmaBus* bus);
}
