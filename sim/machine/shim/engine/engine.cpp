// The engine's RTL in its environment: DRAM channels, the host behind its link, and registers.
#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "abi.h"
#include "bus/bus.h"
#include "computation.h"
#include "pins.h"

namespace cdma {

// Lengths and IDs that the engine's ports are specified with.
constexpr uint64_t kMemoryBeats = 8;
constexpr uint64_t kHostBeats = 16;
constexpr uint64_t kHostMaxId = 1;

// The most bytes in any run of so many cycles.
class Window {
 public:
  explicit Window(size_t cycles) : bytes_(cycles) {}

  void add(uint64_t bytes) {
    if (bytes == 0 && sum_ == 0) return;
    sum_ += bytes;
    sum_ -= bytes_[at_];
    bytes_[at_] = bytes;
    at_ = at_ + 1 == bytes_.size() ? 0 : at_ + 1;
    most_ = std::max(most_, sum_);
  }
  uint64_t most() const { return most_; }
  void clear() {
    std::ranges::fill(bytes_, 0);
    sum_ = most_ = 0;
  }

 private:
  std::vector<uint64_t> bytes_;
  size_t at_ = 0;
  uint64_t sum_ = 0;
  uint64_t most_ = 0;
};

// The edges of the host's clock, where it has one of its own, among those of the engine's. Times are in
// cycles of the engine, whose edge is in the middle of a cycle.
class HostClock {
 public:
  HostClock(double period, double phase) : period_(period), phase_(phase) {}

  double next() const { return (static_cast<double>(edges_) + phase_) * period_; }
  // Whether the next edge comes before the one that ends the engine's cycle.
  bool is_due(uint64_t cycle) const { return next() < static_cast<double>(cycle) + 0.5; }
  void advance() { ++edges_; }
  // So many of the engine's cycles have at least that many of its own.
  uint64_t cycles(uint64_t own) const {
    return static_cast<uint64_t>(std::ceil(static_cast<double>(own + 1) * period_));
  }

 private:
  double period_;
  double phase_;
  uint64_t edges_ = 0;
};

// Cycles of either clock that a reset takes: `RESET_CYCLES` of `hw/lib/clocks`, and some.
constexpr uint64_t kResetCyclesOfTwoClocks = 8;

}  // namespace cdma

using namespace cdma;

struct CdmaEngine : CdmaBus {
  std::deque<Slave<MemoryPins, DramChannel>> memories;
  std::unique_ptr<Slave<HostPins, HostLink>> host;
  Window reads;
  Window writes;
  Computation computation;
  HostClock host_clock;
  double out_busy_before = 0;  // link time before the counters were cleared
  double in_busy_before = 0;
  uint64_t cleared = 0;

  CdmaEngine(const CdmaEnvironment& s, const char* waves_path)
      : CdmaBus(s, waves_path),
        reads(s.window),
        writes(s.window),
        host_clock(s.host_period, s.host_phase) {
    Random seeds(s.seed + 1);
    for_each_memory(*top, [&](MemoryPins pins) {
      const size_t k = memories.size();
      PortRules rules{"m_axi_mem" + std::to_string(k), kMemoryBeats, 0, k, kUnits,
                      s.interleave_bytes};
      memories.emplace_back(pins, rules, s, s.dram_outstanding, s.device, seeds.next());
    });
    PortRules rules{"m_axi_host", kHostBeats, kHostMaxId, 0, 1, 1};
    host = std::make_unique<Slave<HostPins, HostLink>>(host_pins(*top), rules, s,
                                                       s.link_outstanding, s.host, seeds.next());
  }

  void step() override {
    const uint64_t cycle = time_cycle;
    Traffic dram;
    computation.advance(cycle, memories);
    for (auto& memory : memories) memory.drive(cycle, dram);
    if constexpr (WithHostClock<VTop>)
      run_host();
    else
      drive_host();
    willing.draw(random);
    registers.drive(willing(0));
    reads.add(dram.read);
    writes.add(dram.written);
    settle();
    for (auto& memory : memories) memory.accept(cycle);
    if constexpr (!WithHostClock<VTop>) host->accept(cycle);
    registers.accept(cycle);
    edge();
  }

  void drive_host() {
    Traffic link;
    host->drive(time_cycle, link);
  }

  // What comes with the host's own clock before the engine's next edge.
  void run_host() {
    for (; host_clock.is_due(time_cycle); host_clock.advance()) {
      drive_host();
      settle_host(host_clock.next());
      host->accept(time_cycle);
      edge_host(host_clock.next());
    }
  }

  void set_faults(CdmaFault* faults, uint64_t count) override {
    for (size_t k = 0; k < kUnits; ++k) memories[k].set_faults(k, faults, count);
    host->set_faults(kUnits, faults, count);
  }

  void clear_counters() override {
    for (auto& memory : memories) memory.clear_counters();
    host->clear_counters();
    reads.clear();
    writes.clear();
    out_busy_before = out_busy();
    in_busy_before = in_busy();
    cleared = time_cycle;
  }

  double out_busy() const { return cycles_of(host->timing().out_busy(time_cycle)); }
  double in_busy() const { return cycles_of(host->timing().in_busy(time_cycle)); }

 protected:
  void forget_traffic(uint64_t cycle) override {
    for (auto& memory : memories) memory.reset(cycle);
    host->reset(cycle);
    computation.reset();
  }

  bool any_valid() const override {
    bool valid = host->valid();
    for (const auto& memory : memories) valid |= memory.valid();
    return valid;
  }

  bool idle() const override {
    bool idle = host->idle();
    for (const auto& memory : memories) idle &= memory.idle();
    return idle;
  }

  bool computes() const override { return computation.computes(); }

  uint64_t reset_cycles() const override {
    if constexpr (WithHostClock<VTop>)
      return std::max(kResetCyclesOfTwoClocks, host_clock.cycles(kResetCyclesOfTwoClocks));
    return CdmaBus::reset_cycles();
  }

  void tick_others() override {
    if constexpr (WithHostClock<VTop>)
      for (; host_clock.is_due(time_cycle); host_clock.advance()) {
        settle_host(host_clock.next());
        edge_host(host_clock.next());
      }
  }

  void describe_traffic(std::string& text) override {
    for (auto& memory : memories) memory.describe(text);
    host->describe(text);
  }
};

EXPORT CdmaBus* cdma_engine_open(const CdmaEnvironment* environment, const char* waves) {
  try {
    return new CdmaEngine(*environment, waves);
  } catch (const std::exception&) {
    return nullptr;
  }
}

EXPORT void cdma_engine_counters(const CdmaBus* bus, CdmaCounters* counters,
                                 CdmaPortCounters* ports) {
  const auto& engine = static_cast<const CdmaEngine&>(*bus);
  *counters = {engine.out_busy() - engine.out_busy_before,
               engine.in_busy() - engine.in_busy_before, engine.reads.most(),
               engine.writes.most(), engine.cleared};
  for (const auto& memory : engine.memories) *ports++ = memory.counters();
  *ports = engine.host->counters();
}

EXPORT void cdma_engine_compute(CdmaBus* bus, const CdmaLayer* layers, uint64_t count,
                                double start) {
  static_cast<CdmaEngine&>(*bus).computation.begin(layers, count, start);
}
EXPORT double cdma_engine_computed(const CdmaBus* bus) {
  return static_cast<const CdmaEngine&>(*bus).computation.end();
}

EXPORT void cdma_engine_watch(CdmaBus* bus) {
  auto& engine = static_cast<CdmaEngine&>(*bus);
  for (auto& memory : engine.memories) memory.watch().start();
  engine.host->watch().start();
}

EXPORT uint64_t cdma_engine_events(CdmaBus* bus, uint64_t port, const CdmaBusEvent** events) {
  auto& engine = static_cast<CdmaEngine&>(*bus);
  const auto& noted = port == kUnits ? engine.host->watch().events()
                                     : engine.memories[port].watch().events();
  *events = noted.data();
  return noted.size();
}

EXPORT void cdma_engine_sleep(CdmaBus* bus, int32_t sleeps) { bus->sleeps = sleeps != 0; }

EXPORT uint64_t cdma_engine_units(void) { return kUnits; }
EXPORT uint64_t cdma_engine_sector_bytes(void) { return MemoryPins::kBytes; }
EXPORT uint64_t cdma_engine_host_bytes(void) { return HostPins::kBytes; }
