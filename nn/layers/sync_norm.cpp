// Batch norm whose statistics are those of several ranks' samples, made of operators.
#include "warptape/autograd/ops/internal/fused.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/module_state.h"
#include "warptape/nn/norms.h"

namespace wt::nn {

i64 BatchNorm::sum_over_ranks(const ModuleBase& net, const SumOverRanks& sum) {
  i64 n = 0;
  detail::visit_modules(net.state(), "", [&](const auto& m, const std::string&) {
    auto* const own = std::any_cast<SumOverRanks>(&m->own);  // a batch norm's, by whatever name
    if (!own) return;
    *own = sum;
    ++n;
  });
  return n;
}

namespace {

// running = (1 - momentum) running + momentum now, in its own dtype.
void move_to(Tensor running, const Tensor& now, const Tensor& momentum) {
  const Tensor was = running.to(now.dtype());
  running.copy_(was + momentum * (now - was));
}

}  // namespace

// Two sums over ranks: of the values, then of what is left without their mean and of its squares,
// which loses no digits where the mean is large.
Tensor BatchNorm::forward_over_ranks(const Tensor& x, const SumOverRanks& sum) {
  const i64 channels = x.size(1);
  if (const Tensor& w = running_mean.defined() ? running_mean : weight;
      w.defined() && w.size(0) != channels)
    throw ShapeError(str("[", state_->type, "] x ", x.shape(), " has ", channels,
                         " channels, needs ", w.size(0), at_line()));
  const Tensor wide = is_half(x.dtype()) ? x.to(DType::f32) : x;
  std::vector<i64> all_but_channels, along{1, channels};
  for (int i = 0; i < x.ndim(); ++i)
    if (i != 1) all_but_channels.push_back(i);
  along.resize(size_t(x.ndim()), 1);
  const auto by_channel = [&](const Tensor& t) { return reshape(t, Shape(along)); };

  const TensorOptions like{.dtype = wide.dtype(), .device = x.device()};
  const Tensor mine = full({1}, double(x.numel() / std::max<i64>(1, channels)), like);
  const Tensor sums = sum(cat({wt::sum(wide, Dims(all_but_channels)), mine}));
  const Tensor count = sums.narrow(0, channels, 1).detach();
  const Tensor mean = sums.narrow(0, 0, channels) / count;
  const Tensor near = wide - by_channel(mean);
  const Dims rows(all_but_channels);
  const Tensor means = sum(cat({wt::sum(near, rows), wt::sum(square(near), rows)})) / count;
  const Tensor rest = means.narrow(0, 0, channels);  // what rounding left of the mean
  const Tensor var = means.narrow(0, channels, channels) - square(rest);

  Tensor y = (near - by_channel(rest)) * by_channel(rsqrt(var + options_.eps));
  if (weight.defined()) y = y * by_channel(weight);
  if (bias.defined()) y = y + by_channel(bias);
  if (is_training() && running_mean.defined()) {
    const NoGrad no_grad;
    Tensor batches = num_batches_tracked;
    batches.copy_(batches + 1);
    const Tensor momentum =
        options_.momentum ? full({}, *options_.momentum, like) : 1.0 / batches.to(wide.dtype());
    move_to(running_mean, mean + rest, momentum);
    move_to(running_var, var * (count / (count - 1.0)), momentum);
  }
  if (y.dtype() != x.dtype()) y = y.to(x.dtype());
  return wt::activated(options_.activation, y);
}

}  // namespace wt::nn
