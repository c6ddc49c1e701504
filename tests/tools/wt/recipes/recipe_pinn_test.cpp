// The recipe pinn. That it solves the equation: recipe_results_test.sh.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>
#include <set>

#include "warptape/autograd/ops.h"
#include "warptape/core/memory.h"
#include "warptape/core/npy.h"
#include "warptape/core/random.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"
#include "warptape/tools/wt/doctor/recipe_doctor.h"
#include "warptape/tools/wt/measure/memory_use.h"
#include "warptape/tools/wt/recipes/burgers.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;

namespace {

const std::vector<std::string> kTiny = {"layers=2", "width=6",      "points=100",
                                        "rounds=3", "iterations=4", "round_ratio=0.5"};

void save_npy(const std::string& path, const Tensor& t) {
  const Shape shape = t.shape();
  write_npy(path, t.dtype(), std::vector<i64>(shape.begin(), shape.end()), t.data<double>());
}
void save_field(const TempDir& dir, const tools::BurgersField& f) {
  save_npy(dir / "x.npy", tensor(f.x));
  save_npy(dir / "t.npy", tensor(f.t));
  save_npy(dir / "u.npy", tensor(f.u).reshape({i64(f.x.size()), i64(f.t.size())}));
}

// u at (x, t) of the recipe's network.
double value(tools::Recipe& r, double x, double t) {
  return r.logits(tensor({{x, 2 * t - 1}}, {.dtype = DType::f64})).item();
}

}  // namespace

TEST_CASE("row 11: the residual of a network is what finite differences of it say", "[pinn]") {
  for (const Device d : wt_test::kernel_devices()) {
    INFO(to_string(d));
    manual_seed(3);
    const auto r = tools::find_recipe("pinn").make(
        tools::Settings({"layers=2", "width=6", "points=100", "ratio=1"}));
    const double x = 0.3, t = 0.4, h = 1e-4;
    const double u = value(*r, x, t), right = value(*r, x + h, t), left = value(*r, x - h, t);
    const double ut = (value(*r, x, t + h) - value(*r, x, t - h)) / (2 * h);
    const double residual =
        ut + u * (right - left) / (2 * h) - tools::kViscosity * (right - 2 * u + left) / (h * h);
    // Whatever the network says.
    for (const double at : {-0.7, 0.0, 0.4})
      CHECK(value(*r, at, 0) == -std::sin(std::numbers::pi * at));
    for (const double side : {-1.0, 1.0}) CHECK(std::fabs(value(*r, side, t)) < 1e-15);
    r->model().to(ready(d));
    const Tensor p = tensor({{x, 2 * t - 1}}, {.dtype = DType::f64}).to(d);
    const double loss = r->loss({p, zeros({1, 1}, {.dtype = DType::f64})}).item();
    CHECK(std::fabs(loss - residual * residual) < 1e-6);
    CHECK(residual * residual > 1e-4);
  }
}

TEST_CASE("pinn: the computed solution solves the equation and is the one that others have",
          "[pinn]") {
  const tools::BurgersField f = tools::exact_burgers();
  REQUIRE(f.u.size() == 25'600);
  CHECK(f.at(0, 0) == -std::sin(std::numbers::pi * -1.0));
  const std::string data = test_data("burgers/u.npy");
  if (data.empty()) SKIP_TEST("no burgers in WT_TEST_DATA or shared/data");
  const tools::BurgersField other = tools::read_burgers(data.substr(0, data.rfind('/')));
  REQUIRE(other.u.size() == f.u.size());
  double most = 0;
  for (size_t i = 0; i < f.u.size(); ++i) most = std::max(most, std::fabs(f.u[i] - other.u[i]));
  CHECK(most < 1e-10);
}

TEST_CASE("pinn: an epoch's points are a Latin hypercube, another one each time", "[pinn]") {
  const tools::CollocationPoints points(50, 3, DType::f64);
  std::vector<i64> all;
  for (i64 i = 0; i < 50; ++i) all.push_back(i);
  const std::vector<double> a = points.batch(all, 0).x.to_vector<double>(),
                            b = points.batch(all, 1).x.to_vector<double>();
  CHECK(a == points.batch(all, 0).x.to_vector<double>());
  CHECK(a != b);
  for (const auto* p : {&a, &b})
    for (size_t axis = 0; axis < 2; ++axis) {
      std::set<i64> cells;
      for (size_t i = axis; i < p->size(); i += 2)
        cells.insert(i64(std::floor(((*p)[i] + 1) / 2 * 50)));
      CHECK(cells.size() == 50);
      CHECK(*cells.begin() == 0);
      CHECK(*cells.rbegin() == 49);
    }
}

TEST_CASE("pinn: Adam sees a tenth of the points, a round those with a large residual more often",
          "[pinn]") {
  manual_seed(4);
  const auto r = tools::find_recipe("pinn").make(
      tools::Settings({"layers=1", "width=4", "points=4000", "round_ratio=0.1"}));
  std::vector<i64> all;
  for (i64 i = 0; i < 4000; ++i) all.push_back(i);
  const data::Batch whole = r->load("synthetic").train.batch(all);
  CHECK(whole.x.shape() == Shape{4000, 2});
  CHECK(r->loss(whole).weight.item() == 400);
  const data::Batch chosen = r->round_batch(whole);
  CHECK(chosen.x.shape() == Shape{400, 2});
  CHECK(r->round_loss(chosen).item() > 1.2 * r->round_loss(whole).item());
}

TEST_CASE("pinn: a round tells the loss of where it stopped, and its memory is predicted",
          "[pinn]") {
  tools::TrainOptions o;
  o.recipe = "pinn";
  o.set = {"layers=2", "width=6", "points=4000", "rounds=1", "iterations=60", "round_ratio=1"};
  o.data = "synthetic";
  o.steps = 3;
  const Device cpu = Device::cpu();
  manual_seed(1);
  const auto r = tools::make_recipe(o.recipe, o.set, o.data);
  tools::RecipeTraining training(o, tools::resolve(o, *r), *r, o.steps);
  std::vector<i64> all(4000);
  std::iota(all.begin(), all.end(), i64{0});
  const data::Batch b = r->load(o.data).train.batch(all);
  const i64 before = memory::stats(cpu).live;
  memory::reset_peak(cpu);
  for (int i = 0; i < 2; ++i) training.step(b);
  CHECK(!std::isnan(training.step(b).read().loss));
  const i64 taken = memory::stats(cpu).peak - before;
  const double told = training.step(b).read().loss, is = r->round_loss(b).item();
  CHECK(std::fabs(told / is - 1) < 1e-12);
  const tools::MemoryUse use = tools::predicted_steps(
      {"", o, [&] { return tools::make_recipe(o.recipe, o.set, o.data); }, false});
  CHECK(std::abs(double(taken) / double(use.peak.bytes) - 1) < 0.03);
}

TEST_CASE("pinn: a doctor sees steps, and no rounds", "[pinn]") {
  tools::TrainOptions o;
  o.recipe = "pinn";
  o.set = kTiny;
  o.steps = 4;  // of which three would be rounds
  const tools::RecipeExam exam = tools::examine_recipe(o, {.steps = 6});
  for (const doctor::Finding& f : exam.report.findings) CHECK(f.rule != "step-fails");
  CHECK(exam.report.steps == 6);
}

TEST_CASE("pinn: a run that goes on, in Adam's steps and in L-BFGS's rounds, ends in the same bits",
          "[pinn]") {
  const TempDir dir;
  tools::TrainOptions o;
  o.recipe = "pinn";
  o.set = kTiny;
  o.data = "synthetic";
  o.steps = 6;
  o.save_every = 1;
  o.keep = 50;
  o.quiet = true;
  o.out = dir / "run";
  const auto run = [&] {
    const CapturedOutput output;
    return tools::train(o);
  };
  REQUIRE(run() == 0);
  const auto checkpoint = [&](int step) {
    return o.out + "/ckpt/step-00000" + std::to_string(step) + ".safetensors";
  };
  const std::string report = slurp(o.out + "/report.html");
  CHECK(mentions(report, "relative L2 error"));
  CHECK(!mentions(report, "nats"));
  const std::string end = slurp(checkpoint(6)), page = slurp(o.out + "/field.html");
  CHECK(slurp(o.out + "/field.png").substr(1, 3) == "PNG");
  o.resume = true;
  for (const int from : {5, 4, 2}) {
    CAPTURE(from);
    for (int step = from + 1; step <= 6; ++step) std::filesystem::remove(checkpoint(step));
    REQUIRE(run() == 0);
    CHECK(slurp(checkpoint(6)) == end);
    CHECK(slurp(o.out + "/field.html") == page);
  }
}

TEST_CASE("pinn: what is missing or wrong is named", "[pinn]") {
  const TempDir dir;
  const auto r = tools::find_recipe("pinn").make(tools::Settings(kTiny));
  CHECK_THROWS_AS(r->load(""), UsageError);
  const auto says = [&](const std::string& part) {
    CHECK_THROWS_AS(r->load(dir.path), DataError);
    CHECK(mentions(message_of([&] { r->load(dir.path); }), part));
  };
  says("x.npy: is not there\n  Expected x.npy [nx], t.npy [nt] and u.npy [nx, nt]");
  tools::BurgersField f{{-1, 0, 1}, {0, 0.5}, {1, 2, 3, 4, 5, 6}};
  save_field(dir, f);
  CHECK(r->load(dir.path).held_out.size() == 6);
  save_npy(dir / "u.npy", tensor(f.u).reshape({2, 3}));
  says("u.npy: has the shape [2, 3], expected [3, 2]");
  f.u[4] = std::nan("");
  save_field(dir, f);
  says("u.npy: element 4 is nan");
  f.t = {0, 2};
  save_field(dir, f);
  says("t.npy: element 1 is 2, expected ascending numbers from 0 to 1");
  f.x = {0, -1, 1};
  save_field(dir, f);
  says("x.npy: element 1 is -1, expected ascending");

  tools::TrainOptions o;
  o.recipe = "pinn";
  o.set = kTiny;
  o.data = "synthetic";
  o.steps = 5;
  o.quiet = true;
  const auto refused = [](const tools::TrainOptions& t, const std::string& part) {
    CHECK_THROWS_AS(tools::train(t), UsageError);
    CHECK(mentions(message_of([&] { tools::train(t); }), part));
  };
  tools::TrainOptions t = o;
  t.precision = "f16";
  refused(t, "--precision: the last steps are rounds of L-BFGS");
  t = o, t.micro_batches = 2;
  refused(t, "--micro-batches");
  t = o, t.ema = 0.9;
  refused(t, "--ema");
  t = o, t.monitor = "accuracy";
  refused(t, "--monitor accuracy: pinn has none");
}
