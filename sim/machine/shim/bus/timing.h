// When DRAM channels and the link answer. Bursts are scheduled when they are accepted: what is
// served in order, at a known rate, needs no events.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "abi.h"
#include "random.h"
#include "ring.h"

namespace cdma {

// Fixed point, so that rates need not divide cycles. Good for 2^40 cycles.
using Time = uint64_t;
constexpr int kTickBits = 24;
constexpr Time time_of(uint64_t cycle) { return cycle << kTickBits; }
inline double cycles_of(Time time) { return std::ldexp(static_cast<double>(time), -kTickBits); }

// Beat i of a read can be offered from `first + i * per_beat` on.
struct BeatTimes {
  Time first;
  Time per_beat;
};

// Times in which a DRAM channel serves nothing: one per interval, at a random place in it.
class Refresh {
 public:
  Refresh(uint64_t interval, uint64_t length, uint64_t seed)
      : interval_(interval), length_(length), random_(seed) {
    if (interval_ != 0) draw();
  }

  // The first time, not before `time`, at which service can start. Times must not descend.
  Time after(Time time) {
    if (interval_ == 0) return time;
    while (time >= end_) {
      begin_of_interval_ += interval_;
      draw();
    }
    return time < start_ ? time : end_;
  }

 private:
  void draw() {
    const uint64_t room = interval_ - length_ + 1;
    start_ = time_of(begin_of_interval_ + random_.next() % room);
    end_ = start_ + time_of(length_);
  }

  uint64_t interval_;
  uint64_t length_;
  Random random_;
  uint64_t begin_of_interval_ = 0;
  Time start_ = 0;
  Time end_ = 0;
};

// What a computation reads and writes of a channel, in bursts of about a line. It takes what other
// bursts leave: where both wait, the others come first.
struct Load {
  Time next = 0;   // when its next burst is there
  Time apart = 0;  // from one to the next
  Time length = 0;
  uint64_t bursts = 0;  // that have still to be served
  Time end = 0;         // of the last one that has been
};

// Serves one burst after the other, each for as long as its bytes take.
class Server {
 public:
  Server(double bytes_per_cycle, Refresh refresh, size_t capacity)
      : ticks_per_byte_(static_cast<double>(time_of(1)) / bytes_per_cycle),
        refresh_(refresh),
        waiting_(capacity) {}

  Time cost(uint64_t bytes) const {
    return static_cast<Time>(std::llround(static_cast<double>(bytes) * ticks_per_byte_));
  }

  // When service starts of a burst that is there at `ready`, which never goes back.
  Time serve(Time ready, uint64_t bytes, bool is_write = false) {
    serve_load(ready);
    const Time start = refresh_.after(std::max(ready, free_));
    const Time length = cost(bytes);
    free_ = start + length;
    waiting_.push() = {start, length, bytes, is_write};
    return start;
  }

  // The load's bursts come from `start` on. The one before must have been served.
  void set_load(const Load& load) { load_ = load; }
  const Load& load() const { return load_; }

  // Serves the load's bursts that can start before `until`.
  void serve_load(Time until) {
    while (load_.bursts != 0) {
      const Time ready = std::max(load_.next, free_);
      if (ready >= until) return;
      const Time start = refresh_.after(ready);
      if (start >= until) return;
      load_.end = free_ = start + load_.length;
      load_.next += load_.apart;
      --load_.bursts;
    }
  }

  // Calls `started(bytes, is_write)` for each burst whose service starts up to this cycle.
  template <class Started>
  void advance(uint64_t cycle, Started started) {
    while (!waiting_.empty() && waiting_.front().start <= time_of(cycle)) {
      const Use& use = waiting_.front();
      busy_ += use.length;
      last_end_ = use.start + use.length;
      started(use.bytes, use.is_write);
      waiting_.pop();
    }
  }

  // Time in service up to a cycle that `advance` has reached.
  Time busy(uint64_t cycle) const {
    const Time now = time_of(cycle);
    return busy_ - (last_end_ > now ? last_end_ - now : 0);
  }

  // Forgets what has not been served.
  void reset(uint64_t cycle) {
    busy_ = busy(cycle);
    last_end_ = free_ = time_of(cycle);
    waiting_.clear();
    load_ = {};
  }

 private:
  struct Use {
    Time start;
    Time length;
    uint64_t bytes;
    bool is_write;
  };

  double ticks_per_byte_;
  Refresh refresh_;
  Time free_ = 0;
  Time busy_ = 0;
  Time last_end_ = 0;
  Ring<Use> waiting_;
  Load load_;
};

// One channel of DRAM: reads and writes share its bus in the order in which they were accepted.
class DramChannel {
 public:
  DramChannel(const CdmaEnvironment& s, size_t, uint64_t seed)
      : bus_(s.dram_bytes_per_cycle, Refresh(s.refresh_interval, s.refresh_length, seed),
             2 * s.dram_outstanding),
        latency_(s.dram_latency),
        awake_(s.refresh_interval == 0
                   ? 1.0
                   : 1.0 - static_cast<double>(s.refresh_length) /
                               static_cast<double>(s.refresh_interval)) {}

  // A burst in whole beats, whose address is accepted in `cycle`.
  BeatTimes read(uint64_t cycle, uint64_t beats, uint64_t beat_bytes, uint64_t) {
    return {bus_.serve(time_of(cycle + latency_), beats * beat_bytes), bus_.cost(beat_bytes)};
  }
  // When a burst is answered whose last data is accepted in `cycle`.
  Time write(uint64_t cycle, uint64_t beats, uint64_t beat_bytes, uint64_t) {
    return bus_.serve(time_of(cycle + latency_), beats * beat_bytes, true);
  }

  bool has_room(uint64_t) const { return true; }
  void take(uint64_t) {}

  // From `start` on a computation asks for what takes the channel `busy`, spread over `spread` or as
  // soon as it can be served. Its own latency is not counted: it asks in time.
  void load(Time start, Time busy, Time spread) {
    // What it takes alone includes refreshes.
    const Time alone = static_cast<Time>(std::llround(static_cast<double>(busy) * awake_));
    const uint64_t bursts = std::max<uint64_t>(busy != 0, alone / bus_.cost(kLoadBytes));
    if (bursts == 0) return bus_.set_load({});
    bus_.set_load({start + time_of(latency_), spread / bursts, alone / bursts, bursts, 0});
  }
  // Whether some of it has still to be served; and when the last was that has been.
  bool has_load() const { return bus_.load().bursts != 0; }
  Time load_end() const {
    return bus_.load().end == 0 ? 0 : bus_.load().end - time_of(latency_);
  }
  void serve_load(uint64_t cycle) { bus_.serve_load(time_of(cycle + latency_)); }

  template <class Started>
  void advance(uint64_t cycle, Started started) {
    bus_.advance(cycle, started);
  }
  void reset(uint64_t cycle) { bus_.reset(cycle); }

 private:
  static constexpr uint64_t kLoadBytes = 128;  // a line of a GPU's second-level cache

  Server bus_;
  uint64_t latency_;
  double awake_;
};

// Both ways of a link, in which bursts follow one another, of one port or of several.
struct Lanes {
  Server out;
  Server in;

  // Of so many ports, each of which has such a link by itself.
  Lanes(const CdmaEnvironment& s, uint64_t ports)
      : out(static_cast<double>(ports) * s.link_out_bytes_per_cycle, Refresh(0, 0, 0),
            2 * ports * s.link_outstanding),
        in(static_cast<double>(ports) * s.link_in_bytes_per_cycle, Refresh(0, 0, 0),
           ports * s.link_outstanding) {}
};

// The link: out go writes and requests, in comes what was read. A write leaves when all of it is
// there, and is answered when it has arrived (posted: the answer needs no way back).
class HostLink {
 public:
  HostLink(const CdmaEnvironment& s, size_t burst_bytes, uint64_t)
      : environment_(s),
        lanes_(std::make_shared<Lanes>(s, 1)),
        going_(s.link_outstanding),
        coming_(s.link_outstanding),
        latency_(time_of(s.link_latency)),
        overhead_(s.link_overhead_bytes),
        buffer_(s.link_buffer_bursts * burst_bytes),
        room_(buffer_),
        leaving_(s.link_outstanding) {}

  // `bytes` are those asked for, `beats * beat_bytes` less the unaligned head.
  BeatTimes read(uint64_t cycle, uint64_t beats, uint64_t beat_bytes, uint64_t bytes) {
    Server& in = lanes_->in;
    const Time asked =
        lanes_->out.serve(time_of(cycle), overhead_) + lanes_->out.cost(overhead_);
    const Time start = in.serve(asked + 2 * latency_, bytes + overhead_);
    const Time end = start + in.cost(bytes + overhead_);
    const Time per_beat = in.cost(beat_bytes);
    coming_.push() = {start, bytes};
    return {end - (beats - 1) * per_beat, per_beat};
  }
  Time write(uint64_t cycle, uint64_t beats, uint64_t beat_bytes, uint64_t bytes) {
    const Time start = lanes_->out.serve(time_of(cycle), bytes + overhead_);
    const Time end = start + lanes_->out.cost(bytes + overhead_);
    going_.push() = {start, bytes};
    leaving_.push() = {end, beats * beat_bytes};
    return end + latency_;
  }

  // Whether the buffer before the link has room for another beat.
  bool has_room(uint64_t beat_bytes) const { return room_ >= beat_bytes; }
  void take(uint64_t beat_bytes) { room_ -= beat_bytes; }

  template <class Started>
  void advance(uint64_t cycle, Started started) {
    const auto nothing = [](uint64_t, bool) {};
    lanes_->out.advance(cycle, nothing);
    lanes_->in.advance(cycle, nothing);
    pop(going_, cycle, [&](uint64_t bytes) { started(bytes, true); });
    pop(coming_, cycle, [&](uint64_t bytes) { started(bytes, false); });
    while (!leaving_.empty() && leaving_.front().end <= time_of(cycle)) {
      room_ += leaving_.front().bytes;
      leaving_.pop();
    }
  }
  void reset(uint64_t cycle) {
    lanes_->out.reset(cycle);
    lanes_->in.reset(cycle);
    going_.clear();
    coming_.clear();
    leaving_.clear();
    room_ = buffer_;
  }

  Time out_busy(uint64_t cycle) const { return lanes_->out.busy(cycle); }
  Time in_busy(uint64_t cycle) const { return lanes_->in.busy(cycle); }

  // One link for several ports, as fast as theirs together, which go on cycle by cycle at the same
  // time. Nothing may be under way.
  template <class Links>
  static void share(const Links& links) {
    const auto lanes = std::make_shared<Lanes>(links.front()->environment_, links.size());
    for (HostLink* link : links) link->lanes_ = lanes;
  }

 private:
  struct Leaving {
    Time end;
    uint64_t bytes;
  };
  struct Moving {
    Time start;
    uint64_t bytes;
  };

  template <class Started>
  static void pop(Ring<Moving>& moving, uint64_t cycle, Started started) {
    while (!moving.empty() && moving.front().start <= time_of(cycle)) {
      started(moving.front().bytes);
      moving.pop();
    }
  }

  CdmaEnvironment environment_;
  std::shared_ptr<Lanes> lanes_;
  Ring<Moving> going_;  // this port's own, until they start
  Ring<Moving> coming_;
  Time latency_;
  uint64_t overhead_;
  uint64_t buffer_;
  uint64_t room_;
  Ring<Leaving> leaving_;
};

}  // namespace cdma
