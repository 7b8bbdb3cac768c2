// The host's end of s_axil: one access at a time.
#pragma once

#include <cstdint>
#include <string>

#include "VTop.h"
#include "outcome.h"
#include "random.h"

namespace cdma {

class RegisterPort {
 public:
  RegisterPort(VTop& top, Random& random) : top_(top), random_(random) { reset(); }

  void start_read(uint32_t address) {
    state_ = kReading;
    address_pending_ = true;
    data_pending_ = false;
    top_.s_axil_araddr = address;
  }
  void start_write(uint32_t address, uint32_t value) {
    state_ = kWriting;
    address_pending_ = data_pending_ = true;
    top_.s_axil_awaddr = address;
    top_.s_axil_wdata = value;
    top_.s_axil_wstrb = 0xF;
  }

  bool done() const { return state_ == kIdle; }
  uint32_t value() const { return value_; }
  uint32_t response() const { return response_; }
  // When both halves of a write were accepted.
  uint64_t taken_cycle() const { return taken_cycle_; }

  void drive(bool willing) {
    if (over_ && state_ == kIdle) garble();
    over_ = false;
    top_.s_axil_arvalid = state_ == kReading && address_pending_;
    top_.s_axil_awvalid = state_ == kWriting && address_pending_;
    top_.s_axil_wvalid = data_pending_;
    top_.s_axil_rready = state_ == kReading && willing;
    top_.s_axil_bready = state_ == kWriting && willing;
  }

  // Looks at the settled outputs of a cycle.
  void accept(uint64_t cycle) {
    if (top_.s_axil_rvalid || waiting_ == kReading) {
      if (state_ != kReading || address_pending_) throw ProtocolError("s_axil: RVALID unasked");
      check_waiting(kReading, top_.s_axil_rvalid, top_.s_axil_rdata, top_.s_axil_rresp, "R");
    }
    if (top_.s_axil_bvalid || waiting_ == kWriting) {
      if (state_ != kWriting || address_pending_ || data_pending_)
        throw ProtocolError("s_axil: BVALID unasked");
      check_waiting(kWriting, top_.s_axil_bvalid, 0, top_.s_axil_bresp, "B");
    }
    if (state_ == kReading) {
      if (top_.s_axil_arvalid && top_.s_axil_arready) address_pending_ = false;
      if (top_.s_axil_rvalid && top_.s_axil_rready) finish();
    } else if (state_ == kWriting) {
      const bool was_pending = address_pending_ || data_pending_;
      if (top_.s_axil_awvalid && top_.s_axil_awready) address_pending_ = false;
      if (top_.s_axil_wvalid && top_.s_axil_wready) data_pending_ = false;
      if (was_pending && !address_pending_ && !data_pending_) taken_cycle_ = cycle;
      if (top_.s_axil_bvalid && top_.s_axil_bready) finish();
    }
  }

  void describe(std::string& text) const {
    if (state_ == kIdle) return;
    if (!text.empty()) text += "; ";
    text += state_ == kReading ? "s_axil: a read" : "s_axil: a write";
    text += address_pending_ ? " whose address is not accepted"
            : data_pending_  ? " whose data is not accepted"
                             : " that is not answered";
  }

  void reset() {
    state_ = waiting_ = kIdle;
    address_pending_ = data_pending_ = false;
    top_.s_axil_arvalid = top_.s_axil_awvalid = top_.s_axil_wvalid = 0;
    top_.s_axil_rready = top_.s_axil_bready = 0;
    top_.s_axil_arprot = top_.s_axil_awprot = 0;
    garble();
  }

 private:
  enum State { kIdle, kReading, kWriting };

  // A response waits as it is.
  void check_waiting(State kind, bool valid, uint32_t value, uint32_t response, const char* name) {
    const bool waited = waiting_ == kind;
    if (waited && !valid)
      throw ProtocolError(std::string("s_axil: ") + name + "VALID withdrawn before " + name +
                          "READY");
    if (waited && (value != value_ || response != response_))
      throw ProtocolError(std::string("s_axil: ") + name + " changed before " + name + "READY");
    value_ = value;
    response_ = response;
    waiting_ = kind;
  }

  void finish() {
    state_ = waiting_ = kIdle;
    over_ = true;
  }

  // What the RTL must not look at is random.
  void garble() {
    const uint64_t garbage = random_.next();
    top_.s_axil_araddr = garbage & 0xFFC;
    top_.s_axil_awaddr = (garbage >> 12) & 0xFFC;
    top_.s_axil_wdata = static_cast<uint32_t>(garbage >> 32);
    top_.s_axil_wstrb = (garbage >> 24) & 0xF;
  }

  VTop& top_;
  Random& random_;
  State state_ = kIdle;
  State waiting_ = kIdle;  // for which a response waits
  bool address_pending_ = false;
  bool data_pending_ = false;
  bool over_ = false;  // since the last cycle
  uint32_t value_ = 0;
  uint32_t response_ = 0;
  uint64_t taken_cycle_ = 0;
};

}  // namespace cdma
