#include "warptape/core/warning.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace wt {
namespace {

// One call, so that lines of several threads stay whole.
void to_stderr(std::string_view line) noexcept {
  std::fprintf(stderr, "warptape: %.*s\n", int(line.size()), line.data());
}

constinit std::atomic<WarningHandler> handler_in_use{to_stderr};

// What has been told. It lives as long as the process: destructors of statics may warn.
struct Told {
  std::mutex mutex;
  std::set<std::string, std::less<>> keys;
};
Told& told() {
  static auto* const all = new Told;
  return *all;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  return handler_in_use.exchange(handler);
}

void warn_once(std::string_view key, std::string_view line) {
  const WarningHandler handler = handler_in_use.load();
  if (!handler) return;
  {
    const std::lock_guard lock(told().mutex);
    if (!told().keys.emplace(key).second) return;
  }
  std::string text(line);
  std::replace(text.begin(), text.end(), '\n', ',');
  handler(text);
}

namespace detail {
void forget_warnings() {
  const std::lock_guard lock(told().mutex);
  told().keys.clear();
}
}  // namespace detail

}  // namespace wt
