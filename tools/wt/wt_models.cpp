// wt models [NAME...]
#include <algorithm>
#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/tools/wt/measure/model_cost.h"
#include "warptape/tools/wt/measure/model_onnx.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct ModelsCommand {
  std::vector<std::string> names;  // none: all
  i64 batch = 32;
  std::string device = "cpu", optimizer = "adamw";
  bool json = false;
  std::string onnx;  // a folder
  ModelOnnxOptions onnx_options;
};

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const models::ModelInfo& m : models::all_models()) names.push_back(m.name);
  return names;
}

// "3x224x224 and i64 64"
std::string input_text(const models::ModelInfo& m) {
  std::string text;
  for (const models::ModelInput& input : m.inputs) {
    if (!text.empty()) text += " and ";
    if (input.ids > 0) text += "i64";
    for (int d = 0; d < input.shape.ndim(); ++d)
      text += str(d > 0 ? "x" : input.ids > 0 ? " " : "", input.shape[d]);
  }
  return text;
}

std::string input_json(const models::ModelInfo& m) {
  std::string list;
  for (const models::ModelInput& input : m.inputs) {
    std::string shape;
    for (const i64 n : input.shape) shape += str(shape.empty() ? "" : ",", n);
    JsonObject one;
    one.add("dtype", input.ids > 0 ? "i64" : "f32").add_raw("shape", "[" + shape + "]");
    list += (list.empty() ? "" : ",") + one.str();
  }
  return "[" + list + "]";
}

void print_json(const models::ModelInfo& m, const ModelCost& cost, const ModelCostOptions& o) {
  JsonObject row;
  row.add("model", m.name).add("summary", m.summary).add("parameters", cost.parameters);
  row.add("flops", cost.flops).add_raw("inputs", input_json(m)).add("classes", m.classes);
  row.add("classes_are", m.classes_are).add("device", to_string(o.device)).add("batch", o.batch);
  row.add("optimizer", o.optimizer).add("step_bytes", cost.step_bytes).add("weights", m.weights);
  std::printf("%s\n", row.str().c_str());
}

void print_row(const models::ModelInfo& m, const ModelCost& cost) {
  std::printf("%-23s%12lld%12s%12s  %-19s%s; weights: %s\n", m.name,
              static_cast<long long>(cost.parameters), three_digits(cost.flops / 1e9).c_str(),
              bytes_text(cost.step_bytes).c_str(), input_text(m).c_str(), m.summary, m.weights);
}

bool is_wanted(const ModelsCommand& c, const models::ModelInfo& m) {
  return c.names.empty() || std::find(c.names.begin(), c.names.end(), m.name) != c.names.end();
}

void write(const ModelsCommand& c) {
  if (!c.onnx_options.weights.empty() && c.names.size() != 1)
    throw UsageError("--weights is of one model: name it");
  for (const models::ModelInfo& m : models::all_models()) {
    if (!is_wanted(c, m)) continue;
    std::printf("%s\n", write_onnx(m, c.onnx, c.onnx_options).c_str());
    flush_stdout();
  }
}

void show(const ModelsCommand& c) {
  const ModelCostOptions o{
      .batch = c.batch, .device = device_for(c.device), .optimizer = c.optimizer};
  if (!c.json)
    std::printf("%-23s%12s%12s%12s  %-19s%s\n", "model", "parameters", "GFLOP", "step", "input",
                str("a step: batch ", o.batch, ", ", o.optimizer, ", f32, predicted on ",
                    to_string(o.device))
                    .c_str());
  for (const models::ModelInfo& m : models::all_models()) {
    if (!is_wanted(c, m)) continue;
    const ModelCost cost = cost_of(m, o);
    if (c.json)
      print_json(m, cost, o);
    else
      print_row(m, cost);
  }
  flush_stdout();
}

}  // namespace

void add_models(Command app, int& code) {
  const Command c = app.add_subcommand(
      "models",
      "the models that are there by name: parameters, FLOPs of a forward of one sample, predicted "
      "memory of a training step, input, and where trained weights come from");
  auto o = std::make_shared<ModelsCommand>();
  c.add_option("names", o->names, "of models; default: all").check(one_of(&model_names));
  c.add_option("--batch", o->batch, "samples a training step").check(at_least(1)).show_default();
  c.add_option("--device", o->device, "that the step is predicted for: cpu, simt, cuda:N")
      .show_default();
  c.add_option("--optimizer", o->optimizer).check(one_of(optimizer_names())).show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  const auto raced = std::make_shared<bool>(false);
  add_models_race(c, raced, code);
  const Option onnx = c.add_option(
      "--onnx", o->onnx, "FOLDER: write each model there as NAME.onnx instead, of any batch");
  c.add_option("--weights", o->onnx_options.weights, "FILE: trained ones, of the one model named")
      .needs(onnx);
  c.add_flag("--sample", o->onnx_options.sample,
             "beside NAME.onnx write NAME.safetensors: an input and what comes out")
      .needs(onnx);
  c.callback([o, raced, &code] {
    if (*raced) return;
    if (o->onnx.empty())
      show(*o);
    else
      write(*o);
    code = 0;
  });
}

}  // namespace wt::tools
