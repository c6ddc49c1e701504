// sdf: signed distances of several shapes by one network, each shape by a vector that is learned
// with it (DeepSDF, Park et al. 2019). A step sees a tenth of the points of each, drawn anew.
#include <cmath>
#include <optional>

#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/image.h"
#include "warptape/data/mesh_distance.h"
#include "warptape/data/point_subset.h"
#include "warptape/nn/deep_sdf.h"
#include "warptape/nn/evaluate.h"
#include "warptape/tools/wt/data/contact_sheet.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/kept_names.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/recipes/shapes.h"

namespace wt::tools {
namespace {

constexpr i64 kHeldOutPoints = 2000;    // of each shape
constexpr i64 kSurfacePoints = 2000;    // by which two surfaces are compared
constexpr double kLatentWeight = 1e-4;  // of the latents' mean square
constexpr i64 kPictureSide = 240;

models::DeepSdf make_decoder(Settings& s, i64 shapes) {
  const i64 latent = s.integer("latent", 32, 1, 4096), width = s.integer("width", 128, 8, 8192);
  // A layer gets the input once more, and the one before it makes room for that.
  if (width <= latent + 3)
    throw UsageError(
        str("--set width=", width, " must be more than latent + 3, which is ", latent + 3));
  return models::DeepSdf({.shapes = shapes,
                          .latent = latent,
                          .width = width,
                          .layers = s.integer("layers", 6, 1, 64),
                          .latent_in = 3,
                          .dropout = 0,
                          .weight_norm = s.flag("weight_norm", false)});
}

class Sdf : public Recipe {
 public:
  explicit Sdf(Settings s)
      : shapes_(s.integer("shapes", 7, 1, 100'000)),
        points_(s.integer("points", 10'000, 10, 10'000'000)),
        part_{s.real("ratio", 0.1, 1e-6, 1)},
        clamp_(s.real("clamp", 0.1, 1e-6, 10)),
        grid_(s.integer("grid", 64, 4, 512)),
        net_(make_decoder(s, shapes_)) {
    set_settings(s, "sdf");
  }

  nn::ModuleBase& model() override { return net_; }
  // x [shapes, points, 4], x, y, z and a distance, which is not looked at.
  Tensor logits(const Tensor& x) override {
    return distances(arange(x.size(0), {.dtype = DType::i64, .device = x.device()}), x);
  }
  // b.y: which shapes they are.
  Loss loss(const data::Batch& b) override {
    const Tensor x = part_(b.x, 1), d = distances(b.y, x), want = slice(x, -1, {3, 4});
    // What is farther than `clamp` on the right side is right. DeepSDF's loss clamps d as well,
    // which stops learning where all of a beginning's distances are beyond it; here they are pulled
    // back.
    const Tensor low = where(le(want, -clamp_), -INFINITY, clamp(want, -clamp_, clamp_)),
                 high = where(ge(want, clamp_), INFINITY, clamp(want, -clamp_, clamp_));
    const Tensor latents = mean(square(net_.lat_vecs(b.y)));
    const double n = double(d.numel());
    return {sum(relu(low - d) + relu(d - high)) + latents * (kLatentWeight * n), n};
  }

  bool classifies() const override { return false; }
  std::vector<Measure> measures(const data::AnyDataset& held_out) override {
    double off = 0, right = 0, n = 0;
    const Device there = *wt::detail::device_of_model(net_);
    for (const data::Batch& b : data::Loader<data::AnyDataset>{held_out, {.batch = 1}}) {
      const std::vector<float> d = distances(b.y.to(there), b.x.to(there)).to_vector<float>(),
                               want = slice(b.x, -1, {3, 4}).to_vector<float>();
      for (size_t i = 0; i < d.size(); ++i) {
        const auto cut = [&](float v) { return std::clamp(double(v), -clamp_, clamp_); };
        off += std::fabs(cut(d[i]) - cut(want[i]));
        right += (d[i] < 0) == (want[i] < 0);
        n += 1;
      }
    }
    return {{"sdf_error", "mean distance error", off / n},
            {"wrong_side", "part on the wrong side", 1 - right / n}};
  }

  // The surface of each shape, beside the mesh that it was learned from.
  Outcome outcome(const data::AnyDataset&) override {
    Outcome o;
    std::vector<SheetCell> cells;
    double total = 0, worst = 0;
    for (i64 i = 0; i < shapes_; ++i) {
      const data::Mesh& mesh = read_.meshes[size_t(i)];
      const data::Mesh learned = surface(i);
      const std::string& name = read_.names[size_t(i)];
      const bool there = learned.faces.size(0) > learned.degenerate;
      // Of a network that has no surface yet: as far as the sphere is wide.
      const double apart = there ? surfaces_apart(mesh, learned) : 2;
      total += apart;
      worst = std::max(worst, apart);
      cells.push_back({str(name, ": mesh and learned, ", three_digits(apart), " apart"),
                       {mesh_picture(mesh, kPictureSide), mesh_picture(learned, kPictureSide)}});
      o.files.push_back({str("surface-", name, ".obj"), data::obj_text(learned)});
    }
    o.measures = {{"surface_distance", "mean distance of the surfaces", total / double(shapes_)},
                  {"worst_surface", "of the worst shape", worst}};
    o.files.push_back({"surfaces.png", data::png_of(contact_sheet(cells, kPictureSide))});
    o.files.push_back({"surfaces.html", contact_page("Learned surfaces",
                                                     {str("marching cubes over ", grid_,
                                                          "^3 distances; lengths in radii of the "
                                                          "sphere around each shape")},
                                                     cells, kPictureSide)});
    return o;
  }

  RecipeData load(const std::string& data) override {
    read_ = read_shapes("sdf", data, shapes_);
    names_.keep(read_.names);  // those that the latents are of
    std::vector<Tensor> train, held_out;
    const u64 seed = generator().seed();
    for (size_t i = 0; i < read_.meshes.size(); ++i) {
      const data::Mesh& m = read_.meshes[i];
      const data::MeshDistance distance(m);
      train.push_back(data::sample_distances(m, distance, {.points = points_, .seed = seed}));
      held_out.push_back(
          data::sample_distances(m, distance, {.points = kHeldOutPoints, .seed = kHeldOutSeed}));
    }
    const Tensor ids = arange(shapes_, {.dtype = DType::i64, .device = Device::cpu()});
    const data::TensorDataset all(stack(train, 0), ids);
    return {all, data::TensorDataset(stack(held_out, 0), ids), {}, [all](Device d) {
              std::vector<i64> every(size_t(all.size()));
              for (size_t i = 0; i < every.size(); ++i) every[i] = i64(i);
              const data::Batch b = all.batch(every);
              return data::AnyDataset(data::TensorDataset(b.x.to(d), b.y.to(d)));
            }};
  }
  i64 dataset_bytes(const std::string& data) const override {
    check_shapes("sdf", data, shapes_);
    return resident_bytes(data) + shapes_ * kHeldOutPoints * 4 * item_size(DType::f32);
  }
  i64 resident_bytes(const std::string&) const override {
    return shapes_ * (points_ * 4 * item_size(DType::f32) + item_size(DType::i64));
  }
  data::Batch shape_batch(i64 batch) const override {
    return {empty({batch, points_, 4}, {.dtype = DType::f32, .device = Device::meta()}),
            empty({batch}, {.dtype = DType::i64, .device = Device::meta()})};
  }
  RecipeDefaults defaults() const override {
    return {.batch = std::min<i64>(shapes_, 16),
            .eval_batch = 1,
            .steps = 2000,
            .lr = 2e-3,
            .weight_decay = 0,
            .clip = 0,
            .warmup = 20};
  }
  const char* item() const override { return "points"; }
  nn::Metadata kept() const override { return names_.kept(); }
  void take_kept(const nn::Metadata& kept, const std::string& path) override {
    names_.take(kept, path);
  }
  i64 items_per_sample() const override { return part_.count(points_); }
  double eval_cost() const override {
    return double(kHeldOutPoints) / double(items_per_sample()) / 3;
  }

 private:
  // ids [shapes], x [shapes, points, 3 or more]: [shapes, points, 1]
  Tensor distances(const Tensor& ids, const Tensor& x) {
    const i64 shapes = x.size(0), points = x.size(1);
    const Tensor latents = net_.lat_vecs(ids).reshape({shapes, 1, -1});
    const Tensor each = expand(latents, {shapes, points, latents.size(2)});
    return net_
        .decode(each.reshape({shapes * points, -1}),
                slice(x, -1, {0, 3}).reshape({shapes * points, 3}))
        .reshape({shapes, points, 1});
  }

  // A slab of the grid at a time.
  data::Mesh surface(i64 shape) {
    const Device d = *wt::detail::device_of_model(net_);
    const Tensor id = full({1}, shape, {.dtype = DType::i64, .device = d});
    std::vector<float> values;
    for (i64 i = 0; i < grid_; ++i) {
      std::vector<float> at;
      const auto place = [&](i64 k) { return float(-1 + 2 * double(k) / double(grid_ - 1)); };
      for (i64 j = 0; j < grid_; ++j)
        for (i64 k = 0; k < grid_; ++k) at.insert(at.end(), {place(i), place(j), place(k)});
      const Tensor x = tensor(at, {.device = Device::cpu()}).reshape({1, grid_ * grid_, 3});
      const std::vector<float> slab = distances(id, x.to(d)).to_vector<float>();
      values.insert(values.end(), slab.begin(), slab.end());
    }
    return data::marching_cubes(
        tensor(values, {.device = Device::cpu()}).reshape({grid_, grid_, grid_}));
  }

  // Mean distance of either's points from the other: half of what is called the chamfer distance.
  static double surfaces_apart(const data::Mesh& a, const data::Mesh& b) {
    const auto from = [](const data::Mesh& points, const data::Mesh& to) {
      const Tensor p = data::sample_surface(points, kSurfacePoints).points;
      return mean(abs(data::MeshDistance(to)(p))).item();
    };
    return (from(a, b) + from(b, a)) / 2;
  }

  i64 shapes_, points_;
  data::RandomPointSubset part_;
  double clamp_;
  i64 grid_;
  models::DeepSdf net_;
  Shapes read_;  // by load()
  KeptNames names_{"shapes", shapes_};
};

}  // namespace

std::unique_ptr<Recipe> make_sdf(Settings s) { return std::make_unique<Sdf>(std::move(s)); }

}  // namespace wt::tools
