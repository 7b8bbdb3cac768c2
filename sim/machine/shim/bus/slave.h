// One AXI4 slave: a DRAM channel or the host behind its link.
#pragma once

#include <string>
#include <utility>

#include "reads.h"
#include "writes.h"

namespace cdma {

// Whether the environment is ready, channel by channel, drawn once per cycle.
class Willingness {
 public:
  explicit Willingness(double stall) : threshold_(static_cast<uint64_t>(stall * 4096.0)) {}

  void draw(Random& random) {
    if (threshold_ != 0) bits_ = random.next();
  }
  bool operator()(int channel) const { return ((bits_ >> (12 * channel)) & 0xFFF) >= threshold_; }

 private:
  uint64_t threshold_;
  uint64_t bits_ = 0;
};

// Bytes whose service starts in a cycle.
struct Traffic {
  uint64_t read = 0;
  uint64_t written = 0;
};

template <class Pins, class Timing>
class Slave {
 public:
  Slave(Pins pins, PortRules rules, const CdmaEnvironment& s, uint64_t outstanding,
        const CdmaMemory& memory, uint64_t seed)
      : pins_(pins),
        rules_(std::move(rules)),
        random_(seed),
        timing_(s, rules_.max_beats * Pins::kBytes, random_.next()),
        memory_(memory),
        willing_(s.stall),
        reads_(pins_, rules_, timing_, memory_, faults_, random_, outstanding, counters_, watch_),
        writes_(pins_, rules_, timing_, memory_, faults_, random_, outstanding, counters_, watch_) {
    clear_counters();
  }
  Slave(const Slave&) = delete;

  void drive(uint64_t cycle, Traffic& traffic) {
    timing_.advance(cycle, [&](uint64_t bytes, bool is_write) {
      (is_write ? counters_.written_bytes : counters_.read_bytes) += bytes;
      (is_write ? traffic.written : traffic.read) += bytes;
    });
    willing_.draw(random_);
    reads_.drive(cycle, willing_(kAr), willing_(kR));
    writes_.drive(cycle, willing_(kAw), willing_(kW), willing_(kB));
  }
  void accept(uint64_t cycle) {
    reads_.accept(cycle);
    writes_.accept(cycle);
  }

  bool valid() const { return pins_.ar.valid || pins_.aw.valid || pins_.wvalid; }
  bool idle() const { return reads_.idle() && writes_.idle(); }
  void describe(std::string& text) {
    reads_.describe(text);
    writes_.describe(text);
  }

  void set_faults(uint64_t port, CdmaFault* faults, uint64_t count) {
    reads_.lift_hangs();
    writes_.forget_faults();
    faults_.set(port, faults, count);
  }
  void reset(uint64_t cycle) {
    timing_.reset(cycle);
    faults_.reset();
    reads_.reset();
    writes_.reset();
  }

  Timing& timing() { return timing_; }
  const Timing& timing() const { return timing_; }
  const CdmaPortCounters& counters() const { return counters_; }
  Watch& watch() { return watch_; }
  void clear_counters() {
    counters_ = {};
    counters_.first_read_cycle = counters_.first_write_cycle = ~uint64_t{0};
    counters_.last_response_cycle = ~uint64_t{0};
  }

 private:
  Pins pins_;
  PortRules rules_;
  Random random_;
  Timing timing_;
  Memory memory_;
  Faults faults_;
  Willingness willing_;
  CdmaPortCounters counters_{};
  Watch watch_;
  Reads<Pins, Timing> reads_;
  Writes<Pins, Timing> writes_;
};

}  // namespace cdma
