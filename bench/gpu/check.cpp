// wt_gpu_bench check: variants at small odd sizes against the cpu.
#include "warptape/bench/gpu/gpu_bench_jobs.h"
#include "warptape/core/memory/copy_bytes.h"

namespace wt::bench {
namespace {

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

void launch_variant(Problem& p, const std::string& name, bool poison) {
  if (!p.in_place && poison) poison_outputs(p);
  for (const VariantRun& v : p.variants)
    if (v.name == name) v.launch(0);
  synchronize(p.device);
}

class Checker {
 public:
  Checker(const BenchOptions& o, RowFile& rows) : o_(o), rows_(rows) {}

  void contract(const ProblemRow& row) {
    for (DType t : row.dtypes)
      for (int shape = 0; shape < row.shapes; ++shape) problem(row, t, shape);
  }
  int compared = 0, wrong = 0, failed = 0;

 private:
  void problem(const ProblemRow& row, DType t, int shape) {
    Row r{.bench = "check", .impl = row.contract, .dtype = dtype_name(t)};
    std::vector<double> want;
    Problem there;
    const auto make = [&](Device d) { return row.make(d, t, Scale::small, shape, 1); };
    const bool made = rows_.attempt(r, [&] {
      Problem cpu = make(Device::cpu());
      r.shape = cpu.shape;
      const VariantRun* reference = reference_of(cpu);
      if (!reference) return;
      there = make(o_.device);
      launch_variant(cpu, reference->name, true);
      want = sample_outputs(cpu);
    });
    failed += !made;
    if (!made) return;
    for (const std::string& name : names_of(there)) {
      r.impl = row.contract + ":" + name;
      r.more.clear();
      const bool ran = rows_.attempt(r, [&] {
        if (there.variants.empty()) there = make(o_.device);
        compare(there, name, want, r);
        there = {};  // a variant may have spoilt what the next one reads
      });
      if (ran) continue;
      ++failed;
      there = {};
    }
  }

  std::vector<std::string> names_of(const Problem& p) const {
    std::vector<std::string> names;
    for (const VariantRun& v : p.variants)
      if (v.name != o_.without && (!o_.best || v.name == p.chosen) && !v.why_not())
        names.push_back(v.name);
    return names;
  }

  void compare(Problem& p, const std::string& name, const std::vector<double>& want, Row& r) {
    o_.plant.before(p.contract, o_.device);
    launch_variant(p, name, o_.poison);
    o_.plant.after(p.contract, p);
    const double error = relative_error(sample_outputs(p), want), allowed = tolerance(p.dtype);
    ++compared;
    const bool good = error <= allowed;
    char text[80];
    std::snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", error, allowed);
    r.check = good ? "ok" : str("WRONG: ", text);
    r.more = {{"relative_error", error}};
    rows_.keep_silently(r);
    if (good) return;
    ++wrong;
    say(str("WRONG: ", p.contract, " ", name, " ", r.shape, " ", r.dtype, ": ", text));
  }

  const BenchOptions& o_;
  RowFile& rows_;
};

}  // namespace

int run_check(const BenchOptions& o) {
  RowFile rows(o);
  Checker checker(o, rows);
  const std::string left = walk_contracts(o, [&](const ProblemRow& row) { checker.contract(row); });
  say(str(checker.compared, " launches on ", to_string(o.device), " compared with the cpu, ",
          checker.wrong, " wrong, ", checker.failed, " failed"));
  for (const std::string& name : missing_rows())
    say(str("NOT COMPARED: ", name, " has no row in bench/gpu"));
  return end_walk(checker.wrong + checker.failed == 0 && checker.compared > 0, left);
}

}  // namespace wt::bench
