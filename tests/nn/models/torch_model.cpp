#include "warptape/tests/nn/models/torch_model.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "warptape/autograd/ops/stats.h"
#include "warptape/optim/optimizer.h"

using namespace wt;

namespace wt_test {
namespace {

u32 seed_of(const std::string& name) {
  u32 seed = 2166136261u;
  for (const char c : name) seed = (seed ^ u8(c)) * 16777619u;
  return seed;
}

u32 mixed(u32 x) {
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

// What a tensor of this name is filled with: shift + scale * hash.
struct Range {
  double shift, scale;
};
Range range_of(const nn::NamedTensor& t) {
  const auto ends = [&](const char* with) { return t.name.ends_with(with); };
  if (ends("running_var")) return {1, 0.3};
  if (t.tensor.ndim() > 1 && !ends("weight_g"))
    return {0, std::sqrt(6 / (double(t.tensor.numel()) / double(t.tensor.size(0))))};
  return ends("weight") || ends("weight_g") ? Range{1, 0.1} : Range{0, 0.1};
}

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const i64 n : shape) text += str(text.empty() ? "" : "x", n);
  return text.empty() ? "scalar" : text;
}

reference::Arrays arrays_of(const std::string& name) {
  return reference::load_reference(reference::reference_path("models/" + name));
}

// "conv1.weight 64x3x7x7", in order.
std::vector<std::string> names_in(const std::string& name) {
  std::ifstream in(reference::reference_file("models/" + name + ".names"));
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string module, last, shape;
    words >> module;
    while (words >> last >> shape)
      names.push_back((module == "." ? "" : module + ".") + last + " " + shape);
  }
  return names;
}

void check_near(const std::string& what, const std::vector<double>& got,
                const std::vector<double>& want, double bound) {
  INFO(what);
  REQUIRE(got.size() >= want.size());
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(got[i] - want[i]) / (1 + std::abs(want[i]));
    if (!(d <= largest)) largest = d;  // NaN stays
  }
  CHECK(largest <= bound);
}

std::vector<double> gradient_norms(const nn::ModuleBase& net) {
  std::vector<double> norms;
  for (const auto& [name, p] : net.named_parameters()) {
    if (!p.requires_grad()) continue;
    INFO(name);
    REQUIRE(p.grad().defined());
    norms.push_back(norm(p.grad()).item());
    CHECK(std::isfinite(norms.back()));
  }
  return norms;
}

}  // namespace

std::vector<double> hashed_numbers(i64 count, const std::string& name) {
  const u32 seed = seed_of(name);
  std::vector<double> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = double(mixed(u32(i) * 0x9E3779B1u + seed) >> 8) / 8388608 - 1;
  return all;
}

Tensor hashed(const Shape& shape, const std::string& name) {
  return tensor(hashed_numbers(numel_of(shape), name)).to(f64).reshape(shape);
}

Tensor hashed_ids(const Shape& shape, const std::string& name, i64 below) {
  std::vector<i64> ids;
  for (const double u : hashed_numbers(numel_of(shape), name))
    ids.push_back(i64((u + 1) / 2 * double(below)));
  return tensor(ids).reshape(shape);
}

void fill_by_hash(const nn::ModuleBase& net) {
  const NoGrad no_grad;
  std::vector<const void*> done;  // a tied tensor is filled under its first name
  for (nn::NamedTensor& t : net.state_dict()) {
    const void* const who = t.tensor.impl();
    if (!is_floating(t.tensor.dtype()) || std::find(done.begin(), done.end(), who) != done.end())
      continue;
    done.push_back(who);
    const Range r = range_of(t);
    std::vector<double> numbers = hashed_numbers(t.tensor.numel(), t.name);
    for (double& v : numbers) v = r.shift + r.scale * v;
    t.tensor.copy_(tensor(numbers, {.device = Device::cpu()}).reshape(t.tensor.shape()));
  }
}

void check_names(const std::string& reference, const nn::ModuleBase& net) {
  const std::vector<std::string> want = names_in(reference);
  std::vector<std::string> got;
  for (const nn::NamedTensor& t : net.state_dict())
    got.push_back(t.name + " " + shape_text(t.tensor.shape()));
  REQUIRE(!want.empty());
  for (const std::string& name : want) {
    INFO(name);
    CHECK(std::find(got.begin(), got.end(), name) != got.end());
  }
  CHECK(got.size() == want.size());
  CHECK(net.parameter_count() == i64(arrays_of(reference).at("parameters").values.at(0)));
}

void check_outputs(const std::string& reference, const Tensor& output, double bound) {
  const reference::Array want = arrays_of(reference).at("out");
  check_near("outputs", values(output), want.values, bound);
}

void detail::make_what_is_made_once() {
  (void)cross_entropy(zeros({1, 2}), zeros({1}, {.dtype = DType::i64})).item();
}

void detail::check_small_on(Device d, const SmallModel& s, const nn::ModuleBase& net,
                            const std::function<Tensor()>& output,
                            const std::function<Loss()>& loss) {
  INFO(s.reference << " on " << to_string(d));
  const reference::Arrays want = arrays_of(s.reference);
  check_names(s.reference, net);
  net.to(f64);
  fill_by_hash(net);
  {
    const nn::EvalScope eval(net);
    const NoGrad no_grad;
    check_outputs(s.reference, output(), s.bound);
  }
  optim::Sgd sgd{net, {.lr = 0.02}};
  const std::vector<double>& losses = want.at("losses").values;
  std::vector<double> got;
  const size_t steps = d.kind == DeviceKind::cpu ? losses.size() : 1;
  for (size_t step = 0; step < steps; ++step) {
    sgd.zero_grad();
    const Loss l = loss();
    l.backward();
    if (step == 0) {
      const std::vector<double> norms = gradient_norms(net);
      CHECK(norms.size() == want.at("grads").values.size());
      check_near("gradients", norms, want.at("grads").values, s.bound);
    }
    sgd.step();
    got.push_back(l.item());
  }
  check_near("losses", got, {losses.begin(), losses.begin() + i64(steps)}, s.bound);
}

}  // namespace wt_test
