// where and lerp: elementwise operators of three operands, of which some may be numbers.
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/pointwise_call.h"
#include "warptape/core/numbers/scalar_as.h"

namespace wt {

// --- where ---

namespace {

// Which branches are tensors: edges 1 and up.
struct Branches {
  bool a, b;
};
void where_backward(Backward& g) {
  const Branches has = g.attribute<Branches>();
  const Tensor& c = g.saved(0);
  u32 edge = 1;
  if (has.a) {
    if (g.wants(edge)) g.put_broadcast(edge, where(c, g.grad(), 0));
    ++edge;
  }
  if (has.b && g.wants(edge)) g.put_broadcast(edge, where(c, 0, g.take_grad()));
}

Tensor where_tensors(const In& c, const Operand& a, const Operand& b) {
  const elementwise::Entry& e = elementwise::kEntry<pw::Where>;
  const Branches has{!a.is_scalar(), !b.is_scalar()};
  const In* in[3] = {&c};
  int n = 1;
  if (has.a) in[n++] = &a;
  if (has.b) in[n++] = &b;
  bool defined = true;
  for (int i = 1; i < n; ++i) defined &= in[i]->impl() != nullptr;
  if (defined) {
    DType t = promoted_dtype(e.info, in, n, 1);
    if (!has.a || !has.b) t = elementwise::dtype_with_number(t, has.a ? b.scalar() : a.scalar());
    for (int i = 1; i < n; ++i) elementwise::convert(*in[i], t);
  }
  const In* const* list = in;
  OpScope s(e.info, list, n, Types::any);
  if (s.dtype(0) != DType::boolean)
    s.fail<DtypeError>(str("the condition must be bool, got ", dtype_name(s.dtype(0))),
                       "ne(condition, 0)");
  elementwise::check_domain(s, e);
  const Scalar v = has.a ? b.scalar() : a.scalar();
  if (n == 2 && is_integral(s.dtype(1)) && !detail::holds(s.dtype(1), v))
    s.fail<DtypeError>(str(dtype_name(s.dtype(1)), " cannot hold ", detail::text_of(v)));
  Shape shape = elementwise::common_shape(s, s.geometry(0), s.geometry(1));
  if (n == 3) {
    Geometry g = s.geometry(0);
    set_contiguous(g, shape.data(), shape.ndim(), DType::boolean);
    shape = elementwise::common_shape(s, g, s.geometry(2));
  }
  s.save_input_if(s.recording(), 0);
  Result y = s.result(shape, s.dtype(1));
  s.record(where_backward);
  s.set_attribute(has);
  const View views[] = {s.view(0), has.a ? s.view(1) : View{}, has.b ? s.view(n - 1) : View{}};
  e.launch(y.view(), views, v, nullptr, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor where(const In& c, const Operand& a, const Operand& b) {
  if (!a.is_scalar() || !b.is_scalar() || !c.impl()) return where_tensors(c, a, b);
  // Two numbers: the second as a tensor of the dtype that both have.
  const DType t = elementwise::dtype_with_number(
      elementwise::dtype_with_number(DType::boolean, a.scalar()), b.scalar());
  const FrameScope frame(c.frame());
  return where_tensors(c, a, full({}, b.scalar(), {.dtype = t, .device = device_of(c.impl())}));
}

// --- lerp ---

namespace {

struct Weight {
  bool is_tensor;
  Scalar number;
};
void lerp_backward(Backward& g) {
  const Weight weight = g.attribute<Weight>();
  const auto times_weight = [&](const Tensor& gy, bool of_b) {
    if (!weight.is_tensor) return mul(gy, of_b ? weight.number.f : 1 - weight.number.f);
    return of_b ? mul(gy, g.saved(2)) : mul(gy, 1 - g.saved(2));
  };
  if (g.wants(0)) g.put_broadcast(0, times_weight(g.grad(), false));
  if (g.wants(1)) g.put_broadcast(1, times_weight(g.grad(), true));
  if (!weight.is_tensor || !g.wants(2)) return;
  // Equal ends are 0 apart, also where both are infinite.
  const Tensor &a = g.saved(0), &b = g.saved(1);
  g.put_broadcast(2, mul(g.take_grad(), where(eq(a, b), 0, b - a)));
}

}  // namespace

Tensor lerp(const In& a, const In& b, const Operand& weight) {
  const elementwise::Entry& e = elementwise::kEntry<pw::Lerp>;
  const In* const in[] = {&a, &b, &weight};
  const int n = weight.is_scalar() ? 2 : 3;
  const In* const* list = in;
  OpScope s(e.info, list, n);
  if (!is_floating(s.dtype()))
    s.fail<DtypeError>(str("expected floats, got ", dtype_name(s.dtype())), ".to(f32) first");
  elementwise::check_domain(s, e);
  Shape shape = elementwise::common_shape(s, s.geometry(0), s.geometry(1));
  if (n == 3) {
    Geometry g = s.geometry(0);
    set_contiguous(g, shape.data(), shape.ndim(), s.dtype());
    shape = elementwise::common_shape(s, g, s.geometry(2));
  }
  const bool of_weight = n == 3 && s.wants(2);
  s.save_input_if(of_weight, 0);
  s.save_input_if(of_weight, 1);
  s.save_input_if(n == 3 && (s.wants(0) || s.wants(1)), n - 1);
  Result y = s.result(shape, s.dtype());
  s.record(lerp_backward);
  s.set_attribute(Weight{n == 3, n == 3 ? Scalar() : weight.scalar()});
  const View views[] = {s.view(0), s.view(1), n == 3 ? s.view(2) : View{}};
  e.launch(y.view(), views, n == 3 ? Scalar() : weight.scalar(), nullptr, s.launch());
  return s.finish(std::move(y));
}

namespace detail {
OpInfos where_ops() {
  static constexpr const OpInfo* kOps[] = {&elementwise::kEntry<pw::Where>.info,
                                           &elementwise::kEntry<pw::Lerp>.info};
  return kOps;
}
}  // namespace detail

}  // namespace wt
