#include "warptape/core/device.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <thread>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/core/suggest.h"

namespace wt {
namespace {

// Digits only, below 256; -1 otherwise.
int parse_index(const char* text) {
  if (!*text || std::strlen(text) > 3) return -1;
  int v = 0;
  for (; *text; ++text) {
    if (*text < '0' || *text > '9') return -1;
    v = v * 10 + (*text - '0');
  }
  return v < 256 ? v : -1;
}

constinit std::atomic<int> thread_count{0};

}  // namespace

Device Device::best() { return wt::cuda::is_available() ? Device::cuda(0) : Device::cpu(); }

Device Device::parse(const char* text) {
  const std::string_view name(text);
  if (name == "cpu") return Device::cpu();
  if (name == "simt") return Device::simt();
  if (name == "auto") return Device::best();
  if (name == "cuda") return Device::cuda(0);
  if (name == "meta") return Device::meta();
  if (name == "meta:cpu") return Device::meta(DeviceKind::cpu);
  if (name == "meta:simt") return Device::meta(DeviceKind::simt);
  if (name == "meta:cuda") return Device::meta(DeviceKind::cuda);
  if (name.starts_with("cuda:"))
    if (const int i = parse_index(text + 5); i >= 0) return Device::cuda(i);
  static const std::vector<std::string_view> kNames = {"auto", "cpu",    "simt",
                                                       "cuda", "cuda:0", "meta"};
  throw UsageError(str("no device is called '", printable(name),
                       "' (auto, cpu, simt, cuda:N, meta)", did_you_mean(name, kNames)));
}

std::string to_string(Device d) {
  std::string name = device_kind_name(d.kind);
  if (d.is_meta) return "meta:" + name;
  return d.kind == DeviceKind::cuda ? name + ":" + std::to_string(d.index) : name;
}

std::ostream& operator<<(std::ostream& out, Device d) { return out << to_string(d); }

void require_available(Device d) {
  if (d.is_meta || d.kind != DeviceKind::cuda) return;
  const int n = cuda::device_count();
  if (n == 0) throw NotAvailable(str(to_string(d), ": ", cuda::why_not()));
  if (d.index >= n)
    throw PlacementError(str("there is no ", to_string(d), ": this machine has cuda:0",
                             n > 1 ? " to cuda:" + std::to_string(n - 1) : ""));
}

void set_num_threads(int n) {
  if (n < 1) throw UsageError(str("the number of threads must be at least 1, got ", n));
  thread_count = n;
}

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n > 0) return n;
  n = detail::threads_of_environment();
  if (n == 0) n = detail::processors();
  int none = 0;  // what another thread has set meanwhile counts
  return thread_count.compare_exchange_strong(none, n) ? n : none;
}

int detail::processors() {
#if defined(__linux__)
  cpu_set_t set;  // of 1,024: where there are more, the call below fails
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, int(std::thread::hardware_concurrency()));
}

int detail::threads_of_environment() {
  constexpr long kMost = 4096;  // more is a mistake
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  while (*end == ' ') ++end;
  return (*end == 0 || *end == ',') && n >= 1 && n <= kMost ? int(n) : 0;
}

}  // namespace wt
