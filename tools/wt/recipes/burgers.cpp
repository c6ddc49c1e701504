#include "warptape/tools/wt/recipes/burgers.h"

#include <cmath>
#include <filesystem>
#include <numbers>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/permutation.h"
#include "warptape/core/philox.h"
#include "warptape/data/npz.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;
constexpr size_t kPlaces = 256, kTimes = 100;  // of exact_burgers()
constexpr const char* kWanted =
    "\n  Expected x.npy [nx], t.npy [nt] and u.npy [nx, nt]: u at place x in [-1, 1] and time t in "
    "[0, 1]\n  Try --data synthetic, which computes them";

Tensor numbers_in(const std::string& folder, const char* name) {
  const std::string path = (fs::path(folder) / name).string();
  std::error_code ec;
  if (!fs::exists(path, ec)) throw DataError(str(printable_path(path), ": is not there", kWanted));
  const Tensor t = data::read_npy(path);
  if (t.dtype() != DType::f64 && t.dtype() != DType::f32)
    throw DataError(str(printable_path(path), ": is ", dtype_name(t.dtype()),
                        ", expected f64 or f32", kWanted));
  return t;
}

// One axis: what is not one number after the other (columns are, too) has another length than 1.
std::vector<double> axis_in(const std::string& folder, const char* name, double low, double high) {
  const Tensor t = numbers_in(folder, name);
  const std::string path = printable_path((fs::path(folder) / name).string());
  if (t.numel() < 2 || t.shape().size() > 2 ||
      (t.shape().size() == 2 && t.size(0) != 1 && t.size(1) != 1))
    throw DataError(str(path, ": has the shape ", t.shape(), kWanted));
  std::vector<double> v = t.to_vector<double>();
  for (size_t i = 0; i < v.size(); ++i)
    if (!(v[i] >= low && v[i] <= high) || (i > 0 && v[i] <= v[i - 1]))
      throw DataError(str(path, ": element ", i, " is ", v[i], ", expected ascending numbers from ",
                          low, " to ", high, kWanted));
  return v;
}

// u(x, t) by the trapezoidal rule, which converges exponentially for what falls off as exp(-z^2):
// the integrals over the line that the heat equation's solution makes of the initial values.
// Numbers up to exp(1 / (2 pi nu)) = exp(50).
double cole_hopf(double x, double t) {
  constexpr double pi = std::numbers::pi, kReach = 14;
  constexpr int kSteps = 400;
  const double width = std::sqrt(4 * kViscosity * t);
  double above = 0, below = 0;
  for (int k = 0; k <= kSteps; ++k) {
    const double z = -kReach + 2 * kReach * k / kSteps, y = x - width * z;
    const double w = std::exp(-z * z - (std::cos(pi * y) + 1) / (2 * pi * kViscosity));
    above -= std::sin(pi * y) * w;
    below += w;
  }
  return above / below;
}

}  // namespace

BurgersField read_burgers(const std::string& folder) {
  BurgersField f{axis_in(folder, "x.npy", -1, 1), axis_in(folder, "t.npy", 0, 1), {}};
  const Tensor u = numbers_in(folder, "u.npy");
  const std::string path = printable_path((fs::path(folder) / "u.npy").string());
  if (u.shape() != Shape{i64(f.x.size()), i64(f.t.size())})
    throw DataError(str(path, ": has the shape ", u.shape(), ", expected [", f.x.size(), ", ",
                        f.t.size(), "] as x.npy and t.npy have elements", kWanted));
  f.u = u.to_vector<double>();
  for (size_t i = 0; i < f.u.size(); ++i)
    if (!std::isfinite(f.u[i]))
      throw DataError(str(path, ": element ", i, " is ", f.u[i], ", expected a finite number"));
  return f;
}

i64 burgers_values(const std::string& data) {
  if (data == kSyntheticData) return i64(kPlaces * kTimes);
  return i64(axis_in(data, "x.npy", -1, 1).size() * axis_in(data, "t.npy", 0, 1).size());
}

static BurgersField compute_burgers() {
  BurgersField f;
  for (size_t i = 0; i < kPlaces; ++i) f.x.push_back(-1 + 2 * double(i) / (kPlaces - 1));
  for (size_t k = 0; k < kTimes; ++k) f.t.push_back(double(k) / 100);
  for (const double x : f.x)
    for (const double t : f.t)
      f.u.push_back(t == 0 ? -std::sin(std::numbers::pi * x) : cole_hopf(x, t));
  return f;
}

const BurgersField& exact_burgers() {
  static const BurgersField field = compute_burgers();
  return field;
}

CollocationPoints::CollocationPoints(i64 points, u64 seed, DType dtype)
    : points_(points), seed_(seed), dtype_(dtype) {}

// Point i lies in the i-th of as many columns, and in the row that a permutation says, each
// uniformly within: what is near in place is not near in time.
data::Batch CollocationPoints::batch(std::span<const i64> indices, i64 epoch) const {
  const PhiloxKey key = philox_key(seed_, RandomStream::augment, 0);
  const PermutationKey rows = permutation_key(seed_, u64(epoch));
  std::vector<double> p;
  for (const i64 i : indices) {
    const PhiloxBlock b = philox(key, u64(i), u64(epoch));
    p.push_back(-1 + 2 * (double(i) + uniform53(b.v[0], b.v[1])) / double(points_));
    p.push_back(-1 + 2 * (double(permute(rows, u64(i), u64(points_))) + uniform53(b.v[2], b.v[3])) /
                         double(points_));
  }
  const TensorOptions host{.dtype = dtype_, .device = Device::cpu()};
  const i64 n = i64(indices.size());
  return {tensor(p, host).reshape({n, 2}), zeros({n, 1}, host)};
}

data::TensorDataset field_samples(const BurgersField& f, DType dtype) {
  std::vector<double> places;
  for (const double x : f.x)
    for (const double t : f.t) places.insert(places.end(), {x, 2 * t - 1});
  const TensorOptions host{.dtype = dtype, .device = Device::cpu()};
  return {tensor(places, host).reshape({-1, 2}), tensor(f.u, host).reshape({-1, 1})};
}

BurgersField field_of(const data::AnyDataset& samples) {
  BurgersField f;
  double last = NAN;
  for (const data::Batch& b : data::Loader<data::AnyDataset>{samples, {.batch = 8192}}) {
    const std::vector<double> p = b.x.to_vector<double>(), u = b.y.to_vector<double>();
    for (size_t i = 0; i < u.size(); ++i) {
      if (p[2 * i] != last) f.x.push_back(last = p[2 * i]);
      if (f.x.size() == 1) f.t.push_back((p[2 * i + 1] + 1) / 2);
    }
    f.u.insert(f.u.end(), u.begin(), u.end());
  }
  return f;
}

}  // namespace wt::tools
