#include "device/errors.h"

#include <driver_types.h>

#include "report.h"

namespace emu {
namespace {

struct LastError {
  int code = 0;
  std::string call, launched;  // the first kernel that was launched since
  bool of_launch = false, seen = false;
  CallSite from;
};
thread_local LastError last;

}  // namespace

void set_last_error(int error, const char* call, bool of_launch) {
  last.code = error;
  last.call = call;
  last.launched.clear();
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
  if (code && !last.launched.empty() && !last.seen)
    finding("cudaGetLastError gives the error that " + last.call + " left behind",
            std::string(error_name(code)) + ", and " + last.launched +
                ", launched since, is blamed\n  " + last.call + " was called" +
                describe(last.from));
  last.code = 0;
  last.launched.clear();
  return code;
}

void launched_with(const std::string& kernel) {
  if (last.code && last.launched.empty()) last.launched = kernel;
}

void report_unseen_error() {
  if (last.code && last.of_launch && !last.seen)
    finding("a launch failed, and nobody asked for the error",
            last.call + ": " + error_name(last.code) + describe(last.from));
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
