#include "warptape/bench/counters.h"

#include <algorithm>

namespace wt::bench {

CounterRow count_variant(const Problem& p, const VariantRun& v, bool lines) {
  CounterRow row{.contract = p.contract,
                 .variant = v.name,
                 .shape = p.shape,
                 .dtype = dtype_name(p.dtype),
                 .bytes = p.bytes,
                 .flops = p.flops};
  simt_start_counting();
  try {
    v.launch(0);
  } catch (...) {
    simt_stop_counting(false);
    throw;
  }
  row.kernels = simt_stop_counting(lines);
  for (const SimtKernelCounts& k : row.kernels) {
    row.threads += double(k.threads), row.barriers += double(k.barriers);
    row.read += double(k.read), row.written += double(k.written);
    for (const SimtAccess& a : k.accesses)
      (a.shared ? row.shared : a.kind == SimtAccess::Kind::load ? row.loads : row.stores).add(a);
  }
  return row;
}

void count_kernels(const CounterOptions& o, const std::function<void(const CounterRow&)>& done) {
  for (const ProblemRow& row : problem_rows()) {
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), row.contract) == o.only.end())
      continue;
    if (std::find(row.dtypes.begin(), row.dtypes.end(), o.dtype) == row.dtypes.end()) continue;
    for (int shape = 0; shape < row.shapes; ++shape) {
      if (o.shape >= 0 && o.shape != shape) continue;
      const Problem p = row.make(Device::simt(), o.dtype, o.scale, shape, 1);
      for (auto v = p.variants.rbegin(); v != p.variants.rend(); ++v)  // the plainest first
        if (!v->why_not() && (o.variant.empty() || o.variant == v->name) &&
            (!o.defaults || v->name == p.chosen))
          done(count_variant(p, *v, o.lines));
    }
  }
}

}  // namespace wt::bench
