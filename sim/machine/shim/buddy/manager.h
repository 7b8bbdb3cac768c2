// The GPU's side of s_axi: plays a trace of accesses, and looks at every answer.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi.h"
#include "burst.h"
#include "bus/channel.h"
#include "bus/slave.h"
#include "mask.h"
#include "outcome.h"
#include "random.h"
#include "schedule.h"

namespace cdma {

template <class Pins>
class Manager {
 public:
  Manager(Pins pins, double stall, uint64_t seed)
      : pins_(pins), random_(seed), willing_(stall) {
    reset();
  }
  Manager(const Manager&) = delete;

  void begin(CdmaPlay& play, uint64_t cycle) {
    play_ = &play;
    begin_ = cycle;
    schedule_.begin(&play);
    states_.assign(play.accesses, {});
    for (uint64_t i = 0; i < play.accesses; ++i)
      play.record[i] = {kNever, kNever, kNever, kNever, 0};
  }
  bool done() const { return schedule_.finished() == play_->accesses; }
  uint64_t finished() const { return schedule_.finished(); }
  void end() { play_ = nullptr; }

  void drive(uint64_t cycle) {
    willing_.draw(random_);
    drive_address(pins_.ar, read_address_, false, cycle, willing_(kAr));
    drive_address(pins_.aw, write_address_, true, cycle, willing_(kAw));
    drive_data(willing_(kW));
    pins_.rready = willing_(kR);
    pins_.bready = willing_(kB);
  }

  // Looks at the settled outputs of a cycle.
  void accept(uint64_t cycle) {
    accept_address(pins_.ar, read_address_, cycle);
    accept_address(pins_.aw, write_address_, cycle);
    accept_data();
    accept_beat(cycle);
    accept_response(cycle);
  }

  bool valid() const { return pins_.rvalid || pins_.bvalid; }
  bool idle() const { return play_ == nullptr; }

  void describe(std::string& text) const {
    if (play_ == nullptr || done()) return;
    const CdmaAccess& access = play_->access[schedule_.oldest()];
    add_phrase(text, "s_axi: " + std::to_string(schedule_.finished()) + " of " +
                         std::to_string(play_->accesses) + " accesses answered, " +
                         std::to_string(schedule_.outstanding(false)) + " reads and " +
                         std::to_string(schedule_.outstanding(true)) +
                         " writes outstanding, the oldest a " +
                         (access.write ? "write" : "read") + " of " +
                         std::to_string(access.bytes) + " bytes at " + hex(access.address));
  }

  void reset() {
    play_ = nullptr;
    reads_of_.clear();
    writes_of_.clear();
    data_of_.clear();
    read_address_ = write_address_ = {};
    data_pending_ = beat_waits_ = response_waits_ = false;
    withdraw(pins_.ar);
    withdraw(pins_.aw);
    withdraw_data();
    pins_.rready = pins_.bready = 0;
  }

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};

  // An address that is offered.
  struct Offer {
    bool pending = false;
    uint64_t index = 0;
  };
  struct State {
    uint64_t beat = 0;  // beats read, or data sent
    bool addressed = false;
  };
  struct Beat {
    typename Pins::Word data;
    uint64_t id;
    uint64_t response;
    bool last;
  };

  template <class Channel>
  void drive_address(Channel& pins, Offer& offer, bool write, uint64_t cycle, bool willing) {
    if (offer.pending) return;
    if (play_ == nullptr || !willing || !schedule_.ready(write, cycle - begin_)) {
      if (pins.valid) withdraw(pins);
      return;
    }
    offer = {true, schedule_.take(write)};
    play_->record[offer.index].offered = cycle - begin_;
    const CdmaAccess& access = play_->access[offer.index];
    if (write) {
      data_of_.push_back(offer.index);
      writes_of_[access.id].push_back(offer.index);
    } else {
      reads_of_[access.id].push_back(offer.index);
    }
    pins.id = access.id;
    pins.addr = access.address;
    pins.len = beats(access) - 1;
    pins.size = access.size;
    pins.burst = access.burst;
    pins.valid = 1;
  }

  template <class Channel>
  void accept_address(Channel& pins, Offer& offer, uint64_t cycle) {
    if (!offer.pending || !pins.ready) return;
    offer.pending = false;
    states_[offer.index].addressed = true;
    play_->record[offer.index].accepted = cycle - begin_;
  }

  // Data may lead its address, but not the offer of it.
  void drive_data(bool willing) {
    if (data_pending_) return;
    if (data_of_.empty() || !willing) {
      if (pins_.wvalid) withdraw_data();
      return;
    }
    const CdmaAccess& access = play_->access[data_of_.front()];
    const uint64_t beat = states_[data_of_.front()].beat;
    random_.fill(pins_.wdata);
    auto* const lanes = reinterpret_cast<uint8_t*>(&pins_.wdata);
    Mask strobes = 0;
    for_each_byte(access, beat, Pins::kBytes, [&](uint64_t byte, uint64_t lane) {
      lanes[lane] = play_->data[access.offset + byte];
      if (play_->mask == nullptr || play_->mask[access.offset + byte]) strobes |= Mask{1} << lane;
    });
    std::memcpy(&pins_.wstrb, &strobes, sizeof pins_.wstrb);
    pins_.wlast = beat + 1 == beats(access);
    pins_.wvalid = 1;
    data_pending_ = true;
  }

  void accept_data() {
    if (!data_pending_ || !pins_.wready) return;
    data_pending_ = false;
    ++states_[data_of_.front()].beat;
    if (pins_.wlast) data_of_.pop_front();
  }

  void accept_beat(uint64_t cycle) {
    if (!pins_.rvalid) {
      if (beat_waits_) fail("RVALID withdrawn before RREADY");
      return;
    }
    const Beat beat{pins_.rdata, pins_.rid, pins_.rresp, pins_.rlast != 0};
    if (beat_waits_) check_waiting(beat);
    beat_waits_ = !pins_.rready;
    waiting_ = beat;
    if (beat_waits_) return;
    if (play_ == nullptr || reads_of_[beat.id].empty())
      fail("R with ID " + std::to_string(beat.id) + " unasked");
    const uint64_t index = reads_of_[beat.id].front();
    State& state = states_[index];
    if (!state.addressed) fail("R before its address was accepted");
    const CdmaAccess& access = play_->access[index];
    CdmaAccessRecord& record = play_->record[index];
    if (state.beat == 0) record.first = cycle - begin_;
    note_response(record, beat.response, "RRESP");
    const auto* const lanes = reinterpret_cast<const uint8_t*>(&beat.data);
    for_each_byte(access, state.beat, Pins::kBytes, [&](uint64_t byte, uint64_t lane) {
      play_->data[access.offset + byte] = lanes[lane];
    });
    ++state.beat;
    const bool last = state.beat == beats(access);
    if (beat.last != last)
      fail((beat.last ? "RLAST on beat " : "no RLAST on beat ") + std::to_string(state.beat - 1) +
           " of a burst of " + std::to_string(beats(access)));
    if (!last) return;
    reads_of_[beat.id].pop_front();
    finish(index, cycle);
  }

  void accept_response(uint64_t cycle) {
    if (!pins_.bvalid) {
      if (response_waits_) fail("BVALID withdrawn before BREADY");
      return;
    }
    if (response_waits_ && pins_.bid != answer_id_) fail("BID changed before BREADY");
    if (response_waits_ && pins_.bresp != answer_) fail("BRESP changed before BREADY");
    response_waits_ = !pins_.bready;
    answer_id_ = pins_.bid;
    answer_ = pins_.bresp;
    if (response_waits_) return;
    if (play_ == nullptr || writes_of_[answer_id_].empty())
      fail("B with ID " + std::to_string(answer_id_) + " unasked");
    const uint64_t index = writes_of_[answer_id_].front();
    const State& state = states_[index];
    if (!state.addressed || state.beat != beats(play_->access[index]))
      fail("B before its write was accepted");
    note_response(play_->record[index], answer_, "BRESP");
    writes_of_[answer_id_].pop_front();
    finish(index, cycle);
  }

  void finish(uint64_t index, uint64_t cycle) {
    play_->record[index].end = cycle - begin_;
    schedule_.finish(index);
  }

  void check_waiting(const Beat& beat) const {
    if (std::memcmp(&beat.data, &waiting_.data, sizeof beat.data) != 0)
      fail("RDATA changed before RREADY");
    if (beat.id != waiting_.id) fail("RID changed before RREADY");
    if (beat.response != waiting_.response) fail("RRESP changed before RREADY");
    if (beat.last != waiting_.last) fail("RLAST changed before RREADY");
  }

  void note_response(CdmaAccessRecord& record, uint64_t response, const char* name) const {
    if (response == 1) fail(std::string(name) + " is EXOKAY, and nothing was exclusive");
    record.response = std::max(record.response, response);
  }

  // What the RTL must not look at is random.
  template <class Channel>
  void withdraw(Channel& pins) {
    const uint64_t garbage = random_.next();
    pins.valid = 0;
    pins.addr = garbage >> 24;
    pins.len = garbage & 0xFF;
    pins.size = garbage >> 8 & 7;
    pins.burst = garbage >> 11 & 3;
    pins.cache = garbage >> 13 & 0xF;
    pins.prot = garbage >> 17 & 7;
    pins.qos = garbage >> 20 & 0xF;
    pins.lock = 0;
  }
  void withdraw_data() {
    pins_.wvalid = 0;
    random_.fill(pins_.wdata);
    random_.fill(pins_.wstrb);
    pins_.wlast = random_.next() & 1;
  }

  [[noreturn]] void fail(const std::string& what) const { throw ProtocolError("s_axi: " + what); }

  Pins pins_;
  Random random_;
  Willingness willing_;
  CdmaPlay* play_ = nullptr;
  uint64_t begin_ = 0;
  Schedule schedule_;
  std::vector<State> states_;
  Offer read_address_;
  Offer write_address_;
  std::deque<uint64_t> data_of_;  // writes that are offered and lack data
  std::unordered_map<uint64_t, std::deque<uint64_t>> reads_of_;  // by ID, in order
  std::unordered_map<uint64_t, std::deque<uint64_t>> writes_of_;
  bool data_pending_ = false;
  bool beat_waits_ = false;
  bool response_waits_ = false;
  Beat waiting_{};
  uint64_t answer_id_ = 0;
  uint64_t answer_ = 0;
};

}  // namespace cdma
