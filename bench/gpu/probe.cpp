// wt_gpu_bench probe: what is there, before anything is measured.
#include <fstream>

#include "warptape/bench/gpu/gpu_bench_jobs.h"
#include "warptape/core/build_info.h"
#include "warptape/core/machine_state.h"
#include "warptape/dist/nccl/nccl_api.h"
#include "warptape/kernels/cuda/cudnn_api.h"
#include "warptape/kernels/cuda/device.h"

namespace wt::bench {
namespace {

// The file of a library that the process has loaded.
std::string place_of(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/'), name = line.rfind('/');
    if (path != std::string::npos && line.compare(name + 1, library.size(), library) == 0)
      return line.substr(path);
  }
  return {};
}
std::string place_or_none(const std::string& library) {
  const std::string place = place_of(library);
  return place.empty() ? "not loaded" : place;
}

// What was found by its name alone is told with its place.
std::string with_place(std::string text, const std::string& library) {
  const std::string place = place_of(library);
  const bool known = place.empty() || text.find('/') != std::string::npos;
  return known ? text : str(text, " (", place, ")");
}

void add_libraries(Row& r) {
  r.words.emplace_back("libcudart", place_or_none("libcudart.so"));
  r.words.emplace_back("libcublasLt", with_place(describe_cublaslt(), "libcublasLt.so"));
  r.words.emplace_back("cudnn", with_place(describe_cudnn(), "libcudnn.so"));
  r.words.emplace_back("nccl", with_place(dist::describe_nccl(), "libnccl.so"));
}

void add_device(Row& r, Device d) {
  const cuda::Properties p = cuda::properties(d.index);
  r.words.emplace_back("compute_capability", str(p.major, ".", p.minor));
  r.more = {{"multiprocessors", double(p.multiprocessors)},
            {"l2_mib", double(p.l2_bytes >> 20)},
            {"memory_mib", double(p.memory_bytes >> 20)},
            {"memory_free_mib", double(p.free_bytes >> 20)}};
}

void add_nvml(Row& r, Device d) {
  const machine::State now = machine::state();
  if (!now.driver.empty()) r.words.emplace_back("nvidia_driver", now.driver);
  if (now.gpus.empty()) return void(r.words.emplace_back("nvml", "no NVML: " + now.why_no_gpu));
  const std::string bus = cuda_bus(d);
  for (const machine::Gpu& g : now.gpus) {
    if (bus.empty() ? g.number != d.index : g.bus != bus) continue;
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, double>>{{"sm_clock_mhz", g.sm_mhz},
                                                               {"sm_clock_max_mhz", g.most_sm_mhz},
                                                               {"memory_clock_mhz", g.memory_mhz},
                                                               {"power_w", g.watts},
                                                               {"power_limit_w", g.most_watts},
                                                               {"temperature_c", g.celsius}})
      if (value >= 0) r.more.emplace_back(name, value);
    std::string held;
    for (const std::string& why : g.throttle) held += (held.empty() ? "" : ", ") + why;
    if (!held.empty()) r.words.emplace_back("clock_held_by", held);
    return;
  }
  r.words.emplace_back("nvml", "no NVML: the device is not found on the bus: " + bus);
}

}  // namespace

int run_probe(const BenchOptions& o) {
  RowFile rows(o);
  const Machine m = describe_machine(o.device);
  say(str(m.device_name, ", driver for CUDA ", m.driver, ", runtime ", m.runtime, ", ", m.host,
          ", warptape ", build_info().version, " ", build_info().commit));
  Row r{.bench = "probe", .impl = "-", .shape = "-", .dtype = "-"};
  r.words = {{"host", m.host}, {"version", build_info().version}};
  if (!m.runtime.empty()) r.words.emplace_back("runtime", m.runtime);
  if (o.device.kind == DeviceKind::cuda) {
    add_device(r, o.device);
    add_nvml(r, o.device);
    add_libraries(r);
  }
  for (const auto& [key, value] : r.words) say(str("  ", key, ": ", value));
  for (const auto& [key, value] : r.more) say(str("  ", key, ": ", value));
  rows.keep_silently(r);
  return kBenchRight;
}

}  // namespace wt::bench
