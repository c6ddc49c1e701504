// A leading dimension describes the same elements as the strides did, and is never below a line.
#include "warptape/kernels/matmul/leading_dimension.h"

#include "warptape/tests/support/catch.h"

using namespace wt;

TEST_CASE("leading_dimension: the same elements, whatever the stride of an axis of one") {
  int looked_at = 0;
  for (i64 rows : {1, 2, 5})
    for (i64 columns : {1, 2, 4})
      for (i64 row : {1, 2, 4, 5, 7})
        for (i64 column : {1, 2, 4, 5, 7}) {
          // As kernels/matmul.h promises: one unit stride, lines that do not overlap.
          const bool by_rows = column == 1 || columns == 1, by_columns = row == 1 || rows == 1;
          const bool apart = (by_rows && (row >= columns || rows == 1)) ||
                             (by_columns && (column >= rows || columns == 1));
          if (!apart) continue;
          ++looked_at;
          const LeadingDimension d = leading_dimension(rows, columns, row, column);
          INFO(rows << " x " << columns << ", strides " << row << ", " << column);
          CHECK(d.lead >= (d.transposed ? rows : columns));
          for (i64 i = 0; i < rows; ++i)
            for (i64 j = 0; j < columns; ++j)
              CHECK((d.transposed ? i + j * d.lead : i * d.lead + j) == i * row + j * column);
        }
  CHECK(looked_at > 50);
}

TEST_CASE("leading_dimension: the weight of nn::Linear{1, 4}, transposed") {
  const LeadingDimension d = leading_dimension(1, 4, 1, 1);
  CHECK_FALSE(d.transposed);
  CHECK(d.lead == 4);
}
