// What drives the inputs of the RTL. AXI4-Stream's rules: once valid is high, it and the payload
// stay until accepted. Whatever the RTL must not look at is random: the payload while valid is
// low, and bytes that tkeep excludes.
#pragma once

#include <stdexcept>
#include <string>

#include "abi.h"
#include "ports.h"
#include "random.h"

namespace cdma {

// Offers one command per transfer, ahead of and independent of the data.
class CommandSource {
 public:
  CommandSource(VTop& top, const CdmaBatch& batch, Random& random)
      : top_(top), batch_(batch), random_(random) {
    withdraw();
  }

  uint64_t accepted() const { return next_; }

  void drive(bool willing) {
    if (!top_.s_cmd_valid && willing && next_ < batch_.transfers) {
      top_.s_cmd_valid = 1;
      top_.s_cmd_length = batch_.length[next_];
      set_crc(top_, batch_.crc32[next_], batch_.check_crc[next_]);
    }
  }

  void accept(uint64_t cycle) {
    batch_.record[next_++].command_cycle = cycle;
    withdraw();
  }

 private:
  template <class Top>
  static void set_crc(Top& top, uint32_t crc32, bool check) {
    if constexpr (kTakesCrc<Top>) {
      top.s_cmd_crc32 = crc32;
      top.s_cmd_check_crc = check;
    }
  }

  void withdraw() {
    const uint64_t garbage = random_.next();
    top_.s_cmd_valid = 0;
    top_.s_cmd_length = static_cast<uint32_t>(garbage);
    set_crc(top_, static_cast<uint32_t>(garbage >> 32), garbage & 1);
  }

  VTop& top_;
  const CdmaBatch& batch_;
  Random& random_;
  uint64_t next_ = 0;
};

// Offers the packets, beat by beat, each ended by tlast.
class PacketSource {
 public:
  PacketSource(VTop& top, const CdmaBatch& batch, Random& random)
      : top_(top), batch_(batch), random_(random), at_(batch.data_offset[0]) {
    withdraw();
  }

  uint64_t started() const { return packet_ + (beat_ > 0); }
  uint64_t finished() const { return packet_; }

  void drive(bool willing) {
    if (top_.s_axis_tvalid) return;
    if (willing && packet_ < batch_.transfers) {
      offer();
    } else if (was_valid_) {
      withdraw();
    }
  }

  void accept(uint64_t cycle) {
    CdmaRecord& record = batch_.record[packet_];
    if (beat_++ == 0) record.input_first_cycle = cycle;
    at_ = after_;
    if (top_.s_axis_tlast) {
      record.input_last_cycle = cycle;
      if (fault_ < batch_.faults && batch_.fault[fault_].transfer == packet_)
        throw std::invalid_argument("transfer " + std::to_string(packet_) + " has no beat " +
                                    std::to_string(batch_.fault[fault_].beat) +
                                    " for a fault to be in");
      ++packet_;
      beat_ = 0;
    }
    top_.s_axis_tvalid = 0;
  }

 private:
  void offer() {
    const uint64_t rest = batch_.data_offset[packet_ + 1] - at_;
    const uint8_t* const bytes = batch_.data + at_;
    bool null_end = false;
    if (fault_ < batch_.faults && batch_.fault[fault_].transfer == packet_ &&
        batch_.fault[fault_].beat == beat_) {
      const CdmaFault& fault = batch_.fault[fault_++];
      after_ = at_ + offer_faulty(bytes, rest, fault);
      null_end = fault.null_end;
    } else if (rest >= kSectorBytes) {
      std::memcpy(&top_.s_axis_tdata, bytes, kSectorBytes);
      store(top_.s_axis_tkeep, kFull);
      after_ = at_ + kSectorBytes;
    } else {
      random_.fill(top_.s_axis_tdata);
      if (rest != 0) std::memcpy(&top_.s_axis_tdata, bytes, rest);
      store(top_.s_axis_tkeep, mask_of(rest));
      after_ = at_ + rest;
    }
    top_.s_axis_tlast = after_ == batch_.data_offset[packet_ + 1] && !null_end;
    top_.s_axis_tvalid = 1;
    was_valid_ = true;
  }

  // Sends the fault's tkeep, less the lanes for which the packet has no byte left. Returns how
  // many bytes it carries.
  uint64_t offer_faulty(const uint8_t* bytes, uint64_t rest, const CdmaFault& fault) {
    Mask keep = (Mask{fault.keep[1]} << 64 | fault.keep[0]) & kFull;
    uint64_t sent = 0;
    random_.fill(top_.s_axis_tdata);
    auto* const lanes = reinterpret_cast<uint8_t*>(&top_.s_axis_tdata);
    for (size_t lane = 0; lane < kSectorBytes; ++lane) {
      if (!(keep >> lane & 1)) continue;
      if (sent < rest) {
        lanes[lane] = bytes[sent++];
      } else {
        keep &= ~(Mask{1} << lane);
      }
    }
    store(top_.s_axis_tkeep, keep);
    return sent;
  }

  void withdraw() {
    top_.s_axis_tvalid = 0;
    random_.fill(top_.s_axis_tdata);
    Keep keep;
    random_.fill(keep);
    store(top_.s_axis_tkeep, load(keep) & kFull);
    top_.s_axis_tlast = random_.next() & 1;
    was_valid_ = false;
  }

  VTop& top_;
  const CdmaBatch& batch_;
  Random& random_;
  uint64_t packet_ = 0;
  uint64_t beat_ = 0;
  uint64_t fault_ = 0;
  uint64_t at_;
  uint64_t after_ = 0;
  bool was_valid_ = false;
};

}  // namespace cdma
