// How a call of the C interface ended, and the exceptions behind it.
#pragma once

#include <cstdint>
#include <stdexcept>

// Everything but `kDone` leaves a message.
enum CdmaOutcome : int32_t {
  kDone = 0,
  kHang = 1,       // the cycle budget ran out
  kAssertion = 2,  // an assertion of the RTL failed
  kProtocol = 3,   // the RTL broke a rule of its interfaces
  kCapacity = 4,   // more output than the caller has room for
  kException = 5,  // C++ or the Verilated runtime gave up
};

namespace cdma {

struct HangError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct AssertionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct CapacityError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace cdma
