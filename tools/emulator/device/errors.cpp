#include "device/errors.h"

#include <driver_types.h>

#include <cstdio>

#include "report.h"

namespace emu {
namespace {

// Without destructors: it is looked at when the thread's other variables are gone.
struct LastError {
  int code;
  const char* call;
  char launched[160];  // the first kernel that was launched since; empty: none
  bool of_launch, seen;
  CallSite from;
};
thread_local LastError last{};

}  // namespace

void set_last_error(int error, const char* call, bool of_launch) {
  last.code = error;
  last.call = call;
  last.launched[0] = 0;
  last.of_launch = of_launch;
  last.seen = false;
  // Queries are asked often, and not ready is no error to look for.
  if (error != cudaErrorNotReady) last.from = CallSite::here();
}

int peek_last_error() {
  last.seen = true;
  return last.code;
}

int take_last_error() {
  const int code = last.code;
  if (code && last.launched[0] && !last.seen)
    finding(std::string("cudaGetLastError gives the error that ") + last.call + " left behind",
            std::string(error_name(code)) + ", and " + last.launched +
                ", launched since, is blamed\n  " + std::string(last.call) + " was called" +
                describe(last.from));
  last.code = 0;
  last.launched[0] = 0;
  return code;
}

void launched_with(const std::string& kernel) {
  if (last.code && !last.launched[0])
    std::snprintf(last.launched, sizeof last.launched, "%s", kernel.c_str());
}

void report_unseen_error() {
  if (last.code && last.of_launch && !last.seen)
    finding("a launch failed, and nobody asked for the error",
            std::string(last.call) + ": " + error_name(last.code) + describe(last.from));
}

const char* error_name(int error) {
  switch (error) {
#define E(name, text) \
  case name:          \
    return #name;
#include "device/error_list.h"
#undef E
  }
  return nullptr;
}

const char* error_text(int error) {
  switch (error) {
#define E(name, text) \
  case name:          \
    return text;
#include "device/error_list.h"
#undef E
  }
  return nullptr;
}

}  // namespace emu
