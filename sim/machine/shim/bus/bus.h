// A design on AXI in its environment: what all of them do.
#pragma once

#include <cstring>
#include <string>

#include "abi.h"
#include "lite.h"
#include "model.h"
#include "slave.h"

struct CdmaBus : cdma::Model {
  cdma::Random random;
  cdma::Willingness willing;
  cdma::RegisterPort registers;
  std::string description;

  CdmaBus(const CdmaEnvironment& s, const char* waves_path)
      : Model(waves_path), random(s.seed), willing(s.stall), registers(*top, random) {}
  virtual ~CdmaBus() = default;

  virtual void step() = 0;
  virtual void set_faults(CdmaFault* faults, uint64_t count) = 0;
  virtual void clear_counters() = 0;

  void reset() {
    forget_errors();
    forget_traffic(time_cycle + reset_cycles());
    registers.reset();
    assert_reset(1);
    bool valid = false;
    for (uint64_t i = 0; i < reset_cycles(); ++i) {
      tick_others();
      settle();
      valid |= top->s_axil_rvalid || top->s_axil_bvalid || any_valid();
      // An error leaves the RTL in a state that its assertions may forbid, until the first edge.
      edge(failed && i == 0);
    }
    assert_reset(0);
    failed = false;
    idle_cycles_ = 0;
    if (valid) throw cdma::ProtocolError("an output is valid during reset");
  }

  void run(CdmaRun& run) {
    idle_cycles_ = 0;
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
    describe_traffic(description);
    registers.describe(description);
  }

 protected:
  virtual void forget_traffic(uint64_t cycle) = 0;
  virtual bool any_valid() const = 0;
  virtual bool idle() const = 0;
  virtual bool computes() const { return false; }
  virtual uint64_t reset_cycles() const { return cdma::kResetCycles; }
  // Edges of other clocks up to the next one, in reset.
  virtual void tick_others() {}
  virtual void describe_traffic(std::string& text) = 0;

 private:
  bool should_stop(const CdmaRun& run) {
    if (run.irq & top->irq) return true;
    if (run.computed && !computes()) return true;
    if (run.word != nullptr) {
      uint32_t word;
      std::memcpy(&word, run.word, sizeof word);
      if ((word & run.mask) != run.value) return true;
    }
    if (run.idle_cycles == 0) return false;
    idle_cycles_ = idle() ? idle_cycles_ + 1 : 0;
    return idle_cycles_ > run.idle_cycles;
  }

  uint64_t idle_cycles_ = 0;
};
