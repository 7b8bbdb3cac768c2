// The C interface of the buddy controller and its environment, beside `bus/abi.h`.
// sim/machine/structs.py generates `buddy_structs.h`. Times are in cycles of the controller.
#pragma once

#include <cstdint>

#include "buddy_structs.h"
#include "bus/abi.h"

extern "C" {

// Null when the model cannot be built or `waves` cannot be written. `waves` may be null.
CdmaBus* cdma_buddy_open(const CdmaEnvironment* environment, const char* waves);
// Sends accesses until all are answered. The arrays must live until the next play or reset.
int32_t cdma_buddy_play(CdmaBus* bus, CdmaPlay* play);
// `ports`: of device memory, then of buddy memory.
void cdma_buddy_counters(const CdmaBus* bus, CdmaBuddyCounters* counters, CdmaPortCounters* ports);
// What the library was built for.
uint64_t cdma_buddy_sector_bytes(void);
}
