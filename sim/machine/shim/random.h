// Random numbers for stalls and for bytes that must not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cdma {

// Steele, Lea and Flood's SplitMix64: any seed will do, and a draw costs a nanosecond.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  template <class T>
  void fill(T& value) {
    auto* bytes = reinterpret_cast<uint8_t*>(&value);
    for (size_t done = 0; done < sizeof(T); done += sizeof(uint64_t)) {
      const uint64_t draw = next();
      const size_t rest = sizeof(T) - done;
      std::memcpy(bytes + done, &draw, rest < sizeof draw ? rest : sizeof draw);
    }
  }

 private:
  uint64_t state_;
};

// Willingness of four channels, from one draw per cycle: 16 bits each.
class Stalls {
 public:
  explicit Stalls(const double probability[4]) {
    for (int i = 0; i < 4; ++i) threshold_[i] = static_cast<uint32_t>(probability[i] * 65536.0);
  }

  void draw(Random& random) { bits_ = random.next(); }
  bool willing(int channel) const {
    return ((bits_ >> (16 * channel)) & 0xFFFF) >= threshold_[channel];
  }

 private:
  uint32_t threshold_[4];
  uint64_t bits_ = 0;
};

}  // namespace cdma
