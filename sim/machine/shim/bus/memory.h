// A memory that belongs to Python, as the ports see it.
#pragma once

#include <cstdint>
#include <cstring>

#include "abi.h"
#include "mask.h"

namespace cdma {

class Memory {
 public:
  explicit Memory(const CdmaMemory& memory) : memory_(memory) {}

  bool has(uint64_t address, uint64_t bytes) const {
    const uint64_t offset = offset_of(address);
    return offset < memory_.bytes && bytes <= memory_.bytes - offset;
  }

  template <class Data>
  void read(uint64_t address, Data& data) const {
    std::memcpy(&data, memory_.data + offset_of(address), sizeof data);
  }

  // Writes the bytes of the mask.
  template <class Data>
  void write(uint64_t address, const Data& data, Mask mask) {
    uint8_t* const target = memory_.data + offset_of(address);
    const auto* const source = reinterpret_cast<const uint8_t*>(&data);
    if (mask == mask_of(sizeof data)) {
      std::memcpy(target, source, sizeof data);
      return;
    }
    for (size_t lane = 0; lane < sizeof data; ++lane)
      if (mask >> lane & 1) target[lane] = source[lane];
  }

 private:
  uint64_t offset_of(uint64_t address) const {
    const uint64_t offset = address - memory_.base;  // wraps below the base
    return memory_.mirrored ? offset % memory_.bytes : offset;
  }

  CdmaMemory memory_;
};

}  // namespace cdma
