// The arithmetic of an access as a burst.
#pragma once

#include <algorithm>
#include <cstdint>

#include "abi.h"

namespace cdma {

inline uint64_t beat_bytes(const CdmaAccess& access) { return uint64_t{1} << access.size; }

inline uint64_t beats(const CdmaAccess& access) {
  const uint64_t head = access.address % beat_bytes(access);
  return (head + access.bytes - 1) / beat_bytes(access) + 1;
}

// Calls `visit(byte, lane)` for the bytes of a beat, numbered from the access's first one.
template <class Visit>
void for_each_byte(const CdmaAccess& access, uint64_t beat, uint64_t port_bytes, Visit visit) {
  const uint64_t aligned = access.address - access.address % beat_bytes(access);
  const uint64_t low = std::max(access.address, aligned + beat * beat_bytes(access));
  const uint64_t high =
      std::min(access.address + access.bytes, aligned + (beat + 1) * beat_bytes(access));
  for (uint64_t address = low; address < high; ++address)
    visit(address - access.address, address % port_bytes);
}

inline bool overlap(const CdmaAccess& a, const CdmaAccess& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

}  // namespace cdma
