// pinn: Burgers' equation by a network whose loss is made of its own derivatives (Raissi et al.
// 2019). The values at t = 0 and at the ends are exact by construction, so that the residual is all
// there is to learn; steps of Adam see a random part of the collocation points, then rounds of
// L-BFGS each take points anew where the residual is large (both as Wu et al. 2023,
// arXiv:2207.10289).
#include <cmath>
#include <numbers>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/image.h"
#include "warptape/data/point_subset.h"
#include "warptape/nn/evaluate.h"
#include "warptape/nn/pinn.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/field_page.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

models::Pinn make_field(i64 layers, i64 width, DType dtype) {
  std::vector<i64> features(size_t(layers) + 1, width);
  features.front() = 2;
  features.push_back(1);
  models::Pinn net({.features = std::move(features)});
  net.to(dtype);
  return net;
}

class Pinn : public Recipe {
 public:
  explicit Pinn(Settings s)
      : dtype_(s.choice("dtype", {"f64", "f32"}) == "f64" ? DType::f64 : DType::f32),
        points_(s.integer("points", 10'000, 100, 10'000'000)),
        part_{s.real("ratio", 0.1, 1e-6, 1)},
        rounds_{s.integer("rounds", 5, 0, 1'000'000), s.integer("iterations", 2000, 1, 1'000'000)},
        round_part_{s.real("round_ratio", 0.5, 1e-6, 1)} {
    const i64 layers = s.integer("layers", 4, 1, 64), width = s.integer("width", 20, 1, 4096);
    net_ = make_field(layers, width, dtype_);
    set_settings(s, "pinn");
  }

  nn::ModuleBase& model() override { return *net_; }
  Tensor logits(const Tensor& x) override { return field(x); }
  Loss loss(const data::Batch& b) override { return residual_loss(part_(b.x)); }

  LbfgsRounds rounds() const override { return rounds_; }
  // Points are drawn in proportion to 1 and their residual in units of its mean: all of the domain
  // stays seen, and the front that forms at x = 0 is seen most.
  data::Batch round_batch(const data::Batch& b) override {
    const i64 n = round_part_.count(b.size());
    // In parts of what the round itself will take.
    std::vector<Tensor> parts;
    for (i64 i = 0; i < b.size(); i += n)
      parts.push_back(abs(residual(b.x.narrow(0, i, std::min(n, b.size() - i))).detach()));
    const Tensor r = cat(parts, 0).reshape({-1});
    const Tensor at = multinomial(r / mean(r) + 1, n);
    return {b.x.index_select(0, at), b.y.index_select(0, at)};
  }
  Loss round_loss(const data::Batch& b) override { return residual_loss(b.x); }

  bool classifies() const override { return false; }
  std::vector<Measure> measures(const data::AnyDataset& held_out) override {
    std::vector<double> want;
    const std::vector<double> u = predict(held_out, &want);
    return measures_of(u, want);
  }
  static std::vector<Measure> measures_of(const std::vector<double>& u,
                                          const std::vector<double>& want) {
    double off = 0, all = 0, most = 0;
    for (size_t i = 0; i < u.size(); ++i) {
      off += (u[i] - want[i]) * (u[i] - want[i]);
      all += want[i] * want[i];
      most = std::max(most, std::fabs(u[i] - want[i]));
    }
    return {{"relative_l2", "relative L2 error", std::sqrt(off / all)},
            {"largest_error", "largest error", most}};
  }
  Outcome outcome(const data::AnyDataset& held_out) override {
    const BurgersField field = field_of(held_out);
    const std::vector<double> u = predict(held_out);
    std::vector<std::string> notes{
        str("u_t + u u_x = 0.01 / pi u_xx; place to the right, time upwards")};
    for (const Measure& m : measures_of(u, field.u))
      notes.push_back(str(m.label, " ", three_digits(m.value)));
    return {{},
            {{"field.html", field_page("Burgers' equation", notes, field, u)},
             {"field.png", data::png_of(field_picture(field, u))}}};
  }

  RecipeData load(const std::string& data) override {
    need(data);
    const BurgersField f = data == kSyntheticData ? exact_burgers() : read_burgers(data);
    return {CollocationPoints(points_, generator().seed(), dtype_), field_samples(f, dtype_)};
  }
  i64 dataset_bytes(const std::string& data) const override {
    need(data);
    return burgers_values(data) * 3 * item_size(dtype_);
  }
  data::Batch shape_batch(i64 batch) const override {
    const TensorOptions meta{.dtype = dtype_, .device = Device::meta()};
    return {empty({batch, 2}, meta), empty({batch, 1}, meta)};
  }
  RecipeDefaults defaults() const override {
    return {.batch = points_,
            .eval_batch = 8192,
            .steps = 3000 + rounds_.rounds,
            .lr = 5e-3,
            .weight_decay = 0,
            .clip = 0};
  }
  const char* item() const override { return "drawn points"; }

 private:
  static void need(const std::string& data) {
    if (data.empty())
      throw UsageError(
          "pinn needs --data FOLDER with x.npy, t.npy and u.npy, a solution of Burgers' equation\n"
          "  Try --data synthetic, which computes one");
  }

  // u at p [n, 2], (x, s) with s = 2 t - 1: [n, 1]. -sin(pi x) at t = 0 and 0 at x = -1 and 1,
  // whatever the network says.
  Tensor field(const Tensor& p) {
    const Tensor x = slice(p, 1, {0, 1}), t = (slice(p, 1, {1, 2}) + 1) / 2;
    return t * (1 - square(x)) * (*net_)(p)-sin(std::numbers::pi * x);
  }

  // u_t + u u_x - nu u_xx at p: [n, 1]. Derivatives through the tape.
  Tensor residual(const Tensor& p) {
    const EnableGrad enable;
    const Tensor at = p.detach().set_requires_grad();
    const Tensor u = field(at);
    const Tensor du = grad(sum(u), at, {.create_graph = true});
    const Tensor ux = slice(du, 1, {0, 1}), us = slice(du, 1, {1, 2});
    const Tensor uxx = slice(grad(sum(ux), at, {.create_graph = true}), 1, {0, 1});
    return 2 * us + u * ux - kViscosity * uxx;
  }

  // The mean square of the residual.
  Loss residual_loss(const Tensor& p) { return {sum(square(residual(p))), double(p.size(0))}; }

  // At the samples of the set, in their order. What they should be is added to `want`.
  std::vector<double> predict(const data::AnyDataset& set, std::vector<double>* want = nullptr) {
    const Device d = *wt::detail::device_of_model(*net_);
    std::vector<double> all;
    for (const data::Batch& b :
         data::Loader<data::AnyDataset>{set, {.batch = defaults().eval_batch}}) {
      const std::vector<double> u = field(b.x.to(d)).to_vector<double>();
      all.insert(all.end(), u.begin(), u.end());
      if (!want) continue;
      const std::vector<double> known = b.y.to_vector<double>();
      want->insert(want->end(), known.begin(), known.end());
    }
    return all;
  }

  DType dtype_;
  i64 points_;
  data::RandomPointSubset part_;
  LbfgsRounds rounds_;
  data::RandomPointSubset round_part_;
  std::optional<models::Pinn> net_;
};

}  // namespace

std::unique_ptr<Recipe> make_pinn(Settings s) { return std::make_unique<Pinn>(std::move(s)); }

}  // namespace wt::tools
