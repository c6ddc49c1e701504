// The order of things in the loop: forward, backward, step, evaluation.
#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

Found zero_grad_missing(const Evidence& e) {
  if (e.not_zeroed == 0) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "gradients are never set to zero",
                 .evidence = str(e.not_zeroed, " of ", e.updates,
                                 " updates use gradients that hold those of the update before"),
                 .fix = "opt.zero_grad();  // before each backward, or let TrainStep do it"};
}

Found no_step(const Evidence& e) {
  if (e.walks < 2 || e.updates > 0 || e.captures) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "no optimizer ever steps",
                 .evidence = str(e.walks, " backwards, no update"),
                 .fix = "opt.step();"};
}

Found forward_unused(const Evidence& e) {
  const double recorded = mean_of(e, [](const StepSeen& s) { return s.recorded; });
  const double walked = mean_of(e, [](const StepSeen& s) { return s.walked; });
  if (walked < 1 || recorded < walked * 1.25 || recorded < walked + 2) return {};
  const double unused = recorded - walked;
  return Finding{.severity = Severity::waste,
                 .title = "a forward is recorded that no backward uses",
                 .evidence = str("of ", figure(recorded), " operators that a step records ",
                                 figure(unused), " (", percent(unused / recorded),
                                 ") are never differentiated; in training mode they move the ",
                                 "statistics of batch norms once more"),
                 .gain = "their time, and the memory that the tape keeps",
                 .fix = "{ const nn::EvalScope eval{net}; const NoGrad no_grad; ... }"};
}

Found accumulation_sum(const Evidence& e) {
  if (e.updates == 0 || e.added_up < 2 * e.updates || e.added_up % e.updates != 0) return {};
  if (e.factor || e.scaled_walks * 2 >= e.walks) return {};
  const i64 k = e.added_up / e.updates;
  // Two losses, of a real and a made-up batch say, may be meant to be added up. Parts of a batch
  // have as many labels together as it has.
  const BatchesSeen& b = e.batches;
  const bool known = e.class_losses > 0 && b.labels && b.count > 0;
  if (known ? e.class_items * k * b.count != b.label_count + b.ignored : k < 3) return {};
  return Finding{
      .severity = known ? Severity::wrong : Severity::hint,
      .title = "gradients of several batches are added up and not divided",
      .evidence = str(k, " backwards an update, whose losses have no factor: the rate is ", k,
                      " times what it says"),
      .fix = str("(loss / ", k, ").backward();  // or TrainStep with .micro_batches = ", k)};
}

Found trains_in_eval_mode(const Evidence& e) {
  const i64 asleep = e.dropout_modules + e.batch_norm_modules;
  if (!e.has_net || e.net_training || asleep == 0 || e.updates == 0) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "the model is trained in evaluation mode",
                 .evidence = str(e.dropout_modules, " dropouts drop nothing, ",
                                 e.batch_norm_modules, " batch norms learn no statistics"),
                 .fix = "net.train();  // behind each evaluation, or nn::EvalScope around it"};
}

Found eval_records(const Evidence& e) {
  if (e.evaluation.recorded == 0) return {};
  return Finding{.severity = Severity::waste,
                 .title = "the evaluation records a graph",
                 .evidence = str(e.evaluation.recorded, " operators are recorded for a backward ",
                                 "that never comes, and keep their operands"),
                 .gain = "the activations' memory",
                 .fix = "const NoGrad no_grad;"};
}

Found eval_in_train_mode(const Evidence& e) {
  const EvaluationSeen& v = e.evaluation;
  if (v.dropouts + v.statistics == 0) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "the evaluation runs in training mode",
                 .evidence = str(v.dropouts, " dropouts drop, ", v.statistics,
                                 " running statistics move with the held-out data"),
                 .fix = "const nn::EvalScope eval{net};"};
}

Found anomaly_mode(const Evidence& e) {
  if (!e.anomaly) return {};
  return Finding{.severity = Severity::waste,
                 .title = "AnomalyMode is on",
                 .evidence = "every gradient of every node is searched for NaN, and the host waits",
                 .fix = "make AnomalyMode only around the step that you look for"};
}

Found kernels_forced(const Evidence& e) {
  if (!e.forced_kernels) return {};
  return Finding{.severity = Severity::waste,
                 .title = "kernels are chosen by hand",
                 .evidence = "WT_KERNEL or a VariantScope is in force: not the fastest ones run",
                 .fix = "unset WT_KERNEL"};
}

Found names_looked_up(const Evidence& e) {
  const double us = mean_of(e, [](const StepSeen& s) { return s.lookup_us; });
  if (us < 0.01 * step_us(e) || us <= 0) return {};
  const double count = mean_of(e, [](const StepSeen& s) { return s.lookups; });
  return Finding{.severity = Severity::waste,
                 .title = "parameters are looked up or listed by name in each step",
                 .evidence = str(figure(count), " look-ups and lists of names a step take ",
                                 time_text(us), ", ", percent(us / step_us(e)), " of it"),
                 .cost_us = us,
                 .gain = "their time: a handle or a list is made once",
                 .fix =
                     "const nn::Param w = net.parameter(\"head.weight\");  // or parameters(), "
                     "before the loop; opt.zero_grad() needs no list"};
}

constexpr Rule kLoopRules[] = {
    {{"zero-grad-missing", "loop", "updates from gradients that hold the last update's"},
     zero_grad_missing},
    {{"no-step", "loop", "backwards without any update"}, no_step},
    {{"forward-unused", "loop", "a fifth or more of what is recorded is never differentiated"},
     forward_unused},
    {{"accumulation-sum", "loop", "several backwards an update, neither divided nor scaled"},
     accumulation_sum},
    {{"trains-in-eval-mode", "loop", "updates while dropout and batch norm are in evaluation mode"},
     trains_in_eval_mode},
    {{"eval-records", "loop", "an evaluation that records a graph"}, eval_records},
    {{"eval-in-train-mode", "loop", "an evaluation that drops, or moves running statistics"},
     eval_in_train_mode},
    {{"anomaly-mode", "loop", "AnomalyMode around all steps"}, anomaly_mode},
    {{"names-looked-up", "loop",
      "parameters looked up or listed by name for a hundredth of a step or more"},
     names_looked_up},
    {{"kernels-forced", "loop", "WT_KERNEL or a VariantScope around all steps"}, kernels_forced}};

}  // namespace

std::span<const Rule> loop_rules() { return kLoopRules; }

}  // namespace wt::doctor
