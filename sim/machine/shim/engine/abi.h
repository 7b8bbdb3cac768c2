// The C interface of the engine and its environment, beside `bus/abi.h`.
// sim/machine/structs.py generates `engine_structs.h`. Times are in cycles of the engine.
#pragma once

#include <cstdint>

#include "bus/abi.h"
#include "engine_structs.h"

extern "C" {

// Null when the model cannot be built or `waves` cannot be written. `waves` may be null.
CdmaBus* cdma_engine_open(const CdmaEnvironment* environment, const char* waves);
// `ports` has room for all memories and the host.
void cdma_engine_counters(const CdmaBus* bus, CdmaCounters* counters, CdmaPortCounters* ports);
// Computes layers one after another, beside the engine, from a cycle on that may be over. The layers
// before must have ended.
void cdma_engine_compute(CdmaBus* bus, const CdmaLayer* layers, uint64_t count, double start);
// When the last layer ended that was computed.
double cdma_engine_computed(const CdmaBus* bus);
// Whether components sleep while nothing changes in them, as they do at first. Nothing else differs.
void cdma_engine_sleep(CdmaBus* bus, int32_t sleeps);
// From now on, notes addresses and errors of all ports, and forgets those before.
void cdma_engine_watch(CdmaBus* bus);
// What has been noted of a port, in order, the host's behind the memories'. They stay the bus's, and
// are gone with the next cycle.
uint64_t cdma_engine_events(CdmaBus* bus, uint64_t port, const CdmaBusEvent** events);
// What the library was built for.
uint64_t cdma_engine_units(void);
uint64_t cdma_engine_sector_bytes(void);
uint64_t cdma_engine_host_bytes(void);
}
