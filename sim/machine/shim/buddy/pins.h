// The buddy controller's ports.
#pragma once

#include <utility>

#include "VTop.h"
#include "bus/pins.h"

namespace cdma {

template <class Top>
auto gpu_pins(Top& top) {
  return CDMA_AXI_PINS(top.s_axi);
}
template <class Top>
auto device_pins(Top& top) {
  return CDMA_AXI_PINS(top.m_axi_device);
}
template <class Top>
auto buddy_pins(Top& top) {
  return CDMA_AXI_PINS(top.m_axi_buddy);
}

using GpuPins = decltype(gpu_pins(std::declval<VTop&>()));
using DevicePins = decltype(device_pins(std::declval<VTop&>()));
using BuddyPins = decltype(buddy_pins(std::declval<VTop&>()));

}  // namespace cdma
