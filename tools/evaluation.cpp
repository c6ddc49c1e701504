#include "warptape/tools/evaluation.h"

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/evaluate.h"

namespace wt::tools {

void evaluate(Recipe& r, const data::AnyDataset& set, i64 batch,
              const std::vector<metrics::Metric*>& list) {
  const nn::EvalScope eval(r.model());
  const NoGrad no_grad;
  const std::optional<Device> device = wt::detail::device_of_model(r.model());
  for (const data::Batch& b : data::Loader<data::AnyDataset>{set, {.batch = batch}}) {
    const data::Batch here = device ? b.to(*device) : b;
    const Tensor logits = r.logits(here.x);
    const Tensor rows = reshape(logits, {-1, logits.size(-1)}), labels = reshape(here.y, {-1});
    for (metrics::Metric* m : list) m->update(rows, labels);
  }
}

EvalResult evaluate(Recipe& r, const data::AnyDataset& set) {
  metrics::MeanLoss loss("loss",
                         [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  metrics::Accuracy accuracy;
  EvalResult result;
  std::vector<metrics::Metric*> list{&loss, &accuracy};
  if (const size_t classes = r.class_names().size()) {
    result.confusion = std::make_shared<metrics::ConfusionMatrix>(i64(classes));
    list.push_back(result.confusion.get());
  }
  evaluate(r, set, r.defaults().eval_batch, list);
  result.loss = loss.value();
  result.accuracy = accuracy.value();
  return result;
}

}  // namespace wt::tools
