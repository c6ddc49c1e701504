// wt predict CKPT FILE...: what a trained model sees in images.
#include <algorithm>
#include <cstdio>

#include "warptape/autograd/ops/softmax.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/data/image_input.h"
#include "warptape/tools/wt/model_options.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

constexpr i64 kBatch = 500;

struct PredictOptions : ModelOptions {
  std::vector<std::string> files;
  i64 top = 3;
  bool resize = false;
};

struct Guess {
  std::string name;
  i64 label;
  double probability;
};

// The likeliest classes of each image, best first.
std::vector<std::vector<Guess>> guess(Recipe& r, const Tensor& images, Device device, i64 top) {
  const NoGrad no_grad;
  const std::vector<std::string> names = r.class_names();
  top = std::min(top, i64(names.size()));
  const Tensor p = softmax(r.logits(r.prepare(images).to(device)), 1);
  const auto [values, labels] = topk(p.to(Device::cpu()), top, 1);
  const std::vector<double> v = values.to(DType::f64).to_vector<double>();
  const std::vector<i64> k = labels.to_vector<i64>();
  std::vector<std::vector<Guess>> all(size_t(images.size(0)));
  for (size_t i = 0; i < v.size(); ++i)
    all[i / size_t(top)].push_back({names[size_t(k[i])], k[i], v[i]});
  return all;
}

void print_json(const std::string& file, i64 index, const std::vector<Guess>& g) {
  std::string list;
  for (const Guess& one : g) {
    JsonObject j;
    j.add("class", one.name).add("label", one.label).add("probability", one.probability);
    list += (list.empty() ? "" : ",") + j.str();
  }
  JsonObject j;
  j.add("file", file).add("index", index).add("class", g[0].name).add("label", g[0].label);
  j.add("probability", g[0].probability).add_raw("top", "[" + list + "]");
  std::printf("%s\n", j.str().c_str());
}

void print_row(const std::string& file, i64 index, i64 width, const std::vector<Guess>& g) {
  std::string others;
  for (size_t i = 1; i < g.size(); ++i) {
    char text[32];
    std::snprintf(text, sizeof text, " %.1f %%", 100 * g[i].probability);
    others += (i > 1 ? ", " : "  ") + g[i].name + text;
  }
  std::printf("%-*s %6lld  %-12s %5.1f %%%s\n", int(width), printable_path(file).c_str(),
              static_cast<long long>(index), g[0].name.c_str(), 100 * g[0].probability,
              others.c_str());
}

int predict(const PredictOptions& o) {
  const TrainedModel t = load_model(o);
  if (t.recipe->image_shape().size() == 0)
    throw UsageError(str(printable_path(t.path), " is a model of ", t.name, ", not of images"));
  // All files first: a bad one is found before anything is printed.
  std::vector<Tensor> inputs;
  for (const std::string& f : o.files) inputs.push_back(read_images(f, *t.recipe, o.resize));
  size_t width = 4;
  for (const std::string& f : o.files) width = std::max(width, printable_path(f).size());
  if (!o.json)
    std::printf("%-*s %6s  %-12s %7s  %s\n", int(width), "file", "image", "class", "p", "next");
  for (size_t f = 0; f < inputs.size(); ++f)
    for (i64 at = 0; at < inputs[f].size(0); at += kBatch) {
      const Tensor part = inputs[f].narrow(0, at, std::min(kBatch, inputs[f].size(0) - at));
      i64 index = at;
      for (const std::vector<Guess>& g : guess(*t.recipe, part, t.device, o.top)) {
        if (o.json)
          print_json(o.files[f], index++, g);
        else
          print_row(o.files[f], index++, i64(width), g);
      }
    }
  return 0;
}

}  // namespace

void add_predict(Command app, int& code) {
  const Command c = app.add_subcommand("predict", "classify images with a trained model");
  auto o = std::make_shared<PredictOptions>();
  add_model_options(c, *o, "one JSON object an image");
  c.add_option("files", o->files, "IDX, .npy (u8), PNG, JPEG, WebP, PPM or PGM").required();
  c.add_option("--top", o->top, "classes shown").check(at_least(1)).show_default();
  c.add_flag("--resize", o->resize, "bring images to the model's size");
  c.callback([o, &code] {
    take_cheap_kernels_on_simt();
    code = predict(*o);
  });
}

}  // namespace wt::tools
