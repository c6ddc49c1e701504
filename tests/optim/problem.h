// The two parameters and the given gradients that tests/reference follows optimizers with.
#pragma once
#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/reference/reader.h"

namespace wt_test {

using namespace wt;
using reference::Arrays;
using reference::load_reference;
using reference::reference_path;

inline Tensor from_reference(const reference::Array& a, DType t, Device d) {
  return tensor(a.values).view(Shape(a.shape)).clone().to(t).to(d);
}

struct Problem {
  Tensor w, b;
  std::vector<double> grad_w, grad_b;
  Problem(DType t, Device d) {
    const Arrays p = load_reference(reference_path("optim_problem"));
    w = from_reference(p.at("w0"), t, d).set_requires_grad();
    b = from_reference(p.at("b0"), t, d).set_requires_grad();
    grad_w = p.at("grad_w").values;
    grad_b = p.at("grad_b").values;
  }
  std::vector<nn::NamedTensor> parameters() const { return {{"w", w}, {"b", b}}; }
  void set_grads(size_t step) const {
    const auto part = [&](const Tensor& p, const std::vector<double>& all) {
      const auto n = size_t(p.numel());
      const std::vector<double> v(all.begin() + long(step * n), all.begin() + long((step + 1) * n));
      p.set_grad(tensor(v).view(p.shape()).to(p.dtype()).to(p.device()));
    };
    part(w, grad_w);
    part(b, grad_b);
  }
};

// Largest difference from the reference over 50 steps, relative to 1 + |value|.
inline double follow(const Problem& p, optim::Optimizer& opt, const Arrays& expected,
                     size_t from = 0, size_t to = 50) {
  double worst = 0;
  for (size_t step = from; step < to; ++step) {
    opt.zero_grad();
    p.set_grads(step);
    opt.step();
    for (const auto& [name, t] : p.parameters()) {
      const std::vector<double> now = t.to_vector<double>();
      const std::vector<double>& want = expected.at(name).values;
      for (size_t i = 0; i < now.size(); ++i) {
        const double e = want[step * now.size() + i];
        const double difference = std::abs(now[i] - e) / (1 + std::abs(e));
        if (!(difference <= worst)) worst = difference;
      }
    }
  }
  return worst;
}

inline double option(const Arrays& a, const char* name, double otherwise) {
  const auto at = a.find(name);
  return at == a.end() ? otherwise : at->second.values.at(0);
}

// f64: rounding only. f32: 50 steps, each rounding a handful of times at 2^-24.
inline double tolerance(DType t) { return t == f64 ? 1e-12 : 50 * 4 * 0x1p-24; }

}  // namespace wt_test
