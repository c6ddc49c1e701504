#include "warptape/tests/op_cases/support.h"

#include <algorithm>
#include <map>

#include "warptape/autograd/grads.h"
#include "warptape/core/profiler.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/tests/op_cases/inputs.h"

namespace wt_test {
namespace {

void add_once(std::vector<std::string>& to, const std::string& text) {
  if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
}

struct Launches : profiler::Observer {
  std::vector<std::string>& contracts;
  explicit Launches(std::vector<std::string>& to) : contracts(to) {}
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind == profiler::Kind::kernel) add_once(contracts, r.name);
  }
};

bool shares_memory(const Tensor& y, const std::vector<Tensor>& of) {
  return std::any_of(of.begin(), of.end(),
                     [&](const Tensor& x) { return x.impl()->storage == y.impl()->storage; });
}

// Returns whether kernels of the gradient are missing; throws when the forward's are.
bool lacks_gradient(const Case& c, Device d, Support& found) {
  const bool grad = c.call().gradients && is_floating(c.dtype) &&
                    info_of(c.row->name)->derivative != Derivative::none;
  const Inputs in = make_inputs(c, d, grad);
  Tensor y;
  {
    Launches launches(found.contracts);
    const profiler::ObserverScope watch(launches);
    y = c.call().call(in.tensors);
  }
  found.aliases &= y.numel() == 0 || shares_memory(y, in.tensors);
  if (!y.requires_grad()) return false;
  std::vector<Tensor> leaves;
  for (const Tensor& x : in.tensors)
    if (x.requires_grad()) leaves.push_back(x);
  try {
    (void)grads({&y, 1}, leaves, {.grad_outputs = {ones_like(y)}, .allow_unused = true});
  } catch (const NotAvailable&) {
    return true;
  }
  return false;
}

// One dtype of a kind stands for the others.
bool stands_for_others(const OpCase& row, DType t) {
  return t == f32 || t == DType::i64 || t == row.dtypes[0];
}

constexpr size_t kMostLabels = 4;

Support find_support(const OpCase& row, Device d) {
  Support found;
  int ran = 0, in_part = 0, refused = 0;
  std::vector<std::string> labels;
  for (const Case& c : all_cases(row)) {
    if (c.layout != 'c' || !stands_for_others(row, c.dtype)) continue;
    try {
      ++(lacks_gradient(c, d, found) ? in_part : ran);
    } catch (const NotAvailable&) {
      const std::string& label = c.call().label;
      add_once(labels, label.empty() ? str("sample ", c.sample) : label);
      ++refused;
    }
  }
  if (in_part + refused == 0) return found;
  found.extent = ran + in_part > 0 ? "part" : "none";
  if (ran + in_part == 0) return found;
  if (labels.size() > kMostLabels) labels = {"most ways of calling it"};
  found.lacking = labels;
  if (in_part > 0) found.lacking.push_back("gradients");
  return found;
}

}  // namespace

const Support& support_on(const OpCase& row, Device d) {
  static std::map<std::pair<std::string, DeviceKind>, Support> known;
  const auto [at, fresh] = known.try_emplace({row.name, d.kind});
  if (fresh) at->second = find_support(row, d);
  return at->second;
}

}  // namespace wt_test
