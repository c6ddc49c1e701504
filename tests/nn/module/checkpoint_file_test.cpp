// Named tensors to a file and back: names, values, ties, and what must not load.
#include "warptape/nn/checkpoint_file.h"

#include <algorithm>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/memory.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
struct Net : nn::Module<Net> {
  nn::Linear one = add("one", nn::Linear{3, 3});
  nn::Linear two = add("two", nn::Linear{3, 3});
  nn::Buffer steps = add_buffer("steps", tensor(i64(7)));
  Tensor forward(Tensor x) { return two(one(std::move(x))); }
};
void step(Net& net, optim::Optimizer& opt) {
  opt.zero_grad();
  const Tensor y = net(arange(6).to(f32).reshape({2, 3}));
  sum(y * y).backward();
  opt.step();
}
std::vector<nn::NamedTensor> all_of(const Net& net, const optim::Optimizer& opt) {
  std::vector<nn::NamedTensor> all = nn::add_prefix(net.state_dict(), "model.");
  for (nn::NamedTensor& t : opt.state()) all.push_back(std::move(t));
  return all;
}
}  // namespace

TEST_CASE("Checkpoint: tensors of any dtype, layout and device come back bit for bit",
          "[wall][checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "a.safetensors";
  std::vector<nn::NamedTensor> tensors;
  for (int t = 0; t < kNumDTypes; ++t) {
    const DType as = DType(t);
    tensors.push_back({str("t.", dtype_name(as)), tensor({0, 1, 2}).to(as)});
  }
  tensors.push_back({"strided", arange(6).reshape({2, 3}).t()});
  tensors.push_back({"there", tensor({1.5, 2.5}, {.device = Device::simt()})});
  tensors.push_back({"scalar", tensor(3.0, {.dtype = f64})});  // scalars are 0-d
  tensors.push_back({"nothing", zeros({0, 4})});
  nn::save_tensors(file, tensors, {{"step", "12"}});
  const nn::LoadedTensors loaded = nn::load_tensors(file);
  CHECK(loaded.tensors.size() == tensors.size());
  for (const nn::NamedTensor& t : tensors) {
    CAPTURE(t.name);
    const Tensor* back = loaded.find(t.name);
    REQUIRE(back);
    CHECK(back->shape() == t.tensor.shape());
    CHECK(back->dtype() == t.tensor.dtype());
    CHECK(back->device() == Device::cpu());
    CHECK(values(*back) == values(t.tensor));
  }
  CHECK(loaded.find("other") == nullptr);
  CHECK(loaded.metadata == nn::Metadata{{"step", "12"}});
}

TEST_CASE("Checkpoint: model.<name> and optim.<slot>.<name>: training goes on bit for bit",
          "[wall][checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "step.safetensors";
  Net net;
  net.two.weight = net.one.weight;
  optim::AdamW opt{net, {.lr = 0.1}};
  for (int i = 0; i < 3; ++i) step(net, opt);
  nn::save_tensors(file, all_of(net, opt));
  for (int i = 0; i < 3; ++i) step(net, opt);

  const nn::LoadedTensors loaded = nn::load_tensors(file);
  // A tied parameter is in the file under each of its names, its state once, under the first.
  for (const char* name :
       {"model.one.weight", "model.two.weight", "model.steps", "optim.exp_avg.one.weight",
        "optim.exp_avg_sq.two.bias", "optim.applied"}) {
    CAPTURE(name);
    CHECK(loaded.find(name));
  }
  CHECK_FALSE(loaded.find("optim.exp_avg.two.weight"));
  CHECK(loaded.find("optim.applied")->ndim() == 0);
  Net again;
  again.two.weight = again.one.weight;
  optim::AdamW other{again, {.lr = 0.5}};
  again.load_state_dict(nn::with_prefix(loaded.tensors, "model."));
  std::vector<nn::NamedTensor> state;
  for (const nn::NamedTensor& t : loaded.tensors)
    if (t.name.starts_with("optim.")) state.push_back(t);
  other.load_state(state);
  for (int i = 0; i < 3; ++i) step(again, other);
  for (const auto& [name, t] : all_of(net, opt)) {
    CAPTURE(name);
    bool found = false;
    for (const auto& [other_name, u] : all_of(again, other))
      if (name == other_name) found = values(t) == values(u);
    CHECK(found);
  }
}

TEST_CASE("Checkpoint: a weights-only file has PyTorch's bare names", "[wall][checkpoint]") {
  const TempDir dir;
  const Net net;
  nn::save_tensors(dir / "w.safetensors", net.state_dict());
  std::vector<std::string> names;
  for (const auto& t : nn::load_tensors(dir / "w.safetensors").tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  CHECK(names ==
        std::vector<std::string>{"one.bias", "one.weight", "steps", "two.bias", "two.weight"});
  const Net other;
  other.load_state_dict(nn::load_tensors(dir / "w.safetensors").tensors);
  CHECK(values(other.one.weight) == values(net.one.weight));
  CHECK(values(other.one.weight).size() == 9);
}

TEST_CASE("Checkpoint: a file that cannot be written leaves the old one", "[wall][checkpoint]") {
  const TempDir dir;
  const std::string file = dir / "w.safetensors";
  nn::save_tensors(file, {{"a", ones({2})}});
  const std::string before = slurp(file);
  CHECK_THROWS_AS(nn::save_tensors(file, {{"a", ones({2})}, {"a", ones({2})}}), UsageError);
  CHECK_THROWS_AS(nn::save_tensors(file, {{"a", empty({2}, {.device = Device::meta()})}}),
                  PlacementError);
  CHECK(slurp(file) == before);
  CHECK_THROWS_AS(nn::save_tensors(dir / "no/such/folder", {{"a", ones({2})}}), CheckpointError);
  CHECK_THROWS_AS((void)nn::load_tensors(dir / "nothing"), DataError);
}

TEST_CASE("Checkpoint: a shape that no tensor can have is a fault of the file",
          "[wall][checkpoint]") {
  const TempDir dir;
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[0,2147483648,2147483648],"data_offsets":[0,0]}})";
  std::string file(8, '\0');
  file[0] = char(header.size());
  spit(dir / "f", file + header);
  CHECK_THROWS_AS((void)nn::load_tensors(dir / "f"), DataError);
}

TEST_CASE("Checkpoint: loading that finds no memory has loaded nothing", "[wall][checkpoint]") {
  const LeakGuard guard;
  const Net net, other;
  std::vector<nn::NamedTensor> state;  // every value has to be converted
  for (const auto& t : other.state_dict())
    state.push_back({t.name, is_floating(t.tensor.dtype()) ? t.tensor.to(f64) : t.tensor});
  const auto all = [&] {
    std::vector<Values> v;
    for (const auto& t : net.state_dict()) v.push_back(values(t.tensor));
    return v;
  };
  const std::vector<Values> before = all();
  int failures = 0;
  for (u64 n = 1; n < 50; ++n) {
    memory::fail_nth_request(n);
    bool failed = false;
    try {
      net.load_state_dict(state);
    } catch (const OutOfMemory&) {
      failed = true;
    }
    memory::fail_nth_request(0);
    if (!failed) break;
    ++failures;
    CHECK(all() == before);
  }
  CHECK(failures > 2);
  CHECK(all() != before);
}

TEST_CASE("Checkpoint: the caller's limit holds before anything is allocated", "[checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "f";
  nn::save_tensors(file, {{"a", ones({4})}, {"b", ones({4})}});
  CHECK(nn::load_tensors(file, {.max_bytes = 32}).tensors.size() == 2);
  const std::string text = message_of([&] { (void)nn::load_tensors(file, {.max_bytes = 31}); });
  CHECK(mentions(text, "DataError: " + file + ": at byte 8: the tensors to load have 32 bytes"));
  CHECK(mentions(text, "the limit is 31 (ParseLimits::max_bytes)"));
  struct Half : nn::Module<Half> {
    nn::Param a = add("a", ones({4}));
  };
  const Half half;
  CHECK(mentions(message_of([&] {
                   nn::load_model(half, file, {.strict = false, .limits = {.max_bytes = 15}});
                 }),
                 "the tensors to load have 16 bytes, the limit is 15"));
  CHECK(nn::load_model(half, file, {.strict = false, .limits = {.max_bytes = 16}}).unexpected ==
        std::vector<std::string>{"b"});
}

TEST_CASE("Checkpoint: a small file that declares giant tensors is refused, not allocated for",
          "[checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "f";
  // 2^47 bytes of them, which take no place on the disk.
  const u64 bytes = u64{1} << 47;
  const std::string shape = "[140737488355328]";
  const std::string header =
      R"({"a":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,140737488355328]}})";
  std::string start(8, '\0');
  start[0] = char(header.size());
  try {
    spit_sparse(file, start + header, 8 + header.size() + bytes);
  } catch (const std::filesystem::filesystem_error&) {
    SKIP_TEST("this file system has no file of 128 TiB");
  }
  CHECK(mentions(message_of([&] { (void)nn::load_tensors(file); }),
                 "the tensors to load have 140737488355328 bytes, the limit is "));
  CHECK_THROWS_AS((void)nn::load_tensors(file, {.max_bytes = ~u64{0}}), OutOfMemory);
  const Net net;  // nothing of the file fits: its header says so
  CHECK(mentions(message_of([&] { nn::load_model(net, file, {.limits = {.max_bytes = ~u64{0}}}); }),
                 "missing one.weight [3, 3]"));
  CHECK(nn::load_model(net, file, {.strict = false}).unexpected == std::vector<std::string>{"a"});
}

TEST_CASE("Checkpoint: names of a file are shown escaped, and not all of a million",
          "[checkpoint]") {
  const TempDir dir;
  const std::string file = dir / "f";
  std::vector<nn::NamedTensor> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back({str("\x1b[31m\n", i), ones({1})});
  nn::save_tensors(file, tensors, {{"architecture", "\x07\x1b]0;x"}});
  const Net net;
  std::string text = message_of([&] { nn::load_model(net, file); });
  CHECK(mentions(text, "of another architecture: of \\x07\\x1b]0;x, this module is Net"));
  nn::save_tensors(file, tensors);
  text = message_of([&] { nn::load_model(net, file); });
  CHECK(mentions(text, "unexpected \\x1b[31m\\x0a0"));
  CHECK(mentions(text, "and 150 more unexpected"));
  CHECK(text.find('\x1b') == text.npos);
  optim::AdamW opt{net, {}};
  text = message_of([&] { opt.load_state(tensors); });
  CHECK(mentions(text, "unexpected \\x1b[31m\\x0a0"));
  CHECK(mentions(text, "and 150 more unexpected"));
}
