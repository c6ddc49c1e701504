// Steps are counted for each parameter: one that joins late, or misses steps, is stepped as one
// that has had an optimizer of its own.
#include <array>
#include <functional>
#include <map>
#include <memory>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/profiler.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/more_rules.h"
#include "warptape/optim/muon.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

using State = std::vector<nn::NamedTensor>;
using Numbers = std::vector<double>;
using Made = std::unique_ptr<optim::Optimizer>;
using Make = std::function<Made(const State&)>;

template <class Opt, class Options>
Make of(const Options& o) {
  return [o](const State& p) { return std::make_unique<Opt>(p, o); };
}

// All that count steps or take the first one apart, and those that do not, which must not notice.
const std::vector<std::pair<const char*, Make>>& rules() {
  static const std::vector<std::pair<const char*, Make>> all{
      {"sgd", of<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5})},
      {"adam", of<optim::Adam>(optim::AdamOptions{.lr = 0.01, .weight_decay = 0.1})},
      {"amsgrad", of<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .amsgrad = true})},
      {"nadam", of<optim::NAdam>(optim::NAdamOptions{.lr = 0.01, .momentum_decay = 0.1})},
      {"radam", of<optim::RAdam>(optim::RAdamOptions{.lr = 0.01, .betas = {0.9, 0.99}})},
      {"adamax", of<optim::Adamax>(optim::AdamaxOptions{.lr = 0.01})},
      {"adagrad", of<optim::Adagrad>(optim::AdagradOptions{.lr = 0.1, .lr_decay = 0.25})},
      {"rmsprop", of<optim::RmsProp>(optim::RmsPropOptions{.lr = 0.01, .centered = true})},
      {"adadelta", of<optim::Adadelta>(optim::AdadeltaOptions{})},
      {"lion", of<optim::Lion>(optim::LionOptions{.lr = 0.01})},
      {"rprop", of<optim::Rprop>(optim::RpropOptions{.lr = 0.01})}};
  return all;
}

Tensor leaf(const Shape& s, double first, DType t, Device d) {
  Numbers v;
  i64 n = 1;
  for (const i64 size : s) n *= size;
  for (i64 i = 0; i < n; ++i) v.push_back(first + double(i % 17) / 16);
  return tensor(v).view(s).to(t).to(d).clone().set_requires_grad();
}
// Of its step number `step`.
void give_gradient(const Tensor& p, int step) {
  Numbers g;
  for (i64 i = 0; i < p.numel(); ++i) g.push_back(double((i * 5 + step * 7) % 23) / 11 - 1);
  p.set_grad(tensor(g).view(p.shape()).to(p.dtype()).to(p.device()));
}
// Sizes on both sides of a place's 64 elements; neighbours that join together and apart.
State parameters(DType t, Device d) {
  const Numbers sizes{3, 70, 64, 1, 200, 5, 9};
  State all;
  for (size_t i = 0; i < sizes.size(); ++i)
    all.push_back({std::string(1, char('a' + i)), leaf({i64(sizes[i])}, double(i), t, d)});
  return all;
}
// Whether a parameter has a gradient in a step.
bool takes_part(size_t parameter, int step) {
  switch (parameter) {
    case 1:
    case 2:
      return step >= 4;
    case 4:
      return step % 3 == 1;
    case 5:
      return step >= 6 && step != 8;
    default:
      return true;
  }
}
constexpr int kSteps = 14;
bool is_skipped(int step) { return step == 2 || step == 5; }

// One step of those that take part, by their own numbers of gradients so far.
void step_all(const State& p, optim::Optimizer& opt, int step, std::vector<int>& given) {
  opt.zero_grad();
  bool any = false;
  for (size_t i = 0; i < p.size(); ++i)
    if (takes_part(i, step)) {
      give_gradient(p[i].tensor, given[i]++);
      any = true;
    }
  if (!any) return;
  opt.step({.skip = tensor(is_skipped(step) ? 1 : 0, {.dtype = DType::i32}).to(opt.device())});
}
// What an optimizer of one parameter alone makes of it: the one of the issue's own right value.
Numbers alone(const Make& make, size_t which, DType t, Device d, i64& applied) {
  const State all = parameters(t, d), one{all[which]};
  const Made opt = make(one);
  int given = 0;
  applied = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (!takes_part(which, step)) continue;
    opt->zero_grad();
    give_gradient(one[0].tensor, given++);
    opt->step({.skip = tensor(is_skipped(step) ? 1 : 0, {.dtype = DType::i32}).to(d)});
    applied += !is_skipped(step);
  }
  return one[0].tensor.to_vector<double>();
}

i64 count_named(const State& s, const std::string& prefix) {
  i64 n = 0;
  for (const nn::NamedTensor& t : s) n += t.name.starts_with(prefix);
  return n;
}
State copy_of(const State& s) {
  State all;
  for (const nn::NamedTensor& t : s) all.push_back({t.name, t.tensor.clone()});
  return all;
}
std::map<std::string, Numbers> values_of(const State& s) {
  std::map<std::string, Numbers> all;
  for (const nn::NamedTensor& t : s) all[t.name] = t.tensor.to_vector<double>();
  return all;
}
void copy_weights(const State& from, const State& to) {
  const NoGrad no_grad;
  for (size_t i = 0; i < from.size(); ++i) Tensor(to[i].tensor).copy_(from[i].tensor);
}

struct Launches : profiler::Observer {
  std::map<std::string, int> counts;
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind == profiler::Kind::kernel) ++counts[std::string(r.name)];
  }
};

}  // namespace

TEST_CASE("Adam: a parameter that joins after a thousand steps starts with its own first one") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const State p{{"old", full({1}, 1, {.dtype = f64, .device = d, .requires_grad = true})},
                {"late", full({1}, 1, {.dtype = f64, .device = d, .requires_grad = true})}};
  const Tensor half = full({1}, 0.5, {.dtype = f64, .device = d});
  optim::Adam opt{p, {.lr = 0.01}};
  for (int step = 0; step < 1010; ++step) {
    opt.zero_grad();
    p[0].tensor.set_grad(half);
    if (step >= 1000) p[1].tensor.set_grad(half);
    opt.step();
  }
  // m and v over their corrections are the gradient and its square: ten steps of the rate.
  CHECK(std::abs(p[1].tensor.item() - 0.9) <= 1e-7);
  CHECK(opt.applied() == 1010);
  CHECK(opt.applied("late") == 10);
  CHECK(opt.applied("old") == 1010);
  CHECK(mentions(message_of([&] { (void)opt.applied("lete"); }), "no parameter is named 'lete'"));
}

TEST_CASE("every rule steps a parameter that has missed steps as if it were alone") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const DType t = GENERATE(f64, f32);
  const LeakGuard guard;
  for (const auto& [name, make] : rules()) {
    CAPTURE(to_string(d), dtype_name(t), name);
    const State p = parameters(t, d);
    const Made opt = make(p);
    std::vector<int> given(p.size(), 0);
    for (int step = 0; step < kSteps; ++step) step_all(p, *opt, step, given);
    CHECK(opt->applied() == kSteps - 2);
    for (size_t i = 0; i < p.size(); ++i) {
      CAPTURE(p[i].name);
      i64 applied = 0;
      CHECK(p[i].tensor.to_vector<double>() == alone(make, i, t, d, applied));
      CHECK(opt->applied(p[i].name) == applied);
    }
  }
}

TEST_CASE("groups and both dtypes: what has missed steps counts apart in each") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const Make make = [](const State& p) {
    std::vector<optim::ParamGroup> groups;
    if (p.size() > 1) groups = {{.names = {"b*", "f*"}, .lr = 0.02}};
    return std::make_unique<optim::NAdam>(
        p, optim::NAdamOptions{.lr = 0.02, .groups = std::move(groups)});
  };
  State p = parameters(f32, d);
  for (const nn::NamedTensor& more : parameters(f64, d))
    p.push_back({more.name + "64", more.tensor});
  const Made opt = make(p);
  std::vector<int> given(p.size(), 0);
  for (int step = 0; step < kSteps; ++step) {
    opt->zero_grad();
    for (size_t i = 0; i < p.size(); ++i)
      if (takes_part(i % 7, step)) give_gradient(p[i].tensor, given[i]++);
    opt->step({.skip = tensor(is_skipped(step) ? 1 : 0, {.dtype = DType::i32}).to(d)});
  }
  for (size_t i = 0; i < p.size(); ++i) {
    CAPTURE(p[i].name);
    i64 applied = 0;
    CHECK(p[i].tensor.to_vector<double>() == alone(make, i % 7, i < 7 ? f32 : f64, d, applied));
  }
}

TEST_CASE("Muon's other part counts steps for each parameter too") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const auto biases = [&] {
    return State{
        {"w", leaf({3, 4}, 0, f64, d)}, {"b", leaf({5}, 1, f64, d)}, {"c", leaf({6}, 2, f64, d)}};
  };
  const State p = biases(), q = biases();
  optim::Muon opt{p, {.adamw = {.lr = 0.01}}};
  optim::AdamW own{State{q[2]},
                   {.lr = 0.01, .betas = {0.9, 0.95}, .eps = 1e-10, .weight_decay = 0}};
  for (int step = 0; step < 8; ++step) {
    opt.zero_grad();
    for (size_t i = 0; i < 3; ++i)
      if (i < 2 || step >= 5) give_gradient(p[i].tensor, step);
    opt.step();
    if (step < 5) continue;
    own.zero_grad();
    give_gradient(q[2].tensor, step);
    own.step();
  }
  CHECK(p[2].tensor.to_vector<double>() == q[2].tensor.to_vector<double>());
}

TEST_CASE("many parameters that take part by turns") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  State p, q;
  for (int i = 0; i < 23; ++i) {
    p.push_back({str("p", i), leaf({4}, i, f64, d)});
    q.push_back({str("p", i), leaf({4}, i, f64, d)});
  }
  const auto takes = [](int i, int step) { return (i * 7 + step * 3) % 5 < 2; };
  optim::Adam opt{p, {.lr = 0.01}};
  for (int step = 0; step < 9; ++step) {
    opt.zero_grad();
    for (int i = 0; i < 23; ++i)
      if (takes(i, step)) give_gradient(p[size_t(i)].tensor, step);
    opt.step();
  }
  for (int i = 0; i < 23; ++i) {
    optim::Adam own{State{q[size_t(i)]}, {.lr = 0.01}};
    for (int step = 0; step < 9; ++step) {
      if (!takes(i, step)) continue;
      own.zero_grad();
      give_gradient(q[size_t(i)].tensor, step);
      own.step();
    }
    CHECK(p[size_t(i)].tensor.to_vector<double>() == q[size_t(i)].tensor.to_vector<double>());
  }
}

TEST_CASE("a frozen parameter that is free again goes on with its own count") {
  const LeakGuard guard;
  const Device d = Device::cpu();
  nn::Linear net{3, 2}, other{3, 2};
  other.load_state_dict(net.state_dict());
  optim::Adam opt{net, {.lr = 0.01}}, bias{State{{"bias", other.bias.tensor()}}, {.lr = 0.01}};
  for (int step = 0; step < 9; ++step) {
    net.requires_grad_("bias", step < 2 || step >= 6);
    opt.zero_grad();
    give_gradient(net.weight.tensor(), step);
    if (step < 2 || step >= 6) {
      give_gradient(net.bias.tensor(), step);
      give_gradient(other.bias.tensor(), step);
      bias.step();
    }
    opt.step();
  }
  CHECK(net.bias->to_vector<double>() == other.bias->to_vector<double>());
  CHECK(opt.applied("bias") == 5);
  CHECK(opt.applied("weight") == 9);
  CHECK(d == opt.device());
}

TEST_CASE("parameters with counts of their own: one launch, and the host waits for nothing") {
  const Device d = ready(Device::simt());
  const LeakGuard guard;
  const State p = parameters(f32, d);
  optim::Adam opt{p, {.lr = 0.01}};
  opt.set_schedule(optim::cosine(100));
  const auto step = [&](size_t from, int number) {
    opt.zero_grad();
    for (size_t i = from; i < p.size(); ++i) give_gradient(p[i].tensor, number);
    const SyncGuard no_wait;
    Launches seen;
    const profiler::ObserverScope watch(seen);
    opt.step();
    return seen.counts;
  };
  using Counts = std::map<std::string, int>;
  const Counts one{{"adam_step", 1}, {"step_advance", 1}};
  CHECK(step(0, 0) == one);
  CHECK(step(3, 1) == Counts{{"adam_step", 1}, {"step_advance", 2}});  // they part here
  CHECK(step(3, 2) == one);
  CHECK(step(0, 3) == one);  // two counts in one launch
  CHECK(opt.applied("a") == 2);
  CHECK(opt.applied("d") == 4);
}

TEST_CASE("counts of parameters go into the state and back, old states load") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  for (const auto& [name, make] : rules()) {
    CAPTURE(to_string(d), name);
    const State p = parameters(f64, d), q = parameters(f64, d);
    const Made opt = make(p);
    std::vector<int> given(p.size(), 0);
    for (int step = 0; step < 9; ++step) step_all(p, *opt, step, given);
    const State saved = copy_of(opt->state());
    CHECK(count_named(saved, "optim.step.") == 4);  // b, c, e, f
    CHECK(count_named(saved, "optim.mu_product.") == (std::string(name) == "nadam" ? 4 : 0));
    const Made resumed = make(q);
    copy_weights(p, q);
    resumed->load_state(saved);
    CHECK(values_of(resumed->state()) == values_of(saved));
    std::vector<int> again = given;
    for (int step = 9; step < kSteps; ++step) {
      step_all(p, *opt, step, given);
      step_all(q, *resumed, step, again);
    }
    CHECK(values_of(p) == values_of(q));
    CHECK(values_of(opt->state()) == values_of(resumed->state()));
  }
}

TEST_CASE("a state without counts of parameters has the optimizer's, one that lies is refused") {
  const LeakGuard guard;
  const Device d = Device::cpu();
  const State p = parameters(f64, d), q = parameters(f64, d);
  optim::NAdam opt{p}, other{q};
  std::vector<int> given(p.size(), 0);
  for (int step = 0; step < 9; ++step) step_all(p, opt, step, given);
  State old;
  for (const nn::NamedTensor& t : copy_of(opt.state()))
    if (!t.name.starts_with("optim.step.") && !t.name.starts_with("optim.mu_product."))
      old.push_back(t);
  step_all(q, other, 8, given);  // has counts of its own, which go
  other.load_state(old);
  for (const nn::NamedTensor& t : p) CHECK(other.applied(t.name) == 7);
  CHECK(count_named(other.state(), "optim.step.") == 0);
  const auto refused = [&](const char* name, const Tensor& value) {
    State lies = copy_of(opt.state());
    for (nn::NamedTensor& t : lies)
      if (t.name == name) t.tensor = value;
    const auto before = values_of(other.state());
    const std::string m = message_of([&] { other.load_state(lies); });
    CHECK(values_of(other.state()) == before);
    return m;
  };
  CHECK(mentions(refused("optim.step.b", tensor(i64(8))), "optim.step.b is 8 of 7 applied steps"));
  CHECK(mentions(refused("optim.step.b", tensor(i64(-1))), "optim.step.b is -1"));
  CHECK(mentions(refused("optim.step.b", tensor(2.0)), "no integer optim.step.b"));
  CHECK(mentions(refused("optim.mu_product.b", tensor(2.0)), "no product in [0, 1]"));
  State more = copy_of(opt.state());
  more.push_back({"optim.step.zz", tensor(i64(1))});
  CHECK(mentions(message_of([&] { other.load_state(more); }), "unexpected optim.step.zz"));
}

TEST_CASE("counts of parameters move with them") {
  const Device d = ready(Device::simt());
  const LeakGuard guard;
  nn::Linear net{4, 3}, other{4, 3};
  other.load_state_dict(net.state_dict());
  optim::Adam opt{net, {.lr = 0.01}};
  optim::Adam weight{State{{"weight", other.weight.tensor()}}, {.lr = 0.01}};
  optim::Adam bias{State{{"bias", other.bias.tensor()}}, {.lr = 0.01}};
  for (int step = 0; step < 8; ++step) {
    if (step == 4) {
      net.to(d);
      other.to(d);
    }
    for (nn::Linear* module : {&net, &other}) {
      module->zero_grad();
      give_gradient(module->weight.tensor(), step);
      if (step >= 3) give_gradient(module->bias.tensor(), step);
    }
    opt.step();
    weight.step();
    if (step >= 3) bias.step();
  }
  CHECK(opt.device() == d);
  CHECK(opt.applied("bias") == 5);
  CHECK(net.bias->to_vector<double>() == other.bias->to_vector<double>());
  CHECK(net.weight->to_vector<double>() == other.weight->to_vector<double>());
}

namespace {

struct Heads : nn::Module<Heads> {
  nn::Linear trunk = add("trunk", nn::Linear{4, 6});
  nn::Linear first = add("first", nn::Linear{6, 2});
  nn::Linear second = add("second", nn::Linear{6, 2});
};

// Losses by turns with one head, with both, and with the other one.
struct Trained {
  std::map<std::string, Numbers> state;
  i64 captures = 0;
  std::string why_eager;
};
Trained train_heads(Device d, bool graph) {
  manual_seed(5);
  Heads net;
  net.to(d);
  optim::AdamW opt{net, {.lr = 0.02}};
  TrainStep step{net,
                 opt,
                 {.clip_norm = 1,
                  .schedule = optim::cosine(60),
                  .graph = graph,
                  .on_nonfinite = NonFinite::skip}};
  using Batch = std::array<Tensor, 1>;
  const Batch good{rand({5, 4}).to(d)}, bad{full({5, 4}, NAN, {.device = d})};
  const auto hidden = [&](const Batch& b) { return tanh(net.trunk(b[0])); };
  const auto of_first = [&](const Batch& b) { return mean(square(net.first(hidden(b)))); };
  const auto of_second = [&](const Batch& b) { return mean(square(net.second(hidden(b)) - 1.0)); };
  const auto of_both = [&](const Batch& b) { return of_first(b) + of_second(b); };
  for (int k = 0; k < 40; ++k) {
    const Batch& b = k % 7 == 3 ? bad : good;
    if (k < 8)
      step(b, of_first);
    else if (k % 3 == 0)
      step(b, of_both);
    else if (k % 3 == 1)
      step(b, of_first);
    else
      step(b, of_second);
  }
  Trained t{values_of(opt.state()), step.captures(), step.why_eager()};
  for (const nn::NamedTensor& p : net.named_parameters())
    t.state[p.name] = p.tensor.to_vector<double>();
  return t;
}

}  // namespace

TEST_CASE("captured steps of changing parameters have the bits of eager ones", "[capture]") {
  const Device d = ready(Device::simt());
  NEEDS_OPERATORS(d);
  const Trained eager = train_heads(d, false), captured = train_heads(d, true);
  CHECK(captured.captures == 3);
  CHECK(captured.why_eager == "");
  CHECK(eager.state == captured.state);
  CHECK(eager.state.at("optim.step.second.bias")[0] < eager.state.at("optim.applied")[0]);
  // Where kernels run late, tables are exchanged while steps with the old ones are queued.
  const WithStreams lazy(SimtStreams::lazy, 1);
  for (const bool graph : {false, true}) CHECK(train_heads(d, graph).state == eager.state);
}
