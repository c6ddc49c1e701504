// Matrix products. One recorded operator, `product`, multiplies either operand as it is or
// transposed; it is closed under differentiation, so its backward needs no transposing views:
//
//   c = a b      da = dc b^T     db = a^T dc
//   c = a^T b    da = b dc^T     db = a dc
//   c = a b^T    da = dc b       db = dc^T a
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/matrix_operand.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/matmul.h"

namespace wt {
namespace info {
constexpr OpInfo matmul{.name = "matmul", .autocast = Autocast::lower};
constexpr OpInfo linear{.name = "linear", .autocast = Autocast::lower};
}  // namespace info

namespace {

struct Transposed {
  bool a = false, b = false;
};

// --- errors ---

std::string operand_line(const char* name, const TensorImpl* p) {
  return str("\n  ", name, "  ", Shape(p->geometry.shape, p->geometry.ndim), " ",
             dtype_name(dtype_of(p)), " ", to_string(device_of(p)));
}

WT_COLD
void throw_dtype(const OpScope& s) {
  throw DtypeError(str("[", s.info().name, "] takes f64, f32, f16, bf16, i64 and i32, not ",
                       dtype_name(s.dtype()), operand_line("a", s.impl(0)),
                       operand_line("b", s.impl(1)), s.at_line()));
}
WT_HOT
void check_dtype(const OpScope& s) {
  const DType t = s.dtype();
  if (t > DType::bf16 && t != DType::i64 && t != DType::i32) [[unlikely]]
    throw_dtype(s);
}

[[noreturn]] WT_COLD void throw_inner(const char* name, const TensorImpl* a, const TensorImpl* b,
                                      Frame at) {
  const Geometry &x = a->geometry, &y = b->geometry;
  const i64 k = x.shape[x.ndim - 1];
  std::string tip;
  if (y.ndim >= 2 && y.shape[y.ndim - 1] == k)
    tip = "\n  Try b.transpose(-2, -1)";
  else if (x.ndim >= 2 && x.shape[x.ndim - 2] == y.shape[y.ndim == 1 ? 0 : y.ndim - 2])
    tip = "\n  Try a.transpose(-2, -1)";
  const i64 rows = y.shape[y.ndim == 1 ? 0 : y.ndim - 2];
  throw ShapeError(str("[", name, "] a's last dimension ", k, " \u2260 b's ",
                       y.ndim == 1 ? "length " : "second to last dimension ", rows,
                       operand_line("a", a), operand_line("b", b), "\n  at ", describe_place(at),
                       tip));
}
[[noreturn]] WT_COLD void throw_zero_d(const char* name, const TensorImpl* a, const TensorImpl* b,
                                       Frame at) {
  throw ShapeError(str("[", name, "] a has ", int(a->geometry.ndim), " and b ",
                       int(b->geometry.ndim), " dimensions, both need at least 1",
                       operand_line("a", a), operand_line("b", b), "\n  at ", describe_place(at),
                       "\n  Try a * b for numbers"));
}
[[noreturn]] WT_COLD void throw_batch(const OpScope& s, i64 in_a, i64 in_b, int axis) {
  throw ShapeError(str("[", s.info().name, "] batch dimensions do not broadcast: ", in_a,
                       " \u2260 ", in_b, " in dimension ", axis, operand_line("a", s.impl(0)),
                       operand_line("b", s.impl(1)), s.at_line()));
}

// --- from tensors to the kernel's arguments ---

// The batch dimensions of out, a and b, innermost first on the way: those along which only a moves
// become rows (one large product instead of many small ones), neighbours that step alike become
// one.
void set_batch(MatmulArgs& g, const View& out, const Geometry& a, const Geometry& b) {
  const int n = out.ndim() - 2;
  const auto stride = [n](const Geometry& x, int d) {
    const int own = d - (n - (x.ndim - 2));
    return own < 0 || x.shape[own] == 1 ? i64(0) : x.strides[own];
  };
  int count = 0;
  for (int d = n; d-- > 0;) {
    const MatmulArgs::Batch now{out.size(d), out.stride(d), stride(a, d), stride(b, d)};
    if (now.size == 1) continue;
    if (count == 0 && now.b == 0 && g.a_column == 1 && g.m > 0) {
      if (g.m == 1 && now.a >= g.k) {
        g.a_row = now.a;
        g.out_row = now.out;
        g.m = now.size;
        continue;
      }
      if (now.a == g.m * g.a_row && now.out == g.m * g.out_row) {
        g.m *= now.size;
        continue;
      }
    }
    if (count > 0) {
      MatmulArgs::Batch& inner = g.batch[count - 1];
      if (now.out == inner.size * inner.out && now.a == inner.size * inner.a &&
          now.b == inner.size * inner.b) {
        inner.size *= now.size;
        continue;
      }
    }
    g.batch[count++] = now;
  }
  for (int i = 0; i < count / 2; ++i) std::swap(g.batch[i], g.batch[count - 1 - i]);
  g.batch_ndim = u8(count);
}

// out (+)= a b, as the flags say. out is [.., m, n] and dense; the batch shapes broadcast to its.
WT_HOT
void run_product(const OpScope& s, const TensorImpl* a, const TensorImpl* b, Transposed t,
                 const View& out, bool accumulate) {
  Tensor copy_a, copy_b;
  const Matrix x = last_two(a, copy_a), y = last_two(b, copy_b);
  MatmulArgs g;
  set_matrices(g, x, t.a, y, t.b);
  g.out = out.data;
  g.out_row = g.n > 1 ? g.n : 1;
  g.accumulate = accumulate;
  if (out.ndim() > 2) set_batch(g, out, x.tensor->geometry, y.tensor->geometry);
  run(g, s.launch());
}

// --- the recorded operator ---

// Broadcast batch shape of both operands into `shape`; returns how many dimensions.
int batch_shape(const OpScope& s, i64* shape) {
  const Geometry &a = s.geometry(0), &b = s.geometry(1);
  const int n = (a.ndim > b.ndim ? a.ndim : b.ndim) - 2;
  for (int d = 0; d < n; ++d) {
    const int da = d - (n - (a.ndim - 2)), db = d - (n - (b.ndim - 2));
    const i64 x = da < 0 ? 1 : a.shape[da], y = db < 0 ? 1 : b.shape[db];
    if (x != y && x != 1 && y != 1) [[unlikely]]
      throw_batch(s, x, y, d - n - 2);
    shape[d] = x == 1 ? y : x;
  }
  return n;
}

void product_backward(Backward& g);

// Both operands have at least two dimensions.
Tensor product(const In& a, const In& b, Transposed t) {
  OpScope s(info::matmul, a, b);
  check_dtype(s);
  const Geometry &x = s.geometry(0), &y = s.geometry(1);
  const int xr = x.ndim - 2, yr = y.ndim - 2;
  if (x.shape[xr + !t.a] != y.shape[yr + t.b]) [[unlikely]]
    throw_inner("matmul", s.impl(0), s.impl(1), s.input(0).frame());
  i64 shape[kMaxDims];
  const int batch = xr | yr ? batch_shape(s, shape) : 0;
  shape[batch] = x.shape[xr + t.a];
  shape[batch + 1] = y.shape[yr + !t.b];
  check_numel(s, Shape(shape, batch + 2));
  s.save_input_if(s.wants(1), 0);
  s.save_input_if(s.wants(0), 1);
  Result c = s.result(shape, batch + 2, s.dtype());
  s.record(product_backward);
  s.set_attribute(t);
  run_product(s, s.impl(0), s.impl(1), t, c.view(), false);
  return s.finish(std::move(c));
}

// --- gradients ---

bool same_sizes(const Shape& want, const Geometry& g, i64 rows, i64 columns) {
  const int n = want.ndim();
  if (n != g.ndim || want[n - 2] != rows || want[n - 1] != columns) return false;
  for (int d = 0; d < n - 2; ++d)
    if (want[d] != g.shape[d]) return false;
  return true;
}

// Hands over x y, as the flags say, as the gradient of input i; `batched` is the operand that has
// all batch dimensions. Written straight into a leaf's slot where one is offered; summed over what
// the forward broadcast.
void put_product(Backward& g, u32 i, const Tensor& x, const Tensor& y, Transposed t,
                 const Tensor& batched) {
  const Shape want = g.input_shape(i);
  const i64 rows = x.size(t.a ? -1 : -2), columns = y.size(t.b ? -2 : -1);
  if (!same_sizes(want, batched.impl()->geometry, rows, columns))
    return g.put_broadcast(i, product(x, y, t));
  if (const GradSlot d = g.slot(i)) {
    const In a(x), b(y);
    const OpScope s(info::matmul, a, b);
    return run_product(s, a.impl(), b.impl(), t, d.view(), d.accumulate);
  }
  g.put(i, product(x, y, t));
}

void product_backward(Backward& g) {
  const Transposed t = g.attribute<Transposed>();
  const Tensor& dc = g.grad();
  if (g.wants(0)) {
    const Tensor& b = g.saved(1);
    if (t.a)
      put_product(g, 0, b, dc, {t.b, true}, dc);
    else
      put_product(g, 0, dc, b, {false, !t.b}, dc);
  }
  if (!g.wants(1)) return;
  const Tensor& a = g.saved(0);
  if (!t.a && dc.ndim() > 2 && g.input_shape(1).ndim() == 2 && a.ndim() == dc.ndim()) {
    // One matrix b for the whole batch: the sum over the batch is a longer inner dimension.
    const Tensor dc2 = flat_rows(dc), a2 = flat_rows(a);
    if (t.b)
      put_product(g, 1, dc2, a2, {true, false}, dc2);
    else
      put_product(g, 1, a2, dc2, {true, false}, dc2);
    return;
  }
  if (t.b)
    put_product(g, 1, dc, a, {true, t.a}, dc);
  else
    put_product(g, 1, a, dc, {!t.a, false}, dc);
}

}  // namespace

Tensor matmul(const In& a, const In& b) {
  const TensorImpl *x = a.impl(), *y = b.impl();
  if (!x || !y || (x->geometry.ndim >= 2 && y->geometry.ndim >= 2)) [[likely]]
    return product(a, b, {});
  const Frame at = mode.frame ? frame_of(mode.frame) : a.frame();
  const FrameScope frame(at);
  const int nx = x->geometry.ndim, ny = y->geometry.ndim;
  if (nx == 0 || ny == 0) throw_zero_d("matmul", x, y, a.frame());
  if (x->geometry.shape[nx - 1] != y->geometry.shape[ny == 1 ? 0 : ny - 2])
    throw_inner("matmul", x, y, a.frame());
  if (nx > 1) return squeeze(product(a, unsqueeze(b, 1), {}), -1);
  if (ny > 1) return squeeze(product(unsqueeze(a, 0), b, {}), -2);
  return reshape(product(unsqueeze(a, 0), unsqueeze(b, 1), {}), {});
}

// --- linear ---

namespace {

[[noreturn]] WT_COLD void throw_linear(const OpScope& s, bool has_bias) {
  const Geometry &x = s.geometry(0), &w = s.geometry(1);
  std::string text = "[linear] ";
  if (w.ndim != 2)
    text += str("weight has ", int(w.ndim), " dimensions, 2 are needed: [out, in]");
  else if (x.ndim == 0)
    text += "input has 0 dimensions, at least 1 is needed";
  else if (x.shape[x.ndim - 1] != w.shape[1])
    text += str("input features ", x.shape[x.ndim - 1], " \u2260 weight in_features ", w.shape[1]);
  else if (s.geometry(2).ndim != 1)
    text += str("bias has ", int(s.geometry(2).ndim), " dimensions, 1 is needed: [out]");
  else
    text += str("bias length ", s.geometry(2).shape[0], " \u2260 weight out_features ", w.shape[0]);
  text += operand_line("input ", s.impl(0)) + operand_line("weight", s.impl(1));
  if (has_bias) text += operand_line("bias  ", s.impl(2));
  text += s.at_line();
  if (w.ndim == 2 && x.ndim > 1 && x.shape[x.ndim - 1] != w.shape[1]) {
    i64 features = 1;
    for (int d = 1; d < x.ndim; ++d) features *= x.shape[d];
    if (features == w.shape[1])
      text += str("\n  Try flatten(x, 1): linear contracts the last dimension only");
  }
  throw ShapeError(text);
}

bool lies_transposed(const Tensor& w) {
  const Geometry& g = w.impl()->geometry;
  return g.strides[0] == 1 && g.shape[0] > 1 && g.strides[1] >= g.shape[0];
}

// Of a weight that lies transposed: the gradient lies as it does, so that transposing it back,
// where the weight is a view of one that is [in, out], copies nothing.
void put_transposed_weight_gradient(Backward& g) {
  g.put(1, transpose(product(flat_rows(g.saved(0)), flat_rows(g.grad()), {true, false}), 0, 1));
}

void linear_backward(Backward& g) {
  const bool bias = g.node->n_edges == 3 && g.wants(2);
  const bool weight = g.wants(1);
  if (g.wants(0)) {
    const Tensor &dy = g.grad(), &w = g.saved(1);
    if (dy.ndim() > 1)
      put_product(g, 0, dy, w, {}, dy);
    else
      g.put(0, matmul(dy, w));
  }
  const bool turned = weight && g.wants(0) && lies_transposed(g.saved(1));
  if (weight && !turned && !g.recording() && g.input_shape(1)[1] > 0)
    return put_weight_gradients(g, info::linear, g.grad(), g.saved(0), 1, bias ? 2 : -1);
  if (turned)
    put_transposed_weight_gradient(g);
  else if (weight)
    g.put(1, product(flat_rows(g.grad()), flat_rows(g.saved(0)), {true, false}));
  if (bias) g.put_broadcast(2, g.take_grad());
}

// Operand 2, if there is one, is the bias.
WT_HOT
Tensor linear_forward(OpScope& s, bool has_bias) {
  check_dtype(s);
  const Geometry &x = s.geometry(0), &w = s.geometry(1);
  if (w.ndim != 2 || x.ndim == 0 || x.shape[x.ndim - 1] != w.shape[1] ||
      (has_bias && (s.geometry(2).ndim != 1 || s.geometry(2).shape[0] != w.shape[0]))) [[unlikely]]
    throw_linear(s, has_bias);
  i64 shape[kMaxDims];
  for (int d = 0; d + 1 < x.ndim; ++d) shape[d] = x.shape[d];
  shape[x.ndim - 1] = w.shape[0];
  check_numel(s, Shape(shape, x.ndim));
  s.save_input_if(s.wants(1), 0);
  s.save_input_if(s.wants(0), 1);
  Result y = s.result(shape, x.ndim, s.dtype());
  s.record(linear_backward);
  Tensor copy_x, copy_w, copy_bias;
  const Matrix a = rows_of(s.impl(0), copy_x), b = last_two(s.impl(1), copy_w);
  MatmulArgs g;
  set_matrices(g, a, false, b, true);
  g.out = y.impl()->data;
  g.out_row = g.n > 1 ? g.n : 1;
  if (has_bias) {
    if (!s.geometry(2).dense) [[unlikely]]
      copy_bias = contiguous_copy(s.impl(2));
    g.bias = copy_bias.defined() ? copy_bias.impl()->data : s.impl(2)->data;
  }
  run(g, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor linear(const In& x, const In& w) {
  OpScope s(info::linear, x, w);
  return linear_forward(s, false);
}
Tensor linear(const In& x, const In& w, const In& bias) {
  OpScope s(info::linear, x, w, bias);
  return linear_forward(s, true);
}

namespace detail {
OpInfos matmul_ops() {
  static constexpr const OpInfo* kOps[] = {&info::matmul, &info::linear};
  return kOps;
}
}  // namespace detail

}  // namespace wt
