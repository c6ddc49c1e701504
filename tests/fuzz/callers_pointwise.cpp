// Elementwise operators, reductions, losses of elements, and what works in place.
#include "warptape/kernels/pointwise/pointwise_list.h"
#include "warptape/tests/fuzz/operators.h"

namespace wt_test {
namespace {

// A tensor that broadcasts to s, or a number.
Tensor beside(Draw& d, const Shape& s) { return d.tensor(d.narrower(s)); }

using Two = Tensor (*)(const Operand&, const Operand&);
Results two(Draw& d, Two f) {
  const Shape s = d.shape();
  switch (d.pick(5)) {
    case 0:
      return f(d.tensor(s), d.scalar());
    case 1:
      return f(d.scalar(), d.tensor(s));
    case 2: {
      const Tensor a = d.tensor(s), b = beside(d, s);
      return f(b, a);
    }
    default: {
      const Tensor a = d.tensor(s), b = beside(d, s);
      return f(a, b);
    }
  }
}

Results in_place(Draw& d, const std::function<void(Tensor&)>& f) {
  if (d.flag()) d.floats();
  Tensor x = d.target(d.shape());
  f(x);
  return x;
}

// A list of some of the axes, or what is not one.
using Reduce = Tensor (*)(const In&, const Dims&, SumOptions);
Results reduced(Draw& d, Reduce f) {
  const Tensor x = d.tensor();
  const Dims dims = d.axes(x.ndim());
  return f(x, dims, {.keep_dim = d.flag()});
}

using Losses = Loss (*)(const In&, const In&);
Results loss(Draw& d, Losses f) {
  d.floats();
  const Tensor a = d.tensor(), b = d.tensor(d.bent(a.shape()));
  return f(a, b);
}

void add_reductions(Callers& to) {
  to["sum"] = [](Draw& d) { return reduced(d, sum); };
  to["mean"] = [](Draw& d) { return reduced(d, mean); };
  to["prod"] = [](Draw& d) { return reduced(d, prod); };
  to["max"] = [](Draw& d) { return reduced(d, max); };
  to["min"] = [](Draw& d) { return reduced(d, min); };
  to["argmax"] = [](Draw& d) { return reduced(d, argmax); };
  to["argmin"] = [](Draw& d) { return reduced(d, argmin); };
  to["any"] = [](Draw& d) { return reduced(d, any); };
  to["all"] = [](Draw& d) { return reduced(d, all); };
  to["logsumexp"] = [](Draw& d) { return reduced(d, logsumexp); };
  to["norm"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor();
    const double p = d.flag() ? double(d.number(0, 3)) : d.real(0, 4);
    return norm(x, p, d.axes(x.ndim()), {.keep_dim = d.flag()});
  };
  to["var"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor();
    const Dims dims = d.axes(x.ndim());
    return var(x, dims, {.correction = d.real(0, 1), .keep_dim = d.flag()});
  };
  to["std"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor();
    const Dims dims = d.axes(x.ndim());
    return wt::std(x, dims, {.correction = d.real(0, 1), .keep_dim = d.flag()});
  };
  to["sum_to"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return sum_to(x, d.as_argument(d.narrower(x.shape())));
  };
  to["softmax"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor();
    return softmax(x, d.axis(x.ndim()));
  };
  to["log_softmax"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor();
    return log_softmax(x, d.axis(x.ndim()));
  };
  to["cumsum"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return cumsum(x, d.axis(x.ndim()));
  };
  to["cumprod"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return cumprod(x, d.axis(x.ndim()));
  };
  to["linear_scan"] = [](Draw& d) {
    d.floats();
    const Tensor a = d.tensor(), b = d.tensor(d.bent(a.shape()));
    return linear_scan(a, b, d.axis(a.ndim()), {.reverse = d.flag()});
  };
}

void add_composite_activations(Callers& to) {
  using OfOne = Tensor (*)(const In&);
  for (const auto& [name, f] : {std::pair<const char*, OfOne>{"selu", selu},
                                {"logsigmoid", logsigmoid},
                                {"tanhshrink", tanhshrink}})
    to[name] = [f = f](Draw& d) { return f(d.tensor()); };
  to["hardtanh"] = [](Draw& d) { return hardtanh(d.tensor(), d.real(-2, 0), d.real(-1, 2)); };
  to["celu"] = [](Draw& d) { return celu(d.tensor(), d.real(-1, 2)); };
  to["softshrink"] = [](Draw& d) { return softshrink(d.tensor(), d.real(-0.5, 1)); };
  to["hardshrink"] = [](Draw& d) { return hardshrink(d.tensor(), d.real(-0.5, 1)); };
  to["threshold"] = [](Draw& d) { return threshold(d.tensor(), d.real(-1, 1), d.real(-1, 1)); };
  to["glu"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return glu(x, d.axis(x.ndim()));
  };
  to["prelu"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor x = d.tensor(s);
    return prelu(x, d.tensor(Shape{d.flag() || s.ndim() < 2 ? 1 : s[1]}));
  };
}

void add_composites(Callers& to) {
  to["exp2"] = [](Draw& d) { return exp2(d.tensor()); };
  to["xlogy"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor a = d.tensor(s), b = beside(d, s);
    return d.flag() ? xlogy(a, b) : xlogy(b, a);
  };
  to["addcmul"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor x = beside(d, s), a = d.tensor(s), b = beside(d, s);
    return addcmul(x, a, b, {.value = d.scalar()});
  };
  to["addcdiv"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor x = beside(d, s), a = d.tensor(s), b = beside(d, s);
    return addcdiv(x, a, b, {.value = d.scalar()});
  };
  to["isclose"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor a = d.tensor(s), b = beside(d, s);
    return isclose(a, b, {d.real(-0.1, 1), d.real(-0.1, 1), d.flag()});
  };
}

void add_in_place(Callers& to) {
  to["clamp_"] = [](Draw& d) {
    const Scalar lo = d.scalar(), hi = d.scalar();
    return in_place(d, [&](Tensor& x) { x.clamp_(lo, hi); });
  };
  to["elu_"] = [](Draw& d) {
    const double a = d.real(0, 2);
    return in_place(d, [&](Tensor& x) { x.elu_(a); });
  };
  to["leaky_relu_"] = [](Draw& d) {
    const double a = d.real(0, 2);
    return in_place(d, [&](Tensor& x) { x.leaky_relu_(a); });
  };
  to["softplus_"] = [](Draw& d) {
    const double beta = d.real(0.1, 2), threshold = d.real(1, 20);
    return in_place(d, [&](Tensor& x) { x.softplus_(beta, threshold); });
  };
  to["gelu_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.gelu_(); }); };
  to["hardsigmoid_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.hardsigmoid_(); }); };
  to["hardswish_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.hardswish_(); }); };
  to["mish_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.mish_(); }); };
  to["relu_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.relu_(); }); };
  to["sigmoid_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.sigmoid_(); }); };
  to["silu_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.silu_(); }); };
  to["tanh_"] = [](Draw& d) { return in_place(d, [](Tensor& x) { x.tanh_(); }); };
  to["dropout_"] = [](Draw& d) {
    const double p = d.real(0, 1);
    const bool training = d.chance(0.8);
    return in_place(d, [&](Tensor& x) { x.dropout_(p, training); });
  };
  to["mul_"] = [](Draw& d) {
    const Scalar v = d.scalar();
    return in_place(d, [&](Tensor& x) { x.mul_(v).mul_(beside(d, x.shape())); });
  };
  to["fill_"] = [](Draw& d) {
    const Scalar v = d.scalar();
    return in_place(d, [&](Tensor& x) { x.fill_(v); });
  };
  to["add_"] = [](Draw& d) {
    const Scalar alpha = d.scalar();
    return in_place(d, [&](Tensor& x) { x.add_(beside(d, x.shape()), {.alpha = alpha}); });
  };
  to["sub_"] = [](Draw& d) {
    return in_place(d, [&](Tensor& x) { x.sub_(beside(d, x.shape())); });
  };
  to["div_"] = [](Draw& d) {
    return in_place(d, [&](Tensor& x) { x.div_(beside(d, x.shape())); });
  };
  to["lerp_"] = [](Draw& d) {
    const Scalar weight = d.scalar();
    return in_place(d, [&](Tensor& x) { x.lerp_(beside(d, x.shape()), weight); });
  };
  to["copy_"] = [](Draw& d) {
    return in_place(d, [&](Tensor& x) { x.copy_(beside(d, x.shape())); });
  };
}

void add_losses(Callers& to) {
  to["l1_loss"] = [](Draw& d) { return loss(d, l1_loss); };
  to["mse_loss"] = [](Draw& d) { return loss(d, mse_loss); };
  to["smooth_l1_loss"] = [](Draw& d) {
    d.floats();
    const Tensor a = d.tensor(), b = d.tensor(d.bent(a.shape()));
    return smooth_l1_loss(a, b, {.beta = d.real(0, 2)});
  };
  to["huber_loss"] = [](Draw& d) {
    d.floats();
    const Tensor a = d.tensor(), b = d.tensor(d.bent(a.shape()));
    return huber_loss(a, b, {.delta = d.real(0.1, 2)});
  };
  to["kl_div"] = [](Draw& d) {
    d.floats();
    const Tensor a = d.tensor(), b = d.tensor(d.bent(a.shape()), 0, 1);
    return kl_div(a, b, {.log_target = d.flag()});
  };
  to["binary_cross_entropy"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape();
    const Tensor a = d.tensor(s, 0.05, 0.95), b = d.tensor(d.bent(s), 0, 1);
    return binary_cross_entropy(a, b,
                                {.weight = d.flag() ? d.tensor(d.narrower(s), 0, 2) : Tensor()});
  };
  to["binary_cross_entropy_with_logits"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape();
    const Tensor a = d.tensor(s), b = d.tensor(d.bent(s), 0, 1);
    const Tensor weight = d.flag() ? d.tensor(d.narrower(s), 0, 2) : Tensor();
    const Tensor positive = d.flag() ? d.tensor(d.narrower(s), 0, 2) : Tensor();
    return binary_cross_entropy_with_logits(a, b, {.weight = weight, .pos_weight = positive});
  };
}

}  // namespace

void add_pointwise_callers(Callers& to) {
#define WT_CALL_UNARY(M, name, Entry) to[#name] = [](Draw& d) { return name(d.tensor()); };
#define WT_CALL_BINARY(M, name, Entry) to[#name] = [](Draw& d) { return two(d, name); };
  WT_POINTWISE_UNARY(WT_CALL_UNARY, )
  WT_POINTWISE_UNARY_PLAIN(WT_CALL_UNARY, )
  WT_POINTWISE_BINARY(WT_CALL_BINARY, )
  WT_POINTWISE_BINARY_PLAIN(WT_CALL_BINARY, )
#undef WT_CALL_UNARY
#undef WT_CALL_BINARY
  to["clamp"] = [](Draw& d) {
    if (d.flag()) {
      const Shape s = d.shape();
      const Tensor x = d.tensor(s), lo = beside(d, s), hi = beside(d, s);
      return clamp(x, lo, hi);
    }
    const Scalar lo = d.scalar(), hi = d.scalar();
    if (d.flag()) return clamp(d.tensor(), {.min = lo});
    return clamp(d.tensor(), lo, hi);
  };
  to["nan_to_num"] = [](Draw& d) { return nan_to_num(d.tensor(), {.nan = d.real(-1, 1)}); };
  to["elu"] = [](Draw& d) { return elu(d.tensor(), d.real(-1, 2)); };
  to["leaky_relu"] = [](Draw& d) { return leaky_relu(d.tensor(), d.real(-1, 2)); };
  to["softplus"] = [](Draw& d) {
    const double beta = d.real(0.1, 2), threshold = d.real(1, 20);
    return softplus(d.tensor(), beta, threshold);
  };
  to["lerp"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape();
    const Tensor a = d.tensor(s), b = beside(d, s);
    if (d.flag()) return lerp(a, b, d.scalar());
    return lerp(a, b, beside(d, s));
  };
  to["where"] = [](Draw& d) {
    const Shape s = d.shape();
    const Tensor c = d.truth(d.narrower(s)), a = d.tensor(s);
    switch (d.pick(4)) {
      case 0:
        return where(c, a, d.scalar());
      case 1:
        return where(c, d.scalar(), a);
      case 2:
        return where(c, d.scalar(), d.scalar());
      default:
        return where(c, a, beside(d, s));
    }
  };
  to["dropout"] = [](Draw& d) {
    d.floats();
    const double p = d.real(0, 1);
    return dropout(d.tensor(), p, d.chance(0.8));
  };
  to["bernoulli"] = [](Draw& d) {
    d.floats();
    if (d.flag()) return bernoulli(d.tensor(d.shape(), 0, 1));
    const double p = d.real(0, 1);
    return bernoulli(p, d.as_argument(d.shape()));
  };
  to["gumbel_softmax"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 3);
    return gumbel_softmax(d.tensor(s),
                          {.tau = d.real(0.1, 3), .hard = d.flag(), .dim = d.axis(s.ndim())});
  };
  add_reductions(to);
  add_composite_activations(to);
  add_composites(to);
  add_in_place(to);
  add_losses(to);
}

}  // namespace wt_test
