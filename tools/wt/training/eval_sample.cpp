#include "warptape/tools/wt/training/eval_sample.h"

#include <algorithm>

#include "warptape/data/loader.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

constexpr double kMostShare = 0.2;  // of a run's time

std::string grouped(i64 n) {
  std::string text = std::to_string(n);
  for (i64 at = i64(text.size()) - 3; at > 0; at -= 3) text.insert(size_t(at), ",");
  return text;
}

}  // namespace

i64 evaluations_of(const EvalBudget& b) {
  const i64 before = b.steps - b.rounds;
  return 1 + before / b.every + (before % b.every != 0) + b.rounds;
}

i64 affordable_samples(const EvalBudget& b) {
  const double trained = double(b.steps) * double(b.batch);
  const double all = trained * kMostShare / (1 - kMostShare) / b.cost;
  const double each = all / double(evaluations_of(b));
  return std::max<i64>(1, i64(std::min(each, 9e15)));
}

i64 samples_of_batches(i64 batches, i64 batch, i64 held_out) {
  return batches == 0 || batches > held_out / batch ? held_out : batches * batch;
}

std::vector<i64> drawn_samples(i64 taken, i64 of) {
  std::vector<i64> samples = data::epoch_order(of, true, kHeldOutSeed, 0);
  samples.resize(size_t(taken));
  std::sort(samples.begin(), samples.end());
  return samples;
}

std::string sample_text(const EvalSample& s) {
  return s.is_part() ? grouped(s.taken) + " of " + grouped(s.of) : "all " + grouped(s.of);
}

}  // namespace wt::tools
