// The C interface of a codec's library. sim/machine/structs.py generates `pipeline_structs.h`.
#pragma once

#include <cstdint>

#include "outcome.h"  // what the calls return
#include "pipeline_structs.h"

extern "C" {

// Null when the model cannot be built or `waves` cannot be written. `waves` may be null.
struct CdmaMachine* cdma_open(const char* waves);
void cdma_close(struct CdmaMachine* machine);
int32_t cdma_reset(struct CdmaMachine* machine);
int32_t cdma_run(struct CdmaMachine* machine, struct CdmaBatch* batch);
// What went wrong in the last call, and in which cycle of the batch.
const char* cdma_message(const struct CdmaMachine* machine);
uint64_t cdma_cycle(const struct CdmaMachine* machine);
// What the library was built for: the width of its streams, and whether commands carry a CRC.
uint64_t cdma_sector_bytes(void);
int32_t cdma_takes_crc(void);
}
