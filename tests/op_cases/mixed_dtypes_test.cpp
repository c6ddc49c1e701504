// Operands of two floating dtypes: every operator either gives what it gives of the wider one, and
// gradients in the dtypes of its operands, or refuses them. Which refuse is a list here: products,
// convolutions, norms and what is built like them, where two dtypes are mostly a mistake.
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr const char* kRefuse =
    "add_layer_norm add_rms_norm addmm bmm bucketize cdist conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d conv_weight_grad dot einsum "
    "embedding_bag feed_forward fused_batch_norm fused_conv1d fused_conv2d fused_conv3d "
    "fused_group_norm fused_instance_norm fused_linear grid_sample group_norm index_add "
    "isclose istft layer_norm lerp linear linear_scan matmul matrix_rank meshgrid pinv "
    "prelu quantile rms_norm scaled_dot_product_attention scatter scatter_add "
    "scatter_reduce searchsorted select_scatter slice_scatter solve solve_triangular "
    "stft tensordot";
// Input 0 alone says what comes out: the others are weights, statistics or what is written.
const std::set<std::string> kFirstSays{"batch_norm",    "cross_entropy", "index_put",
                                       "instance_norm", "masked_fill",   "multi_margin_loss",
                                       "nll_loss"};

// Of a way to call the operator: the numbers under test; none where 0-d ones stand beside others,
// whose dtypes then decide.
std::vector<size_t> numbers(const Sample& s) {
  std::vector<size_t> places;
  size_t points = 0;
  for (size_t i = 0; i < s.inputs.size(); ++i)
    if (s.inputs[i].role == Role::value) {
      places.push_back(i);
      points += s.inputs[i].shape.empty();
    }
  return points == 0 || points == places.size() ? places : std::vector<size_t>{};
}

std::set<std::string> refusing() {
  std::istringstream names(kRefuse);
  return {std::istream_iterator<std::string>(names), {}};
}

// The result, and d sum(result) / d the inputs at `of`.
std::vector<Tensor> result_and_gradients(const Sample& s, std::vector<Tensor> in,
                                         const std::vector<size_t>& of) {
  std::vector<Tensor> leaves;
  for (const size_t i : of)
    if (s.gradients && s.inputs[i].wants_grad)
      leaves.push_back(in[i] = in[i].detach().set_requires_grad());
  std::vector<Tensor> r{s.call(in)};
  if (!r[0].requires_grad()) return r;
  for (const Tensor& g : grads(sum(r[0].to(f64)), leaves, {.allow_unused = true})) {
    if (g.defined()) CHECK(g.dtype() == leaves[r.size() - 1].dtype());
    r.push_back(g);
  }
  r[0] = r[0].detach();
  return r;
}

// "" or what differs. The numbers are those that f32 holds, so both ways see the same ones.
std::string check_narrow(const Sample& s, const std::vector<Tensor>& wide, size_t narrow) {
  const std::vector<size_t> of = numbers(s);
  std::vector<Tensor> mixed = wide;
  mixed[narrow] = wide[narrow].to(f32);
  const std::vector<Tensor> want = result_and_gradients(s, wide, of),
                            got = result_and_gradients(s, mixed, of);
  for (size_t k = 0; k < want.size(); ++k) {
    if (want[k].defined() != got[k].defined()) return str("gradient ", k, " is there or not");
    if (!want[k].defined()) continue;
    if (k > 0 &&
        !allclose(got[k].to(f64), want[k], {.rtol = 1e-6, .atol = 1e-6, .equal_nan = true}))
      return str("gradient ", k, " differs");
    if (k == 0 && got[0].dtype() != want[0].dtype())
      return str("the result is ", dtype_name(got[0].dtype()));
    if (k == 0 && !allclose(got[0], want[0], {.rtol = 1e-12, .atol = 1e-12, .equal_nan = true}))
      return "the result differs";
  }
  return "";
}

}  // namespace

TEST_CASE("operators: two floating dtypes give what the wider one gives, or are refused",
          "[ops][dtypes]") {
  std::map<std::string, std::string> refused;
  for (const OpCase& row : op_cases()) {
    if (!selection().fits("op", row.name) || kFirstSays.count(row.name)) continue;
    if (row.name.back() == '_') continue;  // in place: the tensor that is written has the say
    std::set<size_t> seen;
    for (Case c : all_cases(row)) {
      if (c.layout != 'c' || c.dtype != f64 || !seen.insert(c.sample).second) continue;
      const std::vector<size_t> of = numbers(c.call());
      if (of.size() < 2) continue;
      std::vector<Tensor> in = make_inputs(c, Device::cpu(), false).tensors;
      for (const size_t i : of) in[i] = in[i].to(f32).to(f64);
      for (const size_t narrow : of) {
        INFO(row.name << " " << c.call().label << ", input " << narrow << " is f32");
        try {
          const std::string wrong = check_narrow(c.call(), in, narrow);
          CHECK(wrong == "");
        } catch (const DtypeError& e) {
          refused.emplace(row.name, e.what());
        }
      }
    }
  }
  const std::set<std::string> expected = refusing();
  std::string other;
  for (const auto& [name, said] : refused)
    if (!expected.count(name)) other += "\n" + name + " refuses: " + said;
  for (const std::string& name : expected)
    if (selection().fits("op", name) && !refused.count(name)) other += "\n" + name + " does not";
  CHECK(other == "");
}
