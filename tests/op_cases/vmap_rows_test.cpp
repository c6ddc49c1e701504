// vmap() of every operator of the table: what it gives for several slices at once is what the calls
// give one by one, values and gradients, taken inside (one of each slice) and outside (through it).
#include <algorithm>
#include <map>
#include <string>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr i64 kSlices = 3;

// Operators that vmap() refuses in some way of calling them, and why.
const std::map<std::string, std::string> kRefused{
    {"batch_norm", "running statistics are not mapped"},
    {"bernoulli", "draws"},
    {"bincount", "the result's size is in the values"},
    {"ctc_loss", "the host reads the lengths"},
    {"dropout", "draws"},
    {"dropout_", "draws"},
    {"gumbel_softmax", "draws"},
    {"index", "the result's size is in the mask"},
    {"index_put", "the host reads the mask"},
    {"index_put_", "the host reads the mask"},
    {"instance_norm", "running statistics are not mapped"},
    {"istft", "the host looks for gaps between the windows"},
    {"masked_select", "the result's size is in the mask"},
    {"multinomial", "draws"},
    {"nonzero", "the result's size is in the values"},
    {"one_hot", "the number of classes is in the values"},
    {"scaled_dot_product_attention", "dropout draws"},
    {"to_device", "leaves the device of the slices"},
    {"unique", "the result's size is in the values"},
};

// Values of each slice, and all of them stacked.
struct Stacked {
  std::vector<std::vector<Tensor>> slices;
  std::vector<Tensor> all;
};
Stacked stacked(Case c, const Device& d) {
  Stacked s;
  for (i64 i = 0; i < kSlices; ++i) {
    s.slices.push_back(make_inputs(c, d, false).tensors);
    ++c.seed;
  }
  for (size_t k = 0; k < s.slices[0].size(); ++k) {
    std::vector<Tensor> of_input;
    for (const std::vector<Tensor>& slice : s.slices) of_input.push_back(slice[k]);
    s.all.push_back(stack(of_input));
  }
  return s;
}

// "" or how far they are apart.
std::string difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return str(": ", describe(a), ", not ", describe(b));
  if (!is_floating(a.dtype())) return equal(a, b) ? "" : ": other values";
  const double r = a.dtype() == f64 ? 1e-11 : a.dtype() == f32 ? 2e-5 : 2e-2;
  if (allclose(a, b, {.rtol = r, .atol = r, .equal_nan = true})) return "";
  return str(" is off by ", wt::max(abs(a.to(f64) - b.to(f64))).item());
}

std::vector<size_t> floating(const Sample& s, const std::vector<Tensor>& t) {
  std::vector<size_t> places;
  for (size_t i = 0; i < t.size(); ++i)
    if (is_floating(t[i].dtype()) && s.inputs[i].wants_grad) places.push_back(i);
  return places;
}

// d sum(y * y / 2 + y) / d inputs; zeros for what y does not depend on.
std::vector<Tensor> derivatives(const CheckedFunction& f, std::vector<Tensor> in,
                                const std::vector<size_t>& of) {
  std::vector<Tensor> leaves;
  for (size_t i : of) leaves.push_back(in[i] = in[i].detach().set_requires_grad());
  const Tensor y = f(in);
  std::vector<Tensor> g(of.size());
  if (y.requires_grad()) g = grads(sum(y * y * 0.5 + y), leaves, {.allow_unused = true});
  for (size_t k = 0; k < g.size(); ++k)
    g[k] = g[k].defined() ? g[k].detach() : zeros_like(leaves[k]).detach();
  return g;
}

std::string check_slices(const Case& c, const Device& d) {
  const CheckedFunction& f = c.call().call;
  const Stacked s = stacked(c, d);
  const Tensor joined = vmap(f)(s.all);
  std::vector<std::optional<i64>> first_only(s.all.size());
  first_only[0] = 0;
  std::vector<Tensor> mixed = s.slices[0];
  mixed[0] = s.all[0];
  const Tensor of_first = vmap(f, {.in_dims = first_only})(mixed);
  for (i64 i = 0; i < kSlices; ++i) {
    if (const std::string off = difference(joined[i], f(s.slices[size_t(i)])); !off.empty())
      return str("slice ", i, off);
    std::vector<Tensor> one = s.slices[0];
    one[0] = s.slices[size_t(i)][0];
    if (const std::string off = difference(of_first[i], f(one)); !off.empty())
      return str("slice ", i, " of the first input alone", off);
  }
  return "";
}

std::string check_slice_gradients(const Case& c, const Device& d) {
  const CheckedFunction& f = c.call().call;
  const Stacked s = stacked(c, d);
  const std::vector<size_t> of = floating(c.call(), s.all);
  if (of.empty()) return "";
  std::vector<std::vector<Tensor>> want;
  for (const std::vector<Tensor>& slice : s.slices) want.push_back(derivatives(f, slice, of));
  const std::vector<Tensor> inside = vmap([&](std::span<const Tensor> in) {
    return derivatives(f, {in.begin(), in.end()}, of);
  })(s.all);
  const std::vector<Tensor> outside = derivatives(vmap(f), s.all, of);
  for (size_t k = 0; k < of.size(); ++k)
    for (size_t i = 0; i < size_t(kSlices); ++i) {
      if (const std::string off = difference(inside[k][i64(i)], want[i][k]); !off.empty())
        return str("the gradient of input ", of[k], " inside, slice ", i, off);
      if (const std::string off = difference(outside[k][i64(i)], want[i][k]); !off.empty())
        return str("the gradient of input ", of[k], " outside, slice ", i, off);
    }
  // Inputs that all slices share: the sum of their gradients.
  if (s.all.size() < 2) return "";
  std::vector<std::optional<i64>> first_only(s.all.size());
  first_only[0] = 0;
  std::vector<Tensor> mixed = s.slices[0];
  mixed[0] = s.all[0];
  const std::vector<Tensor> shared = derivatives(vmap(f, {.in_dims = first_only}), mixed, of);
  std::vector<Tensor> total;
  for (size_t i = 0; i < size_t(kSlices); ++i) {
    std::vector<Tensor> one = s.slices[0];
    one[0] = s.slices[i][0];
    const std::vector<Tensor> g = derivatives(f, one, of);
    for (size_t k = 0; k < of.size(); ++k)
      if (of[k] != 0)
        total.resize(of.size()), total[k] = total[k].defined() ? total[k] + g[k] : g[k];
  }
  for (size_t k = 0; k < total.size(); ++k)
    if (total[k].defined())
      if (const std::string off = difference(shared[k], total[k]); !off.empty())
        return str("the gradient of input ", of[k], ", which all slices share", off);
  return "";
}

// One floating dtype, or the row's first: what a dtype changes is in the kernels.
bool stands_for_others(const Case& c) {
  const std::vector<DType>& all = c.row->dtypes;
  const bool f32_too = std::find(all.begin(), all.end(), f64) == all.end();
  return c.layout == 'c' && (c.dtype == f64 || (f32_too && c.dtype == all[0]));
}
// And with a dimension to spare for the mapped axis.
bool small(const Sample& s) {
  i64 n = 0;
  bool spare = true;
  for (const Input& in : s.inputs) n += count(in.shape), spare &= in.shape.ndim() < kMaxDims;
  return n <= 4096 && spare;
}

}  // namespace

TEST_CASE("operators: vmap() gives what the calls give one by one", "[ops][vmap]") {
  const WarningHandler before = set_warning_handler(nullptr);
  std::map<std::string, std::string> refused;  // and what was said
  for (const OpCase& row : op_cases()) {
    if (!selection().fits("op", row.name)) continue;
    for (const Device& d : {Device::cpu(), Device::simt()}) {
      if (!selection().fits("device", device_kind_name(d.kind)) || !has_kernels(row, d)) continue;
      int samples = 0;
      for (const Case& c : all_cases(row)) {
        if (!stands_for_others(c) || !small(c.call())) continue;
        if (!selection().fits("sample", std::to_string(c.sample))) continue;
        // simt and asan for what the cpu does not show: accesses and what lives how long.
        const bool few = d.kind == DeviceKind::simt || simt_flavour() != std::string("plain");
        if (few && ++samples > 2) break;
        (void)run_case(c, {d, ""});  // makes what is made once, a mailbox
        const LeakGuard guard;
        INFO(reproducer(c, {d, ""}));
        try {
          std::string wrong = check_slices(c, d);
          if (wrong.empty() && c.call().gradients) wrong = check_slice_gradients(c, d);
          CHECK(wrong == "");
        } catch (const Error& e) {
          INFO(e.what());
          const bool known = std::string(e.what()).find("vmap()") != std::string::npos;
          CHECK(known);
          refused.emplace(row.name, std::string(e.what()) + "\n  " + c.call().label);
        }
      }
    }
  }
  set_warning_handler(before);
  std::string unexpected;
  for (const auto& [name, said] : refused)
    if (!kRefused.count(name)) unexpected += "\n" + name + ": " + said;
  CHECK(unexpected == "");
}
