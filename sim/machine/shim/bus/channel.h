// What holds for AW and AR alike: an address phase, and the rules that it keeps.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>

#include "outcome.h"

namespace cdma {

// What a port may ask for, and where its addresses live.
struct PortRules {
  std::string name;
  uint64_t max_beats;
  uint64_t max_id;
  uint64_t channel;           // this port's
  uint64_t channels;          // 1: all addresses are at home
  uint64_t interleave_bytes;  // go to one channel, the next ones to the next
  bool takes_empty_beats = false;  // write data of which WSTRB names no byte

  // How many bytes of [low, high) belong to another channel.
  uint64_t foreign_bytes(uint64_t low, uint64_t high) const {
    uint64_t bytes = 0;
    if (channels == 1) return 0;
    while (low < high) {
      const uint64_t granule = low / interleave_bytes;
      const uint64_t end = std::min(high, (granule + 1) * interleave_bytes);
      if (granule % channels != channel) bytes += end - low;
      low = end;
    }
    return bytes;
  }
};

inline std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

inline void add_phrase(std::string& text, const std::string& phrase) {
  if (!text.empty()) text += "; ";
  text += phrase;
}

struct AddressPhase {
  uint64_t addr;
  uint8_t id, len, size, burst, lock, cache, prot, qos;
  bool operator==(const AddressPhase&) const = default;
};

constexpr uint64_t kPage = 4096;  // no burst crosses such a boundary (IHI 0022, A3.4.1)

// Looks at AW or AR, cycle by cycle.
template <class Pins>
class AddressChannel {
 public:
  AddressChannel(Pins& pins, std::string name) : pins_(pins), name_(std::move(name)) {}

  // True when an address is accepted in this cycle.
  bool accept(const PortRules& rules, uint64_t beat_bytes) {
    if (!pins_.valid) {
      if (waiting_) throw ProtocolError(name_ + "VALID withdrawn before " + name_end() + "READY");
      return false;
    }
    const AddressPhase phase{pins_.addr, static_cast<uint8_t>(pins_.id), pins_.len,  pins_.size,
                             pins_.burst, pins_.lock, pins_.cache, pins_.prot, pins_.qos};
    if (!waiting_) {
      phase_ = phase;
      check(rules, beat_bytes);
    } else if (phase != phase_) {
      throw ProtocolError(name_ + changed(phase) + " changed before " + name_end() + "READY");
    }
    waiting_ = !pins_.ready;
    return !waiting_;
  }

  // Of the address accepted last.
  const AddressPhase& phase() const { return phase_; }
  void reset() { waiting_ = false; }

 private:
  void check(const PortRules& rules, uint64_t beat_bytes) const {
    const uint64_t beats = phase_.len + uint64_t{1};
    const uint64_t start = phase_.addr - phase_.addr % beat_bytes;
    if (phase_.burst != 1) fail("BURST is " + std::to_string(phase_.burst) + ", not INCR");
    if (phase_.size != std::countr_zero(beat_bytes))
      fail("SIZE is " + std::to_string(phase_.size) + ", not the port's " +
           std::to_string(std::countr_zero(beat_bytes)));
    if (beats > rules.max_beats)
      fail("LEN asks for " + std::to_string(beats) + " beats; the port's bursts have at most " +
           std::to_string(rules.max_beats));
    if (start / kPage != (start + beats * beat_bytes - 1) / kPage)
      fail("ADDR " + hex(phase_.addr) + ": the burst of " + std::to_string(beats) +
           " beats crosses a 4 KiB boundary");
    if (phase_.lock != 0) fail("LOCK is set");
    if (phase_.id > rules.max_id)
      fail("ID is " + std::to_string(phase_.id) + ", more than the port's " +
           std::to_string(rules.max_id));
  }

  [[noreturn]] void fail(const std::string& what) const { throw ProtocolError(name_ + what); }
  std::string name_end() const { return name_.substr(name_.size() - 2); }

  std::string changed(const AddressPhase& now) const {
    if (now.addr != phase_.addr) return "ADDR";
    if (now.len != phase_.len) return "LEN";
    if (now.id != phase_.id) return "ID";
    if (now.size != phase_.size) return "SIZE";
    if (now.burst != phase_.burst) return "BURST";
    if (now.lock != phase_.lock) return "LOCK";
    if (now.cache != phase_.cache) return "CACHE";
    return now.prot != phase_.prot ? "PROT" : "QOS";
  }

  Pins& pins_;
  std::string name_;
  bool waiting_ = false;
  AddressPhase phase_{};
};

}  // namespace cdma
