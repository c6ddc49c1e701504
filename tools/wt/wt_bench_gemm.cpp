// wt bench gemm
#include <algorithm>
#include <cstdio>
#include <map>

#include "warptape/bench/variants.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

constexpr double kLongestUs = 2e6;  // what a variant would take at the next size, and is left out

struct GemmCommand {
  std::vector<i64> sizes;
  std::vector<std::string> layouts{"nn", "nt", "tn"}, dtypes{"f32"};
  std::string device = "cpu";
  int windows = 5;
  bool json = false;
};

bench::Layout layout_of(const std::string& name) {
  return name == "nn" ? bench::Layout::nn : name == "nt" ? bench::Layout::nt : bench::Layout::tn;
}

// The libraries' variants: OpenBLAS, cuBLASLt.
bool is_vendor(const std::string& variant) {
  return variant == "blas" || variant.starts_with("vendor");
}

double rate(const bench::Ladder& l, const bench::Rung& r) {
  return r.why_not.empty() && r.time.median_us > 0 ? l.flops / r.time.median_us * 1e-3 : 0;
}

// The best of our own variants as a fraction of the best of the libraries'. 0: one has no time.
double own_of_vendor(const bench::Ladder& l) {
  double own = 0, vendor = 0;
  for (const bench::Rung& r : l.rungs) {
    double& best = is_vendor(r.variant) ? vendor : own;
    best = std::max(best, rate(l, r));
  }
  return vendor > 0 ? own / vendor : 0;
}

// The rows of one dtype. Variants are columns in the order of the first row's, which has them all.
class Table {
 public:
  void add(const bench::Ladder& l) {
    if (names_.empty()) {
      for (const bench::Rung& r : l.rungs) names_.push_back(r.variant);
      std::printf("%-20s", "m x n x k");
      for (const std::string& n : names_) std::printf(" %12s ", n.c_str());
      std::printf(" own of vendor\n");
    }
    std::printf("%-20s", l.shape.c_str());
    for (const std::string& n : names_) print_cell(l, n);
    const double ratio = own_of_vendor(l);
    if (ratio > 0) std::printf(" %13.2f", ratio);
    std::printf("\n");
  }

 private:
  static void print_cell(const bench::Ladder& l, const std::string& variant) {
    for (const bench::Rung& r : l.rungs)
      if (r.variant == variant && rate(l, r) > 0)
        return void(std::printf(" %12.1f%c", rate(l, r), r.chosen ? '*' : ' '));
    std::printf(" %12s ", "-");
  }
  std::vector<std::string> names_;
};

// One dtype: sizes from the smallest to the largest, so that the time of what is left out is known.
void measure(const GemmCommand& c, const std::string& dtype, Device d, const bench::Machine& m) {
  if (!c.json)
    std::printf("\nGFLOP/s in the median of %d; * chosen; %s, %s%s\n", c.windows, dtype.c_str(),
                to_string(d).c_str(),
                d.kind == DeviceKind::cpu ? ", one thread's processor time" : ", cold cache");
  Table table;
  std::map<std::string, double> us_a_flop;
  for (const long long n : c.sizes)
    for (const std::string& layout : c.layouts) {
      const double flops = 2.0 * double(n) * double(n) * double(n);
      const auto quick = [&](const std::string& variant) {
        const auto known = us_a_flop.find(variant);
        return known == us_a_flop.end() || known->second * flops < kLongestUs;
      };
      const bench::Ladder l = bench::time_ladder(
          bench::matmul_problem(d, float_named(dtype), n, n, n, layout_of(layout), 1), c.windows,
          quick);
      for (const bench::Rung& r : l.rungs)
        if (rate(l, r) > 0) us_a_flop[r.variant] = r.time.median_us / l.flops;
      if (c.json)
        bench::print_json_lines(l, dtype, m);
      else
        table.add(l);
      flush_stdout();
    }
}

int measure_products(GemmCommand c) {
  const Device d = Device::parse(c.device.c_str());
  if (d.kind == DeviceKind::simt)
    throw UsageError("simt's time says nothing; wt bench counters --only matmul has its counts");
  require_available(d);
  if (c.sizes.empty())
    c.sizes = d.kind == DeviceKind::cpu ? std::vector<i64>{128, 256, 512, 1024}
                                        : std::vector<i64>{512, 1024, 2048, 4096, 8192};
  std::sort(c.sizes.begin(), c.sizes.end());
  const bench::OneThread one_thread(d);
  const bench::Machine machine = bench::describe_machine(d);
  if (!c.json)
    std::printf(
        "%s; nn: a b, nt: a b^T (a linear layer), tn: a^T b (its weight's gradient); own of "
        "vendor: our best as a fraction of the library's\n",
        d.kind == DeviceKind::cpu ? machine.host.c_str() : machine.device_name.c_str());
  for (const std::string& dtype : c.dtypes) measure(c, dtype, d, machine);
  return 0;
}

}  // namespace

void add_bench_gemm(Command bench, int& code) {
  const Command c =
      bench.add_subcommand("gemm",
                           "products of square matrices: every variant of matmul beside "
                           "the vendor's library, size by size");
  auto o = std::make_shared<GemmCommand>();
  c.add_option("--device", o->device, "cpu, on one thread, or cuda:N").show_default();
  c.add_option("--size", o->sizes,
               "n of n x n x n, and those of further --size; else 128 to 1024 on cpu, 512 to 8192 "
               "on cuda")
      .check(at_least(1));
  c.add_option("--layout", o->layouts, "nn, nt (second transposed), tn (first transposed)")
      .check(one_of({"nn", "nt", "tn"}))
      .show_default();
  c.add_option("--dtype", o->dtypes, "this one, and those of further --dtype")
      .check(one_of({"f32", "f16", "bf16"}))
      .show_default();
  c.add_option("--windows", o->windows, "times of each; one of what takes over a second")
      .check(at_least(1))
      .show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] { code = measure_products(*o); });
}

}  // namespace wt::tools
