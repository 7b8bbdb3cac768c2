// What takes the outputs of the RTL, and checks that they keep the rules of their interfaces.
#pragma once

#include <string>

#include "abi.h"
#include "outcome.h"
#include "ports.h"

namespace cdma {

// Takes the output packets: dense beats, of which only the last of a packet may be partial.
class PacketSink {
 public:
  PacketSink(VTop& top, const CdmaBatch& batch) : top_(top), batch_(batch) {
    batch.out_offset[0] = 0;
  }

  uint64_t finished() const { return packet_; }

  // Looks at the settled outputs of a cycle. True when a beat is accepted in it.
  bool accept(uint64_t cycle, uint64_t commands) {
    if (stalled_) check_unchanged();
    stalled_ = top_.m_axis_tvalid && !top_.m_axis_tready;
    if (!top_.m_axis_tvalid) return false;
    if (packet_ >= commands) throw ProtocolError("m_axis: a beat without a command");
    if (stalled_) {
      data_ = top_.m_axis_tdata;
      keep_ = load(top_.m_axis_tkeep);
      last_ = top_.m_axis_tlast;
      return false;
    }
    take(cycle);
    return true;
  }

 private:
  void check_unchanged() const {
    if (!top_.m_axis_tvalid) throw ProtocolError("m_axis: tvalid withdrawn before tready");
    if (std::memcmp(&data_, &top_.m_axis_tdata, kSectorBytes) != 0)
      throw ProtocolError("m_axis: tdata changed before tready");
    if (keep_ != load(top_.m_axis_tkeep))
      throw ProtocolError("m_axis: tkeep changed before tready");
    if (last_ != top_.m_axis_tlast) throw ProtocolError("m_axis: tlast changed before tready");
  }

  void take(uint64_t cycle) {
    const Mask keep = load(top_.m_axis_tkeep);
    if (!is_run_from_bit_0(keep)) throw ProtocolError("m_axis: tkeep is not a run from bit 0");
    if (keep != kFull && !top_.m_axis_tlast)
      throw ProtocolError("m_axis: a partial beat before the last");
    const size_t bytes = keep == kFull ? kSectorBytes : count(keep);
    if (bytes > batch_.out_capacity - at_)
      throw CapacityError("transfer " + std::to_string(packet_) + " does not fit the " +
                          std::to_string(batch_.out_capacity) + " bytes of output");
    if (bytes != 0) std::memcpy(batch_.out + at_, &top_.m_axis_tdata, bytes);
    at_ += bytes;

    CdmaRecord& record = batch_.record[packet_];
    if (first_) record.output_first_cycle = cycle;
    first_ = top_.m_axis_tlast;
    if (top_.m_axis_tlast) {
      record.output_last_cycle = cycle;
      batch_.out_offset[++packet_] = at_;
    }
  }

  VTop& top_;
  const CdmaBatch& batch_;
  uint64_t packet_ = 0;
  uint64_t at_ = 0;
  bool first_ = true;
  bool stalled_ = false;
  Sector data_{};
  Mask keep_ = 0;
  bool last_ = false;
};

// Takes the status records.
class StatusSink {
 public:
  StatusSink(VTop& top, const CdmaBatch& batch) : top_(top), batch_(batch) {}

  uint64_t finished() const { return next_; }

  void accept(uint64_t cycle, uint64_t commands) {
    if (stalled_) check_unchanged();
    stalled_ = top_.m_sts_valid && !top_.m_sts_ready;
    if (!top_.m_sts_valid) return;
    if (next_ >= commands) throw ProtocolError("m_sts: a status without a command");
    CdmaRecord& record = batch_.record[next_];
    record.status = top_.m_sts_status;
    record.offset = top_.m_sts_offset;
    record.out_size = top_.m_sts_out_size;
    record.crc32 = top_.m_sts_crc32;
    if (stalled_) return;
    record.status_cycle = cycle;
    ++next_;
  }

 private:
  // The record of the stalled cycle holds what was offered in it.
  void check_unchanged() const {
    const CdmaRecord& held = batch_.record[next_];
    if (!top_.m_sts_valid) throw ProtocolError("m_sts: valid withdrawn before ready");
    if (held.status != top_.m_sts_status || held.offset != top_.m_sts_offset ||
        held.out_size != top_.m_sts_out_size || held.crc32 != top_.m_sts_crc32)
      throw ProtocolError("m_sts: the record changed before ready");
  }

  VTop& top_;
  const CdmaBatch& batch_;
  uint64_t next_ = 0;
  bool stalled_ = false;
};

}  // namespace cdma
