// Running statistics of normalisation by channels. Internal to ops/channel_norm.cpp.
#pragma once
#include <optional>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/running_stats.h"

namespace wt {

// Where they lie, and their new values, made before anything is written.
struct Running {
  Tensor mean, var, count;           // the user's; undefined: none
  std::optional<double> momentum{};  // none: by the count
  Tensor new_mean{}, new_var{}, new_count{};

  bool moves() const { return mean.defined(); }

  // From batch statistics: mean [statistics], and variance [statistics] over `values` each.
  void prepare(const View& batch_mean, const View& variance, i64 values, const Launch& l) {
    new_mean = empty_like(mean), new_var = empty_like(var);
    if (count.defined()) new_count = empty_like(count);
    const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
    run(RunningStatsArgs{view(new_mean), view(new_var), view(new_count), view(mean), view(var),
                         view(count), batch_mean, variance, momentum.value_or(-1),
                         double(values) / double(values - 1)},
        l);
  }
  // Only once, also when a checkpointed function runs again (copy_).
  void write() {
    mean.copy_(new_mean);
    var.copy_(new_var);
    if (count.defined()) count.copy_(new_count);
  }
};

// Statistics of running ones, as channel_stats writes them: [3, C].
inline Tensor constant_stats(const Tensor& mean, const Tensor& var, double eps, DType t) {
  const Tensor m = to_dtype(mean, t), rstd = rsqrt(add(to_dtype(var, t), eps));
  return stack({m, zeros_like(m), rstd});
}

}  // namespace wt
