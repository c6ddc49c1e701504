// wt info: what this build and this machine have, and with --watch what the machine does.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "warptape/core/build_info.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/machine.h"
#include "warptape/core/machine_state.h"
#include "warptape/dist/mpi.h"
#include "warptape/dist/nccl/nccl_api.h"
#include "warptape/kernels/cuda/cudnn_api.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/kernels/dispatch/run_first_use.h"
#include "warptape/kernels/dispatch/run_tune_file.h"
#include "warptape/tools/wt/measure/machine_view.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

void print_json() {
  const BuildInfo& b = build_info();
  JsonObject features;
  for (const Feature& f : b.features)
    features.add(f.name, f.on() ? (f.version[0] ? f.version : "on") : f.state);
  JsonObject j;
  j.add("version", b.version).add("commit", b.commit).add("compiler", b.compiler);
  j.add("build_type", b.build_type).add("cuda_archs", b.cuda_archs);
  j.add("cuda_devices", cuda::device_count());
  j.add("cuda_why_not", cuda::is_available() ? std::string() : cuda::why_not());
  j.add("threads", num_threads());
  j.add("cublaslt", describe_cublaslt());
  j.add("cudnn", cudnn_api() ? cudnn_version_text(cudnn_api()->version()) : std::string());
  j.add("cudnn_why_not", std::string(cudnn_why_not() ? cudnn_why_not() : ""));
  j.add("nccl", dist::nccl_api() ? dist::describe_nccl() : std::string());
  j.add("nccl_why_not", std::string(dist::nccl_why_not() ? dist::nccl_why_not() : ""));
  j.add("mpi_library", dist::mpi_library());
  const machine::Known known = machine::measured();
  j.add("machine_file", known.there() ? known.path : std::string());
  j.add("machine_why_not", known.why_not);
  j.add_raw("features", features.str());
  std::printf("%s\n", j.str().c_str());
}

void print_table() {
  const BuildInfo& b = build_info();
  std::printf("warptape %s%s%s  (%s, %s%s%s)\n", b.version, b.commit[0] ? " " : "", b.commit,
              b.compiler, b.build_type, b.sanitizers[0] ? ", " : "", b.sanitizers);
  std::printf("\ndevices\n");
  std::printf("  cpu     %u threads of the machine, %d used\n", std::thread::hardware_concurrency(),
              num_threads());
  const std::string no_simt = why_without("simt");
  std::printf("  simt    %s%s\n",
              no_simt.empty() ? "the CUDA kernels, run by the executor on the cpu"
                              : "not here: this build has no simt: ",
              no_simt.c_str());
  if (cuda::is_available())
    std::printf("  cuda    %d device%s\n", cuda::device_count(),
                cuda::device_count() > 1 ? "s" : "");
  else
    std::printf("  cuda    not here: %s\n", cuda::why_not().c_str());
  for (int i = 0; i < cuda::device_count(); ++i)
    std::printf("  cuda:%d  %s; wt tune: %s; first uses of kernels: %s\n", i,
                cuda::properties(i).name.c_str(), describe_tuning(Device::cuda(i)).c_str(),
                describe_first_uses(Device::cuda(i)).c_str());
  std::printf("\nparts\n");
  for (const Feature& f : b.features) {
    std::printf("  %-12s %-8s %s%s%s\n", f.name, f.state, f.version, f.on() ? "" : "  ",
                f.on() ? "" : f.how_to_get);
    if (f.on() && f.name == std::string("mpi"))
      std::printf("  %-12s %-8s %s\n", "", "", dist::mpi_library().c_str());
  }
  std::printf("\nfound when they are asked for\n  cublaslt     %s\n", describe_cublaslt().c_str());
  std::printf("  cudnn        %s\n", describe_cudnn().c_str());
  std::printf("  nccl         %s\n", dist::describe_nccl().c_str());
  const machine::Known known = machine::measured();
  std::printf("\nmeasured (wt bench machine)\n  %s\n",
              printable_lines(known.there() ? str(known.path, ", ", known.figures.date, ", ",
                                                  known.figures.figures.size(), " figures")
                                            : known.why_not)
                  .c_str());
  std::printf("\nlimits\n  %d dimensions, 64-bit sizes\n", kMaxDims);
}

struct InfoCommand {
  bool json = false, watch = false;
  double every = 1;  // seconds
  i64 count = 0;     // looks; 0: until it is ended
};

// A table can be drawn again over the one before.
bool stdout_redraws() {
  const char* const term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && term && std::strcmp(term, "dumb") != 0;
}

void watch_machine(const InfoCommand& o) {
  machine::Watcher watcher;
  const bool redraws = !o.json && stdout_redraws();
  (void)watcher.look();  // rates are those since a look
  const auto every = std::chrono::duration<double>(o.every);
  std::this_thread::sleep_for(std::min(every, std::chrono::duration<double>(0.2)));
  for (i64 i = 0; o.count == 0 || i < o.count; ++i) {
    if (i > 0) std::this_thread::sleep_for(every);
    const machine::State now = watcher.look();
    const std::string text = redraws  ? machine_table(now)
                             : o.json ? machine_json(now) + "\n"
                                      : machine_line(now) + "\n";
    if (redraws) std::fputs("\033[H\033[2J", stdout);  // over the table before
    std::fputs(text.c_str(), stdout);
    if (!flush_to_reader()) return;  // nobody reads any more
  }
}

}  // namespace

void add_info(Command app, int& code) {
  const Command c = app.add_subcommand(
      "info", "version, features, devices, limits; with --watch what the machine does now");
  auto o = std::make_shared<InfoCommand>();
  c.add_flag("--json", o->json, "one JSON object; with --watch one a look");
  const Option watch = c.add_flag(
      "--watch", o->watch,
      "processor, memory and GPUs (by NVML, where there is a driver), a line a second or "
      "a table that is drawn again; until Ctrl-C");
  c.add_option("--every", o->every, "seconds from one look to the next")
      .check(from_to(0.01, 86400.0))
      .needs(watch)
      .show_default();
  c.add_option("--count", o->count, "looks; 0: no end").check(at_least(0)).needs(watch);
  c.callback([o, &code] {
    if (o->watch)
      watch_machine(*o);
    else
      o->json ? print_json() : print_table();
    code = 0;
  });
}

}  // namespace wt::tools
