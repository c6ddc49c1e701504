// Shapes, axes and index arithmetic.
#include "warptape/core/shape.h"

#include "warptape/tests/support/errors.h"

using namespace wt;

TEST_CASE("shape: sizes come from any integer without narrowing", "[wall][shape]") {
  const size_t n = 3;
  const u32 m = 4;
  CHECK(Shape{n, m, i64(5)} == Shape{3, 4, 5});
  CHECK(Shape(std::vector<int>{1, 2}) == Shape{1, 2});
  CHECK_THROWS_AS((Shape{~0ull}), ShapeError);
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{2, 3}) == "[2, 3]");
  static_assert(!std::is_convertible_v<bool, Dim> && !std::is_convertible_v<bool, Dims>);
  static_assert(!std::is_convertible_v<double, Dim>);
}

TEST_CASE("shape: insert, erase and the most dimensions", "[wall][shape]") {
  Shape s{2, 3};
  s.insert(0, 1);
  CHECK(s == Shape{1, 2, 3});
  s.insert(3, 4);
  CHECK(s == Shape{1, 2, 3, 4});
  s.erase(1);
  CHECK(s == Shape{1, 3, 4});
  Shape full{1, 1, 1, 1, 1, 1, 1, 1};
  CHECK_THROWS_AS(full.push_back(1), ShapeError);
}

TEST_CASE("shape: products and sums that overflow throw", "[wall][shape]") {
  CHECK(checked_mul(i64(1) << 31, i64(1) << 31) == i64(1) << 62);
  CHECK(mentions(message_of([] { (void)checked_mul(i64(1) << 32, i64(1) << 31, "the volume"); }),
                 "the volume overflows 64 bits"));
  CHECK_THROWS_AS(checked_add(INT64_MAX, 1), ShapeError);
  CHECK(numel_of({}) == 1);
  CHECK(numel_of({3, 0, 5}) == 0);
  // No elements, whatever the other sizes multiply to.
  CHECK(numel_of({i64(1) << 40, 0, i64(1) << 20}) == 0);
  CHECK_THROWS_AS(numel_of({2, -3}), ShapeError);
}

TEST_CASE("shape: axes count from either end and are checked", "[wall][shape]") {
  CHECK(normalize_axis("op", -1, 3) == 2);
  CHECK(normalize_axis("op", 0, 0) == 0);
  CHECK(normalize_axis("op", -1, 0) == 0);
  CHECK(mentions(message_of([] { normalize_axis("sum", 3, 3); }),
                 "[sum] axis 3 is outside [-3, 2] of a 3-dimensional tensor"));
  CHECK(axis_mask("op", {0, -1}, 3) == 0b101);
  CHECK(axis_mask("op", Dims::all(), 3) == 0b111);
  CHECK(axis_mask("op", {}, 3) == 0);  // {} reduces nothing
  CHECK(mentions(message_of([] { axis_mask("op", {1, -2}, 3); }), "named twice"));
  CHECK(reduced_shape({2, 3, 4}, 0b101, false) == Shape{3});
  CHECK(reduced_shape({2, 3, 4}, 0b101, true) == Shape{1, 3, 1});
}

TEST_CASE("shape: broadcasting is NumPy's", "[wall][shape]") {
  CHECK(broadcast_shapes("op", {2, 1, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(broadcast_shapes("op", {}, {3}) == Shape{3});
  CHECK(broadcast_shapes("op", {0}, {1}) == Shape{0});
  CHECK(mentions(message_of([] {
                   broadcast_shapes("add", {2, 3}, {2});
                 }),
                 "[add] shapes [2, 3] and [2] do not broadcast: 3 and 2 in dimension -1"));
  CHECK(contiguous_strides({2, 3, 4}) == Shape{12, 4, 1});
}
