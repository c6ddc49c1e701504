#include "warptape/dist/stage_step.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/run.h"

namespace wt::dist {

namespace info {
constexpr OpInfo agree_on_step{.name = "agree_on_step", .derivative = Derivative::none};
}

namespace {

// f64, 0-d, on the parameters' device.
Tensor local_norm(optim::Optimizer& opt) {
  opt.prepare();
  const i64 n = opt.add_norm();
  const TensorOptions scalar{.dtype = DType::f64, .device = opt.device()};
  const Tensor norm = zeros({}, scalar), unused = zeros({}, scalar);
  run(StepDecideArgs{.partials = opt.partials(),
                     .count = n,
                     .max_norm = 0,
                     .norm = static_cast<double*>(norm.impl()->data),
                     .factor = static_cast<double*>(unused.impl()->data),
                     .step = nullptr,
                     .on_found = NonFinite::ignore,
                     .mailbox = nullptr},
      {&info::agree_on_step, mode.native_stream, nullptr, opt.device()});
  return norm;
}

}  // namespace

Tensor detail::mailbox_raised(const optim::Optimizer& opt) {
  const Tensor flag = from_blob(const_cast<i32*>(opt.mailbox()), {1}, borrow,
                                {.dtype = DType::i32, .device = opt.device()});
  return flag.to(DType::boolean).to(DType::f64);
}

StageStep agree_on_step(optim::Optimizer* opt, Communicator& comm, const Loss& loss,
                        double max_norm, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  if (!(max_norm >= 0))
    throw UsageError(str("[agree_on_step] max_norm must be at least 0, got ", max_norm, at_line()));
  Tensor all = zeros({2}, {.dtype = DType::f64, .device = loss.sum.device()});
  if (opt) {
    const Tensor norm = local_norm(*opt);
    all = cat({reshape(mul(norm, norm), {1}), detail::mailbox_raised(*opt)});
  }
  comm.all_reduce(all);
  const Tensor per_item = div(1.0, loss.weight.to(DType::f64));
  StageStep step;
  step.grad_norm = mul(sqrt(all[0]), abs(per_item));
  const Tensor mean = mul(loss.sum.to(DType::f64), per_item);
  const Tensor good = logical_and(isfinite(step.grad_norm), isfinite(mean));
  step.options.skip = logical_or(logical_not(good), all[1].to(DType::boolean)).to(DType::i32);
  step.options.grad_factor =
      max_norm == 0 ? per_item
                    : mul(minimum(div(max_norm, add(step.grad_norm, 1e-6)), 1.0), per_item);
  return step;
}

}  // namespace wt::dist
