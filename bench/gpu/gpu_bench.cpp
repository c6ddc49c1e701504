// wt_gpu_bench: what one device can do and whether it computes what the cpu does. tools/gpu_gate.sh
// runs it; alone:
//
//   wt_gpu_bench probe        what is there: device, driver, memory, clocks, libraries
//   wt_gpu_bench check        variants at small odd sizes against the cpu
//     --best                  only the variant that `run` would choose
//     --without VARIANT       leaves one out
//     --poison yes|no         no: outputs are uninitialised, so that a checker sees who reads them
//   wt_gpu_bench ceilings     copies, products, launches, graphs, transfers
//     --disk FOLDER           and the folder's disk
//   wt_gpu_bench kernels      every variant's time at sizes that fill a GPU
//     --ceilings FILE         rows of an earlier `ceilings`; else the roofs are measured anew
//   wt_gpu_bench dispatch     what an operator costs to queue
//   wt_gpu_bench step         whole training steps: --model M [--precision f32|tf32|f16|bf16]
//                             [--mode eager|captured] [--seconds W] [--windows N]
//                             [--ceilings FILE]: its FLOP beside those of the best product
//   wt_gpu_bench nccl         one of the ranks of `--world N`: --rank R --folder F
//
// All: --device cuda:0, --scale real|small, --json FILE: rows are appended, each as it is measured.
// --seconds S: of one measurement.
// check and kernels: --only A,B and --skip A,B (contracts), --from A: begins there, --for S: no
// contract is begun after S seconds; the last line then names the one that the next call is to go
// on
// --from. Each contract is named before it is begun.
// check, kernels, step: --plant KIND@CONTRACT (or @MODEL), for rehearsals of tools/gpu_gate.sh:
// plant.h has the kinds.
//
// Exit codes: 0; 1 for a wrong value or a failure; 2 for a wrong command line; 3 when contracts are
// left and nothing was wrong; 4 without memory and 6 after an error of the device, whose context is
// gone; 8 where FILE cannot be written; 77 when the device, or what is asked of it, is not there.
#include "warptape/bench/gpu/gpu_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/gpu/gpu_bench_jobs.h"
#include "warptape/bench/gpu/nccl_ranks.h"
#include "warptape/bench/steps/steps.h"
#include "warptape/core/error.h"
#include "warptape/core/std_descriptors.h"
#include "warptape/core/suggest.h"

namespace wt::bench {
namespace {

constexpr const char* kUsage =
    "usage: wt_gpu_bench probe|check|ceilings|kernels|dispatch|step|nccl [--device D] [--json "
    "FILE]\n"
    "  [--scale real|small] [--seconds S]\n"
    "  check, kernels: [--only A,B] [--skip A,B] [--from A] [--for S] [--without VARIANT]\n"
    "    [--plant KIND@CONTRACT] check: [--best] [--poison yes|no] kernels: [--ceilings FILE]\n"
    "  ceilings: [--disk FOLDER]  nccl: --rank R --world N --folder F\n"
    "  step: --model M [--precision f32|tf32|f16|bf16] [--mode eager|captured] [--windows N]\n"
    "    [--ceilings FILE] [--plant KIND@MODEL]\n";

// A whole step's FLOP beside those of the best product of its precision.
void compare_step_with_roof(Row& r, const Ceilings& c) {
  const DType t = r.dtype == "bf16" ? DType::bf16 : r.dtype == "f16" ? DType::f16 : DType::f32;
  const double gemm = c.gemm(t, r.dtype == "tf32");
  if (gemm == 0 || !(r.time.median_us > 0)) return;
  r.roof = gemm;
  r.bound = "gemm";
  r.ratio = r.flops / gemm * 1e-6 / r.time.median_us;
}

int run_step(const BenchOptions& o) {
  const std::vector<std::string>& models = step_bench_models();
  const std::string& planted = o.plant.place();
  if (!planted.empty() && std::find(models.begin(), models.end(), planted) == models.end())
    throw UsageError(str("--plant: no training step is called '", printable(planted), "'",
                         did_you_mean(planted, models)));
  RowFile rows(o);
  const Ceilings c = o.ceilings.empty() ? Ceilings{} : read_ceilings(o.ceilings, o.device);
  o.plant.before(o.model, o.device);
  Row r = training_step({.device = o.device,
                         .model = o.model,
                         .precision = o.precision,
                         .captured = o.mode == "captured",
                         .scale = o.scale,
                         .window_s = o.seconds_or(2),
                         .windows = int(o.windows)});
  compare_step_with_roof(r, c);
  if (o.plant.gives_nan(o.model))
    for (auto& [key, value] : r.more)
      if (key == "check_loss") value = std::numeric_limits<double>::quiet_NaN();
  rows.keep(r);
  return kBenchRight;
}

int run_dispatch(const BenchOptions& o) {
  RowFile rows(o);
  for (const Row& r : dispatch_rows(o.device)) rows.keep(r);
  return kBenchRight;
}

int run_nccl(const BenchOptions& o) {
  RowFile rows(o);
  nccl_ranks({.device = o.device, .rank = int(o.rank), .world = int(o.world), .folder = o.folder},
             [&](const Row& r) { rows.keep(r); });
  return kBenchRight;
}

struct Job {
  int (*run)(const BenchOptions&);
  const char* needs;  // an option; empty: none
  bool planted;       // takes --plant
};
const std::map<std::string, Job>& jobs() {
  static const std::map<std::string, Job> all{
      {"probe", {run_probe, "", false}},       {"check", {run_check, "", true}},
      {"ceilings", {run_ceilings, "", false}}, {"kernels", {run_kernels, "", true}},
      {"dispatch", {run_dispatch, "", false}}, {"step", {run_step, "--model", true}},
      {"nccl", {run_nccl, "--folder", false}}};
  return all;
}

// --- the command line ---

const std::map<std::string, std::string BenchOptions::*> kTexts{
    {"--json", &BenchOptions::json},           {"--only", &BenchOptions::only},
    {"--skip", &BenchOptions::skip},           {"--from", &BenchOptions::from},
    {"--without", &BenchOptions::without},     {"--ceilings", &BenchOptions::ceilings},
    {"--disk", &BenchOptions::disk},           {"--model", &BenchOptions::model},
    {"--precision", &BenchOptions::precision}, {"--mode", &BenchOptions::mode},
    {"--folder", &BenchOptions::folder}};
const std::map<std::string, double BenchOptions::*> kNumbers{{"--seconds", &BenchOptions::seconds},
                                                             {"--for", &BenchOptions::all_seconds},
                                                             {"--windows", &BenchOptions::windows},
                                                             {"--rank", &BenchOptions::rank},
                                                             {"--world", &BenchOptions::world}};

double number_of(const std::string& key, const std::string& text) {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  const bool whole = key == "--windows" || key == "--rank" || key == "--world";
  const bool good = !text.empty() && *end == 0 && std::isfinite(v) && v < 1e9 &&
                    (key == "--rank" ? v >= 0 : v > 0) && (!whole || v == std::floor(v));
  if (!good) throw UsageError(str(key, ": not '", printable(text), "'"));
  return v;
}

bool one_of_two(const std::string& key, const std::string& text, const char* yes, const char* no) {
  if (text != yes && text != no)
    throw UsageError(str(key, " is ", yes, " or ", no, ", not '", printable(text), "'"));
  return text == yes;
}

void set_option(BenchOptions& o, const std::string& key, const std::string& value) {
  if (const auto text = kTexts.find(key); text != kTexts.end()) {
    if (value.empty()) throw UsageError(key + ": an empty name");
    o.*text->second = value;
    if (key == "--mode") (void)one_of_two(key, value, "eager", "captured");
  } else if (const auto number = kNumbers.find(key); number != kNumbers.end()) {
    o.*number->second = number_of(key, value);
  } else if (key == "--device") {
    o.device = Device::parse(value.c_str());
  } else if (key == "--scale") {
    o.scale = one_of_two(key, value, "real", "small") ? Scale::real : Scale::small;
  } else if (key == "--poison") {
    o.poison = one_of_two(key, value, "yes", "no");
  } else if (key == "--plant") {
    o.plant = Plant(value);
  } else {
    throw UsageError("not understood: " + printable(key));
  }
}

BenchOptions parse_command(int argc, char** argv) {
  if (argc < 2) throw UsageError("what is to be measured?");
  BenchOptions o;
  o.what = argv[1];
  const auto job = jobs().find(o.what);
  if (job == jobs().end()) throw UsageError("nothing is called '" + printable(o.what) + "'");
  bool needed = !*job->second.needs;
  for (int i = 2; i < argc; ++i) {
    const std::string key = argv[i];
    needed |= key == job->second.needs;
    if (key == "--best") {
      o.best = true;
      continue;
    }
    if (++i == argc) throw UsageError(printable(key) + " needs a value");
    set_option(o, key, argv[i]);
  }
  if (!needed) throw UsageError(str(o.what, " needs ", job->second.needs));
  if (!o.plant.place().empty() && !job->second.planted)
    throw UsageError(o.what + " takes no --plant");
  return o;
}

}  // namespace

bool gpu_bench_has(const std::string& what) { return jobs().contains(what); }

int gpu_bench(int argc, char** argv) {
  hold_standard_descriptors();
  try {
    BenchOptions o;
    try {
      o = parse_command(argc, argv);
    } catch (const UsageError& e) {
      std::fprintf(stderr, "%s\n%s", e.what(), kUsage);
      return e.exit_code();
    }
    require_available(o.device);
    return jobs().at(o.what).run(o);
  } catch (const NotAvailable& e) {
    say(str("SKIPPED: ", e.what()));
    return kBenchSkipped;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code() == kBenchLeft ? kBenchWrong : e.exit_code();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kBenchWrong;
  }
}

}  // namespace wt::bench
