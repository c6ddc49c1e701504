// wt_gpu_bench kernels: every variant's time at sizes that fill a GPU, divided by its ceiling.
#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/gpu/gpu_bench_jobs.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"

namespace wt::bench {
namespace {

class KernelTimer {
 public:
  KernelTimer(const BenchOptions& o, RowFile& rows, const Ceilings& c)
      : o_(o), rows_(rows), ceilings_(c) {}

  void contract(const ProblemRow& row) {
    for (DType t : row.dtypes)
      for (int shape = 0; shape < row.shapes; ++shape) {
        Row r{.bench = row.contract, .dtype = dtype_name(t)};
        Problem p;
        if (rows_.attempt(r, [&] { p = made(row, t, shape); }))
          problem(p);
        else
          good = false;
      }
  }
  bool good = true;

 private:
  // With operands that the second level cache does not hold from one launch to the next.
  Problem made(const ProblemRow& row, DType t, int shape) const {
    Problem p = row.make(o_.device, t, o_.scale, shape, 1);
    bool any = false;
    for (const VariantRun& v : p.variants) any |= !v.why_not();
    const int sets = o_.device.kind != DeviceKind::cuda || !any ? 1 : p.bytes < 4e9 ? 4 : 2;
    if (sets > 1) p = Problem(), p = row.make(o_.device, t, o_.scale, shape, sets);
    return p;
  }

  void problem(Problem& p) {
    memory::reset_peak(o_.device);
    std::vector<double> base;
    for (const VariantRun& v : p.variants) {
      if (v.why_not() || v.name == o_.without) continue;
      Row r{.bench = p.contract, .impl = v.name, .shape = p.shape, .dtype = dtype_name(p.dtype)};
      r.bytes = p.bytes, r.flops = p.flops;
      const bool ran = rows_.attempt(r, [&] { variant(p, v, base, r); });
      good &= r.check.empty() || r.check == "ok";
      if (ran) rows_.keep(r);
    }
  }

  void variant(Problem& p, const VariantRun& v, std::vector<double>& base, Row& r) const {
    o_.plant.before(p.contract, o_.device);
    if (!p.in_place) poison_outputs(p);
    v.launch(0);
    synchronize(o_.device);
    o_.plant.after(p.contract, p);
    if (!p.in_place) r.check = verdict(p, base);
    r.time = time_cold(o_.device, v.launch, {.seconds = o_.seconds_or(0.15), .loaded = true});
    r.peak_bytes = memory::stats(o_.device).peak;
    compare_with_roof(r, p.dtype, ceilings_);
  }

  // Against the first variant's values, which `base` keeps.
  static std::string verdict(const Problem& p, std::vector<double>& base) {
    const std::vector<double> values = sample_outputs(p);
    if (is_floating(p.dtype))
      for (double x : values)
        if (x != x) return "WRONG: NaN left";
    if (base.empty()) base = values;
    return relative_error(values, base) <= tolerance(p.dtype) ? "ok" : "WRONG: differs";
  }

  const BenchOptions& o_;
  RowFile& rows_;
  const Ceilings ceilings_;
};

}  // namespace

int run_kernels(const BenchOptions& o) {
  RowFile rows(o);
  bool measured = true;
  const Ceilings c =
      o.ceilings.empty() ? measure_roofs(o, rows, measured) : read_ceilings(o.ceilings, o.device);
  if (c.copy_gb_s == 0) say("no ceilings: nothing is divided by them");
  KernelTimer timer(o, rows, c);
  const std::string left = walk_contracts(o, [&](const ProblemRow& row) { timer.contract(row); });
  for (const std::string& name : missing_rows())
    say(str("NOT MEASURED: ", name, " has no row in bench/gpu"));
  return end_walk(timer.good && measured, left);
}

}  // namespace wt::bench
