// What happens on a port's address channels, and the answers with an error, for those who ask.
#pragma once

#include <vector>

#include "abi.h"

namespace cdma {

enum BusEvent : uint64_t { kReads = 0, kWrites = 1, kReadFails = 2, kWriteFails = 3 };

class Watch {
 public:
  void start() {
    watches_ = true;
    events_.clear();
  }
  void note(BusEvent event, uint64_t cycle, uint64_t address, uint64_t beats) {
    if (watches_) events_.push_back({cycle, event, address, beats});
  }
  const std::vector<CdmaBusEvent>& events() const { return events_; }

 private:
  bool watches_ = false;
  std::vector<CdmaBusEvent> events_;
};

}  // namespace cdma
