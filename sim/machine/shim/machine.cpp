// One instance of the RTL: its clock, reset and waves, and the loop that runs a batch through it.
#include <algorithm>
#include <memory>
#include <string>

#include "VTop.h"
#include "abi.h"
#include "messages.h"
#include "ports.h"
#include "random.h"
#include "sinks.h"
#include "sources.h"

#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
#elif VM_TRACE_VCD
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
#endif

namespace cdma {

struct HangError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct AssertionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr uint64_t kResetCycles = 4;
// Idle cycles after a batch, in which nothing may come out any more.
constexpr uint64_t kDrainCycles = 8;
// 1 GHz: the time in the waves is the cycle in nanoseconds. Time is in Verilator's picoseconds.
constexpr uint64_t kPeriod = 1000;

}  // namespace cdma

using namespace cdma;

struct CdmaMachine {
  std::unique_ptr<VerilatedContext> context = std::make_unique<VerilatedContext>();
  std::unique_ptr<VTop> top;
#if VM_TRACE
  std::unique_ptr<Waves> waves;
#endif
  uint64_t time_cycle = 0;   // since construction
  uint64_t batch_cycle = 0;  // since the start of the batch
  bool clean = false;        // nothing is under way, and no error has happened, since reset
  bool failed = false;       // the last call ended in an error
  std::string message;

  explicit CdmaMachine(const char* waves_path) {
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

  ~CdmaMachine() {
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

  void forget_errors() {
    context->gotError(false);
    context->errorCount(0);
    printed.clear();
  }

  void reset() {
    clean = false;
    forget_errors();
    top->rst = 1;
    top->s_cmd_valid = top->s_axis_tvalid = 0;
    top->m_axis_tready = top->m_sts_ready = 0;
    bool valid = false;
    for (uint64_t i = 0; i < kResetCycles; ++i) {
      settle();
      valid |= top->m_axis_tvalid || top->m_sts_valid;
      // An error leaves the RTL in a state that its assertions may forbid, until the first edge.
      edge(failed && i == 0);
    }
    failed = false;
    top->rst = 0;
    clean = true;
    if (valid) throw ProtocolError("an output is valid during reset");
  }

  void run(CdmaBatch& batch) {
    batch_cycle = 0;
    if (!clean) reset();
    clean = false;
    Random random(batch.seed);
    Stalls stalls(batch.stall);
    CommandSource commands(*top, batch, random);
    PacketSource input(*top, batch, random);
    PacketSink output(*top, batch);
    StatusSink status(*top, batch);

    for (; batch.finished < batch.transfers ||
           std::min(commands.accepted(), input.finished()) < batch.transfers;
         ++batch_cycle) {
      batch.cycles = batch_cycle;
      if (batch_cycle == batch.reset_at) return reset();
      if (batch_cycle == batch.cycle_budget)
        throw HangError(progress(batch, commands, input, output, status));
      stalls.draw(random);
      commands.drive(stalls.willing(0));
      input.drive(stalls.willing(1));
      top->m_axis_tready = stalls.willing(2);
      top->m_sts_ready = stalls.willing(3);
      settle();

      // Before the edge: the sinks look at outputs, the handshakes of the inputs are noted but
      // carried out after it, as inputs must not change before the edge.
      const bool command_accepted = top->s_cmd_valid && top->s_cmd_ready;
      const bool input_accepted = top->s_axis_tvalid && top->s_axis_tready;
      const bool output_accepted = output.accept(batch_cycle, commands.accepted());
      status.accept(batch_cycle, commands.accepted());
      while (batch.finished < std::min(status.finished(), output.finished()))
        check_size(batch, batch.finished++);
      batch.input_beats += input_accepted;
      batch.output_beats += output_accepted;
      batch.input_stall_cycles += top->s_axis_tvalid && !input_accepted;
      batch.output_idle_cycles += top->m_axis_tready && !top->m_axis_tvalid &&
                                  output.finished() < input.started();
      edge();
      if (command_accepted) commands.accept(batch_cycle);
      if (input_accepted) input.accept(batch_cycle);
    }
    batch.cycles = batch_cycle;
    drain();
    clean = true;
  }

 private:
  void evaluate(int clock, [[maybe_unused]] uint64_t time) {
    top->clk = clock;
    top->eval();
#if VM_TRACE
    context->time(time);
    if (waves) waves->dump(time);
#endif
  }

  static void check_size(const CdmaBatch& batch, uint64_t transfer) {
    const uint64_t told = batch.record[transfer].out_size;
    const uint64_t bytes = batch.out_offset[transfer + 1] - batch.out_offset[transfer];
    if (told != bytes)
      throw ProtocolError("transfer " + std::to_string(transfer) + ": out_size is " +
                          std::to_string(told) + ", the packet has " + std::to_string(bytes) +
                          " bytes");
  }

  void drain() {
    top->s_cmd_valid = top->s_axis_tvalid = 0;
    top->m_axis_tready = top->m_sts_ready = 1;
    for (uint64_t i = 0; i < kDrainCycles; ++i, ++batch_cycle) {
      settle();
      if (top->m_axis_tvalid) throw ProtocolError("m_axis: a beat after the last packet");
      if (top->m_sts_valid) throw ProtocolError("m_sts: a status after the last transfer");
      edge();
    }
  }

  static std::string progress(const CdmaBatch& batch, const CommandSource& commands,
                              const PacketSource& input, const PacketSink& output,
                              const StatusSink& status) {
    return "of " + std::to_string(batch.transfers) + " transfers: " +
           std::to_string(commands.accepted()) + " commands accepted, " +
           std::to_string(input.finished()) + " packets in, " +
           std::to_string(output.finished()) + " packets out, " +
           std::to_string(status.finished()) + " statuses";
  }
};

namespace {

// Runs `call` and turns whatever it throws into an outcome and a message.
template <class Call>
int32_t guarded(CdmaMachine& machine, Call call) {
  Verilated::threadContextp(machine.context.get());
  printed.clear();
  machine.message.clear();
  const auto failed = [&](int32_t outcome, const std::exception& error) {
    machine.failed = true;
    machine.message = error.what();
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

}  // namespace

#define EXPORT __attribute__((visibility("default")))

EXPORT CdmaMachine* cdma_open(const char* waves) {
  try {
    return new CdmaMachine(waves);
  } catch (const std::exception&) {
    return nullptr;
  }
}

EXPORT void cdma_close(CdmaMachine* machine) { delete machine; }

EXPORT int32_t cdma_reset(CdmaMachine* machine) {
  return guarded(*machine, [&] { machine->reset(); });
}

EXPORT int32_t cdma_run(CdmaMachine* machine, CdmaBatch* batch) {
  return guarded(*machine, [&] { machine->run(*batch); });
}

EXPORT const char* cdma_message(const CdmaMachine* machine) { return machine->message.c_str(); }
EXPORT uint64_t cdma_cycle(const CdmaMachine* machine) { return machine->batch_cycle; }
EXPORT uint64_t cdma_sector_bytes(void) { return kSectorBytes; }
EXPORT int32_t cdma_takes_crc(void) { return kTakesCrc<VTop>; }
