#include "warptape/optim/overflow_watch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wt {

std::string OverflowReport::text() const {
  switch (where) {
    case Where::forward:
      return "inf or NaN first in what " + name + " returns";
    case Where::backward:
      return "inf or NaN first in backward: " + name;
    case Where::gradient:
      return "inf or NaN first in the gradient of " + name;
    case Where::nowhere:
      break;
  }
  return "no inf or NaN when the step was made again";
}

namespace optim::detail {
namespace {

bool is_finite(const Tensor& t) {
  if (!t.defined() || !is_floating(t.dtype())) return true;
  const NoGrad no_grad;
  const std::vector<double> values = t.detach().to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

struct OverflowWatch::Hooks {
  std::vector<std::pair<nn::ModuleBase, u64>> list{};
};
OverflowWatch::OverflowWatch(const nn::ModuleBase& net) : hooks_(new Hooks) {
  for (const nn::NamedModule& m : net.named_modules()) {
    const std::string name =
        str(m.name.empty() ? std::string("the model") : m.name, " (", m.module.type(), ")");
    const u64 id = m.module.register_forward_hook(
        [this, name](const nn::ModuleBase&, const Tensor& y) { look(name, y); });
    hooks_->list.emplace_back(m.module, id);
  }
}
OverflowWatch::~OverflowWatch() {
  for (const auto& [module, id] : hooks_->list) module.remove_hook(id);
}

// Modules return in the order of computing, inner ones before outer ones: the first is the place.
void OverflowWatch::look(const std::string& module, const Tensor& y) {
  if (report_.where != OverflowReport::Where::nowhere || is_finite(y)) return;
  report_.where = OverflowReport::Where::forward;
  report_.name = module;
}

void OverflowWatch::backward(const NumericError& e) {
  if (report_.where != OverflowReport::Where::nowhere) return;
  report_.where = OverflowReport::Where::backward;
  report_.name = e.what() + std::strlen(e.kind()) + 2;
  for (size_t at; (at = report_.name.find("\n  ")) != std::string::npos;)
    report_.name.replace(at, 3, "; ");
}

void OverflowWatch::look_at_gradients(const std::vector<nn::NamedTensor>& parameters) {
  if (report_.where != OverflowReport::Where::nowhere) return;
  for (const nn::NamedTensor& p : parameters) {
    if (is_finite(p.tensor.grad())) continue;
    report_.where = OverflowReport::Where::gradient;
    report_.name = p.name;
    return;
  }
}

}  // namespace optim::detail
}  // namespace wt
