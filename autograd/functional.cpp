#include "warptape/autograd/functional.h"

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/str.h"

namespace wt {
namespace {

// The inputs as f sees them: views with a graph of their own, or leaves.
class Inputs {
 public:
  Inputs(const char* name, std::span<const Tensor> given, bool create_graph, Frame at)
      : name_(name), at_(at) {
    for (const Tensor& x : given) {
      if (!is_floating(x.dtype(at)) || !computes(x.dtype(at)))
        throw DtypeError(str("[", name, "] only floating tensors have derivatives, this is ",
                             describe(x), "\n  at ", describe(at)));
      // A graph that goes on to the given tensor, where it has one and is to be kept.
      Tensor own = create_graph && x.requires_grad() ? x.view(x.shape(), at) : x.detach(at);
      if (!own.requires_grad()) own.set_requires_grad(true, at);
      own_.push_back(std::move(own));
    }
  }
  const std::vector<Tensor>& list() const { return own_; }
  const Tensor& operator[](size_t i) const { return own_[i]; }

  // d output / d inputs, with zeros where there is nothing to differentiate.
  std::vector<Tensor> derivatives(const Tensor& output, const Tensor& seed, bool create_graph,
                                  bool retain_graph) const {
    std::vector<Tensor> g(own_.size());
    if (output.requires_grad())
      g = grads(output, own_,
                {.grad_outputs = {seed},
                 .create_graph = create_graph,
                 .retain_graph = retain_graph,
                 .allow_unused = true},
                at_);
    for (size_t i = 0; i < g.size(); ++i)
      if (!g[i].defined()) g[i] = zeros_like(own_[i], at_);
    return g;
  }

  void check_like(const char* what, const Tensor& v, const Tensor& like) const {
    if (v.shape(at_) != like.shape() || v.dtype() != like.dtype() || v.device() != like.device())
      throw ShapeError(str("[", name_, "] v must look like ", what, "\n  ", what, ": ",
                           describe(like), "\n  v: ", describe(v), "\n  at ", describe(at_)));
  }
  void check_one_element(const Tensor& y) const {
    if (y.numel(at_) != 1)
      throw ShapeError(str("[", name_, "] f must give one element, it gave ", describe(y),
                           "\n  at ", describe(at_)));
  }

 private:
  std::vector<Tensor> own_;
  const char* name_;
  Frame at_;
};

Tensor kept(Tensor t, bool create_graph) {
  return create_graph || !t.requires_grad() ? t : t.detach();
}

Tensor called(const TensorFunction& f, const Inputs& in, Frame at) {
  Tensor y = f(in[0]);
  (void)y.shape(at);  // undefined: throws with the user's line
  return y;
}

TensorsFunction of_list(const TensorFunction& f) {
  return [&f](std::span<const Tensor> in) { return f(in[0]); };
}

// What rows_of() gives, with one backward for all elements: each slice has its own seed.
std::vector<Tensor> vectorized_rows(const Tensor& y, const Inputs& in, bool create_graph,
                                    Frame at) {
  const i64 n = y.numel();
  Shape shape = y.shape();
  shape.insert(0, n);
  const Tensor seeds = eye(n, {.dtype = y.dtype(), .device = y.device()}).view(shape);
  std::vector<Tensor> all = detail::vmap_call(
      [&](std::span<const Tensor> seed) { return in.derivatives(y, seed[0], create_graph, true); },
      {&seeds, 1}, {}, at);
  for (size_t i = 0; i < all.size(); ++i) {
    shape = y.shape();
    for (const i64 size : in[i].shape()) shape.push_back(size);
    all[i] = all[i].reshape(shape);
  }
  return all;
}

// [shape of y..., shape of x...] from the derivative of each element of y.
std::vector<Tensor> rows_of(const Tensor& y, const Inputs& in, FunctionalOptions o, Frame at) {
  const FrameScope frame(at);
  const i64 n = y.numel();
  const bool create_graph = o.create_graph;
  if (o.vectorize) return vectorized_rows(y, in, create_graph, at);
  std::vector<std::vector<Tensor>> rows(in.list().size());
  for (i64 k = 0; k < n; ++k) {
    Tensor seed = zeros_like(y).detach();
    seed.view({n})[k].fill_(1);
    std::vector<Tensor> g = in.derivatives(y, seed, create_graph, true);
    for (size_t i = 0; i < g.size(); ++i) rows[i].push_back(std::move(g[i]));
  }
  std::vector<Tensor> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    Shape shape = y.shape();
    for (const i64 size : in[i].shape()) shape.push_back(size);
    all.push_back(n ? stack(rows[i]).reshape(shape)
                    : zeros(shape, {.dtype = in[i].dtype(), .device = in[i].device()}));
  }
  return all;
}

}  // namespace

ProductResult vjp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                  FunctionalOptions options, Frame at) {
  const EnableGrad recording;
  const Inputs in("vjp", {&x, 1}, options.create_graph, at);
  const Tensor y = called(f, in, at);
  in.check_like("f(x)", v, y);
  std::vector<Tensor> g = in.derivatives(y, v, options.create_graph, options.create_graph);
  return {kept(y, options.create_graph), std::move(g[0])};
}

ProductResult jvp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                  FunctionalOptions options, Frame at) {
  const EnableGrad recording;
  const Inputs in("jvp", {&x, 1}, options.create_graph, at);
  in.check_like("x", v, x);
  const Tensor y = called(f, in, at);
  if (!y.requires_grad()) return {y, zeros_like(y)};
  // u -> u^T J is linear: its derivative by u, applied to v, is J v, whatever u is.
  const Tensor u = ones_like(y).set_requires_grad();
  const Tensor vector_product = in.derivatives(y, u, true, true)[0];
  Tensor product;
  if (vector_product.requires_grad())
    product = grads(
        vector_product, u,
        {.grad_outputs = {v}, .create_graph = options.create_graph, .allow_unused = true}, at)[0];
  if (!product.defined()) product = zeros_like(y);
  return {kept(y, options.create_graph), std::move(product)};
}

ProductResult hvp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                  FunctionalOptions options, Frame at) {
  const EnableGrad recording;
  const Inputs in("hvp", {&x, 1}, options.create_graph, at);
  in.check_like("x", v, x);
  const Tensor y = called(f, in, at);
  in.check_one_element(y);
  const Tensor g = in.derivatives(y, ones_like(y), true, true)[0];
  return {kept(y, options.create_graph),
          in.derivatives(g, v, options.create_graph, options.create_graph)[0]};
}

std::vector<Tensor> jacobian(const TensorsFunction& f, std::span<const Tensor> inputs,
                             FunctionalOptions options, Frame at) {
  const EnableGrad recording;
  const Inputs in("jacobian", inputs, options.create_graph, at);
  const Tensor y = f(in.list());
  (void)y.shape(at);
  return rows_of(y, in, options, at);
}

Tensor jacobian(const TensorFunction& f, const Tensor& x, FunctionalOptions options, Frame at) {
  return jacobian(of_list(f), {&x, 1}, options, at)[0];
}

std::vector<std::vector<Tensor>> hessian(const TensorsFunction& f, std::span<const Tensor> inputs,
                                         FunctionalOptions options, Frame at) {
  const EnableGrad recording;
  const Inputs in("hessian", inputs, options.create_graph, at);
  const Tensor y = f(in.list());
  in.check_one_element(y);
  std::vector<std::vector<Tensor>> all;
  for (const Tensor& g : in.derivatives(y, ones_like(y), true, true))
    all.push_back(rows_of(g, in, options, at));
  return all;
}

Tensor hessian(const TensorFunction& f, const Tensor& x, FunctionalOptions options, Frame at) {
  return hessian(of_list(f), {&x, 1}, options, at)[0][0];
}

}  // namespace wt
