// Reductions, scans and orders.
#include "warptape/autograd/onnx/import.h"
#include "warptape/autograd/ops.h"

namespace wt::onnx {
namespace {

using Results = std::vector<Tensor>;

// Axes are an attribute, and since opset 13 (ReduceSum) or 18 an input.
struct ReducedAxes {
  Dims dims;
  SumOptions keep;
  bool nothing;
};
ReducedAxes reduced_axes(const NodeCall& c) {
  const std::vector<i64> axes = c.integers_or_input("axes", 1);
  const bool all = axes.empty();
  return {all ? Dims::all() : Dims(axes),
          {.keep_dim = c.integer("keepdims", 1) != 0},
          all && c.integer("noop_with_empty_axes", 0) != 0};
}
template <Tensor (*f)(const Tensor& x, const Dims& dims, SumOptions o)>
Results reduce(const NodeCall& c) {
  const ReducedAxes a = reduced_axes(c);
  if (a.nothing) return {c.in(0)};
  return {f(c.in(0), a.dims, a.keep).to(c.in(0).dtype())};
}
Tensor sum_of(const Tensor& x, const Dims& d, SumOptions o) { return sum(x, d, o); }
Tensor mean_of(const Tensor& x, const Dims& d, SumOptions o) { return mean(x, d, o); }
Tensor prod_of(const Tensor& x, const Dims& d, SumOptions o) { return prod(x, d, o); }
Tensor max_of(const Tensor& x, const Dims& d, SumOptions o) { return max(x, d, o); }
Tensor min_of(const Tensor& x, const Dims& d, SumOptions o) { return min(x, d, o); }
Tensor l1_of(const Tensor& x, const Dims& d, SumOptions o) { return norm(x, 1, d, o); }
Tensor l2_of(const Tensor& x, const Dims& d, SumOptions o) { return norm(x, 2, d, o); }
Tensor squares_of(const Tensor& x, const Dims& d, SumOptions o) { return sum(square(x), d, o); }
Tensor exps_of(const Tensor& x, const Dims& d, SumOptions o) { return logsumexp(x, d, o); }

std::string place_unread(const NodeCall& c) {
  return c.integer("select_last_index", 0) == 0 ? "" : "select_last_index";
}
template <bool kLeast>
Results place_of(const NodeCall& c) {
  const int axis = c.axis(c.integer("axis", 0));
  const SumOptions o{.keep_dim = c.integer("keepdims", 1) != 0};
  return {kLeast ? argmin(c.in(0), axis, o) : argmax(c.in(0), axis, o)};
}
std::string running_sum_unread(const NodeCall& c) {
  return c.integer("exclusive", 0) == 0 ? "" : "exclusive";
}
Results running_sum_of(const NodeCall& c) {
  const int axis = c.axis(c.value(1));
  if (!c.integer("reverse", 0)) return {cumsum(c.in(0), axis)};
  return {flip(cumsum(flip(c.in(0), axis), axis), axis)};
}
Results top_of(const NodeCall& c) {
  const SortResult r =
      topk(c.in(0), c.value(1), c.integer("axis", -1), {.largest = c.integer("largest", 1) != 0});
  return {r.values, r.indices};
}

}  // namespace

void add_reduce_importers(Importers& to) {
  constexpr std::string_view kNames = "axes keepdims noop_with_empty_axes";
  const auto add = [&](std::string_view name, Importer::Run f) {
    to[name] = {f, kNames, 1, 2, input_bit(1)};
  };
  add("ReduceSum", reduce<sum_of>), add("ReduceMean", reduce<mean_of>);
  add("ReduceProd", reduce<prod_of>), add("ReduceMax", reduce<max_of>);
  add("ReduceMin", reduce<min_of>), add("ReduceL1", reduce<l1_of>);
  add("ReduceL2", reduce<l2_of>), add("ReduceSumSquare", reduce<squares_of>);
  add("ReduceLogSumExp", reduce<exps_of>);
  constexpr std::string_view kPlace = "axis keepdims select_last_index";
  to["ArgMax"] = {place_of<false>, kPlace, 1, 1, 0, place_unread};
  to["ArgMin"] = {place_of<true>, kPlace, 1, 1, 0, place_unread};
  to["CumSum"] = {running_sum_of, "exclusive reverse", 2, 2, input_bit(1), running_sum_unread};
  to["TopK"] = {top_of, "axis largest sorted", 2, 2, input_bit(1), nullptr, 2};
}

}  // namespace wt::onnx
