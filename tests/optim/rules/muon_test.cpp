// Muon against PyTorch's numbers and against plain loops, on every device; which rule takes what;
// skipped steps; failures.
#include "warptape/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/half.h"
#include "warptape/core/memory.h"
#include "warptape/core/stream.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/problem.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

using Numbers = std::vector<double>;
using State = std::vector<nn::NamedTensor>;

State copy_of(const State& s) {
  State all;
  for (const nn::NamedTensor& t : s) all.push_back({t.name, t.tensor.clone()});
  return all;
}
std::vector<Numbers> values_of(const State& s) {
  std::vector<Numbers> all;
  for (const nn::NamedTensor& t : s)
    if (t.name != "optim.attempted") all.push_back(t.tensor.to_vector<double>());
  return all;
}

// The reference's options; the bias is AdamW's.
optim::MuonOptions options_of(const Arrays& r) {
  return {.lr = option(r, "lr", 0),
          .momentum = option(r, "momentum", 0.95),
          .weight_decay = option(r, "weight_decay", 0),
          .nesterov = option(r, "nesterov", 1) != 0,
          .ns_steps = int(option(r, "ns_steps", 5)),
          .adamw = {.lr = 0.01, .weight_decay = 0.1}};
}
// As follow(), of a problem whose matrix may be transposed.
struct Tall : Problem {
  Tall(DType t, Device d) : Problem(t, d) {
    w = from_reference(load_reference(reference_path("optim_problem")).at("w0"), t, Device::cpu())
            .t()
            .contiguous()
            .to(d)
            .set_requires_grad();
    for (size_t step = 0; step < 50; ++step) {
      const Numbers wide(grad_w.begin() + long(step * 6), grad_w.begin() + long(step * 6 + 6));
      for (size_t i = 0; i < 6; ++i) grad_w[step * 6 + i] = wide[i % 2 * 3 + i / 2];
    }
  }
};

// --- plain loops ---
using Rows = std::vector<Numbers>;
Rows times(const Rows& a, const Rows& b) {
  Rows out(a.size(), Numbers(b.empty() ? 0 : b[0].size(), 0.0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < out[i].size(); ++j)
      for (size_t p = 0; p < b.size(); ++p) out[i][j] += a[i][p] * b[p][j];
  return out;
}
Rows transposed(const Rows& a) {
  Rows out(a[0].size(), Numbers(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) out[j][i] = a[i][j];
  return out;
}
// PyTorch's _zeropower_via_newtonschulz: all that it keeps is bf16's, sums are wider.
double in_bf16(double x) { return double(float(BFloat16(float(x)))); }
void round_all(Rows& x) {
  for (Numbers& row : x)
    for (double& v : row) v = in_bf16(v);
}
Rows orthogonalized_in_bf16(Rows x, int steps) {
  const bool tall = x.size() > x[0].size();
  if (tall) x = transposed(x);
  round_all(x);
  double sum = 0;
  for (const Numbers& row : x)
    for (const double v : row) sum += v * v;
  for (Numbers& row : x)
    for (double& v : row) v /= std::max(in_bf16(std::sqrt(sum)), 1e-7);
  round_all(x);
  for (int step = 0; step < steps; ++step) {
    Rows gram = times(x, transposed(x));
    round_all(gram);
    Rows update = times(gram, gram);
    for (size_t i = 0; i < gram.size(); ++i)
      for (size_t j = 0; j < gram.size(); ++j)
        update[i][j] = in_bf16(-4.7750 * gram[i][j] + 2.0315 * update[i][j]);
    const Rows product = times(update, x);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[i].size(); ++j) x[i][j] = in_bf16(3.4445 * x[i][j] + product[i][j]);
  }
  return tall ? transposed(x) : x;
}
// Always x x^T, also of a tall x, where Muon takes the smaller one.
Rows orthogonalized(Rows x, int steps) {
  double sum = 0;
  for (const Numbers& row : x)
    for (const double v : row) sum += v * v;
  for (Numbers& row : x)
    for (double& v : row) v /= std::max(std::sqrt(sum), 1e-7);
  for (int step = 0; step < steps; ++step) {
    const Rows gram = times(x, transposed(x)), once = times(gram, x), twice = times(gram, once);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[i].size(); ++j)
        x[i][j] = 3.4445 * x[i][j] - 4.7750 * once[i][j] + 2.0315 * twice[i][j];
  }
  return x;
}

Numbers noise(i64 n, u64 seed) {
  Numbers v;
  for (i64 i = 0; i < n; ++i)
    v.push_back(double((u64(i) * 7919 + seed * 104729) % 2003) / 1001 - 1);
  return v;
}

// What Muon makes of a matrix of any shape in `steps` steps: the largest difference.
double error_of(const Tensor& p, int steps, const optim::MuonOptions& o) {
  optim::Muon opt{std::vector<nn::NamedTensor>{{"p", p}}, o};
  const i64 n = p.numel();
  const auto rows = size_t(p.size(0)), columns = size_t(n) / rows;
  Numbers want = p.to_vector<double>(), momentum(size_t(n), 0.0);
  for (int step = 0; step < steps; ++step) {
    const Numbers g = noise(n, u64(step) + 5);
    p.set_grad(tensor(g).view(p.shape()).to(p.dtype()).to(p.device()));
    const Tensor factor = tensor(0.5, {.dtype = f64, .device = p.device()});
    opt.step({.grad_factor = factor});
    Rows x(rows, Numbers(columns));
    for (size_t i = 0; i < size_t(n); ++i) {
      const double now = 0.5 * g[i];
      momentum[i] = o.momentum * momentum[i] + (1 - o.momentum) * now;
      x[i / columns][i % columns] =
          o.nesterov ? (1 - o.momentum) * now + o.momentum * momentum[i] : momentum[i];
    }
    x = o.bf16_products ? orthogonalized_in_bf16(x, o.ns_steps) : orthogonalized(x, o.ns_steps);
    const double scale = o.match_rms_adamw
                             ? 0.2 * std::sqrt(double(std::max(rows, columns)))
                             : std::sqrt(std::max(1.0, double(rows) / double(columns)));
    for (size_t i = 0; i < size_t(n); ++i)
      want[i] -= o.lr * (o.weight_decay * want[i] + scale * x[i / columns][i % columns]);
  }
  const Numbers is = p.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    const double d = std::abs(is[i] - want[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

Tensor parameter(const Shape& s, DType t, Device d, u64 seed = 1) {
  i64 n = 1;
  for (const i64 size : s) n *= size;
  return tensor(noise(n, seed)).view(s).to(t).to(d).clone().set_requires_grad();
}
std::string message(const State& parameters, const optim::MuonOptions& o) {
  return message_of([&] { optim::Muon opt(parameters, o); });
}

}  // namespace

TEST_CASE("Muon follows PyTorch for 50 steps, resumed in the middle, with a skipped step") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const DType t = GENERATE(f64, f32);
  const std::string name = GENERATE("muon_default", "muon_decay", "muon_tall");
  CAPTURE(to_string(d), dtype_name(t), name);
  const Arrays r = load_reference(reference_path(name));
  const bool tall = name == "muon_tall";
  const auto made = [&] { return tall ? Problem(Tall(t, d)) : Problem(t, d); };
  // The products of f32 are of 2 and 3 elements; what they lose grows over the quintic's steps.
  const double eps = t == f64 ? 1e-11 : 1e-4;
  const Problem p = made();
  optim::Muon opt{p.parameters(), options_of(r)};
  CHECK(follow(p, opt, r, 0, 10) <= eps);
  {
    const std::vector<Numbers> before = values_of(opt.state());
    const Numbers w = p.w.to_vector<double>();
    const double inf = std::numeric_limits<double>::infinity();
    p.w.set_grad(full(p.w.shape(), inf, {.dtype = t, .device = d}));
    opt.step({.skip = tensor({1}, {.dtype = DType::i32}).to(d)});
    CHECK(values_of(opt.state()) == before);
    CHECK(p.w.to_vector<double>() == w);
  }
  CHECK(follow(p, opt, r, 10, 25) <= eps);
  const State saved = copy_of(opt.state());
  Problem other = made();
  optim::Muon resumed{other.parameters(), optim::MuonOptions{.nesterov = options_of(r).nesterov,
                                                             .ns_steps = options_of(r).ns_steps}};
  {
    const NoGrad no_grad;
    other.w.copy_(p.w);
    other.b.copy_(p.b);
  }
  resumed.load_state(saved);
  CHECK(follow(p, opt, r, 25) <= eps);
  CHECK(follow(other, resumed, r, 25) <= eps);
  CHECK(values_of(opt.state()) == values_of(resumed.state()));
  CHECK(opt.applied() == 50);
  CHECK(opt.attempted() == 51);
}

TEST_CASE("Muon: matrices of every shape against plain loops") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const std::vector<Shape> shapes{{1, 1},   {1, 5},   {5, 1},       {3, 7},    {7, 3},       {4, 4},
                                  {33, 65}, {65, 33}, {6, 2, 3, 3}, {6, 3, 1}, {40, 2, 2, 2}};
  for (const Shape& s : shapes)
    for (const int ns_steps : {1, 2, 5}) {
      CAPTURE(to_string(d), s, ns_steps);
      const optim::MuonOptions o{.lr = 0.05, .weight_decay = 0.1, .ns_steps = ns_steps};
      CHECK(error_of(parameter(s, f64, d), 3, o) <= 1e-12);
    }
  // f32: rounding at 2^-24 of sums of 33 products, over five steps of slope up to 3.4 each.
  CHECK(error_of(parameter({33, 65}, f32, d), 2, {.lr = 0.05}) <= 1e-4);
  CHECK(error_of(parameter({64, 128}, f32, d), 2, {.lr = 0.05, .nesterov = false}) <= 1e-4);
}

TEST_CASE("Muon: products in bf16 and PyTorch's defaults") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  optim::MuonOptions o = optim::torch_muon();
  CHECK(o.lr == 1e-3);
  CHECK(o.weight_decay == 0.1);
  o.lr = 0.05;
  for (const Shape& s : std::vector<Shape>{{1, 5}, {3, 7}, {7, 3}, {4, 4}, {6, 2, 3, 3}})
    for (const int ns_steps : {1, 2, 5}) {
      CAPTURE(to_string(d), s, ns_steps);
      o.ns_steps = ns_steps;
      // Sums of f64 are exact or all but: what is rounded is the same.
      CHECK(error_of(parameter(s, f64, d), 2, o) <= 1e-12);
    }
  o.ns_steps = 5;
  o.match_rms_adamw = true;
  CHECK(error_of(parameter({7, 3}, f64, d), 2, o) <= 1e-12);
  // An identity, 7 % from the wider products' 0.7654: the same number in f32.
  for (const DType t : {f32, f64}) {
    const Tensor p = zeros({4, 4}, {.dtype = t, .device = d}).set_requires_grad();
    optim::Muon opt{State{{"p", p}}, {.lr = 1, .bf16_products = true}};
    p.set_grad(eye(4, {.dtype = t}).to(d));
    opt.step();
    const Numbers got = p.to_vector<double>();
    for (size_t i = 0; i < 16; ++i) CHECK(got[i] == (i % 5 == 0 ? -0.82421875 : 0));
  }
}

TEST_CASE("Muon: a transposed parameter and one in channels_last give the same step") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  NEEDS_OPERATORS(d);
  const NoGrad no_grad;
  // A copy with the strides of what it is of.
  const auto leaf = [](const Tensor& t) { return mul(t, 1.0).set_requires_grad(); };
  const Tensor flat = parameter({4, 7}, f64, d), turned = parameter({4, 3, 2, 2}, f64, d);
  const Tensor columns = tensor(flat.to_vector<double>()).view({4, 7}).t().contiguous().to(d).t();
  const Tensor last = turned.detach().to(MemoryFormat::channels_last);
  const State plain{{"a", flat}, {"b", turned}}, odd{{"a", leaf(columns)}, {"b", leaf(last)}};
  REQUIRE(odd[0].tensor.impl()->geometry.strides[0] == 1);
  REQUIRE(odd[1].tensor.impl()->geometry.strides[1] == 1);
  optim::Muon one{plain}, two{odd};
  for (int step = 0; step < 3; ++step) {
    for (const State* s : {&plain, &odd})
      for (const nn::NamedTensor& p : *s)
        p.tensor.set_grad(
            tensor(noise(p.tensor.numel(), u64(step) + 3)).view(p.tensor.shape()).to(d));
    one.step();
    two.step();
  }
  for (size_t k = 0; k < 2; ++k) {
    const Numbers a = plain[k].tensor.to_vector<double>(), b = odd[k].tensor.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 1e-13);
  }
  // Its first dimension is in the middle of its memory.
  const Tensor middle = leaf(parameter({3, 4, 5}, f64, d).detach().permute({1, 0, 2}));
  CHECK(mentions(message(State{{"m", middle}}, {}), "the first dimension of m [4, 3, 5]"));
}

TEST_CASE("Muon: the directions' singular values are near 1") {
  const LeakGuard guard;
  const Tensor p = zeros({16, 24}, {.dtype = f64, .requires_grad = true});
  optim::Muon opt{State{{"p", p}}, {.lr = 1}};
  p.set_grad(tensor(noise(p.numel(), 9)).view(p.shape()));
  opt.step();
  // Of U S V^T with S in [0.6, 1.3] the squared norm is between 16 * 0.36 and 16 * 1.7.
  double sum = 0;
  for (const double v : p.to_vector<double>()) sum += v * v;
  CHECK(sum > 16 * 0.36);
  CHECK(sum < 16 * 1.7);
}

TEST_CASE("Muon: gaps between parameters stay zero, parameters without gradient stay") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const State all{{"a", parameter({3, 5}, f32, d)},
                  {"none", parameter({0, 3}, f32, d)},
                  {"b", parameter({5, 3}, f32, d)},
                  {"c", parameter({2, 2}, f32, d)}};
  optim::Muon opt{all};
  const Numbers b = all[2].tensor.to_vector<double>();
  for (int i = 0; i < 3; ++i) {
    for (const nn::NamedTensor& p : all)
      if (p.name != "b") p.tensor.set_grad(p.tensor.detach());
    opt.step();
  }
  CHECK(all[2].tensor.to_vector<double>() == b);
  const optim::detail::Arena& arena = opt.arenas().all().at(0);
  Geometry whole{};
  set_contiguous(whole, &arena.elements, 1, f32);
  for (const optim::detail::StorageRef* s : {&arena.param, &arena.state[0]}) {
    const Numbers v = optim::detail::tensor_over(s->get(), 0, whole).clone().to_vector<double>();
    for (const optim::detail::Slot& slot : arena.slots)
      for (i64 i = slot.entry.tensor.numel(); i < slot.padded; ++i)
        CHECK(v[size_t(slot.offset + i)] == 0);
  }
}

TEST_CASE("Muon waits for nothing, and moves with its module") {
  const Device d = ready(Device::simt());
  const LeakGuard guard;
  manual_seed(3);
  nn::Linear net{5, 7};
  optim::Muon opt{net, {.lr = 0.1}};
  const auto step = [&] {
    net.weight->set_grad(net.weight->detach());
    net.bias->set_grad(net.bias->detach());
    const SyncGuard no_wait;
    opt.step();
  };
  step();
  net.to(d);
  step();
  CHECK(opt.device() == d);
  CHECK(opt.applied() == 2);
  for (const nn::NamedTensor& t : opt.state()) CHECK(t.tensor.device() == d);
}

TEST_CASE("Muon: matrices are its own, the rest and what is named are AdamW's") {
  const LeakGuard guard;
  const Device d = Device::cpu();
  const State all{{"token.weight", parameter({4, 3}, f64, d)},
                  {"up.weight", parameter({5, 3}, f64, d)},
                  {"up.bias", parameter({5}, f64, d)},
                  {"down.weight", parameter({3, 5}, f64, d)},
                  {"norm.weight", parameter({3}, f64, d)}};
  const optim::MuonOptions o{
      .lr = 0.02,
      .adamw = {.lr = 0.001, .weight_decay = 0.5, .names = {"token.*"}},
      .groups = {{.names = {"down.*"}, .lr = 0.5, .momentum = 0.5},
                 {.names = {"norm.*"}, .weight_decay = 0, .betas = optim::Betas{0.5, 0.5}}}};
  optim::Muon opt{all, o};
  CHECK(opt.group_count() == 4);
  CHECK(opt.is_muon(0));
  CHECK(opt.is_muon(1));
  CHECK(!opt.is_muon(2));
  CHECK(!opt.is_muon(3));
  CHECK_THROWS_AS(opt.is_muon(4), IndexError);
  CHECK(opt.lr(0) == 0.02);
  CHECK(opt.lr(1) == 0.5);
  CHECK(opt.momentum(1) == 0.5);
  CHECK(opt.lr(2) == 0.001);
  CHECK(opt.weight_decay(2) == 0);
  CHECK(opt.lr(3) == 0.001);
  CHECK(opt.weight_decay(3) == 0.5);
  opt.set_momentum(0.75);
  CHECK(opt.momentum() == 0.75);
  CHECK_THROWS_AS(opt.set_momentum(0.5, 3), UsageError);
  std::vector<std::string> names;
  for (const nn::NamedTensor& t : opt.state())
    if (t.tensor.ndim() > 0) names.push_back(t.name);
  CHECK(names ==
        std::vector<std::string>{"optim.exp_avg.token.weight", "optim.exp_avg_sq.token.weight",
                                 "optim.momentum_buffer.up.weight", "optim.exp_avg.up.bias",
                                 "optim.exp_avg_sq.up.bias", "optim.momentum_buffer.down.weight",
                                 "optim.exp_avg.norm.weight", "optim.exp_avg_sq.norm.weight"});
  // AdamW's are as AdamW has them.
  const State rest{{"token.weight", parameter({4, 3}, f64, d)},
                   {"up.bias", parameter({5}, f64, d)}};
  optim::AdamW adamw{rest, {.lr = 0.001, .betas = {0.9, 0.95}, .eps = 1e-10, .weight_decay = 0.5}};
  for (int step = 0; step < 3; ++step) {
    for (const State* s : {&all, &rest})
      for (const nn::NamedTensor& p : *s)
        p.tensor.set_grad(tensor(noise(p.tensor.numel(), u64(step) + 2)).view(p.tensor.shape()));
    opt.step();
    adamw.step();
  }
  CHECK(all[0].tensor.to_vector<double>() == rest[0].tensor.to_vector<double>());
  CHECK(all[2].tensor.to_vector<double>() == rest[1].tensor.to_vector<double>());
}

TEST_CASE("Muon: options that make no sense are refused with what conflicts") {
  const LeakGuard guard;
  const Device d = Device::cpu();
  const State all{{"up.weight", parameter({5, 3}, f64, d)}, {"up.bias", parameter({5}, f64, d)}};
  const auto refused = [&](const optim::MuonOptions& o, const char* text) {
    const std::string m = message(all, o);
    CAPTURE(m);
    CHECK(mentions(m, text));
  };
  refused({.ns_steps = 0}, "ns_steps must be 1 to 99, got 0");
  refused({.ns_steps = 100}, "ns_steps must be 1 to 99, got 100");
  refused({.eps = 0}, "eps must be above 0");
  refused({.lr = -1}, "lr must be at least 0");
  refused({.adamw = {.betas = {0.9, 1}}}, "beta2 must be in [0, 1)");
  refused({.adamw = {.names = {"up.wieght"}}}, "'up.wieght' of adamw.names matches none of the 2");
  refused({.adamw = {.names = {"*"}}}, "none of the 2 parameters is a matrix");
  refused({.groups = {{.names = {"up.*"}}}},
          "group 1 has up.weight, which is Muon's, and up.bias, which is AdamW's");
  refused({.groups = {{.names = {"*.bias"}, .momentum = 0.5}}},
          "group 1 sets momentum, and its parameters are AdamW's");
  refused({.groups = {{.names = {"*.weight"}, .betas = optim::Betas{}}}},
          "group 1 sets betas, and its parameters are Muon's");
  refused({.groups = {{.names = {"*.weight"}, .dampening = 0.5}}},
          "group 1 sets dampening, which Muon does not have");
}

TEST_CASE("Muon in TrainStep: a bad loss leaves momentum and weights as they were",
          "[wall][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  manual_seed(3);
  nn::Linear net{4, 6};
  net.to(d);
  optim::Muon opt{net, {.lr = 0.1}};
  TrainStep step{net, opt, {.clip_norm = 1, .on_nonfinite = NonFinite::skip, .ema_decay = 0.5}};
  const auto one = [&](double x) {
    const Tensor in = full({3, 4}, x, {.device = d});
    step(std::array<Tensor, 1>{in}, [&](const std::array<Tensor, 1>& b) {
      return Loss{sum(net(b[0])), tensor(3.0, {.dtype = f64, .device = d})};
    });
  };
  one(0.5);
  one(0.25);
  const std::vector<Numbers> before = values_of(opt.state());
  const Numbers w = net.weight->to_vector<double>();
  one(std::numeric_limits<double>::infinity());
  CHECK(values_of(opt.state()) == before);
  CHECK(net.weight->to_vector<double>() == w);
  one(0.5);
  CHECK(net.weight->to_vector<double>() != w);
  CHECK(opt.applied() == 3);
  CHECK(opt.attempted() == 4);
}
