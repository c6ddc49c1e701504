#include "warptape/autograd/ops/fused_linear.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/fused.h"
#include "warptape/autograd/ops/internal/matrix_operand.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"

namespace wt {
namespace info {
constexpr OpInfo fused_linear{.name = "fused_linear", .autocast = Autocast::lower};
constexpr OpInfo feed_forward{.name = "feed_forward", .autocast = Autocast::lower};
}  // namespace info

namespace {

// --- operands ---

void check_floating(const OpScope& s) {
  if (s.dtype() > DType::bf16)
    s.fail<DtypeError>(str("takes f64, f32, f16 and bf16, not ", dtype_name(s.dtype())));
}

// x's shape with w's rows for its last dimension. `what`: w's name.
Shape result_shape(const OpScope& s, const Shape& x, int w, const char* what) {
  const Geometry& g = s.geometry(w);
  if (g.ndim != 2)
    s.fail<ShapeError>(str(what, " has ", int(g.ndim), " dimensions, 2 are needed: [out, in]"));
  if (x.ndim() == 0) s.fail<ShapeError>("input has 0 dimensions, at least 1 is needed");
  if (x[x.ndim() - 1] != g.shape[1])
    s.fail<ShapeError>(
        str("input features ", x[x.ndim() - 1], " \u2260 ", what, " in_features ", g.shape[1]));
  Shape y = x;
  y[y.ndim() - 1] = g.shape[0];
  check_numel(s, y);
  return y;
}
void check_bias(const OpScope& s, int bias, const Shape& y, const char* what) {
  if (bias < 0) return;
  const Geometry& g = s.geometry(bias);
  if (g.ndim != 1)
    s.fail<ShapeError>(str(what, " has ", int(g.ndim), " dimensions, 1 is needed: [out]"));
  if (g.shape[0] != y[y.ndim() - 1])
    s.fail<ShapeError>(
        str(what, " length ", g.shape[0], " \u2260 weight out_features ", y[y.ndim() - 1]));
}
void check_residual(const OpScope& s, int residual, const Shape& y) {
  if (residual >= 0 && shape_of(s.geometry(residual)) != y)
    s.fail<ShapeError>(str("residual ", shape_of(s.geometry(residual)), " \u2260 result ", y));
}

// --- launches ---

// The data of an operand, dense.
const void* dense_data(const OpScope& s, int operand, Tensor& copy) {
  if (operand < 0) return nullptr;
  if (s.geometry(operand).dense) return s.impl(operand)->data;
  copy = contiguous_copy(s.impl(operand));
  return copy.impl()->data;
}

struct Layer {
  const TensorImpl *x, *w;
  bool transposed = true;  // x w^T, else x w
  const void* bias = nullptr;
  void* out;
  bool accumulate = false;
  MatmulEpilogue epilogue{};
};
void run_layer(const Layer& layer, const Launch& l) {
  Tensor copy_x, copy_w;
  const Matrix a = rows_of(layer.x, copy_x), b = last_two(layer.w, copy_w);
  MatmulArgs g;
  set_matrices(g, a, false, b, layer.transposed);
  g.out = layer.out;
  g.out_row = g.n > 1 ? g.n : 1;
  g.bias = layer.bias;
  g.accumulate = layer.accumulate;
  g.epilogue = layer.epilogue;
  run(g, l);
}

// --- gradients of a layer, once dz, that of x w^T + .., is there ---

// What takes part of the inputs `weight` and `bias`; bias below 0: there is none.
void put_parameters(Backward& g, const OpInfo& op, const Tensor& dz, const Tensor& x, int weight,
                    int bias) {
  const bool with_bias = bias >= 0 && g.wants(u32(bias)), with_weight = g.wants(u32(weight));
  if (with_weight && !g.recording() && x.size(-1) > 0)
    return put_weight_gradients(g, op, dz, x, weight, with_bias ? bias : -1);
  if (with_weight) g.put(u32(weight), matmul(flat_rows(dz).transpose(0, 1), flat_rows(x)));
  if (with_bias) g.put_broadcast(u32(bias), dz);
}
void put_input(Backward& g, const Tensor& dz, const Tensor& w) {
  if (!g.wants(0)) return;
  if (g.recording()) return g.put(0, matmul(dz, w));
  GradDestination dx = g.destination(0);
  run_layer({.x = dz.impl(),
             .w = w.impl(),
             .transposed = false,
             .out = dx.impl()->data,
             .accumulate = dx.accumulate()},
            g.launch());
  g.put(0, std::move(dx));
}

// linear, with a bias or without.
Tensor plain_linear(const Tensor& x, const Tensor& w, const Tensor* bias) {
  return bias ? linear(x, w, *bias) : linear(x, w);
}

// --- fused_linear ---

struct FusedLinear {
  Activation activation;
  i8 bias = -1, residual = -1;
};

void fused_linear_backward(Backward& g) {
  const auto a = g.attribute<FusedLinear>();
  Tensor dz;
  if (!g.recording() || !is_told_from_sum(a.activation)) {
    const Tensor none, &told = a.activation == Activation::none ? none : g.saved(kSavedTold);
    dz = g.recording() ? recorded_gradient(a.activation, g.grad(), told, told)
                       : activation_gradient(g, a.activation, g.grad(), told);
  } else {
    Tensor z = plain_linear(g.saved(kSavedX), g.saved(kSavedWeight),
                            a.bias < 0 ? nullptr : &g.saved(kSavedBias));
    if (a.residual >= 0) z = z + g.saved(kSavedResidual);
    dz = recorded_gradient(a.activation, g.grad(), z, Tensor());
  }
  if (g.wants(0)) put_input(g, dz, g.saved(kSavedWeight));
  if (g.wants(1))
    put_parameters(g, info::fused_linear, dz, g.saved(kSavedX), 1, a.bias);
  else if (a.bias >= 0 && g.wants(u32(a.bias)))
    g.put_broadcast(u32(a.bias), dz);
  if (a.residual >= 0 && g.wants(u32(a.residual))) g.put(u32(a.residual), std::move(dz));
}

// --- feed_forward ---

struct FeedForward {
  Activation activation;
  i8 bias1 = -1, bias2 = -1, residual = -1;
};
enum { kFed, kWeight1, kWeight2, kHidden, kBefore, kBias1 };

void feed_forward_backward(Backward& g) {
  const auto a = g.attribute<FeedForward>();
  const OpInfo& op = info::feed_forward;
  const Tensor& dy = g.grad();
  const bool first = g.wants(0) || g.wants(1) || (a.bias1 >= 0 && g.wants(u32(a.bias1)));
  Tensor h, dz;
  if (g.recording()) {
    const Tensor z =
        plain_linear(g.saved(kFed), g.saved(kWeight1), a.bias1 < 0 ? nullptr : &g.saved(kBias1));
    h = activated(a.activation, z);
    if (first) dz = recorded_gradient(a.activation, matmul(dy, g.saved(kWeight2)), z, h);
  } else {
    h = g.saved(kHidden);
    if (first) {
      const bool smooth = is_told_from_sum(a.activation);
      dz = empty(h.shape(), {.dtype = h.dtype(), .device = h.device()});
      Layer back{.x = dy.impl(),
                 .w = g.saved(kWeight2).impl(),
                 .transposed = false,
                 .out = dz.impl()->data};
      if (a.activation != Activation::none)
        back.epilogue = {.activation = a.activation,
                         .gradient = true,
                         .aux = smooth ? g.saved(kBefore).impl()->data : h.impl()->data};
      run_layer(back, g.launch());
    }
  }
  put_parameters(g, op, dy, h, 2, a.bias2);
  if (first) {
    put_input(g, dz, g.saved(kWeight1));
    put_parameters(g, op, dz, g.saved(kFed), 1, a.bias1);
  }
  if (a.residual >= 0 && g.wants(u32(a.residual))) g.put(u32(a.residual), g.take_grad());
}

}  // namespace

Tensor fused_linear(const In& x, const In& w, const FusedLinearOptions& o) {
  const OptionalOperands in({&x, &w}, {&o.bias, &o.residual});
  const FusedLinear a{o.activation, in.place[0], in.place[1]};
  OpScope s(info::fused_linear, in.list, in.size);
  check_floating(s);
  const Shape shape = result_shape(s, shape_of(s.geometry(0)), 1, "weight");
  check_bias(s, a.bias, shape, "bias");
  check_residual(s, a.residual, shape);
  const bool smooth = is_told_from_sum(a.activation);
  Tensor z;
  if (s.recording()) {
    if (smooth) z = empty(shape, {.dtype = s.dtype(), .device = s.device()});
    s.save_input_if(smooth || s.wants(1), 0);
    s.save_input_if(smooth || s.wants(0), 1);
    if (smooth)
      s.save_extra(Tensor(alias_of(z.impl())));
    else if (is_told_from_result(a.activation))
      s.save_output();
    else
      s.save_input_if(false, 0);
    s.save_input_if(smooth && a.bias >= 0, a.bias);
    s.save_input_if(smooth && a.residual >= 0, a.residual);
  }
  Tensor dense_bias, dense_residual;
  const void* const bias = dense_data(s, a.bias, dense_bias);
  const void* const residual = dense_data(s, a.residual, dense_residual);
  Result y = s.result(shape, s.dtype());
  s.record(fused_linear_backward);
  s.set_attribute(a);
  run_layer({.x = s.impl(0),
             .w = s.impl(1),
             .bias = bias,
             .out = y.impl()->data,
             .epilogue = {.activation = a.activation,
                          .residual = residual,
                          .aux = z.defined() ? z.impl()->data : nullptr}},
            s.launch());
  return s.finish(std::move(y));
}

Tensor feed_forward(const In& x, const In& w1, const In& w2, const FeedForwardOptions& o) {
  const OptionalOperands in({&x, &w1, &w2}, {&o.bias1, &o.bias2, &o.residual});
  const FeedForward a{o.activation, in.place[0], in.place[1], in.place[2]};
  OpScope s(info::feed_forward, in.list, in.size);
  check_floating(s);
  const Shape hidden = result_shape(s, shape_of(s.geometry(0)), 1, "weight1");
  const Shape shape = result_shape(s, hidden, 2, "weight2");
  check_bias(s, a.bias1, hidden, "bias1");
  check_bias(s, a.bias2, shape, "bias2");
  check_residual(s, a.residual, shape);
  const TensorOptions like{.dtype = s.dtype(), .device = s.device()};
  const Tensor h = empty(hidden, like);
  Tensor z;
  if (s.recording()) {
    if (is_told_from_sum(a.activation)) z = empty(hidden, like);
    s.save_input(0);
    s.save_input(1);
    s.save_input(2);
    s.save_extra(Tensor(alias_of(h.impl())));
    if (z.defined())
      s.save_extra(Tensor(alias_of(z.impl())));
    else
      s.save_input_if(false, 0);
    s.save_input_if(a.bias1 >= 0, a.bias1);
  }
  Tensor dense[3];
  const void* const bias1 = dense_data(s, a.bias1, dense[0]);
  const void* const bias2 = dense_data(s, a.bias2, dense[1]);
  const void* const residual = dense_data(s, a.residual, dense[2]);
  Result y = s.result(shape, s.dtype());
  s.record(feed_forward_backward);
  s.set_attribute(a);
  run_layer(
      {.x = s.impl(0),
       .w = s.impl(1),
       .bias = bias1,
       .out = h.impl()->data,
       .epilogue = {.activation = a.activation, .aux = z.defined() ? z.impl()->data : nullptr}},
      s.launch());
  run_layer({.x = h.impl(),
             .w = s.impl(2),
             .bias = bias2,
             .out = y.impl()->data,
             .epilogue = {.residual = residual}},
            s.launch());
  return s.finish(std::move(y));
}

namespace detail {
OpInfos fused_linear_ops() {
  static constexpr const OpInfo* kOps[] = {&info::fused_linear, &info::feed_forward};
  return kOps;
}
}  // namespace detail

}  // namespace wt
