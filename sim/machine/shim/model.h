// One instance of the RTL: its clock and waves, and how its failures reach Python.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "VTop.h"
#include "messages.h"
#include "outcome.h"

#if VM_TRACE_FST
#include "verilated_fst_c.h"
#elif VM_TRACE_VCD
#include "verilated_vcd_c.h"
#endif

namespace cdma {

#if VM_TRACE_FST
using Waves = VerilatedFstC;
#elif VM_TRACE_VCD
using Waves = VerilatedVcdC;
#endif

constexpr uint64_t kResetCycles = 4;
// 1 GHz: the time in the waves is the cycle in nanoseconds. Time is in Verilator's picoseconds.
constexpr uint64_t kPeriod = 1000;

// Whether the bus to the host has a clock of its own (`hw/bus/clock_crossing.py`).
template <class Top>
concept WithHostClock = requires(Top& top) { top.host_clk; };

struct Model {
  std::unique_ptr<VerilatedContext> context = std::make_unique<VerilatedContext>();
  std::unique_ptr<VTop> top;
#if VM_TRACE
  std::unique_ptr<Waves> waves;
#endif
  uint64_t time_cycle = 0;  // since construction
  bool sleeps = true;       // components whose registers would not change get no clock
  bool failed = false;      // the last call ended in an error
  std::string message;

  // `waves_path` may be null.
  explicit Model(const char* waves_path) {
    context->fatalOnError(false);
    context->traceEverOn(waves_path != nullptr);
    top = std::make_unique<VTop>(context.get());
#if VM_TRACE
    if (waves_path != nullptr) {
      waves = std::make_unique<Waves>();
      top->trace(waves.get(), 99);
      waves->open(waves_path);
      if (!waves->isOpen()) throw std::runtime_error("cannot be written");
    }
#endif
  }

  ~Model() {
    Verilated::threadContextp(context.get());
    top->final();
#if VM_TRACE
    if (waves) waves->close();
#endif
  }

  // Two evaluations make a cycle. The first, with the clock low, settles what the outputs are
  // before the edge; the second is the edge.
  void settle() { evaluate(0, time_cycle * kPeriod); }
  void edge(bool forgiving = false) {
    evaluate(1, time_cycle * kPeriod + kPeriod / 2);
    if (forgiving) forget_errors();
    if (context->gotError()) throw AssertionError(printed);
    ++time_cycle;
  }

  // The same of the host's clock, if it has one of its own, in which nothing else ticks. `time` is that
  // of the edge, in cycles of the other clock.
  void settle_host(double time) { evaluate_host(*top, 0, time); }
  void edge_host(double time) {
    evaluate_host(*top, 1, time);
    if (context->gotError()) throw AssertionError(printed);
  }

  void assert_reset(int value) {
    top->rst = value;
    assert_host_reset(*top, value);
  }

  void forget_errors() {
    context->gotError(false);
    context->errorCount(0);
    printed.clear();
  }

 private:
  // The clocks of components that sleep (`hw/lib/sleep.py`), where the RTL has them: `wakes` tells, once
  // the inputs have settled, in which ones the edge will change something.
  template <class Top>
  void tick_sleepers(Top& top, int clock) {
    if constexpr (requires { top.clks; }) {
      top.awake = !sleeps;
      if (clock == 0)
        top.clks = {};
      else
        top.clks = top.wakes;
    }
  }

  template <class Top>
  static void assert_host_reset([[maybe_unused]] Top& top, [[maybe_unused]] int value) {
    if constexpr (WithHostClock<Top>) top.host_rst = value;
  }

  template <class Top>
  void evaluate_host([[maybe_unused]] Top& top, [[maybe_unused]] int clock, double time) {
    if constexpr (WithHostClock<Top>) top.host_clk = clock;
    evaluate_at(static_cast<uint64_t>(time * static_cast<double>(kPeriod)));
  }

  void evaluate(int clock, uint64_t time) {
    top->clk = clock;
    tick_sleepers(*top, clock);
    evaluate_at(time);
  }

  void evaluate_at([[maybe_unused]] uint64_t time) {
    top->eval();
#if VM_TRACE
    // Each a picosecond later at least: what settles before an edge does so at no time of its own.
    dumped_ = std::max(time, dumped_ + 1);
    context->time(dumped_);
    if (waves) waves->dump(dumped_);
#endif
  }

  [[maybe_unused]] uint64_t dumped_ = ~uint64_t{0};
};

// Runs `call` and turns whatever it throws into an outcome and a message.
template <class Call>
int32_t guarded(Model& model, Call call) {
  Verilated::threadContextp(model.context.get());
  printed.clear();
  model.message.clear();
  const auto failed = [&](int32_t outcome, const std::exception& error) {
    model.failed = true;
    model.message = error.what();
    return outcome;
  };
  try {
    call();
    return kDone;
  } catch (const HangError& error) {
    return failed(kHang, error);
  } catch (const AssertionError& error) {
    return failed(kAssertion, error);
  } catch (const ProtocolError& error) {
    return failed(kProtocol, error);
  } catch (const CapacityError& error) {
    return failed(kCapacity, error);
  } catch (const std::exception& error) {
    return failed(kException, error);
  }
}

}  // namespace cdma

#define EXPORT __attribute__((visibility("default")))
