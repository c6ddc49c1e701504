// wt eval CKPT: a trained model over held-out data.
#include <cmath>
#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/model_options.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/training/eval_sample.h"
#include "warptape/tools/wt/training/evaluation.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct EvalOptions : ModelOptions {
  std::string data{};
  std::vector<std::string> metrics = {"loss", "accuracy"};
  i64 batch = 0;
  i64 batches = 0;  // of the held-out data; 0: all
};

// "10 samples", "640 of 10,000 samples".
std::string samples_text(const EvalSample& s) {
  return (s.is_part() ? sample_text(s) : std::to_string(s.of)) + " samples";
}
void add_samples(JsonObject& j, const EvalSample& s) {
  j.add("samples", s.taken);
  if (s.is_part()) j.add("held_out_samples", s.of);
}

// Of a loss of tokens.
std::optional<double> bits_of(const TrainedModel& t, const metrics::Metric& m) {
  const double bits = m.name() == "loss" ? bits_per_byte(*t.recipe, m.value()) : NAN;
  if (std::isnan(bits)) return {};
  return bits;
}

void print_json(const TrainedModel& t, const EvalSample& samples,
                const std::vector<std::unique_ptr<metrics::Metric>>& list,
                const metrics::Bleu* bleu) {
  JsonObject j;
  j.add("recipe", t.name).add("checkpoint", t.path).add("step", t.step);
  add_samples(j, samples);
  for (const auto& m : list) {
    j.add(m->name(), m->value());
    if (const auto bits = bits_of(t, *m)) j.add("bits_per_byte", *bits);
  }
  if (bleu) j.add("bleu", bleu->value().score).add("bleu_text", bleu->value().text());
  std::printf("%s\n", j.str().c_str());
}

// Of a recipe that has measures of its own.
int print_measures(const TrainedModel& t, const data::AnyDataset& set, const EvalSample& samples,
                   bool json) {
  const std::vector<Measure> list = evaluate(*t.recipe, set).measures;
  if (!json) {
    std::printf("%s, step %lld, %s\n\n", printable_path(t.path).c_str(),
                static_cast<long long>(t.step), samples_text(samples).c_str());
    for (const Measure& m : list) std::printf("  %-20s %.4g\n", m.label.c_str(), m.value);
    return 0;
  }
  JsonObject j;
  j.add("recipe", t.name).add("checkpoint", t.path).add("step", t.step);
  add_samples(j, samples);
  for (const Measure& m : list) j.add(m.key, m.value);
  std::printf("%s\n", j.str().c_str());
  return 0;
}

void print_table(const TrainedModel& t, const EvalSample& samples,
                 const std::vector<std::unique_ptr<metrics::Metric>>& list,
                 const metrics::ConfusionMatrix* confusion, const metrics::Bleu* bleu) {
  std::printf("%s, step %lld%s, %s\n\n", printable_path(t.path).c_str(),
              static_cast<long long>(t.step), t.averaged ? " (averaged weights)" : "",
              samples_text(samples).c_str());
  for (const auto& m : list) {
    std::printf("  %-12s %.4f\n", m->name().c_str(), m->value());
    if (const auto bits = bits_of(t, *m)) std::printf("  %-12s %.4f\n", "bits/byte", *bits);
  }
  if (bleu) std::printf("\n%s\n", bleu->value().text().c_str());
  if (!confusion) return;
  const std::vector<std::string> names = t.recipe->class_names();
  std::printf("\n%s\n%s", confusion->report({.target_names = names}).text().c_str(),
              confusion->text(names).c_str());
}

int eval(const EvalOptions& o, bool metrics_given) {
  std::vector<std::unique_ptr<metrics::Metric>> list;
  for (const std::string& name : o.metrics) list.push_back(metrics::make_metric(name));
  const TrainedModel t = load_model(o);
  const std::string& path = o.data.empty() ? t.data : o.data;
  const RecipeData data = t.recipe->load(path);
  check_samples(path, "held-out", data.held_out.size());
  const i64 batch = o.batch ? o.batch : t.recipe->defaults().eval_batch;
  const EvalSample samples{samples_of_batches(o.batches, batch, data.held_out.size()),
                           data.held_out.size()};
  const data::AnyDataset set = sample_of(data.held_out, samples.taken);
  if (!t.recipe->classifies()) {
    if (o.batch) throw UsageError(str("--batch: ", t.name, " measures by batches of its own"));
    if (metrics_given)
      throw UsageError(
          str("--metrics: ", t.name, " tells no classes apart, it has measures of its own"));
    return print_measures(t, set, samples, o.json);
  }
  std::vector<metrics::Metric*> all;
  for (const auto& m : list) all.push_back(m.get());
  std::optional<metrics::ConfusionMatrix> confusion;
  const std::vector<std::string> names = t.recipe->class_names();
  if (!names.empty() && names.size() <= kMostTableClasses) {
    confusion.emplace(i64(names.size()));
    all.push_back(&*confusion);
  }
  metrics::Bleu counts;
  metrics::Bleu* const bleu = t.recipe->translates() ? &counts : nullptr;
  evaluate(*t.recipe, set, batch, all, bleu);
  if (o.json)
    print_json(t, samples, list, bleu);
  else
    print_table(t, samples, list, confusion ? &*confusion : nullptr, bleu);
  return 0;
}

}  // namespace

void add_eval(Command app, int& code) {
  const Command c = app.add_subcommand("eval", "judge a trained model on held-out data");
  auto o = std::make_shared<EvalOptions>();
  add_model_options(c, *o, "one JSON line instead of tables");
  c.add_option("--data", o->data, "default: what the model was trained on");
  c.add_option("--metrics", o->metrics, "loss, accuracy, top5 (any number), comma between")
      .delimiter(',');
  c.add_option("--batch", o->batch).check(at_least(1));
  c.add_option("--eval-batches", o->batches,
               "so many batches of the held-out data, as wt train draws them; 0: all of it")
      .check(at_least(0))
      .show_default();
  c.callback([c, o, &code] {
    take_cheap_kernels_on_simt();
    code = eval(*o, c.given("--metrics"));
  });
}

}  // namespace wt::tools
