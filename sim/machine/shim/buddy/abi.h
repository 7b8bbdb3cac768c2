// The C interface of the buddy controller and its surroundings, beside `bus/abi.h`.
// `sim/machine/buddy/library.py` mirrors it. Times are in cycles of the controller.
#pragma once

#include <cstdint>

#include "bus/abi.h"

extern "C" {

// A burst on s_axi.
struct CdmaAccess {
  uint64_t write;
  uint64_t address;
  uint64_t bytes;
  uint64_t id;
  uint64_t size;      // log2 of the bytes per beat
  uint64_t burst;     // as AxBURST
  uint64_t earliest;  // cycle of the play in which its address may be offered
  uint64_t offset;    // of its first byte in the data
};

// What became of one; cycles of the play, all ones: never.
struct CdmaAccessRecord {
  uint64_t offered;   // its address
  uint64_t accepted;  // its address
  uint64_t first;     // beat of a read
  uint64_t end;       // its last beat, or its response
  uint64_t response;  // the worst of its beats'
};

struct CdmaPlay {
  const CdmaAccess* access;
  uint64_t accesses;
  uint8_t* data;        // of all accesses: what is written, and what was read
  const uint8_t* mask;  // of each byte of data: write it; null: all
  uint64_t most_reads;  // outstanding at once
  uint64_t most_writes;
  uint64_t apart;       // accesses to the same bytes wait for one another
  uint64_t cycles;      // at most
  CdmaAccessRecord* record;  // out
  uint64_t finished;         // out
  uint64_t took;             // out: cycles
};

struct CdmaBuddyCounters {
  double link_out_busy_cycles;
  double link_in_busy_cycles;
  uint64_t since;  // the cycle of the last clearing
};

// Null when the model cannot be built or `waves` cannot be written. `waves` may be null.
CdmaBus* cdma_buddy_open(const CdmaSurroundings* surroundings, const char* waves);
// Sends accesses until all are answered. The arrays must live until the next play or reset.
int32_t cdma_buddy_play(CdmaBus* bus, CdmaPlay* play);
// `ports`: of device memory, then of buddy memory.
void cdma_buddy_counters(const CdmaBus* bus, CdmaBuddyCounters* counters, CdmaPortCounters* ports);
// What the library was built for.
uint64_t cdma_buddy_sector_bytes(void);
}
