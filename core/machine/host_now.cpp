// What Linux tells of processor, memory and processes, in files of text.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "warptape/core/machine/sources.h"

namespace wt::machine {
namespace {

// The number behind the first line that begins with `name`; -1: there is none.
double number_behind(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    double v = -1;
    return rest >> v ? v : -1;
  }
  return -1;
}
i64 kib_behind(const std::string& file, const std::string& name) {
  const double kib = number_behind(file, name);
  return kib < 0 ? -1 : i64(kib) * 1024;
}
double only_number(const std::string& file) {
  std::ifstream in(file);
  double v = -1;
  return in >> v ? v : -1;
}

std::string text_behind(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == line.npos) continue;
    const size_t from = line.find_first_not_of(" \t", colon + 1);
    return from == line.npos ? "" : line.substr(from, line.find_last_not_of(" \t") + 1 - from);
  }
  return {};
}

void read_ticks(const std::string& proc, HostCounters& c) {
  std::ifstream in(proc + "/stat");
  std::string name;
  double ticks[8] = {};  // user, nice, system, idle, iowait, irq, softirq, steal
  if (!(in >> name) || name != "cpu") return;
  for (double& t : ticks)
    if (!(in >> t)) return;
  c.all_ticks = 0;
  for (const double t : ticks) c.all_ticks += t;
  c.busy_ticks = c.all_ticks - ticks[3] - ticks[4];
}

// The mean of the clocks of all processors: of cpuinfo (x86), else of the frequency driver.
double clock_mhz(const Sources& from, int processors) {
  std::ifstream in(from.proc + "/cpuinfo");
  double sum = 0;
  int n = 0;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("cpu MHz")) continue;
    const size_t colon = line.find(':');
    std::istringstream rest(colon == line.npos ? "" : line.substr(colon + 1));
    if (double v = 0; rest >> v) sum += v, ++n;
  }
  for (int i = 0; n == 0 && i < processors; ++i) {
    const double khz = only_number(str(from.cpus, "/cpu", i, "/cpufreq/scaling_cur_freq"));
    if (khz < 0) break;
    sum += khz * 1e-3;
    if (i + 1 == processors) n = processors;
  }
  return n ? sum / n : -1;
}

i64 slowed_by_heat(const Sources& from) {
  i64 sum = -1;
  for (int i = 0; i < 4096; ++i) {
    const std::string folder = str(from.cpus, "/cpu", i);
    struct stat s {};
    if (::stat(folder.c_str(), &s) != 0) break;
    const double n = only_number(folder + "/thermal_throttle/core_throttle_count");
    if (n >= 0) sum = std::max<i64>(sum, 0) + i64(n);
  }
  return sum;
}

int usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

// The number itself where /etc/passwd has no name for it. The system's own function would ask other
// machines where users are kept on them.
std::string user_named(const std::string& id) {
  std::ifstream in("/etc/passwd");
  for (std::string line; std::getline(in, line);) {
    const size_t name = line.find(':');
    const size_t password = name == line.npos ? name : line.find(':', name + 1);
    if (password != line.npos && line.compare(password + 1, id.size() + 1, id + ":") == 0)
      return line.substr(0, name);
  }
  return id;
}

std::string processor_of(const std::string& proc) {
  const std::string name = text_behind(proc + "/cpuinfo", "model name");
  return name.empty() ? "unknown" : name;
}

}  // namespace

std::string processor_name() { return processor_of("/proc"); }

Host host_now(const Sources& from, HostCounters& counters) {
  Host h;
  h.processor = processor_of(from.proc);
  h.processors = usable_processors();
  std::ifstream load(from.proc + "/loadavg");
  for (double& l : h.load)
    if (!(load >> l)) l = -1;
  h.mhz = clock_mhz(from, h.processors);
  const double most_khz = only_number(from.cpus + "/cpu0/cpufreq/scaling_max_freq");
  if (most_khz > 0) h.most_mhz = most_khz * 1e-3;
  const std::string memory = from.proc + "/meminfo", pages = from.proc + "/vmstat";
  h.memory_total = kib_behind(memory, "MemTotal:");
  h.memory_available = kib_behind(memory, "MemAvailable:");
  h.swap_total = kib_behind(memory, "SwapTotal:");
  if (const i64 free = kib_behind(memory, "SwapFree:"); free >= 0 && h.swap_total >= 0)
    h.swap_used = h.swap_total - free;
  counters = {};
  read_ticks(from.proc, counters);
  const double in = number_behind(pages, "pswpin "), out = number_behind(pages, "pswpout ");
  if (in >= 0 && out >= 0) counters.swapped_pages = i64(in + out);
  counters.slowed = slowed_by_heat(from);
  return h;
}

void set_rates(Host& now, const HostCounters& before, const HostCounters& after, double seconds) {
  const bool first = before.all_ticks < 0;
  const double busy = after.busy_ticks - (first ? 0 : before.busy_ticks),
               all = after.all_ticks - (first ? 0 : before.all_ticks);
  if (after.all_ticks >= 0 && all > 0) now.busy = std::clamp(busy / all, 0.0, 1.0);
  if (before.swapped_pages >= 0 && after.swapped_pages >= 0 && seconds > 0)
    now.swapped_bytes_s = double(after.swapped_pages - before.swapped_pages) *
                          double(::sysconf(_SC_PAGESIZE)) / seconds;
  if (before.slowed >= 0 && after.slowed >= 0) now.slowed = after.slowed - before.slowed;
}

OwnProcess own_process(const Sources& from) {
  OwnProcess own{.pid = ::getpid()};
  const std::string file = from.proc + "/self/status";
  own.resident = kib_behind(file, "VmRSS:");
  own.most_resident = kib_behind(file, "VmHWM:");
  own.threads = int(number_behind(file, "Threads:"));
  for (const Device d : {Device::cpu(), Device::simt(), Device::cuda()})
    if (const memory::Stats s = memory::stats(d); s.requests > 0) own.memory.emplace_back(d, s);
  return own;
}

void name_process(GpuProcess& p, const Sources& from) {
  const std::string folder = str(from.proc, "/", p.pid);
  p.own = p.pid == ::getpid();
  std::ifstream comm(folder + "/comm");
  std::getline(comm, p.name);
  const double id = number_behind(folder + "/status", "Uid:");
  if (id < 0) return;
  p.user = user_named(str(i64(id)));
}

}  // namespace wt::machine
