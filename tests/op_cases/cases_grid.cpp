// Rows of the operators on grids of places.
#include "warptape/autograd/ops/grid.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

double pixel_place(i64 i, i64 n, bool corners) {
  if (!corners) return double(2 * i + 1) / double(n) - 1;
  return n > 1 ? 2 * double(i) / double(n - 1) - 1 : 0;
}

void add_affine_grid(std::vector<OpCase>& rows) {
  OpCase c{"affine_grid", {}, kFloats};
  struct Case {
    Shape size;
    bool corners = false;
  };
  for (const Case& k : {Case{{2, 1, 3, 4}}, Case{{3, 2, 2, 5}, true}, Case{{1, 1, 2, 3, 4}},
                        Case{{2, 1, 3, 1}, true}, Case{{2, 1, 4, 2, 3}, true}, Case{{0, 1, 3, 2}},
                        Case{{1, 0, 31, 7}}}) {
    const i64 axes = k.size.ndim() - 2;
    std::string sizes;
    for (const i64 n : k.size) sizes += str(n, ", ");
    c.samples.push_back(one_input(
        str("F.affine_grid(a, (", sizes, "), align_corners=", k.corners ? "True)" : "False)"),
        {k.size[0], axes, axes + 1},
        [k](const Tensor& t) { return affine_grid(t, k.size, {.align_corners = k.corners}); },
        [k, axes](const std::vector<Array>& in) {
          Array r;
          r.shape = {k.size[0]};
          for (i64 d = 0; d < axes; ++d) r.shape.push_back(k.size[int(d) + 2]);
          r.shape.push_back(axes);
          for (i64 e = 0; e < count(r.shape); ++e) {
            const Place i = unravel(e, r.shape);
            double v = at(in[0], {i[0], i.back(), axes}), m = std::fabs(v);
            for (i64 d = 0; d < axes; ++d) {
              const i64 axis = axes - d, n = k.size[int(axis) + 1];
              const double t = at(in[0], {i[0], i.back(), d});
              v += t * pixel_place(i[size_t(axis)], n, k.corners);
              m += 2 * std::fabs(t);
            }
            r.v.push_back(v), r.magnitude.push_back(m);
          }
          r.terms = kTermsOfFormula + 4 + (count(k.size) > 0 ? double(count(r.shape)) : 0);
          return r;
        }));
    if (count(k.size) == 0) c.samples.back().torch.clear();
  }
  const auto of = [](const Shape& size) {
    return [size](const Tensor& t) { return affine_grid(t, size); };
  };
  c.errors = {
      undefined_input("affine_grid", of({1, 1, 2, 2})),
      fails<ShapeError>("rank", "[affine_grid] the size must be {N, C, H, W} or {N, C, D, H, W}",
                        {1, 2, 3}, of({1, 2, 2})),
      fails<ShapeError>("theta", "[affine_grid] theta must be [2, 2, 3] for size [2, 1, 4, 4]",
                        {1, 2, 3}, of({2, 1, 4, 4})),
      fails<ShapeError>("negative", "[affine_grid] a negative size", {1, 2, 3}, of({1, 1, -1, 4})),
      fails<ShapeError>("empty", "[affine_grid] axis 3 of the size has no elements", {1, 2, 3},
                        of({1, 1, 4, 0})),
      fails<DtypeError>("integers",
                        "[affine_grid] expected a floating dtype that computes, got i64", {1, 2, 3},
                        [](const Tensor& t) {
                          return affine_grid(t.to(DType::i64), {1, 1, 2, 2});
                        })};
  rows.push_back(std::move(c));
}

void add_grid_cases(std::vector<OpCase>& rows) { add_affine_grid(rows); }

const CaseFile file{add_grid_cases};

}  // namespace
}  // namespace wt_test
