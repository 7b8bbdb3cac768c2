// Counts of coverage, added up over all models of a library, so that they are written once.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "VTop__Syms.h"
#include "VTop___024root.h"
#include "model.h"
#include "verilated_cov.h"

struct CdmaBus;
struct CdmaMachine;

namespace cdma {

template <class Type>
concept Complete = requires { sizeof(Type); };

// What the functions of a library call a machine.
template <class Bus, class Machine>
Model& model_of(void* handle) {
  if constexpr (Complete<Bus>)
    return *static_cast<Bus*>(handle);
  else
    return *static_cast<Machine*>(handle);
}

inline auto& counts_of(void* handle) {
  return model_of<CdmaBus, CdmaMachine>(handle).top->rootp->vlSymsp->__Vcoverage;
}

inline std::vector<uint32_t>& totals() {
  static std::vector<uint32_t> counts;
  return counts;
}

}  // namespace cdma

// Of each count it is enough that it is not zero.
extern "C" EXPORT void cdma_add_coverage(void* handle) {
  const auto& counts = cdma::counts_of(handle);
  cdma::totals().resize(std::size(counts));
  for (size_t i = 0; i < std::size(counts); ++i) cdma::totals()[i] |= counts[i];
}

// Those of all models that were added, by way of one of them.
extern "C" EXPORT void cdma_write_coverage(void* handle, const char* path) {
  auto& counts = cdma::counts_of(handle);
  for (size_t i = 0; i < std::size(counts); ++i) counts[i] = cdma::totals()[i];
  cdma::model_of<CdmaBus, CdmaMachine>(handle).context->coveragep()->write(path);
}
