// The model's ports, at whatever sector width it was generated with.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "VTop.h"
#include "mask.h"

namespace cdma {

using Sector = std::remove_reference_t<decltype(VTop::s_axis_tdata)>;
using Keep = std::remove_reference_t<decltype(VTop::s_axis_tkeep)>;

constexpr size_t kSectorBytes = sizeof(Sector);
static_assert(kSectorBytes == 8 * sizeof(Keep), "tdata is 32, 64 or 128 bytes, tkeep a bit each");

// Only commands of decompressors have s_cmd_crc32 and s_cmd_check_crc.
template <class Top>
constexpr bool kTakesCrc = requires(Top& top) { top.s_cmd_crc32; };

constexpr Mask kFull = mask_of(kSectorBytes);

inline void store(Keep& keep, Mask mask) { std::memcpy(&keep, &mask, sizeof keep); }

}  // namespace cdma
