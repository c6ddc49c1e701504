// Burgers' equation u_t + u u_x = nu u_xx on x in [-1, 1], t in [0, 1], u(0, x) = -sin(pi x),
// u(t, -1) = u(t, 1) = 0, nu = 0.01 / pi: the problem that Raissi et al. (2019) begin with.
#pragma once
#include <string>
#include <vector>

#include "warptape/data/combine.h"
#include "warptape/data/loader.h"

namespace wt::tools {

inline constexpr double kViscosity = 0.01 / 3.14159265358979323846;

// A solution on a grid.
struct BurgersField {
  std::vector<double> x, t;  // ascending
  std::vector<double> u;     // [x, t]
  double at(size_t ix, size_t it) const { return u[ix * t.size() + it]; }
};

// x.npy [nx], t.npy [nt] and u.npy [nx, nt] in a folder, f64 or f32. Throws DataError that says
// what was expected: for what is missing or has another shape, and for axes that leave the domain
// or do not ascend.
BurgersField read_burgers(const std::string& folder);
// Computed from Cole's and Hopf's formula, on 256 x 100 points at times 0, 0.01, ..., 0.99; within
// 1e-10 of the exact solution. Computed once: ten million exponentials.
const BurgersField& exact_burgers();
// How many values of u that folder, or exact_burgers(), has, by x.npy and t.npy alone.
i64 burgers_values(const std::string& data);

// Points (x, s), s = 2 t - 1, so that both axes are [-1, 1]: a Latin hypercube of `points` points,
// another one for each epoch. y is 0 [n, 1]: what the residual should be.
class CollocationPoints {
 public:
  CollocationPoints(i64 points, u64 seed, DType dtype);
  i64 size() const { return points_; }
  data::Batch batch(std::span<const i64> indices, i64 epoch = 0) const;

 private:
  i64 points_;
  u64 seed_;
  DType dtype_;
};

// (x, s) and u of the field's grid as samples, in the order of u.
data::TensorDataset field_samples(const BurgersField& f, DType dtype);
// The field that such samples are of.
BurgersField field_of(const data::AnyDataset& samples);

}  // namespace wt::tools
