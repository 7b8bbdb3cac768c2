// The runtime's hooks for printing, `$stop` and fatal errors (VL_USER_STOP, VL_USER_FATAL). Its
// own would end the process, and with it Python.
#include "messages.h"

#include <cstdarg>
#include <cstdio>
#include <stdexcept>

#include "verilated.h"

namespace cdma {

thread_local std::string printed;

int print(const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  printed += text;
  return length;
}

}  // namespace cdma

// A failing assertion prints its message, then stops.
void vl_stop(const char*, int, const char*) { Verilated::threadContextp()->gotError(true); }

void vl_fatal(const char* file, int line, const char*, const char* message) {
  throw std::runtime_error(std::string(file ? file : "") + ":" + std::to_string(line) + ": " +
                           message);
}
