#include "warptape/tools/wt/wt_tune_tasks.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/gpu/problems.h"
#include "warptape/core/memory/copy_bytes.h"

namespace wt::tools {
namespace {

using bench::Problem;
using bench::ProblemRow;
using bench::Scale;

bool deterministic(const std::string& contract, DeviceKind d, const std::string& variant) {
  for (const ContractInfo& c : all_contracts()) {
    if (contract != c.name) continue;
    for (int i = 0; i < c.count(d); ++i)
      if (variant == c.variant(d, i).name) return c.variant(d, i).deterministic;
  }
  return true;
}

std::vector<double> launch_once(Problem& p, const bench::VariantRun& v) {
  if (!p.in_place) bench::poison_outputs(p);
  v.launch(0);
  synchronize(p.device);
  return bench::sample_outputs(p);
}

// Rates of products so far, in TFLOP/s by dtype: the ceiling of those that follow where nobody has
// measured one. Products of matrices come first.
std::map<DType, double>& product_rates() {
  static std::map<DType, double> rates;
  return rates;
}

TuneTime time_of(const Problem& p, const bench::VariantRun& v, bench::Ceilings c, double seconds) {
  bench::TimingLimits limits{.seconds = seconds};
  limits.loaded = true;
  bench::Row r{.bench = p.contract, .dtype = dtype_name(p.dtype)};
  r.bytes = p.bytes, r.flops = p.flops;
  r.time = bench::time_cold(p.device, v.launch, limits);
  double& rate = product_rates()[p.dtype];
  if (p.contract == "matmul") rate = std::max(rate, r.flops / r.time.median_us * 1e-6);
  if (c.gemm(p.dtype) == 0) (p.dtype == DType::f32 ? c.gemm_32_tflop_s : c.gemm_16_tflop_s) = rate;
  bench::compare_with_roof(r, p.dtype, c);
  return {r.time.median_us, (r.time.p90_us - r.time.p10_us) / r.time.median_us, r.ratio, r.bound};
}

// At small sizes the cpu says what is right, at large ones the plainest variant of the device.
TuneSubject subject_of(const ProblemRow& row, Device d, DType t, Scale scale, int shape,
                       const bench::Ceilings& c, double seconds) {
  const bool small = scale == Scale::small;
  const auto made = [&row, d, t, scale, shape] {
    return std::make_shared<Problem>(row.make(d, t, scale, shape, 1));
  };
  TuneSubject s;
  const std::shared_ptr<Problem> p = made();
  s.shape = p->shape, s.bytes = i64(p->bytes), s.tolerance = bench::tolerance(t);
  for (size_t i = p->variants.size(); i-- > 0;) {
    const bench::VariantRun& v = p->variants[i];
    if (v.why_not()) continue;
    TuneVariant one{v.name, deterministic(row.contract, d.kind, v.name), {}, {}};
    one.values = [p, i, small, made] {
      // What works in place has to begin with the same operands each time.
      const std::shared_ptr<Problem> own = p->in_place && small ? made() : p;
      return p->in_place && !small ? std::vector<double>() : launch_once(*own, own->variants[i]);
    };
    if (!small) one.time = [p, i, c, seconds] { return time_of(*p, p->variants[i], c, seconds); };
    s.variants.push_back(one);
  }
  if (s.variants.empty()) return s;
  s.first_is_right = !small;
  if (!small) return s;
  Problem cpu = row.make(Device::cpu(), t, scale, shape, 1);
  for (const bench::VariantRun& v : cpu.variants)
    if (!v.why_not() && (v.name == "reference" || &v == &cpu.variants.back()))
      s.want = launch_once(cpu, v);
  return s;
}

std::string size_name(Scale scale, int shape) {
  return str(scale == Scale::small ? "small " : scale == Scale::host ? "host " : "real ", shape);
}

// Rows of bench in tune_order().
std::vector<ProblemRow> ordered_rows() {
  std::vector<ProblemRow> rows = bench::problem_rows();
  const auto place = [](const ProblemRow& r) {
    const std::vector<std::string>& order = tune_order();
    return std::find(order.begin(), order.end(), r.contract) - order.begin();
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const ProblemRow& a, const ProblemRow& b) { return place(a) < place(b); });
  return rows;
}

void append_tasks(std::vector<TuneTask>& tasks, const WtTuneOptions& o, Device d,
                  const bench::Ceilings& c, const std::vector<Scale>& scales) {
  const double seconds = o.quick ? std::min(o.seconds, 0.02) : o.seconds;
  std::map<std::string, int> first;  // some contracts have several rows: their sizes go on counting
  for (const ProblemRow& row : ordered_rows()) {
    const int begin = first[row.contract];
    first[row.contract] += row.shapes;
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), row.contract) == o.only.end())
      continue;
    for (const Scale scale : scales)
      for (const DType t : row.dtypes)
        for (int shape = 0; shape < (o.quick ? 1 : row.shapes); ++shape)
          tasks.push_back({row.contract, dtype_name(t), size_name(scale, begin + shape),
                           [row, d, t, scale, shape, c, seconds] {
                             return subject_of(row, d, t, scale, shape, c, seconds);
                           }});
  }
}

}  // namespace

bench::Ceilings known_ceilings(const WtTuneOptions& o, Device d) {
  std::error_code error;
  if (o.json.empty() || !std::filesystem::exists(o.json, error)) return {};
  return bench::read_ceilings(o.json, d);
}

// Proved and timed where it matters most first, then at the sizes between.
std::vector<TuneTask> tune_tasks(const WtTuneOptions& o, Device d, const TuneFile& file) {
  std::vector<TuneTask> tasks;
  const bool timed = d.kind == DeviceKind::cuda && !o.small;
  std::vector<Scale> first{Scale::small};
  if (timed) first.push_back(o.quick ? Scale::host : Scale::real);
  bench::Ceilings c = known_ceilings(o, d);
  c.copy_gb_s = file.copy_gb_s;
  append_tasks(tasks, o, d, c, first);
  if (timed && !o.quick) append_tasks(tasks, o, d, c, {Scale::host});
  return tasks;
}

}  // namespace wt::tools
