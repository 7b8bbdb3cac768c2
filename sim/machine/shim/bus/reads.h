// The read half of an AXI4 slave: takes addresses, answers in order.
#pragma once

#include <string>

#include "channel.h"
#include "faults.h"
#include "memory.h"
#include "random.h"
#include "ring.h"
#include "timing.h"
#include "watch.h"

namespace cdma {

template <class Pins, class Timing>
class Reads {
 public:
  Reads(Pins& pins, const PortRules& rules, Timing& timing, Memory& memory, Faults& faults,
        Random& random, uint64_t outstanding, CdmaPortCounters& counters, Watch& watch)
      : pins_(pins),
        rules_(rules),
        timing_(timing),
        memory_(memory),
        faults_(faults),
        random_(random),
        counters_(counters),
        watch_(watch),
        address_(pins.ar, rules.name + ": AR"),
        bursts_(outstanding) {
    reset();
  }

  void drive(uint64_t cycle, bool address_willing, bool data_willing) {
    if (taken_) {
      pins_.rvalid = 0;
      taken_ = false;
    }
    if (!pins_.rvalid && !(data_willing && offer(cycle)) && !garbage_) withdraw();
    pins_.ar.ready =
        address_willing && !bursts_.full() &&
        !faults_.hangs(kAr, address_hung_, cycle, pins_.ar.valid, pins_.ar.addr);
  }

  // Looks at the settled outputs of a cycle.
  void accept(uint64_t cycle) {
    if (address_.accept(rules_, Pins::kBytes)) take_address(cycle);
    if (pins_.rvalid) {
      if (pins_.rready) {
        taken_ = true;
        counters_.last_response_cycle = cycle;
        faults_.count(kR);
        note_error(cycle);
        if (++bursts_.front().beat == bursts_.front().beats) bursts_.pop();
      } else {
        ++counters_.read_wait_cycles;
      }
    }
  }

  void lift_hangs() { address_hung_ = data_hung_ = false; }
  void reset() {
    bursts_.clear();
    address_.reset();
    taken_ = false;
    lift_hangs();
    withdraw();
    pins_.ar.ready = 0;
  }
  bool idle() const { return bursts_.empty() && !pins_.ar.valid; }

  void describe(std::string& text) {
    if (!bursts_.empty()) {
      const Burst& burst = bursts_.front();
      add_phrase(text, rules_.name + ": " + std::to_string(bursts_.size()) +
                           " read bursts outstanding, the first at beat " +
                           std::to_string(burst.beat) + " of " + std::to_string(burst.beats) +
                           " from " + hex(burst.address));
    }
    if (pins_.rvalid && !taken_) add_phrase(text, rules_.name + ": RVALID waits for RREADY");
    if (pins_.ar.valid) add_phrase(text, rules_.name + ": ARVALID waits for ARREADY");
  }

 private:
  struct Burst {
    uint64_t address;
    uint64_t beats;
    uint64_t beat;
    uint64_t id;
    uint64_t asked;  // beats, whatever comes of it
    bool late;  // the last beat will not say so, and one more follows
    BeatTimes times;
  };

  void take_address(uint64_t cycle) {
    const AddressPhase& phase = address_.phase();
    const uint64_t beats = phase.len + uint64_t{1};
    const uint64_t head = phase.addr % Pins::kBytes;
    Burst& burst = bursts_.push();
    burst = {phase.addr, beats, 0, phase.id, beats, false,
             timing_.read(cycle, beats, Pins::kBytes, beats * Pins::kBytes - head)};
    faults_.count(kAr);
    ++counters_.read_bursts;
    watch_.note(kReads, cycle, phase.addr, beats);
    counters_.foreign_bytes +=
        rules_.foreign_bytes(phase.addr - head, phase.addr - head + beats * Pins::kBytes);
    counters_.most_reads = std::max<uint64_t>(counters_.most_reads, bursts_.size());
    counters_.first_read_cycle = std::min(counters_.first_read_cycle, cycle);
  }

  // A beat that tells of an error, or has RLAST where it should not.
  void note_error(uint64_t cycle) {
    const Burst& burst = bursts_.front();
    if (pins_.rresp >= kSlvErr || pins_.rlast != (burst.beat + 1 == burst.asked))
      watch_.note(kReadFails, cycle, burst.address + burst.beat * Pins::kBytes, 1);
  }

  // Offers the next beat, if it is there.
  bool offer(uint64_t cycle) {
    if (bursts_.empty() || data_hung_) return false;
    Burst& burst = bursts_.front();
    if (burst.times.first + burst.beat * burst.times.per_beat > time_of(cycle)) return false;
    const uint64_t start = burst.address - burst.address % Pins::kBytes;
    const uint64_t address = start + burst.beat * Pins::kBytes;
    uint8_t response = memory_.has(address, Pins::kBytes) ? kOkay : kDecErr;
    counters_.decode_errors += response == kDecErr;
    bool last = burst.beat + 1 == burst.beats;
    if (CdmaFault* fault = faults_.find(kR, std::max(address, burst.address),
                                        address + Pins::kBytes)) {
      switch (fault->kind) {
        case kHangs:
          Faults::deliver(*fault, cycle, address);
          data_hung_ = true;
          return false;
        case kEarlyLast:
          if (last) break;
          Faults::deliver(*fault, cycle, address);
          burst.beats = burst.beat + 1;
          last = true;
          break;
        case kLateLast:
          Faults::deliver(*fault, cycle, address);
          burst.late = true;
          break;
        default:
          Faults::deliver(*fault, cycle, address);
          response = Faults::response(*fault);
      }
    }
    if (last && burst.late) {
      burst.late = last = false;
      ++burst.beats;
    }
    if (response == kOkay) {
      memory_.read(address, pins_.rdata);
    } else {
      random_.fill(pins_.rdata);
    }
    pins_.rid = burst.id;
    pins_.rresp = response;
    pins_.rlast = last;
    pins_.rvalid = 1;
    garbage_ = false;
    return true;
  }

  // What the RTL must not look at is random.
  void withdraw() {
    pins_.rvalid = 0;
    random_.fill(pins_.rdata);
    pins_.rlast = random_.next() & 1;
    pins_.rresp = random_.next() & 3;
    garbage_ = true;
  }

  Pins& pins_;
  const PortRules& rules_;
  Timing& timing_;
  Memory& memory_;
  Faults& faults_;
  Random& random_;
  CdmaPortCounters& counters_;
  Watch& watch_;
  AddressChannel<decltype(Pins::ar)> address_;
  Ring<Burst> bursts_;
  bool address_hung_ = false;
  bool data_hung_ = false;
  bool taken_ = false;
  bool garbage_ = false;
};

}  // namespace cdma
