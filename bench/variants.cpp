#include "warptape/bench/variants.h"

#include <algorithm>
#include <cstdio>

#include "warptape/bench/kernels_cpu.h"
#include "warptape/core/device.h"
#include "warptape/core/suggest.h"

namespace wt::bench {
namespace {

double time_of(const Problem& p, const VariantRun& v) {
  if (p.device.kind == DeviceKind::cuda)
    return time_cold(p.device, v.launch, {.seconds = 0.05, .loaded = true}).median_us;
  const double start = processor_us();
  v.launch(0);
  return processor_us() - start;
}

const VariantRun& named(const Problem& p, const std::string& name) {
  std::vector<std::string> names;
  for (const VariantRun& v : p.variants) {
    if (v.name == name) return v;
    names.push_back(v.name);
  }
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  throw UsageError(str(p.contract, " has no variant '", name, "' on ", to_string(p.device),
                       did_you_mean(name, names), " (it has ", all, ")"));
}

}  // namespace

OneThread::OneThread(Device d) : before_(num_threads()) {
  if (d.kind == DeviceKind::cpu) set_num_threads(1);
}
OneThread::~OneThread() { set_num_threads(before_); }

std::vector<PairedTimes> time_in_pairs(const PairOptions& o) {
  const OneThread one_thread(o.device);
  std::vector<PairedTimes> all;
  std::string refused;
  for (const ProblemRow& row : problem_rows()) {
    if (row.contract != o.contract) continue;
    for (int shape = 0; shape < row.shapes; ++shape) {
      const Problem p = row.make(o.device, o.dtype, o.scale, shape, 1);
      const VariantRun &a = named(p, o.a), &b = named(p, o.b);
      const char* why = a.why_not() ? a.why_not() : b.why_not();
      if (why) {
        refused = why;
        continue;
      }
      a.launch(0), b.launch(0);
      PairedTimes times{p.shape, {}, {}};
      for (int i = 0; i < o.rounds; ++i) {
        const double a1 = time_of(p, a), b1 = time_of(p, b);
        const double b2 = time_of(p, b), a2 = time_of(p, a);
        times.a_us.push_back((a1 + a2) / 2), times.b_us.push_back((b1 + b2) / 2);
      }
      all.push_back(times);
    }
  }
  if (all.empty())
    throw UsageError(str(o.contract, ": no size that both variants take",
                         refused.empty() ? "" : " (" + refused + ")"));
  return all;
}

void print_json_lines(const Ladder& l, const std::string& dtype, const Machine& m) {
  for (const Rung& r : l.rungs) {
    if (!r.why_not.empty()) continue;
    Row row{.bench = l.contract, .impl = r.variant, .shape = l.shape, .dtype = dtype};
    row.time = r.time, row.bytes = l.bytes, row.flops = l.flops;
    row.more = {{"chosen", r.chosen ? 1 : 0}};
    std::printf("%s\n", to_json(row, m).c_str());
  }
}

Ladder time_ladder(const Problem& p, int windows,
                   const std::function<bool(const std::string& variant)>& wanted) {
  Ladder ladder{p.contract, p.shape, p.bytes, p.flops, {}};
  for (auto v = p.variants.rbegin(); v != p.variants.rend(); ++v) {
    if (wanted && !wanted(v->name)) continue;
    Rung rung{v->name, "", {}, v->name == p.chosen};
    if (const char* why = v->why_not()) {
      rung.why_not = why;
    } else {
      std::vector<double> us{time_of(p, *v)};  // the first one also fills caches
      for (int i = 0; i < windows && us[0] < 1e6; ++i) us.push_back(time_of(p, *v));
      if (us.size() > 1) us.erase(us.begin());
      rung.time = summarize(us);
    }
    ladder.rungs.push_back(rung);
  }
  return ladder;
}

std::vector<Ladder> time_ladders(const std::vector<std::string>& contracts, Device d, DType t,
                                 Scale scale, int windows) {
  const OneThread one_thread(d);
  std::vector<Ladder> all;
  for (const ProblemRow& row : problem_rows()) {
    if (std::find(contracts.begin(), contracts.end(), row.contract) == contracts.end()) continue;
    if (std::find(row.dtypes.begin(), row.dtypes.end(), t) == row.dtypes.end()) continue;
    for (int shape = 0; shape < row.shapes; ++shape) {
      Ladder ladder = time_ladder(row.make(d, t, scale, shape, 1), windows);
      if (!ladder.rungs.empty()) all.push_back(std::move(ladder));
    }
  }
  return all;
}

}  // namespace wt::bench
