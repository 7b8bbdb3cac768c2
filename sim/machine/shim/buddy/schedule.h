// Which access of a trace comes next, each way, and which have to wait for others.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "abi.h"
#include "burst.h"

namespace cdma {

// Reads go in the trace's order, and so do writes; the ones may overtake the others, but for the
// same bytes: a read waits for the writes before it to be answered, and a write for the reads, and
// for the writes with other IDs, for which AXI promises no order.
class Schedule {
 public:
  Schedule() { begin(nullptr); }

  void begin(const CdmaPlay* play) {
    play_ = play;
    oldest_ = finished_ = 0;
    done_.assign(play ? play->accesses : 0, false);
    for (int write = 0; write < 2; ++write) {
      Way& way = ways_[write];
      way = {};
      seek(way, write);
    }
  }

  // Whether there is one that may be offered in this cycle of the play.
  bool ready(bool write, uint64_t cycle) {
    Way& way = ways_[write];
    const uint64_t most = write ? play_->most_writes : play_->most_reads;
    if (way.next == play_->accesses || way.outstanding >= most) return false;
    if (play_->access[way.next].earliest > cycle || way.next >= oldest_ + kWindow) return false;
    if (way.clear) return true;
    if (way.waits && !done_[way.blocker]) return false;
    way.waits = play_->apart && find_blocker(way);
    way.clear = !way.waits;
    return way.clear;
  }

  uint64_t take(bool write) {
    Way& way = ways_[write];
    const uint64_t taken = way.next++;
    ++way.outstanding;
    way.clear = way.waits = false;
    seek(way, write);
    return taken;
  }

  void finish(uint64_t index) {
    done_[index] = true;
    ++finished_;
    --ways_[play_->access[index].write != 0].outstanding;
    while (oldest_ < play_->accesses && done_[oldest_]) ++oldest_;
  }

  uint64_t finished() const { return finished_; }
  uint64_t outstanding(bool write) const { return ways_[write].outstanding; }
  uint64_t oldest() const { return oldest_; }

 private:
  // What may lie between the oldest access that is not answered and the next one: a bound to what
  // has to be looked at.
  static constexpr uint64_t kWindow = 1024;

  struct Way {
    uint64_t next = 0;
    uint64_t outstanding = 0;
    bool clear = false;  // nothing is in the way of the next one
    bool waits = false;  // for the blocker
    uint64_t blocker = 0;
  };

  void seek(Way& way, bool write) {
    const uint64_t end = play_ ? play_->accesses : 0;
    while (way.next < end && (play_->access[way.next].write != 0) != write) ++way.next;
  }

  bool find_blocker(Way& way) const {
    const CdmaAccess& access = play_->access[way.next];
    for (uint64_t i = oldest_; i < way.next; ++i) {
      const CdmaAccess& other = play_->access[i];
      if (done_[i] || !overlap(access, other)) continue;
      const bool in_order = access.write == other.write && (!access.write || access.id == other.id);
      if (in_order) continue;
      way.blocker = i;
      return true;
    }
    return false;
  }

  const CdmaPlay* play_ = nullptr;
  std::vector<bool> done_;
  std::array<Way, 2> ways_{};
  uint64_t oldest_ = 0;
  uint64_t finished_ = 0;
};

}  // namespace cdma
