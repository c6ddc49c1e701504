// The recipes sdf and points on shapes that need no file. That they learn: recipe_results_test.sh.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/data/mesh_distance.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/recipes/shapes.h"
#include "warptape/tools/wt/training/evaluation.h"
#include "warptape/tools/wt/training/train.h"
#include "warptape/tools/wt/training/trained_model.h"

using namespace wt;

namespace {

tools::TrainOptions small(const std::string& recipe, const TempDir& dir, Device d) {
  tools::TrainOptions o;
  o.recipe = recipe;
  o.set = recipe == "sdf" ? std::vector<std::string>{"shapes=2", "points=200", "latent=4",
                                                     "width=16", "layers=4",   "grid=8"}
                          : std::vector<std::string>{"shapes=2", "clouds=4", "points=100"};
  o.data = "synthetic";
  o.device = to_string(d);
  o.out = dir / (recipe + to_string(d));
  o.batch = 2;
  o.steps = 4;
  o.save_every = 1;
  o.log_every = 1;
  o.keep = 50;
  o.quiet = true;
  return o;
}
int quietly(const tools::TrainOptions& o) {
  const CapturedOutput output;
  return tools::train(o);
}
std::string checkpoint(const tools::TrainOptions& o, int step) {
  return o.out + "/ckpt/step-00000" + std::to_string(step) + ".safetensors";
}

// Two pyramids of one base, as high as asked for.
void write_shape(const std::string& path, double height) {
  const std::string h = std::to_string(height);
  spit(path, "v 1 0 0\nv 0 0 1\nv -1 0 0\nv 0 0 -1\nv 0 " + h + " 0\nv 0 -" + h +
                 " 0\nf 2 1 5\nf 3 2 5\nf 4 3 5\nf 1 4 5\nf 1 2 6\nf 2 3 6\nf 3 4 6\nf 4 1 6\n");
}

}  // namespace

TEST_CASE("sdf and points: a run that goes on ends in the same bits, on each device", "[shapes]") {
  const TempDir dir;
  for (const char* recipe : {"sdf", "points"})
    for (const Device d : wt_test::kernel_devices()) {
      CAPTURE(recipe, to_string(d));
      tools::TrainOptions o = small(recipe, dir, d);
      if (std::string(recipe) == "points" && d.kind != DeviceKind::cpu && !wt_test::whole_walk())
        continue;  // minutes under the sanitizers
      REQUIRE(quietly(o) == 0);
      const std::string end = slurp(checkpoint(o, 4));
      for (const int step : {3, 4}) std::filesystem::remove(checkpoint(o, step));
      o.resume = true;
      REQUIRE(quietly(o) == 0);
      CHECK(slurp(checkpoint(o, 4)) == end);
      if (std::string(recipe) != "sdf") continue;
      CHECK(slurp(o.out + "/surfaces.png").substr(1, 3) == "PNG");
      CHECK(mentions(slurp(o.out + "/surfaces.html"), "torus: mesh and learned"));
      CHECK(std::filesystem::exists(o.out + "/surface-ball.obj"));
    }
}

TEST_CASE("row 49: sdf's loss sees a tenth of each shape's points, others in each step",
          "[shapes]") {
  manual_seed(2);
  const auto r = tools::find_recipe("sdf").make(
      tools::Settings({"shapes=2", "points=200", "latent=4", "width=16", "layers=4"}));
  const data::Batch b = r->load("synthetic").train.batch(std::vector<i64>{0, 1});
  CHECK(b.x.shape() == Shape{2, 200, 4});
  std::set<double> losses;
  double sum = 0;
  for (int i = 0; i < 200; ++i) {
    const Loss l = r->loss(b);
    CHECK(l.weight.item() == 40);
    losses.insert(l.item());
    sum += l.item();
  }
  CHECK(losses.size() > 190);
  // Their mean is the loss of all points.
  const auto whole = tools::find_recipe("sdf").make(
      tools::Settings({"shapes=2", "points=200", "latent=4", "width=16", "layers=4", "ratio=1"}));
  whole->model().load_state_dict(r->model().state_dict());
  const double all = whole->loss(b).item();
  CHECK(std::fabs(sum / 200 - all) < 0.02 * all);
}

TEST_CASE("sdf: distances that are all beyond the clamp are pulled back, right ones are left alone",
          "[shapes]") {
  manual_seed(5);
  const auto r = tools::find_recipe("sdf").make(
      tools::Settings({"shapes=2", "points=200", "latent=4", "width=16", "layers=4", "ratio=1"}));
  data::Batch b = r->load("synthetic").train.batch(std::vector<i64>{0, 1});
  for (const nn::NamedTensor& p : r->model().named_parameters())
    if (p.name == "decoder.lin4.bias") {
      const NoGrad no_grad;
      Tensor(p.tensor).fill_(2);  // tanh(2) is far beyond 0.1
    }
  const auto pull = [&] {
    r->model().zero_grad();
    const Loss l = r->loss(b);
    l.backward();
    for (const nn::NamedTensor& p : r->model().named_parameters())
      if (p.name == "decoder.lin4.bias") return p.tensor.grad().item();
    return 0.0;
  };
  CHECK(pull() > 0.05);                                             // tanh there has the slope 0.07
  b.x = cat({slice(b.x, -1, {0, 3}), full({2, 200, 1}, 0.3)}, -1);  // far outside, as they say
  CHECK(pull() == 0);
}

TEST_CASE("row 89: latents are a row a shape: its gradient comes from its own points alone",
          "[shapes]") {
  manual_seed(3);
  const auto r = tools::find_recipe("sdf").make(
      tools::Settings({"shapes=3", "points=100", "latent=4", "width=16", "layers=4"}));
  const data::Batch b = r->load("synthetic").train.batch(std::vector<i64>{1});
  r->loss(b).backward();
  for (const nn::NamedTensor& p : r->model().named_parameters())
    if (p.name == "lat_vecs.weight") {
      const std::vector<double> g = sum(abs(p.tensor.grad()), {1}).to_vector<double>();
      CHECK(g[0] == 0);
      CHECK(g[1] > 0);
      CHECK(g[2] == 0);
    }
}

TEST_CASE("sdf: what cannot be drawn is told at the end, and costs neither report nor summary",
          "[shapes]") {
  const TempDir dir;
  tools::TrainOptions o = small("sdf", dir, Device::cpu());
  o.lr = 1e30;
  o.on_nan = "ignore";
  const CapturedOutput output;
  CHECK(mentions(message_of([&] { tools::train(o); }), "[marching_cubes] value 0 is"));
  CHECK(mentions(output.text(), "\"recipe\":\"sdf\""));
  CHECK(mentions(slurp(o.out + "/report.html"), "wrong side"));
}

TEST_CASE("points: clouds are turned otherwise in each epoch, held-out ones stay", "[shapes]") {
  manual_seed(4);
  for (const char* rotations : {"axis", "all"}) {
    CAPTURE(rotations);
    const auto r = tools::find_recipe("points").make(tools::Settings(
        {"shapes=3", "clouds=2", "points=200", std::string("rotations=") + rotations}));
    const tools::RecipeData data = r->load("synthetic");
    CHECK(data.train.size() == 6);
    CHECK(data.held_out.size() == 3);
    const std::vector<i64> all = {0, 2, 5};
    const data::Batch a = data.train.batch(all, 0), b = data.train.batch(all, 1);
    CHECK(a.y.to_vector<i64>() == std::vector<i64>{0, 1, 2});
    CHECK(a.x.to_vector<float>() == data.train.batch(all, 0).x.to_vector<float>());
    CHECK(a.x.to_vector<float>() != b.x.to_vector<float>());
    // A rotation keeps each point's distance from the middle, up to the noise; around y, also y.
    const Tensor far = norm(a.x, 2, {2}) - norm(b.x, 2, {2});
    CHECK(max(abs(far)).item() < 0.1);
    const double dy = max(abs(slice(a.x - b.x, -1, {1, 2}))).item();
    CHECK((dy < 0.1) == (std::string(rotations) == "axis"));
    CHECK(max(abs(a.x - b.x)).item() > 0.3);
    CHECK(data.held_out.batch(std::vector<i64>{1}, 0).x.to_vector<float>() ==
          data.held_out.batch(std::vector<i64>{1}, 5).x.to_vector<float>());
    CHECK(r->class_names() == std::vector<std::string>{"ball", "torus", "box"});
    // In training a tenth of the points: logits differ from call to call; else not.
    r->model().eval();
    CHECK(r->logits(a.x).to_vector<float>() == r->logits(a.x).to_vector<float>());
    r->model().train();
    CHECK(r->logits(a.x).to_vector<float>() != r->logits(a.x).to_vector<float>());
  }
}

TEST_CASE("sdf and points: what is missing or wrong is named", "[shapes]") {
  const TempDir dir;
  for (const char* name : {"sdf", "points"}) {
    const auto r = tools::find_recipe(name).make(tools::Settings({"shapes=2", "points=100"}));
    const auto says = [&](const std::string& data) {
      return message_of([&] { r->load(data); }) + message_of([&] { r->dataset_bytes(data); });
    };
    CHECK(mentions(says(""), "needs --data FOLDER with meshes (.obj, .off, .ply)"));
    CHECK(mentions(says(dir / "missing"), "Expected a folder with meshes (.obj, .off, .ply)"));
    CHECK(mentions(says(dir.path), "has 0 meshes (.obj, .off, .ply), the recipe asks for 2"));
  }
  const tools::Shapes s = tools::read_shapes("sdf", "synthetic", 3);
  for (size_t i = 0; i < 3; ++i) data::write_obj(dir / (s.names[i] + ".obj"), s.meshes[i]);
  CHECK(tools::read_shapes("sdf", dir.path, 2).names == std::vector<std::string>{"ball", "box"});
  CHECK(
      mentions(message_of([&] { tools::read_shapes("sdf", dir.path, 5); }), "Try --set shapes=3"));
  spit(dir / "a.obj", "v 0 0 0\nv 1 0 0\nv 0 0 1\n");
  CHECK(mentions(message_of([&] { tools::read_shapes("sdf", dir.path, 1); }),
                 "has no face with an area"));
}

TEST_CASE("sdf and points: a model knows its shapes by name, whatever the folder's order becomes",
          "[shapes]") {
  for (const char* recipe : {"sdf", "points"}) {
    CAPTURE(recipe);
    const TempDir dir;
    std::filesystem::create_directories(dir / "meshes");
    write_shape(dir / "meshes/flat.obj", 0.4);
    write_shape(dir / "meshes/high.obj", 1.5);
    tools::TrainOptions o = small(recipe, dir, Device::cpu());
    o.data = dir / "meshes";
    o.steps = 2;
    REQUIRE(quietly(o) == 0);
    const auto loaded = [&] {
      const tools::TrainedModel t = tools::load_trained(o.out, "cpu");
      return message_of([&] { (void)t.recipe->load(o.data); });
    };
    CHECK(loaded().empty());
    CHECK(tools::load_trained(o.out, "cpu").recipe->class_names() ==
          (recipe == std::string("sdf") ? std::vector<std::string>{}
                                        : std::vector<std::string>{"flat", "high"}));
    write_shape(dir / "meshes/zenith.obj", 2);  // behind the two that were learned
    CHECK(loaded().empty());
    write_shape(dir / "meshes/egg.obj", 1);
    CHECK(mentions(loaded(), "number 0 is egg, and was flat"));
    o.resume = true;
    CHECK_THROWS_AS(quietly(o), UsageError);
  }
}

TEST_CASE("meshes of one name are told apart, and no terminal obeys a name", "[shapes]") {
  const TempDir dir;
  write_shape(dir / "a.obj", 1);
  spit(dir / "a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n");
  write_shape(dir / "b\x1b[31m.obj", 1);
  const std::string lengthy(90, 'c');  // what is shown of a name is cut
  write_shape(dir / (lengthy + "1.obj"), 1);
  write_shape(dir / (lengthy + "2.obj"), 1);
  write_shape(dir / (lengthy + "3.obj"), 1);
  const std::string cut = std::string(80, 'c') + "...";
  CHECK(tools::read_shapes("points", dir.path, 6).names ==
        std::vector<std::string>{"a", "a.off", "b\\x1b[31m", cut, cut + "-2", cut + "-3"});
}
