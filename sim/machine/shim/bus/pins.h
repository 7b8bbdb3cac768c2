// An AXI4 port: the model's members under names of their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "VTop.h"

namespace cdma {

// The pins of AW or AR.
template <class Id, class Addr>
struct AddressPins {
  Id& id;
  Addr& addr;
  CData& len;
  CData& size;
  CData& burst;
  CData& lock;
  CData& cache;
  CData& prot;
  CData& qos;
  CData& valid;
  CData& ready;
};

template <class Id, class Addr, class Data, class Lanes>
struct AxiPins {
  using Word = Data;
  using Strobes = Lanes;
  static constexpr size_t kBytes = sizeof(Data);
  static_assert(kBytes == 4 || kBytes == 8 * sizeof(Lanes),
                "the data has 4 to 128 bytes, WSTRB a bit for each");

  AddressPins<Id, Addr> aw;
  Data& wdata;
  Lanes& wstrb;
  CData& wlast;
  CData& wvalid;
  CData& wready;
  Id& bid;
  CData& bresp;
  CData& bvalid;
  CData& bready;
  AddressPins<Id, Addr> ar;
  Id& rid;
  Data& rdata;
  CData& rresp;
  CData& rlast;
  CData& rvalid;
  CData& rready;
};

#define CDMA_ADDRESS_PINS(channel)                                                              \
  AddressPins {                                                                                 \
    channel##id, channel##addr, channel##len, channel##size, channel##burst, channel##lock,     \
        channel##cache, channel##prot, channel##qos, channel##valid, channel##ready             \
  }
#define CDMA_AXI_PINS(port)                                                                     \
  AxiPins {                                                                                     \
    CDMA_ADDRESS_PINS(port##_aw), port##_wdata, port##_wstrb, port##_wlast, port##_wvalid,      \
        port##_wready, port##_bid, port##_bresp, port##_bvalid, port##_bready,                  \
        CDMA_ADDRESS_PINS(port##_ar), port##_rid, port##_rdata, port##_rresp, port##_rlast,     \
        port##_rvalid, port##_rready                                                            \
  }

}  // namespace cdma
