// The buddy controller's RTL in its environment: a GPU that plays traces, device memory, buddy
// memory behind its link, and registers.
#include <string>
#include <vector>

#include "abi.h"
#include "bus/bus.h"
#include "manager.h"
#include "pins.h"

namespace cdma {

// Lengths and IDs that the controller's ports are specified with.
constexpr uint64_t kMostBeats = 4;
constexpr uint64_t kDeviceMaxId = 1;
constexpr uint64_t kBuddyMaxId = 0;

inline PortRules rules(const char* name, uint64_t max_id) {
  return {.name = name,
          .max_beats = kMostBeats,
          .max_id = max_id,
          .channel = 0,
          .channels = 1,
          .interleave_bytes = 1,
          // Masked writes to pages that are not compressed go on as they are.
          .takes_empty_beats = true};
}

}  // namespace cdma

using namespace cdma;

struct CdmaBuddy : CdmaBus {
  Random seeds;
  Slave<DevicePins, DramChannel> device;
  Slave<BuddyPins, HostLink> buddy;
  Manager<GpuPins> gpu;
  double out_busy_before = 0;  // link time before the counters were cleared
  double in_busy_before = 0;
  uint64_t cleared = 0;

  CdmaBuddy(const CdmaEnvironment& s, const char* waves_path)
      : CdmaBus(s, waves_path),
        seeds(s.seed + 1),
        device(device_pins(*top), rules("m_axi_device", kDeviceMaxId), s, s.dram_outstanding,
               s.device, seeds.next()),
        buddy(buddy_pins(*top), rules("m_axi_buddy", kBuddyMaxId), s, s.link_outstanding, s.host,
              seeds.next()),
        gpu(gpu_pins(*top), s.stall, seeds.next()) {}

  void step() override {
    const uint64_t cycle = time_cycle;
    Traffic traffic;
    device.drive(cycle, traffic);
    buddy.drive(cycle, traffic);
    gpu.drive(cycle);
    willing.draw(random);
    registers.drive(willing(0));
    settle();
    device.accept(cycle);
    buddy.accept(cycle);
    gpu.accept(cycle);
    registers.accept(cycle);
    edge();
  }

  void play(CdmaPlay& play) {
    const uint64_t start = time_cycle;
    begin(play, start);
    try {
      while (!gpu.done() && time_cycle - start < play.cycles) step();
    } catch (...) {
      note(play, start);
      throw;
    }
    note(play, start);
    if (gpu.done()) gpu.end();
  }

  void begin(CdmaPlay& play, uint64_t start) { gpu.begin(play, start); }

  // A cycle of a play beside others, in which accesses may be left or not. False when none are.
  bool step_of_play(CdmaPlay& play, uint64_t start) {
    const bool runs = play.finished < play.accesses && time_cycle - start < play.cycles;
    step();
    if (runs) note(play, start);
    return runs && play.finished < play.accesses;
  }

  void set_faults(CdmaFault* faults, uint64_t count) override {
    device.set_faults(0, faults, count);
    buddy.set_faults(1, faults, count);
  }

  void clear_counters() override {
    device.clear_counters();
    buddy.clear_counters();
    out_busy_before = out_busy();
    in_busy_before = in_busy();
    cleared = time_cycle;
  }

  double out_busy() const { return cycles_of(buddy.timing().out_busy(time_cycle)); }
  double in_busy() const { return cycles_of(buddy.timing().in_busy(time_cycle)); }

 protected:
  void forget_traffic(uint64_t cycle) override {
    device.reset(cycle);
    buddy.reset(cycle);
    gpu.reset();
  }
  bool any_valid() const override { return device.valid() || buddy.valid() || gpu.valid(); }
  bool idle() const override { return device.idle() && buddy.idle() && gpu.idle(); }
  void describe_traffic(std::string& text) override {
    gpu.describe(text);
    device.describe(text);
    buddy.describe(text);
  }

 private:
  void note(CdmaPlay& play, uint64_t begin) const {
    play.finished = gpu.finished();
    play.took = time_cycle - begin;
  }
};

EXPORT CdmaBus* cdma_buddy_open(const CdmaEnvironment* environment, const char* waves) {
  try {
    return new CdmaBuddy(*environment, waves);
  } catch (const std::exception&) {
    return nullptr;
  }
}

EXPORT int32_t cdma_buddy_play(CdmaBus* bus, CdmaPlay* play) {
  return guarded(*bus, [&] { static_cast<CdmaBuddy&>(*bus).play(*play); });
}

EXPORT int32_t cdma_buddy_play_together(CdmaBus** buses, CdmaPlay* plays, uint64_t count,
                                        uint64_t* failed) {
  std::vector<HostLink*> links;
  std::vector<CdmaBuddy*> all;
  for (uint64_t i = 0; i < count; ++i) {
    all.push_back(static_cast<CdmaBuddy*>(buses[i]));
    links.push_back(&all.back()->buddy.timing());
  }
  HostLink::share(links);
  const uint64_t begin = all.front()->time_cycle;
  for (uint64_t i = 0; i < count; ++i) all[i]->begin(plays[i], begin);
  for (bool any = true; any;) {
    any = false;
    for (uint64_t i = 0; i < count; ++i) {
      *failed = i;
      bool runs = false;
      const int32_t outcome =
          guarded(*all[i], [&] { runs = all[i]->step_of_play(plays[i], begin); });
      if (outcome != kDone) return outcome;
      any |= runs;
    }
  }
  for (CdmaBuddy* bus : all)
    if (bus->gpu.done()) bus->gpu.end();
  return kDone;
}

EXPORT void cdma_buddy_counters(const CdmaBus* bus, CdmaBuddyCounters* counters,
                                CdmaPortCounters* ports) {
  const auto& buddy = static_cast<const CdmaBuddy&>(*bus);
  *counters = {buddy.out_busy() - buddy.out_busy_before, buddy.in_busy() - buddy.in_busy_before,
               buddy.cleared};
  ports[0] = buddy.device.counters();
  ports[1] = buddy.buddy.counters();
}

EXPORT uint64_t cdma_buddy_sector_bytes(void) { return GpuPins::kBytes; }
