// What the distributions share: parameters, shapes, lines.
#include "warptape/nn/distributions.h"

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"

namespace wt::distributions {

Tensor Value::tensor(const TensorOptions& o) const {
  return is_number() ? full({}, number_, o) : tensor_;
}

Distribution::Distribution(const char* name, std::initializer_list<const Value*> parameters)
    : name_(name) {
  options_.dtype = mode.default_dtype;
  const Tensor* first = nullptr;
  for (const Value* p : parameters) {
    if (p->is_number()) continue;
    const Tensor& t = p->given();
    if (!is_floating(t.dtype()) || !computes(t.dtype()))
      throw DtypeError(
          str("[", name, "] expected floating parameters, got ", describe(t), at_line()));
    if (first && first->dtype() != t.dtype())
      throw DtypeError(str("[", name, "] parameters of two dtypes: ", describe(*first), " and ",
                           describe(t), at_line()));
    if (first && first->device() != t.device())
      throw PlacementError(str("[", name, "] parameters on two devices: ", describe(*first),
                               " and ", describe(t), at_line()));
    if (!first) first = &t;
  }
  if (first) options_ = {.dtype = first->dtype(), .device = first->device()};
  for (const Value* p : parameters) {
    parameters_.push_back(p->tensor(options_));
    batch_ = broadcast_shapes(name, batch_, parameters_.back().shape());
  }
}

void Distribution::refuse(const Tensor& wrong, const std::string& text) const {
  if (options_.device != Device::cpu()) return;
  if (any(wrong).item<bool>()) throw UsageError(str("[", name_, "] ", text, at_line()));
}

Tensor Distribution::sample(const Shape& shape, const CallLine&) const {
  const NoGrad no_grad;
  Shape all = shape;
  for (const i64 n : batch_) all.push_back(n);
  return drawn(all);
}
Tensor Distribution::log_prob(const Value& value, const CallLine&) const {
  return log_density(value.tensor(options_));
}
Tensor Distribution::entropy(const CallLine&) const { return whole(entropy_of()); }
Tensor Distribution::mean(const CallLine&) const { return whole(mean_of()); }
Tensor Distribution::variance(const CallLine&) const { return whole(variance_of()); }
Tensor Distribution::stddev(const CallLine&) const { return whole(sqrt(variance_of())); }

Tensor Reparametrised::rsample(const Shape& shape, const CallLine&) const {
  Shape all = shape;
  for (const i64 n : batch_) all.push_back(n);
  return drawn(all);
}

}  // namespace wt::distributions
