// How many held-out samples the evaluations of a run take, and which; what a run makes of it.
#include "warptape/tools/wt/training/eval_sample.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/evaluate.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/evaluation.h"
#include "warptape/tools/wt/training/run_metrics.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using namespace wt::tools;

namespace {

std::string text_of_run(const TrainOptions& o) {
  const CapturedOutput output;
  const int code = train(o);  // whose errors CHECK would take for itself
  CHECK(code == 0);
  return output.text();
}

// Ten steps of 8: eleven evaluations, each of 5 of 40 samples.
TrainOptions short_run(const TempDir& dir, const std::string& out) {
  TrainOptions o;
  o.recipe = "fashion";
  o.set = {"model=mlp"};
  o.data = dir.path;
  o.out = dir / out;
  o.batch = 8;
  o.steps = 10;
  o.threads = 1;
  o.save_every = 1;
  o.keep = 50;
  return o;
}
constexpr i64 kShort = 5, kHeldOut = 40;

std::string checkpoint(const TrainOptions& o, i64 step) {
  return str(o.out, "/ckpt/step-0000", step < 10 ? "0" : "", step, ".safetensors");
}
RunHistory history(const TrainOptions& o) { return read_metrics(o.out + "/metrics.jsonl"); }

void killed_after(const TrainOptions& o, i64 step) {
  for (i64 s = step + 1; s <= o.steps; ++s) std::filesystem::remove(checkpoint(o, s));
}

}  // namespace

TEST_CASE("eval samples: evaluations are counted as a run makes them") {
  for (const i64 steps : {1, 2, 7, 10, 12})
    for (const i64 every : {1, 3, 5, 20})
      for (const i64 rounds : {0, 1, 4}) {
        if (rounds >= steps) continue;
        i64 n = 1;  // before the first step
        for (i64 step = 1; step <= steps; ++step)
          n += step % every == 0 || step == steps || (rounds > 0 && step >= steps - rounds);
        CAPTURE(steps, every, rounds);
        CHECK(evaluations_of({.steps = steps, .every = every, .rounds = rounds}) == n);
      }
}

TEST_CASE("eval samples: all evaluations are a fifth of the run at most, and one more is not") {
  for (const i64 steps : {4, 100, 30'000})
    for (const i64 batch : {16, 500})
      for (const i64 every : {1, 7, 1000})
        for (const double cost : {1.0 / 3, 1.0}) {
          CAPTURE(steps, batch, every, cost);
          const EvalBudget b{.steps = steps, .batch = batch, .every = every, .cost = cost};
          const auto share = [&](i64 n) {
            const double judged = double(n * evaluations_of(b)) * cost;
            return judged / (judged + double(steps * batch));
          };
          const i64 n = affordable_samples(b);
          CHECK(share(n) <= 0.2 * (1 + 1e-9));
          CHECK(share(n + 1) > 0.2 * (1 - 1e-9));
        }
  CHECK(affordable_samples({.steps = 4, .batch = 1}) == 1);  // nothing is no evaluation
  constexpr i64 kMost = std::numeric_limits<i64>::max();
  CHECK(affordable_samples({.steps = kMost, .batch = kMost, .every = kMost}) > 1'000'000'000);
}

TEST_CASE("eval samples: recipes of full length take all of their held-out samples") {
  const auto affordable = [](const char* recipe, i64 train, i64 steps, i64 every) {
    const auto r = find_recipe(recipe).make(Settings({}));
    const RecipeDefaults d = r->defaults();
    if (steps == 0) steps = d.steps ? d.steps : d.epochs * (train / d.batch);
    return affordable_samples({.steps = steps,
                               .batch = d.batch,
                               .every = every ? every : std::max<i64>(1, steps / d.evals),
                               .rounds = r->rounds().rounds,
                               .cost = r->eval_cost()});
  };
  CHECK(affordable("fashion", 60'000, 0, 0) >= 10'000);
  CHECK(affordable("cifar", 50'000, 0, 0) >= 10'000);
  CHECK(affordable("charlm", 0, 0, 0) >= 871);  // windows of Tiny Shakespeare's last tenth
  CHECK(affordable("translate", 29'000, 0, 0) >= 1014);
  CHECK(affordable("translate", 29'000, 1812, 453) >= 1014);  // bench/learn.sh
  CHECK(affordable("imagenet-folder", 9'000, 0, 0) >= 1'000);
  CHECK(affordable("pinn", 0, 0, 0) >= 25'600);
  CHECK(affordable("sdf", 0, 0, 0) >= 7);
  CHECK(affordable("points", 7 * 64, 0, 0) >= 7 * 32);
}

TEST_CASE("eval samples: drawn from all of the set, ascending, a smaller part within a larger") {
  const std::vector<i64> some = drawn_samples(100, 1000), more = drawn_samples(300, 1000);
  REQUIRE(some.size() == 100);
  CHECK(std::is_sorted(some.begin(), some.end()));
  CHECK(std::set<i64>(some.begin(), some.end()).size() == 100);
  CHECK(std::includes(more.begin(), more.end(), some.begin(), some.end()));
  CHECK(drawn_samples(100, 1000) == some);
  // Of a set that is sorted into ten classes every class has its part.
  std::vector<i64> of_class(10);
  for (const i64 i : some) ++of_class.at(size_t(i / 100));
  for (const i64 n : of_class) CHECK(n >= 3);
  const std::vector<i64> all = drawn_samples(7, 7);
  CHECK(all == std::vector<i64>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("eval samples: batches of them, and how a part is called") {
  constexpr i64 kMost = std::numeric_limits<i64>::max();
  CHECK(samples_of_batches(3, 500, 10'000) == 1500);
  CHECK(samples_of_batches(20, 500, 10'000) == 10'000);
  CHECK(samples_of_batches(21, 500, 10'000) == 10'000);
  CHECK(samples_of_batches(1, 500, 40) == 40);
  CHECK(samples_of_batches(kMost, 500, 10'000) == 10'000);
  CHECK(samples_of_batches(0, 500, 10'000) == 10'000);
  CHECK(sample_text({640, 10'000}) == "640 of 10,000");
  CHECK(sample_text({1'234'567, 12'345'678}) == "1,234,567 of 12,345,678");
  CHECK(sample_text({100, 100}) == "all 100");
}

TEST_CASE("eval samples: a short run judges by one sample, and says so wherever it says a number") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 80, kHeldOut);
  TrainOptions o = short_run(dir, "run");
  o.lr = 1e-30;  // the model stays as it is, and so does what is judged by the same samples
  o.weight_decay = 0;
  const std::string said = text_of_run(o);
  CHECK(mentions(said,
                 "evaluations take 5 of 40 held-out samples, the same each time, for a fifth "
                 "of the run at most (--eval-batches 0: all)\n"));
  CHECK(mentions(said, "before step 1: held-out loss "));
  CHECK(mentions(said, " on 5 of 40\n"));
  CHECK(mentions(said, " on 5 of 40  accuracy "));
  CHECK(mentions(said, "\"eval_samples\":5,\"held_out_samples\":40,"));
  const RunHistory h = history(o);
  REQUIRE(h.evals.size() == 11);
  for (const EvalRecord& e : h.evals) {
    CHECK(e.eval_loss == h.evals[0].eval_loss);
    REQUIRE(e.sample.has_value());
    CHECK((e.sample->taken == kShort && e.sample->of == kHeldOut));
  }
  const std::string page = slurp(o.out + "/report.html");
  for (const char* part :
       {"evaluations</th><td>on 5 of 40 held-out samples<", "held-out loss, 5 of 40<",
        "held out, 5 of 40, counts", "%, 5 of 40</small>", "Classes <small>held out, 5 of 40<"}) {
    CAPTURE(part);
    CHECK(mentions(page, part));
  }
  bool on_board = false;
  for (const auto& f : std::filesystem::directory_iterator(o.out))
    if (f.path().filename().string().starts_with("events."))
      on_board |= mentions(slurp(f.path().string()), "val/samples");
  CHECK(on_board);

  // What it says is what the model makes of those samples.
  manual_seed(1);
  const auto r = find_recipe("fashion").make(Settings(o.set));
  const RecipeData data = r->load(o.data);
  r->load_weights(o.out + "/ckpt/best.safetensors", false);
  const EvalResult e = tools::evaluate(*r, sample_of(data.held_out, kShort));
  CHECK(e.loss == h.evals[0].eval_loss);
  CHECK(e.loss != tools::evaluate(*r, data.held_out).loss);

  // Ranks share the sample; more batches than there are, and 0, are all of the set.
  o.ranks = 3;
  o.out = dir / "ranks";
  (void)text_of_run(o);
  CHECK(history(o).evals.at(3).eval_loss == Approx(e.loss).epsilon(1e-6));
  CHECK(history(o).evals.at(3).accuracy == h.evals[0].accuracy);
}

TEST_CASE("eval samples: 0, or more batches than there are, is every sample, without a word") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 80, kHeldOut);
  std::string first;
  for (const i64 batches : {0, 1, 9}) {  // of 500
    TrainOptions o = short_run(dir, str("run", batches));
    o.eval_batches = batches;
    const std::string said = text_of_run(o);
    CHECK_FALSE(mentions(said, " of 40"));
    CHECK_FALSE(mentions(said, "eval_samples"));
    CHECK_FALSE(mentions(slurp(o.out + "/metrics.jsonl"), "eval_samples"));
    CHECK_FALSE(mentions(slurp(o.out + "/report.html"), " of 40"));
    CHECK(nn::load_tensors(checkpoint(o, 10)).find("train.eval_samples") == nullptr);
    const std::string best = slurp(o.out + "/ckpt/best.safetensors");
    if (first.empty()) first = best;
    CHECK(best == first);
  }
}

TEST_CASE("eval samples: a run that goes on keeps its sample, or the lack of one") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 80, kHeldOut);
  TrainOptions o = short_run(dir, "run");
  o.quiet = true;
  (void)text_of_run(o);
  const RunHistory whole = history(o);
  killed_after(o, 4);
  o.resume = true;
  SECTION("with its options") {
    (void)text_of_run(o);
    const RunHistory h = history(o);
    REQUIRE(h.evals.size() == whole.evals.size());
    for (size_t i = 0; i < h.evals.size(); ++i)
      CHECK(h.evals[i].eval_loss == whole.evals[i].eval_loss);
  }
  SECTION("with fewer evaluations, which leave time for more samples") {
    o.eval_every = 10;
    (void)text_of_run(o);
    const RunHistory h = history(o);
    REQUIRE(h.evals.size() == 6);
    CHECK(h.evals.back().eval_loss == whole.evals.back().eval_loss);
    CHECK(h.evals.back().sample->taken == kShort);
  }
  SECTION("another one is refused, and nothing has changed") {
    const std::string before = slurp(o.out + "/metrics.jsonl");
    o.eval_batches = 0;
    const std::string why = message_of([&] { (void)text_of_run(o); });
    CHECK(mentions(why, "was started with evaluations on 5 of 40 held-out samples, not on all 40"));
    CHECK(mentions(why, "Try without --eval-batches"));
    CHECK(slurp(o.out + "/metrics.jsonl") == before);
    CHECK_FALSE(std::filesystem::exists(checkpoint(o, 5)));
  }
  SECTION("a run of all goes on with all") {
    o.resume = false;
    o.out = dir / "all";
    o.eval_batches = 0;
    (void)text_of_run(o);
    killed_after(o, 4);
    o.resume = true;
    o.eval_batches = -1;
    (void)text_of_run(o);
    const RunHistory h = history(o);
    REQUIRE(h.evals.size() == 11);
    for (const EvalRecord& e : h.evals) CHECK_FALSE(e.sample.has_value());
  }
  SECTION("a number that no run can have is refused by name") {
    for (const i64 bad : {0, -1, 41}) {
      nn::LoadedTensors file = nn::load_tensors(checkpoint(o, 4));
      for (nn::NamedTensor& t : file.tensors)
        if (t.name == "train.eval_samples") t.tensor = tensor(bad, {.dtype = DType::i64});
      nn::save_tensors(checkpoint(o, 4), file.tensors, file.metadata);
      CHECK(mentions(message_of([&] { (void)text_of_run(o); }), "train.eval_samples"));
    }
  }
}

TEST_CASE("eval samples: the best model is that of the best evaluation on the sample") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 80, kHeldOut);
  TrainOptions o = short_run(dir, "run");
  o.quiet = true;
  o.lr = 0.05;
  o.patience = 3;
  o.steps = 60;
  o.eval_every = 2;
  (void)text_of_run(o);
  const RunHistory h = history(o);
  REQUIRE(h.evals.back().sample.has_value());
  size_t best = 1;
  for (size_t i = 2; i < h.evals.size(); ++i)
    if (h.evals[i].eval_loss < h.evals[best].eval_loss) best = i;
  const auto file = nn::load_tensors(o.out + "/ckpt/best.safetensors");
  CHECK(integer_of(file.tensors, "train.step") == h.evals[best].step);
  CHECK(number_of(file.tensors, "train.best") == h.evals[best].eval_loss);
}

TEST_CASE("eval samples: recipes with measures of their own are judged by a part too") {
  manual_seed(4);
  for (const char* name : {"pinn", "sdf"}) {
    CAPTURE(name);
    const bool pinn = std::string(name) == "pinn";
    const auto r = find_recipe(name).make(Settings(
        pinn ? std::vector<std::string>{"layers=2", "width=6", "points=100"}
             : std::vector<std::string>{"shapes=3", "points=100", "latent=4", "width=16"}));
    const RecipeData data = r->load(kSyntheticData);
    const i64 taken = pinn ? 300 : 2;
    const data::AnyDataset part = sample_of(data.held_out, taken);
    REQUIRE(part.size() == taken);
    const EvalResult e = tools::evaluate(*r, part), all = tools::evaluate(*r, data.held_out);
    CHECK(e.loss > 0);
    CHECK(e.loss != all.loss);
    if (!pinn) continue;
    // By hand, from the samples' own values.
    const nn::EvalScope eval(r->model());
    const NoGrad no_grad;
    const data::Batch b = data.held_out.batch(drawn_samples(taken, data.held_out.size()));
    const std::vector<double> u = r->logits(b.x).to_vector<double>(),
                              want = b.y.to_vector<double>();
    double off = 0, length = 0;
    for (size_t i = 0; i < u.size(); ++i)
      off += (u[i] - want[i]) * (u[i] - want[i]), length += want[i] * want[i];
    CHECK(e.loss == Approx(std::sqrt(off / length)).epsilon(1e-12));
  }
}

TEST_CASE("eval samples: a run of lines has BLEU of its sample") {
  const TempDir dir;
  TrainOptions o;
  o.recipe = "translate";
  o.set = {"layers=1", "heads=2", "channels=16", "feed_forward=16", "vocabulary=320"};
  o.data = kSyntheticData;
  o.out = dir / "run";
  o.batch = 8;
  o.steps = 4;
  o.eval_every = 4;
  const std::string said = text_of_run(o);
  CHECK(mentions(said, "evaluations take 4 of "));  // 32 samples, of which a quarter, twice
  const RunHistory h = history(o);
  REQUIRE(h.evals.size() == 2);
  for (const EvalRecord& e : h.evals) {
    REQUIRE(e.bleu.has_value());
    CHECK(e.sample->taken == 4);
  }
  CHECK(mentions(slurp(o.out + "/report.html"), "Held-out BLEU <small>4 of "));
}
