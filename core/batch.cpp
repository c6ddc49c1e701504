#include "warptape/core/batch.h"

#include "warptape/core/error.h"

namespace wt::detail {

void check_rows(const Tensor& t, i64 rows) {
  if (t.ndim() > 0 && t.size(0) == rows) return;
  throw ShapeError(str(
      "[TrainStep] micro-batches are cut along the first axis of every tensor of a batch, which "
      "has ",
      rows, " samples\n  ", describe(t), "\n  Try a batch type with narrow(begin, n) of its own"));
}

}  // namespace wt::detail
