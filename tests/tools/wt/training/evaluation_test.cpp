#include "warptape/tools/wt/training/evaluation.h"

#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/loss.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"

using namespace wt;

namespace {

struct ByHand {
  double loss, accuracy;
};
// Of the whole set in one batch, in doubles.
ByHand by_hand(tools::Recipe& r, const data::AnyDataset& set) {
  const nn::EvalScope eval(r.model());
  const NoGrad no_grad;
  std::vector<i64> all;
  for (i64 i = 0; i < set.size(); ++i) all.push_back(i);
  const data::Batch b = set.batch(all);
  const Tensor logits = r.logits(b.x);
  const i64 classes = logits.size(-1);
  const std::vector<float> z = logits.to_vector<float>();
  const std::vector<i64> y = b.y.to_vector<i64>();
  double loss = 0, right = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const float* row = z.data() + i64(i) * classes;
    double sum = 0;
    i64 best = 0;
    for (i64 k = 0; k < classes; ++k) {
      sum += std::exp(double(row[k]));
      if (row[k] > row[best]) best = k;
    }
    loss += std::log(sum) - row[y[i]];
    right += best == y[i];
  }
  return {loss / double(y.size()), right / double(y.size())};
}

}  // namespace

TEST_CASE("a recipe's evaluation is the mean over every held-out item, and leaves no trace") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 40, 27);
  wt_test::write_tiny_text(dir / "text", 60);
  manual_seed(2);
  const std::string name = GENERATE("charlm", "fashion");
  CAPTURE(name);
  const auto recipe = tools::find_recipe(name).make(tools::Settings(
      name == "charlm"
          ? std::vector<std::string>{"layers=1", "channels=16", "context=8", "dropout=0.5"}
          : std::vector<std::string>{"model=mlp"}));
  const tools::RecipeData data = recipe->load(name == "charlm" ? dir / "text" : dir.path);
  recipe->model().train();
  const Generator before = generator();
  const tools::EvalResult r = tools::evaluate(*recipe, data.held_out);
  CHECK(generator() == before);
  CHECK(recipe->model().is_training());
  const ByHand want = by_hand(*recipe, data.held_out);
  CHECK(std::fabs(r.loss - want.loss) < 1e-5 * want.loss);
  CHECK(r.accuracy == want.accuracy);
  CHECK(bool(r.confusion) == (name == "fashion"));
  if (r.confusion) {
    CHECK(r.confusion->value() == r.accuracy);
    const std::vector<i64> n = r.confusion->counts().to_vector<i64>();
    CHECK(std::accumulate(n.begin(), n.end(), i64(0)) == data.held_out.size());
  }
  // Small batches add up to the same.
  metrics::MeanLoss loss("loss",
                         [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  tools::evaluate(*recipe, data.held_out, 4, {&loss});
  CHECK(std::fabs(loss.value() - want.loss) < 1e-5 * want.loss);
}
