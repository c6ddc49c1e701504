// points: which mesh a cloud of points was taken from, by PointNet (Qi et al. 2016). A step sees a
// tenth of each cloud's points, drawn anew.
#include <cmath>
#include <numbers>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/core/random.h"
#include "warptape/data/mesh.h"
#include "warptape/data/point_subset.h"
#include "warptape/nn/pointnet.h"
#include "warptape/tools/wt/recipes/kept_names.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/recipes/shapes.h"

namespace wt::tools {
namespace {

constexpr double kJitter = 0.01;  // deviation, in radii of the sphere around a shape

// Clouds of each shape, turned and with noise, another way in each epoch.
class PointClouds {
 public:
  // `fixed`: as in epoch 0 whenever one is asked for.
  PointClouds(const Shapes& shapes, i64 clouds, i64 points, bool any_axis, u64 seed, bool fixed)
      : per_shape_(clouds), points_(points), any_axis_(any_axis), seed_(seed), fixed_(fixed) {
    std::vector<Tensor> all;
    for (size_t s = 0; s < shapes.meshes.size(); ++s)
      all.push_back(
          data::sample_surface(shapes.meshes[s], clouds * points, mix64(seed) + s).points);
    for (const Tensor& t : all)
      for (const float v : t.to_vector<float>()) places_.push_back(v);
  }

  i64 size() const { return i64(places_.size()) / (3 * points_); }
  data::Batch batch(std::span<const i64> indices, i64 epoch = 0) const {
    const i64 n = i64(indices.size());
    std::vector<i64> labels;
    Tensor x = empty({n, points_, 3}, {.dtype = DType::f32, .device = Device::cpu()});
    for (i64 k = 0; k < n; ++k) {
      labels.push_back(indices[size_t(k)] / per_shape_);
      turn(indices[size_t(k)], fixed_ ? 0 : epoch, x.mutable_data<float>() + k * points_ * 3);
    }
    return {x, tensor(labels, {.device = Device::cpu()})};
  }

 private:
  // A rotation of equal likelihood over all (Shoemake 1992), or around the y axis, from three
  // numbers of [0, 1).
  void rotation(const double (&u)[3], double (&r)[3][3]) const {
    constexpr double kTurn = 2 * std::numbers::pi;
    const double a = any_axis_ ? std::sqrt(1 - u[0]) : 0, b = any_axis_ ? std::sqrt(u[0]) : 1;
    const double x = a * std::sin(kTurn * u[1]),
                 y = any_axis_ ? a * std::cos(kTurn * u[1]) : std::sin(kTurn / 2 * u[2]),
                 z = any_axis_ ? b * std::sin(kTurn * u[2]) : 0,
                 w = any_axis_ ? b * std::cos(kTurn * u[2]) : std::cos(kTurn / 2 * u[2]);
    const double m[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)},
                            {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)},
                            {2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)}};
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) r[i][j] = m[i][j];
  }

  void turn(i64 cloud, i64 epoch, float* to) const {
    const PhiloxKey key = philox_key(seed_, RandomStream::augment, u64(cloud));
    const PhiloxBlock b = philox(key, 0, u64(epoch)), c = philox(key, 1, u64(epoch));
    double r[3][3];
    rotation({uniform53(b.v[0], b.v[1]), uniform53(b.v[2], b.v[3]), uniform53(c.v[0], c.v[1])}, r);
    const float* const from = places_.data() + cloud * points_ * 3;
    for (i64 p = 0; p < points_; ++p)
      for (int i = 0; i < 3; ++i) {
        double v = 0;
        for (int j = 0; j < 3; ++j) v += r[i][j] * from[3 * p + j];
        const PhiloxBlock n = philox(key, u64(2 + 3 * p + i), u64(epoch));
        const double u = uniform53(n.v[0], n.v[1]), angle = uniform53(n.v[2], n.v[3]);
        v += kJitter * std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * std::numbers::pi * angle);
        to[3 * p + i] = float(v);
      }
  }

  i64 per_shape_, points_;
  bool any_axis_;
  u64 seed_;
  bool fixed_;
  std::vector<float> places_;  // [shapes, clouds, points, 3]
};

class Points : public Recipe {
 public:
  explicit Points(Settings s)
      : shapes_(s.integer("shapes", 7, 2, 1000)),
        clouds_(s.integer("clouds", 64, 1, 1'000'000)),
        points_(s.integer("points", 2000, 10, 10'000'000)),
        part_{s.real("ratio", 0.1, 1e-6, 1)},
        any_axis_(s.choice("rotations", {"axis", "all"}) == "all"),
        net_({.classes = shapes_, .dropout = s.real("dropout", 0.3, 0, 0.9)}) {
    set_settings(s, "points");
  }

  nn::ModuleBase& model() override { return net_; }
  // x [N, points, 3]; in training a part of them.
  Tensor logits(const Tensor& x) override {
    const Tensor seen = net_.is_training() ? part_(x, 1) : x;
    return net_(seen.transpose(1, 2).contiguous()).output;
  }

  RecipeData load(const std::string& data) override {
    const Shapes shapes = read_shapes("points", data, shapes_);
    names_.keep(shapes.names);
    const u64 seed = generator().seed();
    // Held-out clouds are as large as what a step sees of one.
    return {PointClouds(shapes, clouds_, points_, any_axis_, seed, false),
            PointClouds(shapes, held_out_clouds(), part_.count(points_), any_axis_, kHeldOutSeed,
                        true)};
  }
  i64 dataset_bytes(const std::string& data) const override {
    check_shapes("points", data, shapes_);
    return shapes_ * (clouds_ * points_ + held_out_clouds() * part_.count(points_)) * 3 *
           item_size(DType::f32);
  }
  data::Batch shape_batch(i64 batch) const override {
    return {empty({batch, points_, 3}, {.dtype = DType::f32, .device = Device::meta()}),
            empty({batch}, {.dtype = DType::i64, .device = Device::meta()})};
  }
  RecipeDefaults defaults() const override {
    return {.batch = 16, .eval_batch = 32, .epochs = 10, .lr = 1e-3, .drop_last = true};
  }
  const char* item() const override { return "clouds"; }
  // Of the files, once they are known.
  std::vector<std::string> class_names() const override {
    std::vector<std::string> names = names_.shown();
    for (i64 i = 0; !names_.known() && i < shapes_; ++i) names.push_back(str("shape ", i));
    return names;
  }
  nn::Metadata kept() const override { return names_.kept(); }
  void take_kept(const nn::Metadata& kept, const std::string& path) override {
    names_.take(kept, path);
  }

 private:
  i64 held_out_clouds() const { return std::max<i64>(1, clouds_ / 2); }

  i64 shapes_, clouds_, points_;
  data::RandomPointSubset part_;
  bool any_axis_;
  models::PointNet net_;
  KeptNames names_{"classes", shapes_};
};

}  // namespace

std::unique_ptr<Recipe> make_points(Settings s) { return std::make_unique<Points>(std::move(s)); }

}  // namespace wt::tools
