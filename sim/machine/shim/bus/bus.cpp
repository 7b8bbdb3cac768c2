// The calls that all designs on AXI share.
#include "bus.h"

using namespace cdma;

extern "C" {

EXPORT void cdma_bus_close(CdmaBus* bus) { delete bus; }

EXPORT int32_t cdma_bus_reset(CdmaBus* bus) {
  return guarded(*bus, [&] { bus->reset(); });
}

EXPORT int32_t cdma_bus_run(CdmaBus* bus, CdmaRun* run) {
  return guarded(*bus, [&] { bus->run(*run); });
}

EXPORT int32_t cdma_bus_read_register(CdmaBus* bus, uint32_t address, uint64_t cycles,
                                      uint32_t* value, uint32_t* response, uint32_t* done) {
  return guarded(*bus, [&] {
    bus->registers.start_read(address);
    *done = bus->finish_access(cycles);
    *value = bus->registers.value();
    *response = bus->registers.response();
  });
}

EXPORT int32_t cdma_bus_write_register(CdmaBus* bus, uint32_t address, uint32_t value,
                                       uint64_t cycles, uint64_t* taken, uint32_t* response,
                                       uint32_t* done) {
  return guarded(*bus, [&] {
    bus->registers.start_write(address, value);
    *done = bus->finish_access(cycles);
    *taken = bus->registers.taken_cycle();
    *response = bus->registers.response();
  });
}

EXPORT void cdma_bus_set_faults(CdmaBus* bus, CdmaFault* faults, uint64_t count) {
  bus->set_faults(faults, count);
}

EXPORT void cdma_bus_clear_counters(CdmaBus* bus) { bus->clear_counters(); }

EXPORT const char* cdma_bus_describe(CdmaBus* bus) {
  bus->describe();
  return bus->description.c_str();
}

EXPORT const char* cdma_bus_message(const CdmaBus* bus) { return bus->message.c_str(); }
EXPORT uint64_t cdma_bus_cycle(const CdmaBus* bus) { return bus->time_cycle; }
EXPORT int32_t cdma_bus_irq(const CdmaBus* bus) { return bus->top->irq; }
}
