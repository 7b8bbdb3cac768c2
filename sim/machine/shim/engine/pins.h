// The engine's ports, for any number of memories.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "VTop.h"
#include "bus/pins.h"

namespace cdma {

template <class Top>
auto host_pins(Top& top) {
  return CDMA_AXI_PINS(top.m_axi_host);
}
template <class Top>
auto first_memory_pins(Top& top) {
  return CDMA_AXI_PINS(top.m_axi_mem0);
}

using HostPins = decltype(host_pins(std::declval<VTop&>()));
using MemoryPins = decltype(first_memory_pins(std::declval<VTop&>()));

// Calls `visit` with the pins of each memory port, in order.
template <class Top, class Visit>
constexpr void for_each_memory(Top& top, Visit visit) {
#define CDMA_VISIT(k) \
  if constexpr (requires { top.m_axi_mem##k##_awvalid; }) visit(CDMA_AXI_PINS(top.m_axi_mem##k));
  CDMA_VISIT(0)
  CDMA_VISIT(1)
  CDMA_VISIT(2)
  CDMA_VISIT(3)
  CDMA_VISIT(4)
  CDMA_VISIT(5)
  CDMA_VISIT(6)
  CDMA_VISIT(7)
  CDMA_VISIT(8)
  CDMA_VISIT(9)
  CDMA_VISIT(10)
  CDMA_VISIT(11)
  CDMA_VISIT(12)
  CDMA_VISIT(13)
  CDMA_VISIT(14)
  CDMA_VISIT(15)
#undef CDMA_VISIT
}

template <class Top>
constexpr size_t count_memories() {
  size_t units = 0;
#define CDMA_COUNT(k) units += requires(Top& top) { top.m_axi_mem##k##_awvalid; };
  CDMA_COUNT(0) CDMA_COUNT(1) CDMA_COUNT(2) CDMA_COUNT(3) CDMA_COUNT(4) CDMA_COUNT(5)
  CDMA_COUNT(6) CDMA_COUNT(7) CDMA_COUNT(8) CDMA_COUNT(9) CDMA_COUNT(10) CDMA_COUNT(11)
  CDMA_COUNT(12) CDMA_COUNT(13) CDMA_COUNT(14) CDMA_COUNT(15)
#undef CDMA_COUNT
  return units;
}
constexpr size_t kUnits = count_memories<VTop>();

}  // namespace cdma
