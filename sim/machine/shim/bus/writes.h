// The write half of an AXI4 slave. Data may lead its address; memory changes when the burst has
// arrived, which is when it can be answered.
#pragma once

#include <array>
#include <string>

#include "channel.h"
#include "faults.h"
#include "mask.h"
#include "memory.h"
#include "random.h"
#include "ring.h"
#include "timing.h"
#include "watch.h"

namespace cdma {

template <class Pins, class Timing>
class Writes {
 public:
  Writes(Pins& pins, const PortRules& rules, Timing& timing, Memory& memory, Faults& faults,
         Random& random, uint64_t outstanding, CdmaPortCounters& counters, Watch& watch)
      : pins_(pins),
        rules_(rules),
        timing_(timing),
        memory_(memory),
        faults_(faults),
        random_(random),
        counters_(counters),
        watch_(watch),
        address_(pins.aw, rules.name + ": AW"),
        bursts_(outstanding),
        early_(kMaxBeats) {
    reset();
  }

  void drive(uint64_t cycle, bool address_willing, bool data_willing, bool answer_willing) {
    while (landed_ < whole_ && bursts_[landed_].time <= time_of(cycle)) {
      land(bursts_[landed_], cycle);
      ++landed_;
    }
    if (answered_) {
      pins_.bvalid = 0;
      answered_ = false;
    }
    if (!pins_.bvalid && !(answer_willing && answer(cycle)) && !garbage_) withdraw();
    const uint64_t address = pins_.aw.addr;
    pins_.aw.ready = address_willing && !bursts_.full() &&
                     !faults_.hangs(kAw, address_hung_, cycle, pins_.aw.valid, address);
    pins_.wready = data_willing && !early_.full() && timing_.has_room(Pins::kBytes) &&
                   !faults_.hangs(kW, data_hung_, cycle, pins_.wvalid, data_address(address));
  }

  // Looks at the settled outputs of a cycle.
  void accept(uint64_t cycle) {
    if (address_.accept(rules_, Pins::kBytes)) take_address(cycle);
    if (accept_data()) {
      Beat& beat = early_.push();
      beat = {pins_.wdata, load(pins_.wstrb), pins_.wlast != 0};
      timing_.take(Pins::kBytes);
      faults_.count(kW);
    }
    while (!early_.empty() && whole_ < bursts_.size()) fill(cycle);
    if (pins_.bvalid && pins_.bready) {
      answered_ = true;
      counters_.last_response_cycle = cycle;
      const Burst& burst = bursts_.front();
      if (pins_.bresp >= kSlvErr) watch_.note(kWriteFails, cycle, burst.address, burst.beats);
      bursts_.pop();
      --landed_;
      --whole_;
    }
  }

  void lift_hangs() { address_hung_ = data_hung_ = answer_hung_ = false; }
  // The faults are no longer there: what has not arrived yet arrives whole.
  void forget_faults() {
    lift_hangs();
    for (size_t i = 0; i < whole_; ++i) {
      Burst& burst = bursts_[i];
      if (i >= landed_) burst.response = memory_response(burst);
      burst.fault = nullptr;
    }
  }
  void reset() {
    bursts_.clear();
    early_.clear();
    whole_ = landed_ = filled_ = 0;
    address_.reset();
    answered_ = data_waiting_ = false;
    lift_hangs();
    withdraw();
    pins_.aw.ready = pins_.wready = 0;
  }
  bool idle() const {
    return bursts_.empty() && early_.empty() && !pins_.aw.valid && !pins_.wvalid;
  }

  void describe(std::string& text) {
    if (!bursts_.empty())
      add_phrase(text, rules_.name + ": " + std::to_string(bursts_.size()) +
                           " write bursts outstanding, " +
                           std::to_string(bursts_.size() - whole_) +
                           " of them short of data, the first to " + hex(bursts_.front().address));
    if (!early_.empty())
      add_phrase(text, rules_.name + ": " + std::to_string(early_.size()) +
                           " beats of write data without an address");
    if (pins_.bvalid && !answered_) add_phrase(text, rules_.name + ": BVALID waits for BREADY");
    if (pins_.aw.valid) add_phrase(text, rules_.name + ": AWVALID waits for AWREADY");
    if (pins_.wvalid) add_phrase(text, rules_.name + ": WVALID waits for WREADY");
  }

 private:
  static constexpr size_t kMaxBeats = 16;

  struct Beat {
    typename Pins::Word data;
    Mask strobes;
    bool last;
  };
  struct Burst {
    uint64_t address;
    uint64_t beats;
    uint64_t id;
    uint64_t bytes;  // that the strobes name
    uint8_t response;
    CdmaFault* fault;
    Time time;  // of arrival
    std::array<typename Pins::Word, kMaxBeats> data;
    std::array<Mask, kMaxBeats> strobes;

    uint64_t start() const { return address - address % Pins::kBytes; }
    uint64_t end() const { return start() + beats * Pins::kBytes; }
  };

  // Where the next beat of data goes; `waiting` is what AW tells if its address is not here yet.
  uint64_t data_address(uint64_t waiting) const {
    if (whole_ == bursts_.size()) return waiting;
    return bursts_[whole_].start() + filled_ * Pins::kBytes;
  }

  void take_address(uint64_t cycle) {
    const AddressPhase& phase = address_.phase();
    Burst& burst = bursts_.push();
    burst.address = phase.addr;
    burst.beats = phase.len + uint64_t{1};
    burst.id = phase.id;
    burst.bytes = 0;
    faults_.count(kAw);
    ++counters_.write_bursts;
    watch_.note(kWrites, cycle, phase.addr, burst.beats);
    counters_.most_writes = std::max<uint64_t>(counters_.most_writes, bursts_.size());
    counters_.first_write_cycle = std::min(counters_.first_write_cycle, cycle);
  }

  // True when a beat is accepted in this cycle.
  bool accept_data() {
    if (!pins_.wvalid) {
      if (data_waiting_) fail("WVALID withdrawn before WREADY");
      return false;
    }
    if (data_waiting_) {
      if (std::memcmp(&waiting_.data, &pins_.wdata, sizeof waiting_.data) != 0)
        fail("WDATA changed before WREADY");
      if (waiting_.strobes != load(pins_.wstrb)) fail("WSTRB changed before WREADY");
      if (waiting_.last != (pins_.wlast != 0)) fail("WLAST changed before WREADY");
    }
    data_waiting_ = !pins_.wready;
    if (data_waiting_) waiting_ = {pins_.wdata, load(pins_.wstrb), pins_.wlast != 0};
    return pins_.wready;
  }

  // Moves a beat into the first burst that lacks data.
  void fill(uint64_t cycle) {
    Burst& burst = bursts_[whole_];
    const Beat& beat = early_.front();
    const bool last = filled_ + 1 == burst.beats;
    if (beat.last != last) {
      fail((beat.last ? "WLAST on beat " : "no WLAST on beat ") + std::to_string(filled_) +
           " of a burst of " + std::to_string(burst.beats));
    }
    if (beat.strobes == 0 && !rules_.takes_empty_beats && !faults_.excuses_lack_of_strobes())
      fail("WSTRB names no byte");
    const uint64_t head = filled_ == 0 ? burst.address % Pins::kBytes : 0;
    if ((beat.strobes & mask_of(head)) != 0) fail("WSTRB names bytes before AWADDR");
    burst.data[filled_] = beat.data;
    burst.strobes[filled_] = beat.strobes;
    burst.bytes += cdma::count(beat.strobes);
    early_.pop();
    ++filled_;
    if (!last) return;
    filled_ = 0;
    ++whole_;
    burst.time = timing_.write(cycle, burst.beats, Pins::kBytes, burst.bytes);
    burst.response = memory_response(burst);
    counters_.decode_errors += burst.response == kDecErr;
    burst.fault = faults_.find(kB, burst.address, burst.end());
    if (burst.fault != nullptr && burst.fault->kind != kHangs)
      burst.response = Faults::response(*burst.fault);
    faults_.count(kB);
    counters_.foreign_bytes += rules_.foreign_bytes(burst.start(), burst.end());
  }

  AxiResponse memory_response(const Burst& burst) const {
    return memory_.has(burst.start(), burst.beats * Pins::kBytes) ? kOkay : kDecErr;
  }

  // An error leaves the memory as it was, and has hit, whenever its response follows.
  void land(Burst& burst, uint64_t cycle) {
    if (burst.fault != nullptr && burst.fault->kind != kHangs) {
      Faults::deliver(*burst.fault, cycle, burst.address);
      burst.fault = nullptr;
    }
    if (burst.response != kOkay) return;
    for (uint64_t beat = 0; beat < burst.beats; ++beat)
      memory_.write(burst.start() + beat * Pins::kBytes, burst.data[beat], burst.strobes[beat]);
  }

  // Offers the next response, if its burst has arrived.
  bool answer(uint64_t cycle) {
    if (landed_ == 0 || answer_hung_) return false;
    Burst& burst = bursts_.front();
    if (burst.fault != nullptr) {
      Faults::deliver(*burst.fault, cycle, burst.address);
      burst.fault = nullptr;
      answer_hung_ = true;
      return false;
    }
    pins_.bid = burst.id;
    pins_.bresp = burst.response;
    pins_.bvalid = 1;
    garbage_ = false;
    return true;
  }

  // What the RTL must not look at is random.
  void withdraw() {
    pins_.bvalid = 0;
    pins_.bresp = random_.next() & 3;
    garbage_ = true;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ProtocolError(rules_.name + ": " + what);
  }

  Pins& pins_;
  const PortRules& rules_;
  Timing& timing_;
  Memory& memory_;
  Faults& faults_;
  Random& random_;
  CdmaPortCounters& counters_;
  Watch& watch_;
  AddressChannel<decltype(Pins::aw)> address_;
  // In order: `landed_` have arrived, `whole_` have all their data, the next has `filled_` beats.
  Ring<Burst> bursts_;
  size_t whole_ = 0;
  size_t landed_ = 0;
  size_t filled_ = 0;
  Ring<Beat> early_;
  bool data_waiting_ = false;
  Beat waiting_{};
  bool address_hung_ = false;
  bool data_hung_ = false;
  bool answer_hung_ = false;
  bool answered_ = false;
  bool garbage_ = false;
};

}  // namespace cdma
