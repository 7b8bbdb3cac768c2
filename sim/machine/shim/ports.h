// The model's ports, at whatever sector width it was generated with.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "VTop.h"

namespace cdma {

using Sector = std::remove_reference_t<decltype(VTop::s_axis_tdata)>;
using Keep = std::remove_reference_t<decltype(VTop::s_axis_tkeep)>;

constexpr size_t kSectorBytes = sizeof(Sector);
static_assert(kSectorBytes == 8 * sizeof(Keep), "tdata is 32, 64 or 128 bytes, tkeep a bit each");

// Only commands of decompressors have s_cmd_crc32 and s_cmd_check_crc.
template <class Top>
constexpr bool kTakesCrc = requires(Top& top) { top.s_cmd_crc32; };

// tkeep of any width, so that it can be computed with.
__extension__ typedef unsigned __int128 Mask;

constexpr Mask mask_of(size_t bytes) {
  return bytes >= 128 ? ~Mask{0} : (Mask{1} << bytes) - 1;
}
constexpr Mask kFull = mask_of(kSectorBytes);

inline Mask load(const Keep& keep) {
  Mask mask = 0;
  std::memcpy(&mask, &keep, sizeof keep);
  return mask;
}
inline void store(Keep& keep, Mask mask) { std::memcpy(&keep, &mask, sizeof keep); }

inline bool is_run_from_bit_0(Mask mask) { return (mask & (mask + 1)) == 0; }
inline size_t count(Mask mask) {
  const auto low = static_cast<uint64_t>(mask);
  const auto high = static_cast<uint64_t>(mask >> 64);
  return std::popcount(low) + std::popcount(high);
}

}  // namespace cdma
