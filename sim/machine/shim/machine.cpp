// The loop that runs a batch of packets through a codec.
#include <algorithm>
#include <string>

#include "abi.h"
#include "model.h"
#include "ports.h"
#include "random.h"
#include "sinks.h"
#include "sources.h"

namespace cdma {

// Idle cycles after a batch, in which nothing may come out any more.
constexpr uint64_t kDrainCycles = 8;

}  // namespace cdma

using namespace cdma;

struct CdmaMachine : Model {
  uint64_t batch_cycle = 0;  // since the start of the batch
  bool clean = false;        // nothing is under way, and no error has happened, since reset

  using Model::Model;

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
