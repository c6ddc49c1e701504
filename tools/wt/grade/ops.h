// The operators that are graded: what they are asked for, and the right results, in f64 from the
// formula of the contract. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/grade/problem.h"

namespace wt::grade {

// What is asked of the counted launch beyond right values: how it is computed.
struct Demands {
  double most_asked = 0;      // bytes of all sectors, by the contract's; 0: as many as it likes
  double most_touched = 0;    // the same of different sectors
  bool tensor_cores = false;  // its products are theirs
};

struct GradedOp {
  std::string name;  // of --op
  std::string contract;
  std::string header;  // where the contract is written
  std::string about;
  std::vector<Plan> (*plans)(Draws& draws);
  // Operands and numbers of one launch, with fresh values; equal layouts for equal plans.
  Problem (*make)(const Plan& plan, Draws& draws);
  void (*solve)(Problem& p);  // want and bound of what is written
  Plan score{};               // the launch whose accesses are counted
  Demands demands{};
};

const std::vector<GradedOp>& graded_ops();
std::vector<std::string> graded_op_names();
// UsageError with the near name.
const GradedOp& graded_op(const std::string& name);

// Adders of the families, in ops_*.cpp.
void add_row_ops(std::vector<GradedOp>& to);
void add_reduction_ops(std::vector<GradedOp>& to);
void add_pointwise_ops(std::vector<GradedOp>& to);
void add_matmul_ops(std::vector<GradedOp>& to);
void add_norm_ops(std::vector<GradedOp>& to);
void add_channel_norm_ops(std::vector<GradedOp>& to);
void add_optimizer_ops(std::vector<GradedOp>& to);
void add_conv_ops(std::vector<GradedOp>& to);
void add_image_ops(std::vector<GradedOp>& to);
void add_bias_gelu_ops(std::vector<GradedOp>& to);

// --- for the families ---
// Launches of an operator on rows [rows, columns]: required ones of f32, contiguous, at the ends of
// what there is (none, one, less than a warp, a tail, many rows); others of further dtypes and
// layouts.
struct RowPlans {
  bool empty_rows = true;  // rows of no elements are asked for
  bool special = true;     // NaN and infinities are
  bool large = true;       // values whose exponentials overflow are
  Values usual = Values::usual;
  Values wide = Values::usual;  // of rows of more than a thousand
  int flag = 0;
};
std::vector<Plan> row_plans(Draws& draws, const RowPlans& which = {});
// Further launches, which may be refused.
void add_optional(std::vector<Plan>& plans, Plan plan);

std::string label_of(const Plan& plan, const std::string& more = "");
i32 contract_number(const std::string& contract);
// Bytes that the contract says are moved, of a problem that is laid out.
i64 contract_bytes(const Case& c);

// Half a unit in the last place of the result, and `terms` roundings of what it is computed in,
// relative to magnitude: tests/tolerance.h has the rule.
double bound_of(const Operand& result, DType compute, double terms, double want, double magnitude);

}  // namespace wt::grade
