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
// The same for several at the same time, cycle by cycle. All have one link, as fast as theirs together,
// from then on; they must be in the same cycle, and nothing may be under way. `*failed` is whose
// outcome is returned. Each `took` is from the common begin to its own end.
int32_t cdma_buddy_play_together(CdmaBus** buses, CdmaPlay* plays, uint64_t count,
                                 uint64_t* failed);
// `ports`: of device memory, then of buddy memory.
void cdma_buddy_counters(const CdmaBus* bus, CdmaBuddyCounters* counters, CdmaPortCounters* ports);
// What the library was built for.
uint64_t cdma_buddy_sector_bytes(void);
}
