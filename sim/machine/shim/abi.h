// The C interface of the Verilated library. `sim/machine/pipeline/library.py` mirrors these structures.
#pragma once

#include <cstdint>

#include "outcome.h"  // what the calls return

extern "C" {

// Replaces the framing of one input beat: `keep` is sent as tkeep, and its lanes, lowest first,
// carry the next bytes of the packet.
struct CdmaFault {
  uint64_t transfer;
  uint64_t beat;
  uint64_t keep[2];
  uint64_t null_end;  // non-zero: if it carries the last byte, a null beat with tlast follows
};

// One status record and when things happened, in cycles since the start of the batch.
struct CdmaRecord {
  uint64_t offset;
  uint64_t out_size;
  uint64_t command_cycle;
  uint64_t input_first_cycle;
  uint64_t input_last_cycle;
  uint64_t output_first_cycle;
  uint64_t output_last_cycle;
  uint64_t status_cycle;
  uint32_t crc32;
  uint32_t status;
};

struct CdmaBatch {
  // In: one command and one packet per transfer.
  uint64_t transfers;
  const uint32_t* length;
  const uint32_t* crc32;
  const uint8_t* check_crc;
  const uint8_t* data;
  const uint64_t* data_offset;  // transfers + 1
  const CdmaFault* fault;       // ordered by transfer, then by beat
  uint64_t faults;
  double stall[4];  // probability per cycle: command, input, output, status
  uint64_t seed;
  uint64_t cycle_budget;
  uint64_t reset_at;  // assert reset in this cycle and stop there

  // Out: `finished` transfers, in order.
  uint8_t* out;
  uint64_t out_capacity;
  uint64_t* out_offset;  // transfers + 1
  CdmaRecord* record;    // transfers
  uint64_t finished;
  uint64_t cycles;
  uint64_t input_beats;
  uint64_t output_beats;
  uint64_t input_stall_cycles;
  uint64_t output_idle_cycles;
};

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
