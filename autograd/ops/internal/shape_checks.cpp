#include "warptape/autograd/ops/internal/shape_checks.h"

namespace wt {

Shape broadcast_operands(const OpScope& s, const Shape& a, const Shape& b) {
  try {
    return broadcast_shapes("", a, b);
  } catch (const ShapeError&) {
    s.fail<ShapeError>(str("shapes ", a, " and ", b, " do not broadcast"));
  }
}

}  // namespace wt
