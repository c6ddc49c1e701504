// What goes forward and backward through the layers.
#include <algorithm>
#include <cmath>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

Found relu_dead(const Evidence& e) {
  std::vector<std::string> places;
  for (const ReluSeen& r : e.relus)
    if (r.units() >= 4 && r.dead() * 2 >= r.units())
      places.push_back(str(r.place, " (", r.dead(), " of ", r.units(), ")"));
  if (places.empty()) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "dead relus",
                 .evidence = "units that were 0 for every sample of every step: " + some_of(places),
                 .gain = "units that learn: no gradient passes a dead one",
                 .fix = "a smaller rate, nn::init::kaiming_normal_, or leaky_relu"};
}

// Gradients of weights (two axes or more), in the order of the parameters.
std::vector<const ParameterSeen*> weights_of(const Evidence& e) {
  std::vector<const ParameterSeen*> list;
  for (const ParameterSeen& p : e.parameters)
    if (p.axes >= 2 && p.gradient_rms > 0) list.push_back(&p);
  return list;
}
bool smaller_gradient(const ParameterSeen* a, const ParameterSeen* b) {
  return a->gradient_rms < b->gradient_rms;
}

Found gradients_vanish(const Evidence& e) {
  const auto weights = weights_of(e);
  if (weights.size() < 3) return {};
  const ParameterSeen* const low =
      *std::min_element(weights.begin(), weights.end(), smaller_gradient);
  const ParameterSeen* const high =
      *std::max_element(weights.begin(), weights.end(), smaller_gradient);
  if (low->gradient_rms > 1e-5 * high->gradient_rms) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "gradients vanish on their way through the layers",
                 .evidence = str(low->name, " gets ", figure(low->gradient_rms), ", ", high->name,
                                 " ", figure(high->gradient_rms), " (root mean squares)"),
                 .fix = "residual connections, a norm between the layers, relu for sigmoid"};
}

Found gradients_explode(const Evidence& e) {
  std::vector<std::string> names;
  // As the update takes them: without loss scale and number of items, clipped.
  for (const ParameterSeen& p : e.parameters) {
    const double rms = p.gradient_rms * e.last_factor;
    if (rms > 1e3 && std::isfinite(rms)) names.push_back(str(p.name, " ", figure(rms)));
  }
  if (names.empty()) return {};
  return Finding{
      .severity = Severity::wrong,
      .title = "gradients explode",
      .evidence = "root mean squares: " + some_of(names),
      .fix = "TrainStepOptions{.clip_norm = 1.0}, a smaller rate, a norm between layers"};
}

Found batch_norm_of_one(const Evidence& e) {
  const i64 parts = std::max<i64>(1, e.micro_batches);
  if (e.batch_norm_modules == 0 || !e.net_training || e.batches.count == 0) return {};
  if (e.batches.samples == 0 || e.batches.samples / parts > 1) return {};
  return Finding{
      .severity = Severity::wrong,
      .title = "batch norm over a batch of one sample",
      .evidence = str(e.batch_norm_modules, " batch norms, ", e.batches.samples, " samples in ",
                      parts, " parts: each sample is normalised by itself"),
      .fix = "nn::GroupNorm, or a larger batch"};
}

Found softmax_twice(const Evidence& e) {
  if (!e.probabilities) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "cross_entropy gets probabilities and not logits",
                 .evidence =
                     "every row that it got is between 0 and 1 and adds up to 1: softmax is "
                     "applied twice, and gradients are small",
                 .fix = "leave softmax out of the model; apply it where probabilities are shown"};
}

constexpr Rule kModelRules[] = {
    {{"relu-dead", "model", "relus of which half of the units were 0 all the time"}, relu_dead},
    {{"gradients-vanish", "model", "a weight's gradient 100 000 times smaller than another's"},
     gradients_vanish},
    {{"gradients-explode", "model",
      "gradients whose root mean square is above 1000 as the update takes them"},
     gradients_explode},
    {{"batch-norm-of-one", "model", "batch norm in training with one sample at a time"},
     batch_norm_of_one},
    {{"softmax-twice", "model", "probabilities as the logits of cross_entropy"}, softmax_twice}};

}  // namespace

std::span<const Rule> model_rules() { return kModelRules; }

}  // namespace wt::doctor
