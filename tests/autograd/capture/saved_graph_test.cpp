// Saved graphs: the function's bits on every device, in another process; what cannot be saved;
// files that are damaged or lie.
#include "warptape/autograd/saved_graph.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {

using Words = std::vector<u64>;
struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 16});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 4});
  Tensor forward(Tensor x) { return softmax(fc2(relu(fc1(std::move(x)))), -1); }
};

struct Cnn : nn::Module<Cnn> {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d{2, 8, {.kernel = 3, .padding = 1}});
  nn::BatchNorm2d bn = add("bn", nn::BatchNorm2d{8});
  nn::GroupNorm gn = add("gn", nn::GroupNorm{2, 8, {.activation = Activation::silu}});
  nn::Conv2d conv2 = add("conv2", nn::Conv2d{8, 8, {.kernel = 3, .stride = 2}});
  nn::ConvTranspose2d up = add("up", nn::ConvTranspose2d{8, 4, {.kernel = 2, .stride = 2}});
  nn::Dropout drop = add("drop", nn::Dropout{0.5});
  nn::Linear head = add("head", nn::Linear{4, 3});
  Tensor forward(Tensor x) {
    x = max_pool2d(relu(bn(conv1(std::move(x)))), {.kernel = 2});
    x = up(gelu(gn(conv2(std::move(x)))));
    x = drop(mean(x, {2, 3}));
    return log_softmax(head(std::move(x)), -1);
  }
};

struct Transformer : nn::Module<Transformer> {
  nn::Embedding tokens = add("tokens", nn::Embedding{11, 8});
  nn::TransformerEncoderLayer layer =
      add("layer", nn::TransformerEncoderLayer{8, 2, {.dim_feedforward = 16, .batch_first = true}});
  nn::RMSNorm norm = add("norm", nn::RMSNorm{8});
  nn::Linear head = add("head", nn::Linear{8, 11});
  Tensor forward(const Tensor& x) {
    Tensor h = tokens(x);
    h = add_positions(std::move(h));
    h = layer(std::move(h), nn::EncoderMasks{.is_causal = true});
    return head(norm(std::move(h)));
  }
  static Tensor add_positions(Tensor h) {
    const Tensor at = arange(h.shape()[1], {.dtype = h.dtype(), .device = h.device()});
    return std::move(h) + sin(at).unsqueeze(-1);
  }
};

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

Tensor input(u64 seed, const Shape& shape, Device d, DType t = f32) {
  Generator g(seed);
  Generator* const before = mode.generator;
  mode.generator = &g;
  const Tensor x = t == DType::i64 ? randint(0, 11, shape) : rand(shape).to(t);
  mode.generator = before;
  return x.to(d);
}

// Saves f, drops it, and holds what is loaded on the same device against what it gave.
template <class MakeF>
void check_same_bits(const MakeF& make, const Shape& shape, DType t = f32) {
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    const TempDir dir;
    std::vector<std::vector<double>> wanted;
    {
      manual_seed(3);
      const auto f = make(d);
      save_graph(dir / "f.wtg", f, input(0, shape, d, t));
      const NoGrad no_grad;
      (void)f(
          input(0, shape, d, t));  // a variant's first use on cuda gives the plainest one's bits
      for (u64 i = 0; i < 6; ++i) wanted.push_back(values(f(input(i, shape, d, t))));
    }
    const SavedGraph loaded = SavedGraph::load(dir / "f.wtg", d);
    for (u64 i = 0; i < 6; ++i) CHECK(values(loaded(input(i, shape, d, t))) == wanted[i]);
    CHECK(loaded.replays() == (d.kind != DeviceKind::cpu));
    CHECK(loaded.why_eager() == "");
    CHECK(loaded.inputs()[0].shape == shape);
    CHECK(loaded.inputs()[0].dtype == t);
  }
}

template <class Net>
auto evaluated(Device d, DType t = f32) {
  Net net;
  net.eval();
  if (t != f32) net.to(t);
  net.to(d);
  return [net](const Tensor& x) {
    Net shared = net;  // a handle
    return shared(x);
  };
}

std::string save_error(const std::string& path, const std::function<Tensor(const Tensor&)>& f,
                       const Tensor& example) {
  return message_of([&] { save_graph(path, f, example); });
}

// What a process does that has only the file: `told` is its folder and the device.
void read_elsewhere(const std::string& told) {
  const std::string dir = told.substr(0, told.find(' '));
  const Device d = Device::parse(told.substr(told.find(' ') + 1).c_str());
  const SavedGraph loaded = SavedGraph::load(dir + "/f.wtg", d);
  std::vector<double> y;
  for (int i = 0; i < 4; ++i) y = values(loaded(input(4, {2, 7}, d, DType::i64)));
  const SafetensorsItem item{"y", f64, {i64(y.size())}, y.data()};
  write_safetensors(dir + "/y.safetensors", {&item, 1});
}
// The exit code of this program, started anew with a test case of its own.
int run_elsewhere(const char* test_case) {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) return -1;
  self[n] = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDOUT_FILENO);
    ::execl(self, self, test_case, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// The file with other launches, and a checksum that fits them.
void write_launches(const std::string& from, const std::string& to, const Words& words) {
  SafetensorsFile file = SafetensorsFile::open(from);
  std::vector<std::vector<char>> kept;
  std::vector<SafetensorsItem> items;
  for (const TensorEntry& e : file.entries()) {
    if (e.name == "launches") {
      items.push_back({e.name, e.dtype, {i64(words.size())}, words.data()});
      continue;
    }
    kept.emplace_back(size_t(e.bytes()));
    file.read(e, kept.back().data());
    items.push_back({e.name, e.dtype, e.shape, kept.back().data()});
  }
  write_safetensors(to, items, {.metadata = file.metadata(), .checksums = true, .durable = false});
}
Words launches_of(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const TensorEntry& e = *file.find("launches");
  Words words(size_t(e.bytes() / 8));
  file.read(e, words.data());
  return words;
}

}  // namespace

TEST_CASE("saved graph: MLP, CNN and transformer give the function's bits", "[saved]") {
  check_same_bits([](Device d) { return evaluated<Mlp>(d); }, {5, 6});
  check_same_bits([](Device d) { return evaluated<Cnn>(d); }, {2, 2, 12, 12});
  check_same_bits([](Device d) { return evaluated<Transformer>(d); }, {2, 7}, DType::i64);
}

TEST_CASE("saved graph: f16, bf16, f64 and autocast", "[saved]") {
  for (const DType t : {f16, bf16, f64})
    check_same_bits([t](Device d) { return evaluated<Mlp>(d, t); }, {5, 6}, t);
  check_same_bits([](Device d) { return evaluated<Cnn>(d, f16); }, {2, 2, 12, 12}, f16);
  check_same_bits(
      [](Device d) {
        return [f = evaluated<Mlp>(d)](const Tensor& x) {
          const AutocastScope lower(f16);
          return f(x);
        };
      },
      {5, 6});
}

TEST_CASE("saved graph: a file of one device loads on every other", "[saved]") {
  for (const Device from : kernel_devices()) {
    const TempDir dir;
    const auto f = evaluated<Cnn>(from);
    save_graph(dir / "f.wtg", f, input(0, {2, 2, 12, 12}, from));
    const std::vector<double> wanted = values(f(input(1, {2, 2, 12, 12}, from)));
    for (const Device to : kernel_devices()) {
      INFO(to_string(from) << " to " << to_string(to));
      const SavedGraph loaded = SavedGraph::load(dir / "f.wtg", to);
      const std::vector<double> got = values(loaded(input(1, {2, 2, 12, 12}, to)));
      REQUIRE(got.size() == wanted.size());
      // f32 sums of up to 72 products, in another order.
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-4);
    }
  }
}

TEST_CASE("saved graph: several inputs and results, constants and memory formats", "[saved]") {
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    const TempDir dir;
    const Tensor table = input(9, {4, 5}, d);
    const auto f = [&](const Tensor& a, const Tensor& at) {
      const Tensor rows = index_select(table, 0, at), turned = transpose(rows, 0, 1);
      Tensor sum = add(a, rows);
      sum.mul_(2.0);
      return std::array{sum, turned, argmax(sum, -1), table, clamp(sum, 0.5, 1.5), a};
    };
    const Tensor at = tensor({3, 0}).to(d);
    save_graph(dir / "f.wtg", f, input(0, {2, 5}, d), at);
    const SavedGraph loaded = SavedGraph::load(dir / "f.wtg", d);
    REQUIRE(loaded.results().size() == 6);
    CHECK(loaded.results()[1].shape == Shape{5, 2});
    for (u64 i = 1; i < 6; ++i) {
      const Tensor a = input(i, {2, 5}, d), other = tensor({i64(i % 4), i64(3)}).to(d);
      const auto wanted = f(a, other);
      const std::vector<Tensor> got = loaded.run({a, other});
      for (size_t k = 0; k < wanted.size(); ++k) CHECK(values(got[k]) == values(wanted[k]));
    }
    CHECK(mentions(message_of([&] { (void)loaded(input(0, {2, 5}, d)); }), "has 6 results"));
    // Results are the caller's: the next call leaves them.
    const Tensor one = loaded.run({input(1, {2, 5}, d), at})[0];
    const std::vector<double> before = values(one);
    (void)loaded.run({input(2, {2, 5}, d), at});
    CHECK(values(one) == before);
    // Another layout than the example's.
    const auto net = evaluated<Cnn>(d);
    save_graph(dir / "g.wtg", net, input(0, {2, 2, 12, 12}, d).to(MemoryFormat::channels_last));
    const SavedGraph nhwc = SavedGraph::load(dir / "g.wtg", d);
    const Tensor x = input(1, {2, 2, 12, 12}, d);
    CHECK(values(nhwc(x)) == values(net(x.to(MemoryFormat::channels_last))));
    // No elements.
    const auto nothing = [](const Tensor& t) { return relu(mul(t, 2.0)); };
    save_graph(dir / "h.wtg", nothing, zeros({0, 3}, {.device = d}));
    CHECK(SavedGraph::load(dir / "h.wtg", d)(zeros({0, 3}, {.device = d})).shape() == Shape{0, 3});
  }
  // What the host makes inside is a constant on the cpu.
  const TempDir dir;
  save_graph(
      dir / "f.wtg",
      [](const Tensor& x) {
        Tensor t = tensor({1.0, 2.0, 3.0});
        t.add_(x);
        return t;
      },
      zeros({3}));
  CHECK(values(SavedGraph::load(dir / "f.wtg", Device::simt())(
            ones({3}, {.device = Device::simt()}))) == std::vector<double>{2, 3, 4});
}

TEST_CASE("saved graph: blocks that are never in use at once share memory", "[saved]") {
  const TempDir dir;
  const auto chain = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = sin(mul(y, 1.5));
    return y;
  };
  save_graph(dir / "f.wtg", chain, input(0, {64, 64}, Device::cpu()));
  const SavedGraph loaded = SavedGraph::load(dir / "f.wtg", Device::cpu());
  CHECK(loaded.launches() == 40);
  CHECK(loaded.memory_bytes() <= 3 * 64 * 64 * 4);
  const Tensor x = input(1, {64, 64}, Device::cpu());
  CHECK(values(loaded(x)) == values(chain(x)));
}

TEST_CASE("saved graph: read by a process that has no model", "[saved]") {
  if (const char* told = std::getenv("WT_SAVED_GRAPH_TEST")) return read_elsewhere(told);
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    const TempDir dir;
    std::vector<double> wanted;
    {
      const auto f = evaluated<Transformer>(d);
      save_graph(dir / "f.wtg", f, input(0, {2, 7}, d, DType::i64));
      for (int i = 0; i < 2; ++i) wanted = values(f(input(4, {2, 7}, d, DType::i64)));
    }
    ::setenv("WT_SAVED_GRAPH_TEST", (dir.path + " " + to_string(d)).c_str(), 1);
    CHECK(run_elsewhere("saved graph: read by a process that has no model") == 0);
    ::unsetenv("WT_SAVED_GRAPH_TEST");
    SafetensorsFile file = SafetensorsFile::open(dir / "y.safetensors");
    const TensorEntry* y = file.find("y");
    REQUIRE(y);
    std::vector<double> got(size_t(y->bytes() / 8));
    file.read(*y, got.data());
    CHECK(got == wanted);
  }
}

TEST_CASE("saved graph: what a file cannot hold is named with its line", "[saved]") {
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    const TempDir dir;
    spit(dir / "f.wtg", "before");
    const Tensor x = input(0, {4, 4}, d);
    int line = 0;
    const auto refuses = [&](const char* part, const std::function<Tensor(const Tensor&)>& f) {
      const std::string text = save_error(dir / "f.wtg", f, x);
      CHECK(mentions(text, part));
      CHECK(mentions(text, "saved_graph_test.cpp:" + std::to_string(line)));
      CHECK(slurp(dir / "f.wtg") == "before");
      CHECK(values(add(x, 1.0)).size() == 16);  // nothing is left of the attempt
    };
    refuses("[item] a graph cannot hold this: the host waits", [&](const Tensor& t) {
      line = __LINE__ + 1;
      return mul(t, sum(t).item());
    });
    refuses("[dropout] a graph cannot hold this: the host counts its draws", [&](const Tensor& t) {
      line = __LINE__ + 1;
      return dropout(t, 0.5);
    });
    refuses("a replay would repeat this one", [&](const Tensor& t) {
      line = __LINE__ + 1;
      return add(t, rand({4, 4}, {.device = t.device()}));
    });
    Tensor total = zeros({4, 4}, {.device = d});
    refuses("it writes a tensor that was there before", [&](const Tensor& t) {
      line = __LINE__ + 1;
      return total.add_(t);
    });
    refuses("the kernel 'scan' is not one that can be saved", [&](const Tensor& t) {
      line = __LINE__ + 1;
      return cumsum(t, 0);
    });
  }
  const TempDir dir;
  Mlp net;
  CHECK(mentions(save_error(dir / "f", net, Tensor()), "undefined"));
  CHECK_THROWS_AS(save_graph(
                      dir / "f", [](const Tensor&) { return Tensor(); }, ones({2})),
                  UsageError);
  CHECK_THROWS_AS(save_graph(
                      dir / "f", [](const Tensor& a, const Tensor&) { return a; }, ones({2}),
                      ones({2}, {.device = Device::simt()})),
                  PlacementError);
  CHECK_THROWS_AS(
      save_graph(
          dir / "f", [](const Tensor& a) { return a; }, empty({2}, {.device = Device::meta()})),
      PlacementError);
  CHECK_THROWS_AS(save_graph(
                      dir / "none/f", [](const Tensor& a) { return neg(a); }, ones({2})),
                  CheckpointError);
  CHECK(dir.count() == 0);
}

TEST_CASE("saved graph: inputs that do not fit name both sides", "[saved]") {
  const Device d = Device::simt();
  const TempDir dir;
  save_graph(
      dir / "f.wtg", [](const Tensor& a, const Tensor& b) { return add(a, b); },
      ones({2, 3}, {.device = d}), ones({3}, {.device = d}));
  const SavedGraph loaded = SavedGraph::load(dir / "f.wtg", d);
  const Tensor a = ones({2, 3}, {.device = d}), b = ones({3}, {.device = d});
  const auto refused = [&](const std::vector<Tensor>& in) {
    const std::string text = message_of([&] { (void)loaded.run(in); });
    CHECK((in.size() != 2 || !in[1].defined() || mentions(text, "saved_graph_test.cpp:")));
    return text;
  };
  CHECK(mentions(refused({a}), "[SavedGraph] takes 2 inputs, called with 1"));
  CHECK(mentions(refused({a, ones({4}, {.device = d})}),
                 "input 2 was saved as [3], called with [4]\n  input 2: [4] f32 simt"));
  CHECK(mentions(refused({a.to(f16), b}), "input 1 was saved as f32, called with f16"));
  CHECK(mentions(refused({a, ones({3})}), "loaded on simt, input 2 is [3] f32 cpu"));
  CHECK(mentions(refused({a, Tensor()}), "undefined"));
  CHECK(values(loaded.run({a, b})[0]) == std::vector<double>(6, 2));
  CHECK_THROWS_AS(SavedGraph::load(dir / "f.wtg", Device::meta()), PlacementError);
}

TEST_CASE("saved graph: bad indices are reported under the operator's name", "[saved]") {
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    const TempDir dir;
    const Tensor table = input(0, {5, 2}, d);
    save_graph(
        dir / "f.wtg", [&](const Tensor& i) { return embedding(i, table); }, tensor({1, 2}).to(d));
    const SavedGraph loaded = SavedGraph::load(dir / "f.wtg", d);
    const std::string text = message_of([&] { (void)values(loaded(tensor({1, 7}).to(d))); });
    CHECK(mentions(text, "embedding"));
    CHECK(mentions(text, "7"));
    CHECK(values(loaded(tensor({4, 0}).to(d))).size() == 4);
  }
}

TEST_CASE("saved graph: damaged and foreign files are refused, and none half loaded", "[saved]") {
  const TempDir dir;
  const auto f = [](const Tensor& x) { return relu(mul(x, tensor({2.0, 3.0}))); };
  save_graph(dir / "f.wtg", f, ones({2}));
  const std::string whole = slurp(dir / "f.wtg");
  const auto refused = [&](const std::string& content) {
    spit(dir / "bad.wtg", content);
    try {
      (void)SavedGraph::load(dir / "bad.wtg", Device::cpu());
    } catch (const DataError& e) {
      return mentions(e.what(), "bad.wtg") && std::string(e.what()).find('\n') == std::string::npos;
    }
    return false;
  };
  for (size_t n = 0; n < whole.size(); ++n) REQUIRE(refused(whole.substr(0, n)));
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ 1 << bit % 8);
    INFO("bit " << bit);
    REQUIRE(refused(flipped));
  }
  CHECK(refused(whole + "x"));
  // Another format, and other files.
  const SafetensorsItem none{"launches", DType::i64, {0}, nullptr};
  const auto with = [&](const std::vector<SafetensorsItem>& items, const StringPairs& metadata,
                        bool sums) {
    write_safetensors(dir / "bad.wtg", items, {.metadata = metadata, .checksums = sums});
    return message_of([&] { (void)SavedGraph::load(dir / "bad.wtg", Device::cpu()); });
  };
  CHECK(mentions(with({none}, {}, true), "it is no saved graph"));
  CHECK(mentions(with({none}, {{"wt.graph", "2"}, {"warptape", "9.1.0"}}, true),
                 "a saved graph of format 2, written by warptape 9.1.0; this is"));
  CHECK(mentions(with({none}, {{"wt.graph", "1"}}, false), "without checksums"));
  CHECK(mentions(with({none}, {{"wt.graph", "1"}}, true), "it ends before the format"));
  // Memory beyond the caller's limit.
  save_graph(dir / "big.wtg", f, ones({512, 2}));
  CHECK_THROWS_AS(SavedGraph::load(dir / "big.wtg", Device::cpu(), {.max_bytes = 2000}), DataError);
}

TEST_CASE("saved graph: launches that lie cannot leave their memory", "[saved]") {
  const TempDir dir;
  manual_seed(3);
  save_graph(dir / "mlp.wtg", evaluated<Mlp>(Device::cpu()), input(0, {5, 6}, Device::cpu()));
  save_graph(dir / "cnn.wtg", evaluated<Cnn>(Device::cpu()), input(0, {1, 2, 8, 8}, Device::cpu()));
  save_graph(dir / "former.wtg", evaluated<Transformer>(Device::cpu()),
             input(0, {1, 3}, Device::cpu(), DType::i64));
  FuzzPlan plan(2500, 5);
  long long loaded = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    const char* name = i % 3 == 0 ? "mlp.wtg" : i % 3 == 1 ? "cnn.wtg" : "former.wtg";
    Words words = launches_of(dir / name);
    for (u64 edits = 1 + plan.random() % 2; edits > 0; --edits) {
      u64& w = words[plan.random() % words.size()];
      switch (plan.random() % 6) {
        case 0:
          w = plan.random() % 70;
          break;
        case 1:
          ++w;
          break;
        case 2:
          --w;
          break;
        case 3:
          w = words[plan.random() % words.size()];
          break;
        case 4:
          w = plan.random();
          break;
        default:
          w ^= u64{1} << plan.random() % 16;
      }
    }
    write_launches(dir / name, dir / "lies.wtg", words);
    try {
      const SavedGraph g =
          SavedGraph::load(dir / "lies.wtg", Device::cpu(), {.max_bytes = 1 << 20});
      ++loaded;
      std::vector<Tensor> inputs;
      for (const SavedGraph::Slot& s : g.inputs())
        inputs.push_back(zeros(s.shape, {.dtype = s.dtype}));
      (void)g.run(inputs);
    } catch (const Error&) {}
  }
  CHECK(loaded > plan.cases / 50);  // the others said why
}
