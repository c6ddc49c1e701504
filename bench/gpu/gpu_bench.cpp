// wt_gpu_bench: ceilings, kernels and a step on one device. tools/gpu_gate.sh runs it; alone:
//
//   wt_gpu_bench probe|check|ceilings|kernels|dispatch|mlp [--device cuda:0] [--json FILE]
//                [--page FILE] [--only CONTRACT,...] [--without VARIANT] [--scale real|small]
//                [--seconds S] [--poison yes|no] [--for S] [--from CONTRACT]
//
// kernels --for S: no contract is begun after S seconds; the last line then names the one that the
// next call is to go on --from, and the exit code is 3.
// check: every variant at small sizes against the cpu; --poison no leaves the outputs
// uninitialised, so that a checker sees who reads them.
//
// Exit codes: 0, 3 when contracts are left, 1 for a wrong value or a failure, 2 for a wrong command
// line, 77 when the device cannot be used.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/gpu/problems.h"
#include "warptape/bench/gpu/step.h"
#include "warptape/core/build_info.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/error.h"
#include "warptape/core/memory.h"
#include "warptape/core/std_descriptors.h"

namespace wt::bench {
namespace {

struct Options {
  std::string what, json, page;
  std::string only;     // names of contracts, with commas; empty: all
  std::string without;  // a variant that is left out
  bool poison = true;
  Device device = Device::cuda();
  Scale scale = Scale::real;
  double seconds = 0.15;
  double all_seconds = 0;  // of all contracts together; 0: as long as it takes
  std::string from;        // the contract to begin with; empty: the first
};

struct Files {
  std::FILE* json = nullptr;
  std::FILE* page = nullptr;
  ~Files() {
    if (json) std::fclose(json);
    if (page) std::fclose(page);
  }
};

void write(const Files& f, const Row& r, const Machine& m) {
  if (!f.json) return;
  std::fprintf(f.json, "%s\n", to_json(r, m).c_str());
  std::fflush(f.json);
}

std::string two(double v, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, v < 10 ? "%.2f%s" : "%.0f%s", v, unit);
  return text;
}
std::string rate(const Row& r) {
  if (r.bound == "gemm") return two(r.flops / r.time.median_us * 1e-6, " TFLOP/s");
  return r.bytes > 0 ? two(r.bytes / r.time.median_us * 1e-3, " GB/s") : std::string("-");
}

void print(const Row& r) {
  std::printf("%-24s %-14s %-24s %-5s %10.2f us  p10 %.2f  p90 %.2f  %-14s", r.bench.c_str(),
              r.impl.c_str(), r.shape.c_str(), r.dtype.c_str(), r.time.median_us, r.time.p10_us,
              r.time.p90_us, rate(r).c_str());
  if (r.ratio > 0) std::printf(" %5.1f %% of %s", 100 * r.ratio, r.bound.c_str());
  std::printf(" %s\n", r.check.c_str());
  std::fflush(stdout);
}

bool wanted(const Options& o, const std::string& contract) {
  return o.only.empty() || ("," + o.only + ",").find("," + contract + ",") != std::string::npos;
}

// The variant that the others are held against.
const VariantRun* reference_of(const Problem& p) {
  const VariantRun* first = nullptr;
  for (const VariantRun& v : p.variants) {
    if (v.why_not()) continue;
    if (v.name == "reference") return &v;
    if (!first) first = &v;
  }
  return first;
}

std::vector<double> run_once(Problem p, const std::string& variant, bool poison) {
  for (const VariantRun& v : p.variants) {
    if (v.name != variant) continue;
    if (!p.in_place && poison) poison_outputs(p);
    v.launch(0);
    synchronize(p.device);
    return sample_outputs(p);
  }
  return {};
}

// Every variant at small sizes against the cpu. True when all agree.
bool check(const Options& o) {
  int compared = 0, wrong = 0;
  for (const ProblemRow& row : problem_rows()) {
    if (!wanted(o, row.contract)) continue;
    for (DType t : row.dtypes)
      for (int shape = 0; shape < row.shapes; ++shape) {
        const auto on = [&](Device d) { return row.make(d, t, Scale::small, shape, 1); };
        const Problem cpu = on(Device::cpu()), there = on(o.device);
        const VariantRun* reference = reference_of(cpu);
        if (!reference) continue;
        const std::vector<double> want = run_once(on(Device::cpu()), reference->name, true);
        for (const VariantRun& v : there.variants) {
          if (v.name == o.without || v.why_not()) continue;
          const double error = relative_error(run_once(on(o.device), v.name, o.poison), want);
          ++compared;
          if (error <= tolerance(t)) continue;
          ++wrong;
          std::printf("WRONG: %s %s %s %s: relative error %.3g, allowed %.3g\n",
                      row.contract.c_str(), v.name.c_str(), there.shape.c_str(), dtype_name(t),
                      error, tolerance(t));
        }
      }
  }
  std::printf("%d launches on %s compared with the cpu, %d wrong\n", compared,
              to_string(o.device).c_str(), wrong);
  for (const std::string& name : missing_rows())
    std::printf("NOT COMPARED: %s has no row in bench/gpu\n", name.c_str());
  return wrong == 0 && compared > 0;
}

// Times the variants of one problem. True when their values agree.
bool time_problem(const Options& o, const ProblemRow& row, DType t, int shape, const Ceilings& c,
                  const Machine& m, const Files& files) {
  Problem p = row.make(o.device, t, o.scale, shape, 1);
  bool any = false;
  for (const VariantRun& v : p.variants) any |= !v.why_not();
  if (!any) return true;
  const double sets = o.device.kind != DeviceKind::cuda ? 1 : p.bytes < 4e9 ? 4 : 2;
  if (sets > 1) p = Problem(), p = row.make(o.device, t, o.scale, shape, int(sets));
  memory::reset_peak(o.device);
  std::vector<double> base;
  bool good = true;
  for (const VariantRun& v : p.variants) {
    if (v.why_not()) continue;
    Row r{.bench = p.contract, .impl = v.name, .shape = p.shape, .dtype = dtype_name(t)};
    r.bytes = p.bytes, r.flops = p.flops;
    if (!p.in_place) poison_outputs(p);
    v.launch(0);
    synchronize(o.device);
    if (!p.in_place) {
      const std::vector<double> values = sample_outputs(p);
      if (base.empty()) base = values;
      const double error = relative_error(values, base);
      bool written = true;
      for (double x : values) written &= is_floating(t) ? x == x : true;
      r.check = !written ? "WRONG: NaN left" : error <= tolerance(t) ? "ok" : "WRONG: differs";
      good &= r.check == "ok";
    }
    r.time = time_cold(o.device, v.launch, {.seconds = o.seconds, .loaded = true});
    r.peak_bytes = memory::stats(o.device).peak;
    compare_with_roof(r, t, c);
    print(r);
    write(files, r, m);
    if (files.page)
      std::fprintf(files.page, "| %s | %s | %s | %s | %.2f | %.2f | %.2f | %s | %s | %s |\n",
                   r.bench.c_str(), r.shape.c_str(), r.dtype.c_str(), r.impl.c_str(),
                   r.time.median_us, r.time.p10_us, r.time.p90_us, rate(r).c_str(),
                   r.ratio > 0 ? (two(100 * r.ratio, " % ") + r.bound).c_str() : "-",
                   r.check.empty() ? "-" : r.check.c_str());
  }
  return good;
}

void ceilings_page(const Files& f, const Ceilings& c, const std::vector<Row>& rows) {
  if (!f.page) return;
  std::fprintf(f.page, "## Ceilings\n\n");
  std::fprintf(f.page, "| what | figure |\n|---|---|\n");
  std::fprintf(f.page, "| copy within the device, read + write | %.0f GB/s |\n", c.copy_gb_s);
  if (c.gemm_16_tflop_s > 0)
    std::fprintf(f.page, "| cuBLASLt bf16 8192^3 | %.0f TFLOP/s |\n", c.gemm_16_tflop_s);
  if (c.gemm_32_tflop_s > 0)
    std::fprintf(f.page, "| cuBLASLt f32 4096^3 (no tf32) | %.1f TFLOP/s |\n", c.gemm_32_tflop_s);
  for (const Row& r : rows)
    if (r.bench == "ceiling_launch")
      std::fprintf(f.page, "| empty launch, %s | %.2f us |\n", r.impl.c_str(), r.time.median_us);
  std::fprintf(f.page, "\n");
}

int kernels(const Options& o, const Files& files, bool only_ceilings) {
  const auto start = std::chrono::steady_clock::now();
  const Machine m = describe_machine(o.device);
  std::vector<Row> rows;
  const Ceilings c = measure_ceilings(o.device, rows);
  if (o.from.empty()) {
    for (const Row& r : rows) {
      print(r);
      write(files, r, m);
    }
    ceilings_page(files, c, rows);
  }
  if (only_ceilings) return c.copy_gb_s > 0 ? 0 : 1;
  if (files.page && o.from.empty())
    std::fprintf(files.page,
                 "## Kernels\n\nCold second level cache; us. Last but one: the least time that the "
                 "ceilings allow, as a fraction of the median.\n\n"
                 "| kernel | shape | dtype | variant | median | p10 | p90 | rate | of ceiling | "
                 "values |\n|---|---|---|---|---|---|---|---|---|---|\n");
  bool good = true, begun = o.from.empty(), any = false;
  for (const ProblemRow& row : problem_rows()) {
    begun |= row.contract == o.from;
    if (!begun || !wanted(o, row.contract)) continue;
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start;
    if (any && o.all_seconds > 0 && gone.count() > o.all_seconds) {
      std::printf("LEFT: from %s\n", row.contract.c_str());
      return 3;
    }
    any = true;
    for (DType t : row.dtypes)
      for (int shape = 0; shape < row.shapes; ++shape)
        good &= time_problem(o, row, t, shape, c, m, files);
  }
  if (!begun) throw UsageError("--from: no row of bench/gpu is called " + o.from);
  for (const std::string& name : missing_rows()) {
    std::printf("NOT MEASURED: %s has no row in bench/gpu\n", name.c_str());
    if (files.page) std::fprintf(files.page, "\nNot measured: %s\n", name.c_str());
  }
  return good ? 0 : 1;
}

int usage(const char* what) {
  std::fprintf(stderr,
               "%s\nusage: wt_gpu_bench probe|check|ceilings|kernels|dispatch|mlp "
               "[--device D] [--json FILE] [--page FILE] [--only CONTRACT,...] "
               "[--without VARIANT] [--scale real|small] [--seconds S] [--poison yes|no] "
               "[--for S] [--from CONTRACT]\n",
               what);
  return 2;
}

std::FILE* open_to_append(const std::string& name) {
  if (name.empty()) return nullptr;
  std::FILE* f = std::fopen(name.c_str(), "a");
  if (!f) throw CheckpointError(name + " cannot be written");
  return f;
}

int run(const Options& o) {
  Files files;
  files.json = open_to_append(o.json);
  files.page = open_to_append(o.page);
  require_available(o.device);
  if (o.what == "probe") {
    const Machine m = describe_machine(o.device);
    std::printf("%s, driver for CUDA %s, runtime %s, %s, warptape %s %s\n", m.device_name.c_str(),
                m.driver.c_str(), m.runtime.c_str(), m.host.c_str(), build_info().version,
                build_info().commit);
    return 0;
  }
  if (o.what == "check") return check(o) ? 0 : 1;
  if (o.what == "ceilings" || o.what == "kernels") return kernels(o, files, o.what == "ceilings");
  std::vector<Row> rows;
  if (o.what == "dispatch") rows = dispatch_rows(o.device);
  if (o.what == "mlp")
    rows.push_back(mlp_small_step(o.device, o.scale == Scale::real ? 2.0 : 0.01, 3));
  for (const Row& r : rows) {
    print(r);
    write(files, r, describe_machine(o.device));
    if (files.page)
      std::fprintf(files.page, "| %s | %s | %.2f | %.2f | %.2f |\n", r.bench.c_str(),
                   r.impl.c_str(), r.time.median_us, r.time.p10_us, r.time.p90_us);
  }
  return 0;
}

int parse(int argc, char** argv, Options& o) {
  if (argc < 2) return usage("what is to be measured?");
  o.what = argv[1];
  for (const char* known : {"probe", "check", "ceilings", "kernels", "dispatch", "mlp", ""}) {
    if (!*known) return usage(("unknown: " + o.what).c_str());
    if (o.what == known) break;
  }
  for (int i = 2; i < argc; i += 2) {
    const std::string key = argv[i];
    if (i + 1 == argc) return usage((key + " needs a value").c_str());
    const char* value = argv[i + 1];
    if (key == "--device") {
      o.device = Device::parse(value);
    } else if (key == "--json") {
      o.json = value;
    } else if (key == "--page") {
      o.page = value;
    } else if (key == "--only") {
      o.only = value;
    } else if (key == "--without") {
      o.without = value;
    } else if (key == "--poison" && (!std::strcmp(value, "yes") || !std::strcmp(value, "no"))) {
      o.poison = *value == 'y';
    } else if (key == "--for" && std::atof(value) > 0) {
      o.all_seconds = std::atof(value);
    } else if (key == "--from") {
      o.from = value;
    } else if (key == "--seconds" && std::atof(value) > 0) {
      o.seconds = std::atof(value);
    } else if (key == "--scale" && (!std::strcmp(value, "real") || !std::strcmp(value, "small"))) {
      o.scale = *value == 'r' ? Scale::real : Scale::small;
    } else {
      return usage(("not understood: " + key + " " + value).c_str());
    }
  }
  return 0;
}

}  // namespace
}  // namespace wt::bench

int main(int argc, char** argv) {
  wt::hold_standard_descriptors();
  wt::bench::Options o;
  try {
    if (const int code = wt::bench::parse(argc, argv, o)) return code;
    return wt::bench::run(o);
  } catch (const wt::NotAvailable& e) {
    std::printf("SKIPPED: %s\n", e.what());
    return 77;
  } catch (const wt::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
}
