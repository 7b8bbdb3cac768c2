// Byte masks of up to 128 lanes, so that they can be computed with.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cdma {

__extension__ typedef unsigned __int128 Mask;

constexpr Mask mask_of(size_t bytes) {
  return bytes >= 128 ? ~Mask{0} : (Mask{1} << bytes) - 1;
}

template <class Lanes>
Mask load(const Lanes& lanes) {
  Mask mask = 0;
  std::memcpy(&mask, &lanes, sizeof lanes);
  return mask;
}

inline bool is_run_from_bit_0(Mask mask) { return (mask & (mask + 1)) == 0; }
inline size_t count(Mask mask) {
  const auto low = static_cast<uint64_t>(mask);
  const auto high = static_cast<uint64_t>(mask >> 64);
  return std::popcount(low) + std::popcount(high);
}

}  // namespace cdma
