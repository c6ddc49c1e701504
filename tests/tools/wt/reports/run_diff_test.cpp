// Two runs beside each other (M10 of the feature list): a planted unit in the last place is the
// first difference, whatever has moved around it.
#include "warptape/tools/wt/reports/run_diff.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/autograd/recorder.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/tools/wt/training/tiny_run.h"
#include "warptape/tools/wt/reports/run_diff_output.h"

using namespace wt;
using namespace wt::tools;
using record::Recorder;
using record::RecordingFile;

namespace {

enum class Plant { nothing, result, gradient };

Tensor one_unit_more(const Tensor& x) {
  Tensor y = x.clone();
  if (y.device() == Device::cpu()) {
    float* p = y.mutable_data<float>();
    float* most = std::max_element(p, p + y.numel(),
                                   [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    *most = std::nextafter(*most, 1e30f);
    return y;
  }
  const Tensor other = one_unit_more(x.to(Device::cpu()));
  y.copy_(other);
  return y;
}

// The identity, as a kernel that has a fault: one unit in the last place of its largest element.
struct Faulty {
  Plant plant = Plant::nothing;
  static constexpr OpInfo info{.name = "faulty"};
  Tensor forward(Save&, const Tensor& x) const {
    return plant == Plant::result ? one_unit_more(x) : x.clone();
  }
  Grads backward(const Saved&, const Tensor& gy) const {
    return {plant == Plant::gradient ? one_unit_more(gy) : gy};
  }
};

struct Block : nn::Module<Block> {
  nn::Linear in = add("in", nn::Linear{8, 16}), out = add("out", nn::Linear{16, 8});
  Plant plant = Plant::nothing;
  Tensor forward(Tensor x) { return x + out(apply(Faulty{plant}, gelu(in(x)))); }
};
struct Net : nn::Module<Net> {
  Block first = add("first", Block{}), second = add("second", Block{});
  nn::Linear head = add("head", nn::Linear{8, 4});
  Tensor forward(Tensor x) { return head(second(first(std::move(x)))); }
};
int call_line = 0;  // where the model is called

struct RunOf {
  Plant plant = Plant::nothing;  // in the second block, from step 2
  Device device = Device::cpu();
  std::optional<DType> autocast = {};
  i64 steps = 4;
};

void run(const std::string& path, const RunOf& o = {}) {
  manual_seed(11);
  Net net;
  net.to(o.device);
  optim::Sgd opt{net, {.lr = 0.1}};
  Recorder recorder(path);
  for (i64 n = 1; n <= o.steps; ++n) {
    const Tensor x = randn({6, 8}).to(o.device);
    net.second.plant = n >= 2 ? o.plant : Plant::nothing;
    recorder.step(n, [&] {
      for (const auto& p : net.named_parameters()) recorder.note(p.name, p.tensor);
      Tensor y;
      {
        std::optional<AutocastScope> cast;
        if (o.autocast) cast.emplace(*o.autocast);
        call_line = __LINE__ + 1;
        y = net(x);
      }
      const Tensor loss = mean(square(y.to(f32)));
      opt.zero_grad();
      loss.backward();
      if (o.autocast != f16) opt.step();  // which wants a loss scale
    });
  }
}

RunDiff diff_of(const std::string& a, const std::string& b, double bound = 1) {
  RecordingFile x(a), y(b);
  return diff_runs(x, y, {.bound = bound});
}

// A step of entries without values: "kind op module line", f or b for the direction.
record::Step step_of(const std::vector<std::string>& rows) {
  record::Step s;
  s.strings = {""};
  const auto number = [&](const std::string& text) {
    s.strings.push_back(text);
    return u32(s.strings.size() - 1);
  };
  for (const std::string& row : rows) {
    std::vector<std::string> words{""};
    for (const char c : row)
      if (c == ' ')
        words.emplace_back();
      else
        words.back() += c;
    record::Entry e;
    e.backward = words.at(0) == "b";
    e.op = number(words.at(1));
    e.module = number(words.at(2));
    e.line = number(words.at(3));
    e.shape = {std::stoll(words.at(4))};
    s.entries.push_back(e);
  }
  return s;
}
using Numbers = std::vector<std::pair<i64, i64>>;
Numbers aligned(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  Numbers out;
  for (const AlignedPair& p : align(step_of(a), step_of(b))) out.emplace_back(p.a, p.b);
  return out;
}

}  // namespace

TEST_CASE("M10: one unit in the last place of one result is found as the first difference") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const TempDir dir;
    run(dir / "a", {.device = d});
    run(dir / "b", {.plant = Plant::result, .device = d});
    const RunDiff r = diff_of(dir / "a", dir / "b");
    REQUIRE(r.first_bits);
    const DiffPlace& p = *r.first_bits;
    CHECK(p.step == 2);
    CHECK_FALSE(p.backward);
    CHECK(p.module == "second");
    CHECK(p.a.line == "run_diff_test.cpp:" + std::to_string(call_line));
    CHECK((p.what == "faulty" || p.what == "copy" || p.what == "copy_"));
    CHECK(p.relative > 0);
    CHECK(p.relative < 1e-7);
    CHECK_FALSE(r.first_beyond);
    CHECK(r.steps[0].other_bits == 0);
    CHECK(r.steps[1].other_bits >= 1);
    REQUIRE_FALSE(r.growth.empty());
    CHECK(r.growth.front().what == p.what);
    CHECK(r.growth.back().relative >= p.relative);
    CHECK(r.ends.empty());
  }
}

TEST_CASE("M10: one unit in the last place of one gradient is found as the first difference") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const TempDir dir;
    run(dir / "a", {.device = d});
    run(dir / "b", {.plant = Plant::gradient, .device = d});
    const RunDiff r = diff_of(dir / "a", dir / "b");
    REQUIRE(r.first_bits);
    CHECK(r.first_bits->step == 2);
    CHECK(r.first_bits->backward);
    CHECK(r.first_bits->module == "second");
    CHECK(mentions(r.first_bits->what, "faulty"));
    CHECK_FALSE(r.first_beyond);
    CHECK(r.steps[1].forward == 0);
    CHECK(r.steps[1].backward > 0);
  }
}

TEST_CASE("M10: equal runs are equal, on each device") {
  for (const Device d : wt_test::kernel_devices()) {
    const TempDir dir;
    run(dir / "a", {.device = d});
    run(dir / "b", {.device = d});
    const RunDiff r = diff_of(dir / "a", dir / "b");
    CHECK_FALSE(r.first_bits);
    CHECK(r.steps.size() == 4);
    CHECK(r.aligned == r.results_a);
    CHECK(mentions(diff_text(r, {"a", "b", "", "", 0}), "equal bit for bit"));
  }
}

TEST_CASE("M10: f32 beside 16 bits, cpu beside simt: all aligned, and within the coarser bound") {
  const TempDir dir;
  run(dir / "f32");
  run(dir / "simt", {.device = Device::simt()});
  const RunDiff devices = diff_of(dir / "f32", dir / "simt");
  CHECK(devices.related);
  CHECK_FALSE(devices.first_beyond);
  CHECK(devices.ends.empty());
  for (const DType t : {f16, bf16}) {
    CAPTURE(dtype_name(t));
    run(dir / "low", {.autocast = t, .steps = 1});
    const RunDiff r = diff_of(dir / "f32", dir / "low");
    CHECK(r.related);
    CHECK(r.aligned >= r.results_a * 9 / 10);  // casts have no counterpart
    REQUIRE(r.first_bits);
    CHECK(r.first_bits->judged_as == t);
    INFO(diff_text(r, {"f32", "low", "", "", 0}));
    CHECK_FALSE(r.first_beyond);
    const RunDiff strict = diff_of(dir / "f32", dir / "low", 1e-4);
    REQUIRE(strict.first_beyond);
    CHECK(strict.first_beyond->module == "first.in");
  }
}

TEST_CASE("M10: two variants of a kernel are told by name") {
  const TempDir dir;
  run(dir / "a");
  {
    const VariantScope plain("matmul", "reference");
    run(dir / "b");
  }
  const RunDiff r = diff_of(dir / "a", dir / "b");
  CHECK_FALSE(r.first_beyond);
  if (!r.first_bits) SKIP_TEST("the variants give the same bits here");
  CHECK(mentions(r.first_bits->b.kernel, "matmul:reference"));
  CHECK(r.first_bits->a.kernel != r.first_bits->b.kernel);
}

TEST_CASE("alignment: casts, moved lines and repeated operators keep the rest together") {
  const std::vector<std::string> a = {"f mul m x:1 4", "f add m x:2 4", "f mul m x:3 4",
                                      "b mul m x:3 4"};
  CHECK(aligned(a, a) == Numbers{{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  CHECK(aligned(a, {"f to m x:1 4", "f mul m x:1 4", "f to m x:2 4", "f add m x:2 4",
                    "f mul m x:3 4", "b to m x:3 4", "b mul m x:3 4"}) ==
        Numbers{{-1, 0}, {0, 1}, {-1, 2}, {1, 3}, {2, 4}, {-1, 5}, {3, 6}});
  CHECK(aligned(a, {"f mul m x:11 4", "f add m x:12 4", "f mul m x:13 4", "b mul m x:13 4"}) ==
        Numbers{{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  // Another batch: shapes differ, places do not.
  CHECK(aligned(a, {"f mul m x:1 8", "f add m x:2 8", "f mul m x:3 8", "b mul m x:3 8"}) ==
        Numbers{{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  CHECK(aligned({"f exp m x:1 4"}, {"f log m x:1 4"}) == Numbers{{0, -1}, {-1, 0}});
  CHECK(aligned({}, a).size() == 4);
  // A loop of which one turn more is made.
  const std::vector<std::string> turn = {"f mul m x:1 4", "f add m x:2 4"};
  std::vector<std::string> two = turn, three = turn;
  two.insert(two.end(), turn.begin(), turn.end());
  three.insert(three.end(), two.begin(), two.end());
  CHECK(aligned(two, three) == Numbers{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {-1, 4}, {-1, 5}});
}

TEST_CASE("M10: of runs of different models it is said where the alignment ends") {
  const TempDir dir;
  run(dir / "a");
  {
    manual_seed(11);
    nn::Sequential net{nn::Conv2d{1, 2, {.kernel = 3}}, nn::Flatten{}, nn::Tanh{}};
    Recorder r(dir / "b");
    r.step(1, [&] { sum(net(ones({1, 1, 4, 4}))).backward(); });
  }
  const RunDiff r = diff_of(dir / "a", dir / "b");
  CHECK_FALSE(r.related);
  CHECK_FALSE(r.ends.empty());
  CHECK(r.steps_only_a == 3);
  const std::string text = diff_text(r, {"a", "b", "", "", 0});
  CHECK(mentions(text, "not of one model"));
  CHECK(mentions(text, "the alignment ends: "));
}

TEST_CASE("M10: wt train --log-tensors: equal runs, a run that goes on, and another precision") {
  const TempDir dir;
  std::ofstream(dir / "text") << std::string(400, 'a') + "bcdefghij";
  const auto trained = [&](const std::string& name, const auto& change) {
    TrainOptions o = wt_test::tiny_run(dir, name);
    o.device = "cpu";
    o.log_tensors = 3;
    change(o);
    (void)train(o);
    return o.out + "/tensors.wtd";
  };
  const std::string a = trained("a", [](TrainOptions&) {});
  const std::string b = trained("b", [](TrainOptions& o) { o.steps = 8; });
  const RunDiff same = diff_of(a, b);
  CHECK_FALSE(same.first_bits);
  REQUIRE(same.steps.size() == 3);  // 1, 3, 6
  CHECK(same.steps[0].aligned > 40);
  CHECK(RecordingFile(a).header().label == "charlm on cpu, f32");
  const RunDiff low = diff_of(a, trained("low", [](TrainOptions& o) { o.precision = "bf16"; }));
  CHECK(low.related);
  REQUIRE(low.first_bits);
  CHECK(low.first_bits->judged_as == bf16);
  const std::string more = trained("a", [](TrainOptions& o) { o.resume = true; });
  CHECK_FALSE(diff_of(more, b).first_bits);
}

TEST_CASE("M10: of one rank and two the parameters are compared") {
  const TempDir dir;
  std::ofstream(dir / "text") << std::string(400, 'a') + "bcdefghij";
  TrainOptions o = wt_test::tiny_run(dir, "one", "0");
  o.log_tensors = 4;
  (void)train(o);
  o.out = dir / "two";
  o.ranks = 2;
  (void)train(o);
  CHECK(RecordingFile(dir / "two/tensors.rank1.wtd").header().rank == 1);
  const RunDiff r = diff_of(dir / "one/tensors.wtd", dir / "two/tensors.wtd");
  CHECK(r.partial_batches);
  CHECK(r.related);
  REQUIRE(r.steps.size() == 3);
  CHECK(r.steps[0].noted == 0);
  CHECK(r.steps[0].other_bits == 0);
  CHECK(r.steps[2].noted > 0);  // other orders of the batch's sums
  CHECK(mentions(diff_text(r, {"one", "two", "", "", 0}), "other numbers of ranks"));
}

TEST_CASE("M10: the differences as text, JSON and a page") {
  const TempDir dir;
  run(dir / "a");
  run(dir / "b", {.plant = Plant::result});
  const RunDiff r = diff_of(dir / "a", dir / "b", 1e-9);
  REQUIRE(r.first_beyond);
  const DiffNames names{"runs/<a>", "runs/b\x1b[1m", "A's", "B's", 0};
  const std::string text = diff_text(r, names);
  CHECK(mentions(text, "differ beyond the bound"));
  CHECK(mentions(text, "the first beyond its bound at step 2"));
  CHECK(mentions(text, "second: "));
  CHECK(text.find('\x1b') == text.npos);
  const std::string json = diff_json(r, names);
  CHECK(json.find('\n') == json.npos);
  CHECK(mentions(json, "\"first_bits\":{\"step\":2,"));
  const std::string page = diff_page(r, names);
  CHECK(mentions(page, "runs/&lt;a&gt;"));
  CHECK(page.find("http:") == page.find("http://www.w3.org/2000/svg"));
  CHECK(page.find("https:") == page.npos);
  CHECK(mentions(page, "prefers-color-scheme:dark"));
  CHECK(mentions(page, "Difference in step 2"));
  CHECK(mentions(page, "Largest difference of each step"));
}
