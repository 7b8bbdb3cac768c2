// The faults of one port, and how far its channels have come.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "abi.h"

namespace cdma {

enum AxiResponse : uint8_t { kOkay = 0, kSlvErr = 2, kDecErr = 3 };

class Faults {
 public:
  void set(uint64_t port, CdmaFault* faults, uint64_t count) {
    faults_.clear();
    for (CdmaFault* fault = faults; fault != faults + count; ++fault)
      if (fault->port == port) faults_.push_back(fault);
    next_ = {};
    hung_ |= writes_may_hang();
  }
  // Faults stay over a reset; those that have hit do not hit again.
  void reset() { hung_ = writes_may_hang(); }

  // Whether a write channel may have hung since the last reset: an engine that has given such a
  // port up sends the data that it still owes without strobes.
  bool excuses_lack_of_strobes() const { return hung_; }

  // The fault that hits the next transfer of a channel, which touches [low, high); or null. One
  // that names a transfer hits once.
  CdmaFault* find(CdmaFaultChannel channel, uint64_t low = 0, uint64_t high = 0) const {
    for (CdmaFault* fault : faults_) {
      if (fault->channel != channel) continue;
      if (fault->index == kByAddress ? fault->low < high && low < fault->high
                                     : fault->index == next_[channel] && fault->delivered == 0)
        return fault;
    }
    return nullptr;
  }

  void count(CdmaFaultChannel channel) { ++next_[channel]; }

  static void deliver(CdmaFault& fault, uint64_t cycle, uint64_t address) {
    if (fault.delivered++ != 0) return;
    fault.cycle = cycle;
    fault.address = address;
  }

  // Whether an address or write data channel, of which the next transfer may be waiting, hangs.
  bool hangs(CdmaFaultChannel channel, bool& hung, uint64_t cycle, bool valid, uint64_t address) {
    if (hung) return true;
    CdmaFault* const fault = find(channel);
    if (fault == nullptr) return false;
    if (valid) {
      deliver(*fault, cycle, address);
      hung = true;
    }
    return true;
  }

  static AxiResponse response(const CdmaFault& fault) {
    return fault.kind == kSlaveError ? kSlvErr : fault.kind == kDecodeError ? kDecErr : kOkay;
  }

 private:
  static constexpr uint64_t kByAddress = ~uint64_t{0};

  bool writes_may_hang() const {
    return std::any_of(faults_.begin(), faults_.end(), [](const CdmaFault* fault) {
      const auto channel = fault->channel;
      const bool writes = channel == kAw || channel == kW || channel == kB;
      return writes && fault->kind == kHangs && fault->delivered == 0;
    });
  }

  std::vector<CdmaFault*> faults_;
  bool hung_ = false;
  std::array<uint64_t, 5> next_{};  // transfers since the faults were set, per channel
};

}  // namespace cdma
