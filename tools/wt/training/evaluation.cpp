#include "warptape/tools/wt/training/evaluation.h"

#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/dist/metrics.h"
#include "warptape/nn/evaluate.h"
#include "warptape/tools/wt/recipes/translator.h"
#include "warptape/tools/wt/training/eval_sample.h"

namespace wt::tools {

namespace {

// The samples [begin, begin + count).
data::Sampler part_of(dist::Share part) {
  return [part](i64) {
    std::vector<i64> samples(size_t(part.count));
    std::iota(samples.begin(), samples.end(), part.begin);
    return samples;
  };
}

// The counts of BLEU, so that ranks add them up as those of other metrics.
class BleuCounts : public metrics::Metric {
 public:
  BleuCounts() : Metric("bleu") {}
  double value() const override { return counts.value().score; }
  void reset() override { counts = metrics::Bleu(); }
  std::vector<double> sums() const override { return counts.sums(); }
  void set_sums(const std::vector<double>& sums) override { counts.set_sums(sums); }
  metrics::Bleu counts;

 protected:
  void add(const Tensor&, const Tensor&) override {}  // it is of the texts
};

void evaluate_part(Recipe& r, const data::AnyDataset& set, const data::LoaderOptions& o,
                   const std::vector<metrics::Metric*>& list, metrics::Bleu* bleu) {
  const nn::EvalScope eval(r.model());
  const NoGrad no_grad;
  const std::optional<Device> device = wt::detail::device_of_model(r.model());
  const std::unique_ptr<Translator> translator = bleu ? r.translator() : nullptr;
  for (const data::Batch& b : data::Loader<data::AnyDataset>{set, o}) {
    const data::Batch here = device ? b.to(*device) : b;
    const Tensor logits = r.logits(here.x);
    const Tensor rows = reshape(logits, {-1, logits.size(-1)}), labels = reshape(here.y, {-1});
    for (metrics::Metric* m : list) m->update(rows, labels);
    if (!translator) continue;
    for (const auto& [made, wanted] : translator->compare(here)) bleu->add(made, {wanted});
  }
}

// `count` feeds what it is given.
template <class F>
EvalResult evaluate_by(Recipe& r, const F& count) {
  metrics::MeanLoss loss("loss",
                         [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  metrics::Accuracy accuracy;
  EvalResult result;
  std::vector<metrics::Metric*> list{&loss, &accuracy};
  if (const size_t classes = r.class_names().size(); classes > 0 && classes <= kMostTableClasses) {
    result.confusion = std::make_shared<metrics::ConfusionMatrix>(i64(classes));
    list.push_back(result.confusion.get());
  }
  metrics::TopK top5(5);
  if (r.judges_top5()) list.push_back(&top5);
  BleuCounts bleu;
  if (r.translates()) list.push_back(&bleu);
  count(list, r.translates() ? &bleu.counts : nullptr);
  if (r.translates()) result.bleu = bleu.counts.value();
  if (r.judges_top5()) result.top5 = top5.value();
  result.loss = loss.value();
  result.accuracy = accuracy.value();
  return result;
}

}  // namespace

double bits_per_byte(const Recipe& r, double loss) {
  const double bytes = r.bytes_per_token();
  return bytes > 0 ? loss / std::log(2.0) / bytes : NAN;
}

data::AnyDataset sample_of(const data::AnyDataset& held_out, i64 taken) {
  const i64 of = held_out.size();
  if (taken >= of) return held_out;
  return data::Subset<data::AnyDataset>(held_out, drawn_samples(taken, of));
}

void evaluate(Recipe& r, const data::AnyDataset& set, i64 batch,
              const std::vector<metrics::Metric*>& list, metrics::Bleu* bleu) {
  evaluate_part(r, set, {.batch = batch}, list, bleu);
}

EvalResult evaluate(Recipe& r, const data::AnyDataset& set) {
  if (!r.classifies()) {
    const nn::EvalScope eval(r.model());
    const NoGrad no_grad;
    EvalResult result;
    result.measures = r.measures(set);
    result.loss = result.measures.at(0).value;
    return result;
  }
  return evaluate_by(r, [&](const auto& list, metrics::Bleu* bleu) {
    evaluate(r, set, r.defaults().eval_batch, list, bleu);
  });
}

EvalResult evaluate(Recipe& r, const data::AnyDataset& set, dist::Communicator& ranks) {
  if (ranks.size() == 1 || !r.classifies()) return evaluate(r, set);
  return evaluate_by(r, [&](const auto& list, metrics::Bleu* bleu) {
    const dist::Share part = dist::share_of(ranks, set.size());
    if (part.count > 0)
      evaluate_part(r, set, {.batch = r.defaults().eval_batch, .sampler = part_of(part)}, list,
                    bleu);
    dist::sum_metrics(ranks, list);
  });
}

Outcome outcome_of(Recipe& r, const data::AnyDataset& set) {
  const nn::EvalScope eval(r.model());
  const NoGrad no_grad;
  return r.outcome(set);
}

}  // namespace wt::tools
