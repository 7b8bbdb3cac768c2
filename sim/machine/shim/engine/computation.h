// What a processor computes beside the engine: layers, which take cycles, and the DRAM channels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "abi.h"
#include "bus/timing.h"

namespace cdma {

// Each layer spreads its accesses over its arithmetic, and ends when both have ended.
class Computation {
 public:
  bool computes() const { return next_ < layers_.size() || runs_; }
  double end() const { return cycles_of(end_); }

  void begin(const CdmaLayer* layers, uint64_t count, double start) {
    layers_.assign(layers, layers + count);
    next_ = 0;
    end_ = ticks(start);
  }
  void reset() {
    layers_.clear();
    next_ = 0;
    runs_ = false;
  }

  // Goes on to this cycle. `channels` are all of the memory's.
  template <class Channels>
  void advance(uint64_t cycle, Channels& channels) {
    while (computes()) {
      if (!runs_) {
        const CdmaLayer& layer = layers_[next_++];
        const Time arithmetic = ticks(layer.arithmetic_cycles);
        for (auto& channel : channels)
          channel.timing().load(end_, ticks(layer.memory_cycles), arithmetic);
        end_ += arithmetic;
        runs_ = true;
      }
      bool has_load = false;
      for (auto& channel : channels) {
        channel.timing().serve_load(cycle);
        has_load |= channel.timing().has_load();
      }
      if (has_load) return;
      Time end = end_;
      for (auto& channel : channels) end = std::max(end, channel.timing().load_end());
      if (end > time_of(cycle)) return;
      end_ = end;
      runs_ = false;
    }
  }

 private:
  static Time ticks(double cycles) {
    return static_cast<Time>(std::llround(std::ldexp(cycles, kTickBits)));
  }

  std::vector<CdmaLayer> layers_;
  size_t next_ = 0;
  Time end_ = 0;       // of the layer before or, while one runs, of its arithmetic
  bool runs_ = false;
};

}  // namespace cdma
