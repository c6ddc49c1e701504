// What a Recorder keeps of a run (M10 of the feature list), that nothing is computed differently
// for it, and what its reader says of files that are not whole.
#include "warptape/autograd/recorder.h"

#include <cmath>
#include <fstream>
#include <thread>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/autograd/recording.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/factories.h"
#include "warptape/core/profile.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using record::Recorder;
using record::RecordingFile;

namespace {

int call_line = 0;  // where the model is called
struct Net : nn::Module<Net> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 8});
  nn::Dropout drop = add("drop", nn::Dropout{0.25});
  nn::Linear fc2 = add("fc2", nn::Linear{8, 3});
  Tensor forward(Tensor x) { return fc2(drop(gelu(fc1(std::move(x))))); }
};

struct Twice {
  static constexpr OpInfo info{.name = "twice"};
  std::vector<Tensor> forward(Save&, const Tensor& x) const { return {x.clone(), x.clone()}; }
  Grads backward(const Saved&, const std::vector<Tensor>& g) const { return {g[0] + g[1]}; }
};

std::vector<record::Step> steps_of(const std::string& path) {
  RecordingFile file(path);
  std::vector<record::Step> steps;
  for (record::Step s; file.next(s);) steps.push_back(s);
  return steps;
}
std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Its parameters after the steps.
std::vector<std::vector<float>> train(Device d, i64 steps, Recorder* recorder) {
  manual_seed(3);
  Net net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  for (i64 n = 1; n <= steps; ++n) {
    const Tensor x = randn({5, 6}).to(d);
    const auto one = [&] {
      call_line = __LINE__ + 1;
      const Tensor loss = mean(square(net(x)));
      opt.zero_grad();
      loss.backward();
      opt.step();
    };
    if (recorder)
      recorder->step(n, one);
    else
      one();
  }
  std::vector<std::vector<float>> values;
  for (const auto& p : net.named_parameters()) values.push_back(p.tensor.to_vector<float>());
  values.push_back(rand({4}).to_vector<float>());
  return values;
}

Geometry geometry_of(const Tensor& t) { return t.impl()->geometry; }
record::Digest digest(const Tensor& t) { return record::digest_of(t.impl()->data, geometry_of(t)); }

const record::Entry* find(const record::Step& s, record::What what, const std::string& op,
                          const std::string& module = "", bool backward = false) {
  for (const record::Entry& e : s.entries)
    if (e.what == what && s.text(e.op) == op && s.text(e.module) == module &&
        e.backward == backward)
      return &e;
  return nullptr;
}

}  // namespace

TEST_CASE("M10: a recorder keeps results and gradients by operator, module, line and direction") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const TempDir dir;
    {
      Recorder r(dir / "t.wtd", {.every = 2, .label = "a net"});
      train(d, 5, &r);
    }
    const RecordingFile file(dir / "t.wtd");
    CHECK(file.header().label == "a net");
    CHECK(file.header().every == 2);
    const auto steps = steps_of(dir / "t.wtd");
    REQUIRE(steps.size() == 3);
    CHECK(steps[0].number == 1);
    CHECK(steps[1].number == 2);
    CHECK(steps[2].number == 4);
    const record::Step& s = steps[1];
    const record::Entry* y = find(s, record::What::result, "gelu");
    REQUIRE(y);
    CHECK(y->shape == std::vector<i64>{5, 8});
    CHECK(y->dtype == f32);
    CHECK(s.text(y->line) == "recorder_test.cpp:" + std::to_string(call_line));
    CHECK(mentions(s.text(y->kernel), ":"));
    CHECK(y->digest.nonfinite == 0);
    CHECK(y->digest.largest > 0);
    const record::Entry* product = nullptr;
    const record::Entry* gradient = nullptr;
    for (const record::Entry& e : s.entries) {
      if (s.text(e.module) != "fc1") continue;
      if (e.what == record::What::result && !e.backward) product = &e;
      if (e.what == record::What::gradient && e.shape == std::vector<i64>{8, 6}) gradient = &e;
    }
    REQUIRE(product);
    REQUIRE(gradient);  // of fc1.weight
    CHECK(gradient->backward);
    CHECK(s.text(gradient->line) == "recorder_test.cpp:" + std::to_string(call_line));
    CHECK(gradient > product);
  }
}

TEST_CASE("a run that is recorded has the bits of one that is not") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const TempDir dir;
    const auto plain = train(d, 4, nullptr);
    Recorder a(dir / "a.wtd"), b(dir / "b.wtd");
    CHECK(train(d, 4, &a) == plain);
    CHECK(train(d, 4, &b) == plain);
    CHECK(bytes_of(dir / "a.wtd") == bytes_of(dir / "b.wtd"));
    CHECK(steps_of(dir / "a.wtd").size() == 4);
  }
  CHECK((process_slow.load() & kSlowObserved) == 0);
}

TEST_CASE(
    "a recorder makes the host wait for nothing that a SyncGuard counts, and writes nothing") {
  const TempDir dir;
  Recorder r(dir / "t.wtd");
  const Tensor x = ones({3}), w = ones({3}, {.requires_grad = true});
  const u32 version = x.version();
  const SyncGuard guard;
  r.step(1, [&] {
    r.note("x", x);
    sum(x * w).backward();
  });
  CHECK(x.version() == version);
  const auto steps = steps_of(dir / "t.wtd");
  REQUIRE(steps.size() == 1);
  CHECK(find(steps[0], record::What::noted, "x"));
  CHECK(find(steps[0], record::What::result, "mul"));
  CHECK(find(steps[0], record::What::gradient, "mul", "", true));
}

TEST_CASE("a recorder sees outputs of several, results in place, gradients that grads() returns") {
  const TempDir dir;
  Recorder r(dir / "t.wtd");
  r.step(1, [&] {
    const Tensor x = tensor({3., 1., 2.}, {.dtype = f32, .requires_grad = true});
    const std::vector<Tensor> two = apply(Twice{}, x);
    Tensor y = two[0] * 2.0;
    y.mul_(3.0);
    (void)grads({y.sum() + two[1].sum()}, {x});
  });
  const record::Step s = steps_of(dir / "t.wtd").at(0);
  int outputs = 0;
  for (const record::Entry& e : s.entries)
    if (s.text(e.op) == "twice" && e.what == record::What::result) outputs += 1 << e.index;
  CHECK(outputs == 3);
  CHECK(find(s, record::What::result, "mul_"));
  const record::Entry* g = find(s, record::What::gradient, "twice", "", true);
  REQUIRE(g);
  CHECK(g->shape == std::vector<i64>{3});
  CHECK(g->digest.mean == 7);
}

TEST_CASE("a digest is of values in logical order, of every dtype") {
  const Tensor x = randn({37, 41});
  const record::Digest d = digest(x);
  CHECK(digest(x.transpose(0, 1).contiguous().transpose(0, 1)).hash == d.hash);
  CHECK(digest(x.transpose(0, 1).contiguous().transpose(0, 1)).sketch == d.sketch);
  CHECK(digest(x.transpose(0, 1)).hash != d.hash);
  CHECK(digest(x.clone()).hash == d.hash);
  CHECK(std::fabs(d.mean - double(x.mean().item())) < 1e-6);
  CHECK(d.largest == x.abs().max().item());
  const auto all = x.to_vector<float>();
  CHECK(d.samples.front() == all.front());
  CHECK(d.samples.back() == all.back());
  for (int t = 0; t < kNumDTypes; ++t) {
    CAPTURE(dtype_name(DType(t)));
    const record::Digest one = digest(ones({1500}, {.dtype = DType(t)}));
    CHECK(one.mean == 1);
    CHECK(one.rms == 1);
    CHECK(one.largest == 1);
    CHECK(one.nonfinite == 0);
  }
  CHECK(digest(zeros({0})).rms == 0);
  CHECK(digest(zeros({})).largest == 0);
}

TEST_CASE("a digest tells one unit in the last place, signs of zero, and what is not finite") {
  Tensor x = randn({3000});
  const record::Digest before = digest(x);
  float* p = x.mutable_data<float>();
  const float old = p[1234];
  p[1234] = std::nextafter(old, 10.f);
  const record::Digest after = digest(x);
  CHECK(after.hash != before.hash);
  double squares = 0;
  for (size_t k = 0; k < after.sketch.size(); ++k)
    squares += std::pow(after.sketch[k] - before.sketch[k], 2);
  CHECK(std::fabs(std::sqrt(squares) / double(p[1234] - old) - 1) < 1e-4);
  p[7] = 0.f;
  const u64 positive = digest(x).hash;
  p[7] = -0.f;
  CHECK(digest(x).hash != positive);
  p[7] = NAN, p[8] = INFINITY;
  const record::Digest bad = digest(x);
  CHECK(bad.nonfinite == 2);
  CHECK(std::isfinite(bad.mean + bad.rms + bad.largest));
}

TEST_CASE("the sketches of two tensors estimate the norm of their difference") {
  for (const int n : {100, 5000, 300000}) {
    CAPTURE(n);
    const Tensor x = randn({n});
    for (const Tensor& y : {x + 1e-3 * randn({n}), x + 1e-3, x * 1.001}) {
      const record::Digest a = digest(x), b = digest(y);
      double squares = 0;
      for (size_t k = 0; k < a.sketch.size(); ++k)
        squares += std::pow(a.sketch[k] - b.sketch[k], 2);
      const double truth = (x - y).square().sum().sqrt().item();
      CHECK(std::sqrt(squares) > truth / 2);
      CHECK(std::sqrt(squares) < truth * 2);
    }
  }
}

TEST_CASE("a recording that was cut anywhere is read up to its last whole step") {
  const TempDir dir;
  {
    Recorder r(dir / "t.wtd");
    for (i64 n = 1; n <= 3; ++n) r.step(n, [&] { (void)(ones({2}) * double(n)); });
  }
  const std::string whole = bytes_of(dir / "t.wtd");
  std::vector<u64> ends;
  {
    RecordingFile file(dir / "t.wtd");
    ends.push_back(file.offset());
    for (record::Step s; file.next(s);) ends.push_back(file.offset());
    CHECK_FALSE(file.cut_off());
  }
  REQUIRE(ends.size() == 4);
  REQUIRE(ends.back() == whole.size());
  for (u64 size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    write(dir / "cut.wtd", whole.substr(0, size));
    if (size < ends[0]) {
      CHECK_THROWS_AS(RecordingFile(dir / "cut.wtd"), DataError);
      continue;
    }
    RecordingFile file(dir / "cut.wtd");
    size_t steps = 0;
    for (record::Step s; file.next(s);) ++steps;
    CHECK(ends[steps] <= size);
    CHECK((steps == 3 || ends[steps + 1] > size));
    CHECK(file.cut_off() == (ends[steps] != size));
  }
}

TEST_CASE("every flipped bit of a recording is damage") {
  const TempDir dir;
  {
    Recorder r(dir / "t.wtd", {.label = "x"});
    for (i64 n = 1; n <= 2; ++n) r.step(n, [&] { (void)(ones({2}) * double(n)); });
  }
  const std::string whole = bytes_of(dir / "t.wtd");
  for (size_t bit = 0; bit < whole.size() * 8; bit += bit < 1200 ? 1 : 7) {
    CAPTURE(bit);
    std::string other = whole;
    other[bit / 8] = char(other[bit / 8] ^ 1 << bit % 8);
    write(dir / "bad.wtd", other);
    const std::string said = message_of([&] { steps_of(dir / "bad.wtd"); });
    CHECK(said.rfind("DataError: ", 0) == 0);
  }
}

TEST_CASE("recording: whatever is done to a file, the reader refuses it or reads what is there") {
  const TempDir dir;
  {
    Recorder r(dir / "t.wtd", {.label = "x"});
    for (i64 n = 1; n <= 3; ++n) r.step(n, [&] { (void)(ones({2, 3}) * double(n)); });
  }
  const std::string golden = bytes_of(dir / "t.wtd");
  REQUIRE(wt_test::takes_recording(golden));
  const std::vector<std::string_view> words{"\xff\xff\xff\xff", std::string_view("\0\0\0\0", 4),
                                            "STEP", "\xff\xff\xff\xff\xff\xff\xff\x7f"};
  FuzzPlan plan(3000, 8);
  const long long accepted = taken_of(plan, {golden}, words, wt_test::takes_recording);
  CHECK(accepted > 0);  // what was cut off ends earlier
  CHECK(accepted < plan.cases / 2);
}

TEST_CASE("a run that goes on keeps the steps before, and cuts those after") {
  const TempDir dir;
  const auto run = [&](i64 first, i64 last, i64 keep) {
    Recorder r(dir / "t.wtd", {.keep_before = keep});
    for (i64 n = first; n <= last; ++n) r.step(n, [&] { (void)(ones({2}) * double(n)); });
  };
  run(1, 5, 0);
  const std::string once = bytes_of(dir / "t.wtd");
  run(1, 4, 0);
  write(dir / "t.wtd", bytes_of(dir / "t.wtd") + "torn");
  run(4, 5, 4);
  CHECK(bytes_of(dir / "t.wtd") == once);
  run(1, 2, 0);
  CHECK(steps_of(dir / "t.wtd").size() == 2);
  CHECK(mentions(message_of([&] { run(2, 2, 3); }), "step 2 comes after step 2"));
  write(dir / "t.wtd", "something else, of some length");
  CHECK(mentions(message_of([&] { run(2, 2, 2); }), "no recording of tensors"));
}

TEST_CASE("what a step has done before it throws is in the recording") {
  const TempDir dir;
  Recorder r(dir / "t.wtd");
  CHECK_THROWS_AS(r.step(1,
                         [&] {
                           (void)exp(ones({2}));
                           throw DataError("no more");
                         }),
                  DataError);
  CHECK_FALSE(r.recording());
  CHECK(find(steps_of(dir / "t.wtd").at(0), record::What::result, "exp"));
  CHECK(r.step(2, [] { return 7; }) == 7);
}

TEST_CASE("a recorder says what cannot be recorded") {
  const TempDir dir;
  CHECK_THROWS_AS(Recorder(dir / "t.wtd", {.every = 0}), UsageError);
  CHECK_THROWS_AS(Recorder(dir / "none/t.wtd"), CheckpointError);
  CHECK_THROWS_AS(Recorder(dir.path), CheckpointError);
  Recorder a(dir / "a.wtd"), b(dir / "b.wtd");
  a.begin(1);
  CHECK(mentions(message_of([&] { b.begin(1); }), "recorded by another Recorder"));
  a.end();
  b.begin(1);
  b.end();
  // Slices of vmap() are left out.
  a.step(2, [&] { (void)vmap([](const Tensor& x) { return exp(x); })(ones({3, 2})); });
  CHECK_FALSE(find(steps_of(dir / "a.wtd").at(1), record::What::result, "exp"));
}

TEST_CASE("a step that cannot be written leaves the recording as it was") {
  const TempDir dir;
  Recorder r(dir / "t.wtd");
  r.step(1, [] { (void)exp(ones({2})); });
  const std::string before = bytes_of(dir / "t.wtd");
  {
    const FaultyFiles full(1, ENOSPC);
    CHECK_THROWS_AS(r.step(2, [] { (void)exp(ones({2})); }), CheckpointError);
  }
  CHECK(bytes_of(dir / "t.wtd") == before);
  r.step(3, [] { (void)exp(ones({2})); });
  CHECK(steps_of(dir / "t.wtd").size() == 2);
}

TEST_CASE("each thread's recorder has what that thread does") {
  const TempDir dir;
  const auto run = [&](const std::string& name, double by) {
    Recorder r(dir / name);
    for (i64 n = 1; n <= 20; ++n) r.step(n, [&] { (void)(ones({2}) * by); });
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < 6; ++k) threads.emplace_back([&, k] { run(std::to_string(k), double(k)); });
  for (std::thread& t : threads) t.join();
  for (int k = 0; k < 6; ++k)
    for (const record::Step& s : steps_of(dir / std::to_string(k))) {
      const record::Entry* e = find(s, record::What::result, "mul");
      REQUIRE(e);
      CHECK(e->digest.mean == k);
    }
}

TEST_CASE("a captured training step runs eagerly while it is recorded") {
  const TempDir dir;
  const auto run = [&](Recorder* recorder) {
    manual_seed(3);
    nn::Sequential net{nn::Linear{4, 8}, nn::ReLU{}, nn::Linear{8, 2}};
    net.to(Device::simt());
    optim::Sgd opt{net, {.lr = 0.1}};
    TrainStep step{net, opt, {.graph = true}};
    const Tensor x = ones({3, 4}).to(Device::simt());
    for (i64 n = 1; n <= 12; ++n) {
      const auto one = [&] { step(x, [&](const Tensor& in) { return mean(square(net(in))); }); };
      if (recorder)
        recorder->step(n, one);
      else
        one();
    }
    CHECK(step.captures() == 1);
    std::vector<std::vector<float>> values;
    for (const auto& p : net.named_parameters()) values.push_back(p.tensor.to_vector<float>());
    return values;
  };
  Recorder r(dir / "t.wtd", {.every = 5});
  const auto recorded = run(&r);
  CHECK(recorded == run(nullptr));
  const auto steps = steps_of(dir / "t.wtd");
  REQUIRE(steps.size() == 3);
  CHECK(steps[2].number == 10);
  CHECK(steps[2].entries.size() == steps[1].entries.size());
  CHECK(steps[2].entries.size() > 8);
}

TEST_CASE("record: what the Recorder copies is not the program's in a profile") {
  const TempDir dir;
  const Tensor x = ones({64}, {.device = Device::simt()});
  Recorder recorder(dir / "r.wtd");
  const profiler::Profile p = profiler::profile([&] { recorder.step(1, [&] { (void)exp(x); }); });
  CHECK(steps_of(dir / "r.wtd").size() == 1);
  CHECK(p.transfers().empty());
}
