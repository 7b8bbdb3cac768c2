// Where the Verilated runtime prints to. Included before every other header of the build (the
// compiler's -include), so that a failing assertion reaches Python instead of the terminal.
#pragma once

#include <string>

namespace cdma {

// What the RTL or the runtime printed on this thread since it was last cleared.
extern thread_local std::string printed;

int print(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cdma

#define VL_PRINTF cdma::print
