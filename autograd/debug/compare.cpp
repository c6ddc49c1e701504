#include "warptape/autograd/compare.h"

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"

namespace wt {
namespace info {
constexpr OpInfo equal{
    .name = "equal", .derivative = Derivative::none, .data_dependent = true, .composite = true};
constexpr OpInfo allclose{
    .name = "allclose", .derivative = Derivative::none, .data_dependent = true, .composite = true};
}  // namespace info

namespace {

void check_values(const OpScope& s) {
  if (s.device().is_meta) s.fail<PlacementError>("a meta tensor has no values");
}

// The same values, and no two of them made equal, in a dtype that computes.
Tensor computing(const Tensor& x) {
  if (computes(x.dtype())) return x;
  return x.to(is_floating(x.dtype()) ? f32 : DType::i64);
}

bool all_of(const OpScope& s, const Tensor& each) { return all(each).item(s.frame()) != 0; }

}  // namespace

bool equal(const In& a, const In& b) {
  const CompositeScope s(info::equal, a, b);
  check_values(s);
  const NoGrad no_grad;
  if (s.dtype(0) != s.dtype(1) || !same_shape(s.geometry(0), s.geometry(1))) return false;
  return all_of(s, eq(computing(s.operand(0)), computing(s.operand(1))));
}

bool allclose(const In& a, const In& b, const AllcloseOptions& o) {
  const CompositeScope s(info::allclose, a, b, Types::same);
  check_values(s);
  if (!(o.rtol >= 0) || !(o.atol >= 0))
    s.fail<UsageError>(str("rtol and atol must be at least 0, got ", o.rtol, " and ", o.atol));
  broadcast_operands(s, shape_of(s.geometry(0)), shape_of(s.geometry(1)));
  const NoGrad no_grad;
  return all_of(s, isclose(s.operand(0), s.operand(1), o));
}

}  // namespace wt
