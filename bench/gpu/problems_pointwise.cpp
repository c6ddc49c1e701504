// Every entry of the pointwise list: how it is called, and what it reads and writes.
#include <cstddef>
#include <cstring>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/bench/gpu/launched.h"
#include "warptape/core/str.h"
#include "warptape/kernels/pointwise.h"

namespace wt::bench {
namespace {

using Tensors = std::vector<Tensor>;
using Run = std::function<Tensor(const Tensors&)>;

// What an entry's operands are drawn from: of others it is NaN.
Fill fill_of(const std::string& name) {
  for (const char* entry : {"log", "sqrt", "rsqrt", "pow"})
    if (name.starts_with(entry) && !name.starts_with("logical")) return Fill::positive;
  for (const char* entry : {"acos", "asin", "atanh"})
    if (name == entry) return Fill::within_one;
  return name == "acosh" ? Fill::above_one : Fill::normal;
}
std::vector<Fill> same_fills(const std::string& name, size_t count) {
  return std::vector<Fill>(count, fill_of(name));
}

CallRow pointwise_row(std::vector<std::string> contracts, std::vector<Fill> fills, Run run) {
  const auto call = [fills, run](const Shape& s) {
    Call c{str(s[0], "x", s[1]), {}, run};
    for (Fill f : fills) c.given.push_back({s, f});
    return c;
  };
  return {std::move(contracts), {DType::f32, DType::bf16},
          {{3, 1031}},          {{4096, 4096}},
          {{8192, 8192}},       call};
}
using Unary = Tensor (*)(const In&);
CallRow entry_row(const std::string& name, Unary f, bool fused) {
  std::vector<std::string> contracts{name};
  if (fused) contracts.push_back(name + "_backward");
  return pointwise_row(contracts, same_fills(name, 1), [f](const Tensors& in) { return f(in[0]); });
}
using Binary = Tensor (*)(const Operand&, const Operand&);
CallRow entry_row(const std::string& name, Binary f, bool fused) {
  std::vector<std::string> contracts{name};
  if (fused) contracts.insert(contracts.end(), {name + "_backward_a", name + "_backward_b"});
  return pointwise_row(contracts, same_fills(name, 2),
                       [f](const Tensors& in) { return f(in[0], in[1]); });
}

// The same call of integers, which bit operations take alone.
void take_integers(CallRow& row) {
  row.dtypes = {DType::i64};
  row.call = [floats = row.call](const Shape& s) {
    Call c = floats(s);
    for (Given& g : c.given) g = {g.shape, Fill::index, 60};
    return c;
  };
}

}  // namespace

void add_pointwise_call_rows(std::vector<CallRow>& rows) {
#define WT_ENTRY_ROW(fused, name, F)                 \
  rows.push_back(entry_row(#name, wt::name, fused)); \
  if (!pw::has_floats(pw::F::kDomain)) take_integers(rows.back());
  WT_POINTWISE_UNARY(WT_ENTRY_ROW, true)
  WT_POINTWISE_UNARY_PLAIN(WT_ENTRY_ROW, false)
  WT_POINTWISE_BINARY(WT_ENTRY_ROW, true)
  WT_POINTWISE_BINARY_PLAIN(WT_ENTRY_ROW, false)
#undef WT_ENTRY_ROW
  const auto add = [&](const char* name, Run run) {
    rows.push_back(pointwise_row({name, str(name, "_backward")}, {Fill::normal}, std::move(run)));
  };
  add("clamp", [](const Tensors& in) { return clamp(in[0], -1, 1); });
  add("elu", [](const Tensors& in) { return elu(in[0]); });
  add("leaky_relu", [](const Tensors& in) { return leaky_relu(in[0]); });
  add("nan_to_num", [](const Tensors& in) { return nan_to_num(in[0]); });
  add("softplus", [](const Tensors& in) { return softplus(in[0]); });
  rows.push_back(pointwise_row({"lerp"}, {Fill::normal, Fill::normal, Fill::normal},
                               [](const Tensors& in) { return lerp(in[0], in[1], in[2]); }));
  rows.push_back(pointwise_row({"where"}, {Fill::truth, Fill::normal, Fill::normal},
                               [](const Tensors& in) { return where(in[0], in[1], in[2]); }));
}

// Their arguments begin with the views; behind these are numbers.
template <int kArity>
static void list_pointwise(void* args, Operands& o) {
  View* const views = static_cast<View*>(args);
  o.out(views[0]);
  for (int i = 1; i <= kArity; ++i) o.in(views[i]);
}
template <class F>
static constexpr ListOperands list_of(const PointwiseArgs<F>*) {
  static_assert(offsetof(PointwiseArgs<F>, scalar) == (1 + F::kArity) * sizeof(View));
  return list_pointwise<F::kArity>;
}

void add_pointwise_launchers(Launchers& to) {
#define WT_POINTWISE_LAUNCHER(contract, Args) \
  {&ContractTable<Args>::erased, list_of(static_cast<const Args*>(nullptr))},
  static constexpr Launchers::Row kRows[] = {WT_POINTWISE_CONTRACTS(WT_POINTWISE_LAUNCHER)};
#undef WT_POINTWISE_LAUNCHER
  for (const Launchers::Row& row : kRows) to.add(row);
}

}  // namespace wt::bench
