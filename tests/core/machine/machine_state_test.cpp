// What a machine does: NVML over a library of the tests', /proc over files of the tests'.
#include "warptape/core/machine_state.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/machine/nvml.h"
#include "warptape/core/machine/sources.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/measure/machine_view.h"

using namespace wt;
using wt_test::Environment;

namespace {

// How often the tests' library has been begun with and not ended.
int begun() {
  void* const library = ::dlopen(WT_FAKE_NVML, RTLD_NOW);
  REQUIRE(library);
  const auto count = reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_initialized"));
  const int n = count();
  ::dlclose(library);
  return n;
}

// A /proc and processors of two times.
struct FakeHost {
  TempDir folder;
  machine::Sources from{.proc = folder / "proc", .cpus = folder / "cpus"};
  FakeHost() {
    std::filesystem::create_directories(folder / "proc/self");
    std::filesystem::create_directories(folder / "cpus/cpu0/cpufreq");
    std::filesystem::create_directories(folder / "cpus/cpu0/thermal_throttle");
    spit(folder / "proc/cpuinfo",
         "processor\t: 0\nmodel name\t: Fake Processor 9000  \ncpu MHz\t\t: 2000.0\n\n"
         "processor\t: 1\nmodel name\t: Fake Processor 9000\ncpu MHz\t\t: 3000.5\n");
    spit(folder / "proc/loadavg", "1.50 0.75 0.25 3/200 4711\n");
    spit(folder / "proc/meminfo",
         "MemTotal:       8388608 kB\nMemFree:         100 kB\nMemAvailable:    2097152 kB\n"
         "SwapTotal:       1048576 kB\nSwapFree:         524288 kB\n");
    spit(folder / "proc/self/status",
         "Name:\tx\nVmHWM:\t 4096 kB\nVmRSS:\t 2048 kB\nThreads:\t7\n");
    spit(folder / "cpus/cpu0/cpufreq/scaling_max_freq", "3500000\n");
    at(1000, 500, 10, 5);
  }
  void at(int busy, int idle, int swapped, int slowed) const {
    spit(folder / "proc/stat", str("cpu  ", busy, " 0 0 ", idle, " 0 0 0 0 0 0\ncpu0 1 1 1 1\n"));
    spit(folder / "proc/vmstat", str("pgpgin 3\npswpin ", swapped, "\npswpout 0\n"));
    spit(folder / "cpus/cpu0/thermal_throttle/core_throttle_count", str(slowed, "\n"));
  }
};

}  // namespace

TEST_CASE("row 38: what NVML tells of GPUs and their processes") {
  const Environment library("WT_NVML", WT_FAKE_NVML), pretend("FAKE_NVML", "own shy");
  machine::State s;
  {
    machine::Watcher watcher;
    CHECK(begun() == 1);
    s = watcher.look();
  }
  CHECK(begun() == 0);
  CHECK(s.driver == "999.1.2");
  CHECK(s.why_no_gpu.empty());
  REQUIRE(s.gpus.size() == 2);
  const machine::Gpu& g = s.gpus[0];
  CHECK(g.name == "Fake GPU 0");
  CHECK(g.bus == "0000:01:00.0");
  CHECK(g.busy == 0.97);
  CHECK(g.memory_busy == 0.41);
  CHECK(g.memory_used == i64{20} << 30);
  CHECK(g.memory_total == i64{80} << 30);
  CHECK(g.sm_mhz == 1980);
  CHECK(g.most_sm_mhz == 1980);
  CHECK(g.memory_mhz == 2619);
  CHECK(g.celsius == 54);
  CHECK(std::abs(g.watts - 612.345) < 1e-9);
  CHECK(g.most_watts == 700);
  CHECK(g.throttle.empty());
  CHECK_FALSE(g.slowed);
  REQUIRE(g.processes.size() == 2);
  CHECK(g.processes[0].pid == ::getpid());
  CHECK(g.processes[0].own);
  CHECK_FALSE(g.processes[0].user.empty());
  CHECK_FALSE(g.processes[0].name.empty());
  CHECK(g.processes[0].bytes == 1 << 20);
  CHECK(g.processes[1].bytes == -1);
  CHECK(g.processes[1].user.empty());
  // A GPU of which little is told.
  const machine::Gpu& shy = s.gpus[1];
  CHECK(shy.name == "Fake GPU 1");
  CHECK(shy.busy == -1);
  CHECK(shy.sm_mhz == -1);
  CHECK(shy.watts == -1);
  CHECK(shy.celsius == -1);
  CHECK(shy.memory_used == i64{20} << 30);
  CHECK(shy.processes.empty());
}

TEST_CASE("row 38: which of NVML's GPUs a cuda device is") {
  wt_test::FakeCuda fake;
  CHECK(cuda_bus(Device::cuda()).empty());  // a driver that does not tell
  // cuDeviceGet and cuDeviceGetPCIBusId in one: the second has room for a text.
  fake.driver_function = reinterpret_cast<void*>(+[](void* to, int index_or_room, int) {
    if (index_or_room < 13)
      *static_cast<int*>(to) = index_or_room;
    else
      std::snprintf(static_cast<char*>(to), size_t(index_or_room), "0000:01:00.0");
    return 0;
  });
  const Environment library("WT_NVML", WT_FAKE_NVML), pretend("FAKE_NVML", "");
  CHECK(cuda_bus(Device::cuda()) == machine::state().gpus.at(0).bus);
}

TEST_CASE("row 115: heat and power that hold the clock down are told in words") {
  const Environment library("WT_NVML", WT_FAKE_NVML), pretend("FAKE_NVML", "hot");
  const machine::State s = machine::state();
  REQUIRE_FALSE(s.gpus.empty());
  const machine::Gpu& g = s.gpus[0];
  CHECK(g.slowed);
  CHECK(g.throttle_bits == 0x24);
  CHECK(g.throttle ==
        std::vector<std::string>{"power: at its limit", "heat: slowed by the driver"});
  CHECK(g.celsius == 88);
  CHECK(g.sm_mhz < g.most_sm_mhz);
  CHECK(mentions(tools::machine_line(s),
                 "HELD DOWN: power: at its limit, heat: slowed by the driver"));
  // Nothing is wrong with a GPU that is idle, or whose clock somebody has set.
  CHECK(machine::throttle_words(0).empty());
  CHECK(machine::throttle_words(0x1) == std::vector<std::string>{"idle"});
  CHECK_FALSE(machine::throttle_slows(0x1 | 0x2 | 0x10 | 0x100));
  for (const u64 bit : {0x4, 0x8, 0x20, 0x40, 0x80}) CHECK(machine::throttle_slows(bit));
  CHECK(mentions(machine::throttle_words(0x200).at(0), "512"));
}

TEST_CASE("row 38: more processes than were expected") {
  const Environment library("WT_NVML", WT_FAKE_NVML), pretend("FAKE_NVML", "crowd");
  const machine::State s = machine::state();
  REQUIRE(s.gpus.size() == 2);
  REQUIRE(s.gpus[0].processes.size() == 100);
  CHECK(s.gpus[0].processes[0].bytes == 100 << 20);
  CHECK(s.gpus[0].processes[99].bytes == -1);
}

TEST_CASE("row 38: without a driver, or with a broken one, it says what is missing") {
  const auto why = [](const char* library, const char* pretend) {
    const Environment a("WT_NVML", library), b("FAKE_NVML", pretend);
    const machine::State s = machine::state();
    CHECK(s.gpus.empty());
    CHECK(s.host.processors > 0);
    return s.why_no_gpu;
  };
  CHECK(why("off", "") == "WT_NVML=off");
  CHECK(mentions(why("/nowhere/libnvml.so", ""), "WT_NVML: /nowhere/libnvml.so cannot be loaded"));
  CHECK(mentions(why("libc.so.6", ""), "libc.so.6 lacks nvmlInit_v2"));
  CHECK(mentions(why(WT_FAKE_NVML, "broken"), "nvmlInit_v2: Driver Not Loaded"));
  CHECK(why(WT_FAKE_NVML, "none") == "the driver has no GPU");
  CHECK(begun() == 0);
}

TEST_CASE("row 38: the processor's part of /proc, and what has changed since the last look") {
  const Environment none("WT_NVML", "off");
  const FakeHost host;
  machine::Watcher watcher(host.from);
  const machine::State first = watcher.look();
  CHECK(first.seconds == 0);
  CHECK(first.host.processor == "Fake Processor 9000");
  CHECK(first.host.load[0] == 1.5);
  CHECK(first.host.load[2] == 0.25);
  CHECK(std::abs(first.host.busy - 1000.0 / 1500) < 1e-12);  // since boot
  CHECK(first.host.mhz == 2500.25);
  CHECK(first.host.most_mhz == 3500);
  CHECK(first.host.memory_total == i64{8} << 30);
  CHECK(first.host.memory_available == i64{2} << 30);
  CHECK(first.host.swap_total == i64{1} << 30);
  CHECK(first.host.swap_used == i64{512} << 20);
  CHECK(first.host.swapped_bytes_s == -1);
  CHECK(first.host.slowed == -1);
  CHECK(first.own.resident == 2048 << 10);
  CHECK(first.own.most_resident == 4096 << 10);
  CHECK(first.own.threads == 7);
  host.at(1030, 570, 110, 8);
  const machine::State second = watcher.look();
  CHECK(second.seconds > 0);
  CHECK(std::abs(second.host.busy - 0.3) < 1e-12);
  const double bytes = 100.0 * double(::sysconf(_SC_PAGESIZE));
  CHECK(std::abs(second.host.swapped_bytes_s * second.seconds - bytes) < 1e-3);
  CHECK(second.host.slowed == 3);
  CHECK(mentions(tools::machine_table(second), "it swaps: "));
  CHECK(mentions(tools::machine_table(second), "heat has slowed it 3 times"));
}

TEST_CASE("row 38: where nobody tells anything nothing is made up") {
  const Environment none("WT_NVML", "off");
  const TempDir empty_folder;
  machine::Watcher watcher({.proc = empty_folder / "no", .cpus = empty_folder / "none"});
  const machine::State s = watcher.look();
  CHECK(s.host.processor == "unknown");
  CHECK(s.host.load[0] == -1);
  CHECK(s.host.busy == -1);
  CHECK(s.host.mhz == -1);
  CHECK(s.host.memory_total == -1);
  CHECK(s.host.swap_used == -1);
  CHECK(s.own.resident == -1);
  const std::string json = tools::machine_json(s);
  CHECK(mentions(json, "\"busy\":null"));
  CHECK(mentions(json, "\"gpus\":[],\"why_no_gpu\":\"WT_NVML=off\""));
  CHECK(mentions(tools::machine_table(s), "gpu   none: WT_NVML=off\n"));
}

TEST_CASE("row 38: this machine and this process's memory by category") {
  const Environment library("WT_NVML", WT_FAKE_NVML), pretend("FAKE_NVML", "own hot");
  const CategoryScope scope(Category::dataset);
  const Tensor held = zeros({1 << 20});
  const machine::State s = machine::state();
  CHECK(s.host.processor == machine::processor_name());
  CHECK(s.host.memory_available > 0);
  CHECK(s.host.memory_available <= s.host.memory_total);
  CHECK(s.own.pid == ::getpid());
  CHECK(s.own.resident > 4 << 20);
  REQUIRE_FALSE(s.own.memory.empty());
  CHECK(s.own.memory[0].first == Device::cpu());
  CHECK(s.own.memory[0].second.by_category[int(Category::dataset)] >= 4 << 20);
  const std::string table = tools::machine_table(s);
  for (const char* part :
       {"cpu   ", "gpu 0 Fake GPU 0 (0000:01:00.0)\n", "clock 1095/1980 MHz", "88 C", "612/700 W",
        "20.0 of 80.0 GiB used", "HELD DOWN: power: at its limit, heat: slowed by the driver\n",
        "(this process)\n", "NVIDIA's driver 999.1.2\n", "own   process ",
        "tensors on cpu: ", ", dataset "})
    CHECK(mentions(table, part));
  const std::string json = tools::machine_json(s);
  for (const char* part : {"\"sm_mhz\":1095", "\"slowed\":true", "\"dataset\":", "\"own\":true",
                           "\"throttle\":[\"power: at its limit\",\"heat: slowed by the driver\"]"})
    CHECK(mentions(json, part));
}
