#include "warptape/tools/wt/grade/ops.h"

#include <iterator>

#include "warptape/core/error.h"
#include "warptape/core/suggest.h"
#include "warptape/tests/tolerance.h"
#include "warptape/tools/grade/contracts.h"

namespace wt::grade {
namespace {

constexpr const char* kContracts[] = {
#define WT_NAME(contract, ...) #contract,
    WT_GRADED_CONTRACTS(WT_NAME)
#undef WT_NAME
};

template <class Args>
i64 bytes_of(const Case& c, const View* v) {
  return ArgsOf<Args>::make(c, v).bytes();
}
constexpr i64 (*kBytes[])(const Case&, const View*) = {
#define WT_BYTES(contract, ...) bytes_of<__VA_ARGS__>,
    WT_GRADED_CONTRACTS(WT_BYTES)
#undef WT_BYTES
};

}  // namespace

const std::vector<GradedOp>& graded_ops() {
  static const std::vector<GradedOp> all = [] {
    std::vector<GradedOp> list;
    add_pointwise_ops(list);
    add_reduction_ops(list);
    add_row_ops(list);
    add_matmul_ops(list);
    add_norm_ops(list);
    add_channel_norm_ops(list);
    add_optimizer_ops(list);
    add_conv_ops(list);
    add_image_ops(list);
    add_bias_gelu_ops(list);
    return list;
  }();
  return all;
}

std::vector<std::string> graded_op_names() {
  std::vector<std::string> names;
  for (const GradedOp& op : graded_ops()) names.push_back(op.name);
  return names;
}

const GradedOp& graded_op(const std::string& name) {
  for (const GradedOp& op : graded_ops())
    if (op.name == name) return op;
  std::string list;
  for (const std::string& n : graded_op_names()) list += (list.empty() ? "" : ", ") + n;
  throw UsageError(str("'", printable(name), "' is no operator that is graded (", list, ")",
                       did_you_mean(name, graded_op_names())));
}

std::vector<Plan> row_plans(Draws& d, const RowPlans& which) {
  std::vector<Plan> all;
  const auto add = [&](i64 rows, i64 columns, Values values) {
    all.push_back({.sizes = {rows, columns}, .values = values, .flag = which.flag});
  };
  const Values usual = which.usual;
  add(5, 33, usual);
  add(1, 1, usual), add(3, 1, usual), add(1, d.odd(3, 29), usual), add(d.odd(2, 9), 32, usual);
  add(d.whole(2, 6), d.odd(101, 249), usual), add(2, d.odd(259, 700), usual);
  add(d.odd(65, 99), d.odd(5, 15), usual), add(2, d.odd(1025, 1300), which.wide);
  add(1, d.odd(2049, 5999), which.wide);
  add(0, 5, usual);
  if (which.empty_rows) add(3, 0, usual);
  if (which.large) add(4, d.odd(21, 61), Values::large);
  if (which.special) add(7, d.odd(35, 45), Values::special);
  for (const DType t : {DType::f16, DType::bf16, DType::f64})
    for (const i64 columns : {d.odd(33, 39), d.odd(300, 500)})
      add_optional(all, {.dtype = t,
                         .sizes = {3, columns},
                         .values = is_half(t) && columns > 100 ? Values::ramp : usual,
                         .flag = which.flag});
  for (const Lie lie : {Lie::offset, Lie::swapped, Lie::spread, Lie::padded})
    add_optional(all,
                 {.sizes = {5, d.whole(34, 44)}, .lie = lie, .values = usual, .flag = which.flag});
  return all;
}

void add_optional(std::vector<Plan>& plans, Plan plan) {
  plan.required = false;
  plans.push_back(std::move(plan));
}

std::string label_of(const Plan& plan, const std::string& more) {
  std::string text = dtype_name(plan.dtype);
  text += " " + to_string(Shape(plan.sizes));
  if (!more.empty()) text += ", " + more;
  if (plan.lie != Lie::dense) text += str(", ", lie_name(plan.lie));
  switch (plan.values) {
    case Values::large:
      return text + ", values to 100";
    case Values::shifted:
      return text + ", values near 1000";
    case Values::special:
      return text + ", with NaN and infinities";
    case Values::whole:
      return text + ", whole numbers";
    case Values::ramp:
    case Values::usual:
      break;
  }
  return text;
}

i32 contract_number(const std::string& contract) {
  for (size_t i = 0; i < std::size(kContracts); ++i)
    if (contract == kContracts[i]) return i32(i);
  throw InternalError("[grade] no contract " + contract);
}

i64 contract_bytes(const Case& c) {
  View views[kMostOperands];
  // Some contracts ask whether a pointer is null.
  static char somewhere;
  for (int i = 0; i < c.operands; ++i)
    if (c.operand[i].there()) views[i] = {&somewhere, &c.operand[i].geometry};
  return kBytes[c.contract](c, views);
}

double bound_of(const Operand& result, DType compute, double terms, double want, double magnitude) {
  return wt_test::value_bound(result.dtype, compute, terms, want, magnitude);
}

}  // namespace wt::grade
