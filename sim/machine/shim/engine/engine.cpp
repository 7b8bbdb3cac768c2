// The engine's RTL in its surroundings: DRAM channels, the host behind its link, and registers.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "abi.h"
#include "lite.h"
#include "model.h"
#include "pins.h"
#include "slave.h"

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

}  // namespace cdma

using namespace cdma;

struct CdmaEngine : Model {
  Random random;
  Willingness willing;
  RegisterPort registers;
  std::deque<Slave<MemoryPins, DramChannel>> memories;
  std::unique_ptr<Slave<HostPins, HostLink>> host;
  Window reads;
  Window writes;
  uint64_t idle_cycles = 0;
  double out_busy_before = 0;  // link time before the counters were cleared
  double in_busy_before = 0;
  uint64_t cleared = 0;
  std::string description;

  CdmaEngine(const CdmaSurroundings& s, const char* waves_path)
      : Model(waves_path),
        random(s.seed),
        willing(s.stall),
        registers(*top, random),
        reads(s.window),
        writes(s.window) {
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

  void reset() {
    forget_errors();
    for (auto& memory : memories) memory.reset(time_cycle + kResetCycles);
    host->reset(time_cycle + kResetCycles);
    registers.reset();
    top->rst = 1;
    bool valid = false;
    for (uint64_t i = 0; i < kResetCycles; ++i) {
      settle();
      valid |= top->s_axil_rvalid || top->s_axil_bvalid || host->valid();
      for (const auto& memory : memories) valid |= memory.valid();
      // An error leaves the RTL in a state that its assertions may forbid, until the first edge.
      edge(failed && i == 0);
    }
    top->rst = 0;
    failed = false;
    idle_cycles = 0;
    if (valid) throw ProtocolError("an output is valid during reset");
  }

  void step() {
    const uint64_t cycle = time_cycle;
    Traffic dram;
    Traffic link;
    for (auto& memory : memories) memory.drive(cycle, dram);
    host->drive(cycle, link);
    willing.draw(random);
    registers.drive(willing(0));
    reads.add(dram.read);
    writes.add(dram.written);
    settle();
    for (auto& memory : memories) memory.accept(cycle);
    host->accept(cycle);
    registers.accept(cycle);
    edge();
  }

  void run(CdmaRun& run) {
    idle_cycles = 0;
    for (uint64_t left = run.cycles;; --left) {
      run.stopped = should_stop(run);
      if (run.stopped || left == 0) return;
      step();
    }
  }

  // False when the access is not over by then.
  bool finish_access(uint64_t cycles) {
    for (uint64_t i = 0; i < cycles && !registers.done(); ++i) step();
    return registers.done();
  }

  void describe() {
    description.clear();
    for (auto& memory : memories) memory.describe(description);
    host->describe(description);
    registers.describe(description);
  }

  double out_busy() const { return cycles_of(host->timing().out_busy(time_cycle)); }
  double in_busy() const { return cycles_of(host->timing().in_busy(time_cycle)); }

 private:
  bool should_stop(const CdmaRun& run) {
    if (run.irq && top->irq) return true;
    if (run.word != nullptr) {
      uint32_t word;
      std::memcpy(&word, run.word, sizeof word);
      if ((word & run.mask) != run.value) return true;
    }
    if (run.idle_cycles == 0) return false;
    bool idle = host->idle();
    for (const auto& memory : memories) idle &= memory.idle();
    idle_cycles = idle ? idle_cycles + 1 : 0;
    return idle_cycles > run.idle_cycles;
  }
};

EXPORT CdmaEngine* cdma_engine_open(const CdmaSurroundings* surroundings, const char* waves) {
  try {
    return new CdmaEngine(*surroundings, waves);
  } catch (const std::exception&) {
    return nullptr;
  }
}

EXPORT void cdma_engine_close(CdmaEngine* engine) { delete engine; }

EXPORT int32_t cdma_engine_reset(CdmaEngine* engine) {
  return guarded(*engine, [&] { engine->reset(); });
}

EXPORT int32_t cdma_engine_run(CdmaEngine* engine, CdmaRun* run) {
  return guarded(*engine, [&] { engine->run(*run); });
}

EXPORT int32_t cdma_engine_read_register(CdmaEngine* engine, uint32_t address, uint64_t cycles,
                                         uint32_t* value, uint32_t* response, uint32_t* done) {
  return guarded(*engine, [&] {
    engine->registers.start_read(address);
    *done = engine->finish_access(cycles);
    *value = engine->registers.value();
    *response = engine->registers.response();
  });
}

EXPORT int32_t cdma_engine_write_register(CdmaEngine* engine, uint32_t address, uint32_t value,
                                          uint64_t cycles, uint64_t* taken, uint32_t* response,
                                          uint32_t* done) {
  return guarded(*engine, [&] {
    engine->registers.start_write(address, value);
    *done = engine->finish_access(cycles);
    *taken = engine->registers.taken_cycle();
    *response = engine->registers.response();
  });
}

EXPORT void cdma_engine_set_faults(CdmaEngine* engine, CdmaFault* faults, uint64_t count) {
  for (size_t k = 0; k < kUnits; ++k) engine->memories[k].set_faults(k, faults, count);
  engine->host->set_faults(kUnits, faults, count);
}

EXPORT void cdma_engine_counters(const CdmaEngine* engine, CdmaCounters* counters,
                                 CdmaPortCounters* ports) {
  *counters = {engine->out_busy() - engine->out_busy_before,
               engine->in_busy() - engine->in_busy_before, engine->reads.most(),
               engine->writes.most(), engine->cleared};
  for (const auto& memory : engine->memories) *ports++ = memory.counters();
  *ports = engine->host->counters();
}

EXPORT void cdma_engine_clear_counters(CdmaEngine* engine) {
  for (auto& memory : engine->memories) memory.clear_counters();
  engine->host->clear_counters();
  engine->reads.clear();
  engine->writes.clear();
  engine->out_busy_before = engine->out_busy();
  engine->in_busy_before = engine->in_busy();
  engine->cleared = engine->time_cycle;
}

EXPORT const char* cdma_engine_describe(CdmaEngine* engine) {
  engine->describe();
  return engine->description.c_str();
}

EXPORT const char* cdma_engine_message(const CdmaEngine* engine) {
  return engine->message.c_str();
}
EXPORT uint64_t cdma_engine_cycle(const CdmaEngine* engine) { return engine->time_cycle; }
EXPORT int32_t cdma_engine_irq(const CdmaEngine* engine) { return engine->top->irq; }
EXPORT uint64_t cdma_engine_units(void) { return kUnits; }
EXPORT uint64_t cdma_engine_sector_bytes(void) { return MemoryPins::kBytes; }
EXPORT uint64_t cdma_engine_host_bytes(void) { return HostPins::kBytes; }
