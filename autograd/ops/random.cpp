// Random numbers. Kernels make them (kernels/random_fill.h), so the factories of core/factories.h
// that draw are defined here, above the kernels.
#include "warptape/autograd/ops/random.h"

#include <limits>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/class_labels.h"
#include "warptape/autograd/ops/internal/dropout_draw.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/factories.h"
#include "warptape/core/factory.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/numbers/scalar_as.h"
#include "warptape/core/random.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/random_fill.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/sort.h"

namespace wt {
namespace info {
constexpr OpInfo bernoulli{.name = "bernoulli", .derivative = Derivative::none, .composite = true};
constexpr OpInfo gumbel_softmax{
    .name = "gumbel_softmax", .autocast = Autocast::f32, .composite = true};
}  // namespace info

namespace {

using detail::options_of;

// One call of the user stream. What throws has drawn nothing: the call is counted by drawn().
class UserCall {
 public:
  // Where it is wanted: the same bits on every device.
  Tensor made(const Shape& shape, DType t, TensorOptions o, Frame at, RandomFillArgs a) const {
    detail::random_not_in_a_graph(o.device, at);
    o.dtype = t;
    Tensor out = empty(shape, o, at);
    if (out.numel() == 0 || o.device.is_meta) return out;
    a.out = view_of(out.impl());
    a.key = call_.key;
    a.call = call_.call;
    run(a, {nullptr, mode.native_stream, nullptr, o.device});
    return out;
  }
  const RandomCall& where() const { return call_; }
  Tensor drawn(Tensor t) const {
    count_random_call(RandomStream::user, call_);
    return t;
  }

 private:
  RandomCall call_ = next_random_call(RandomStream::user);
};

DType random_dtype(const TensorOptions& o, const char* op) {
  const DType t = detail::dtype_or_default(o);
  if (!is_floating(t) || !computes(t))
    throw DtypeError(str("[", op, "] needs a floating dtype, got ", dtype_name(t)));
  return t;
}
// Integers, bool, and floats that compute.
DType require_stored(DType t, const char* op) {
  if (is_floating(t) && !computes(t))
    throw DtypeError(str("[", op, "] ", dtype_name(t), " is for storage only"));
  return t;
}

// Throws unless all are. Reads values: not on meta.
void require_probabilities(const OpScope& s, const Tensor& p) {
  const NoGrad no_grad;
  const auto inside = i64(sum(logical_and(ge(p, 0.0), le(p, 1.0))).item());
  if (inside < p.numel())
    s.fail<UsageError>(str("p must be in [0, 1]: ", p.numel() - inside, " of ", p.numel(),
                           " elements are outside"));
}

}  // namespace

Tensor rand(const Shape& shape, const TensorOptions& o, Frame at) {
  const DType t = random_dtype(o, "rand");
  const UserCall call;
  return call.drawn(call.made(shape, t, o, at, {}));
}

static Tensor normal_numbers(const char* op, double mean, double std, const Shape& shape,
                             const TensorOptions& o, Frame at) {
  const DType t = random_dtype(o, op);
  const UserCall call;
  return call.drawn(
      call.made(shape, t, o, at, {.kind = RandomKind::normal, .mean = mean, .std = std}));
}
Tensor randn(const Shape& shape, const TensorOptions& o, Frame at) {
  return normal_numbers("randn", 0, 1, shape, o, at);
}
Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& o, Frame at) {
  if (!(std >= 0))
    throw UsageError(str("[normal] std must not be negative, got ", std, "\n  at ", describe(at)));
  return normal_numbers("normal", mean, std, shape, o, at);
}
Tensor rand_like(const Tensor& t, Frame at) { return rand(t.shape(at), options_of(t, at), at); }
Tensor randn_like(const Tensor& t, Frame at) { return randn(t.shape(at), options_of(t, at), at); }

Tensor randint(i64 low, i64 high, const Shape& shape, const TensorOptions& o, Frame at) {
  if (low >= high) throw UsageError(str("[randint] the range [", low, ", ", high, ") is empty"));
  const DType t = require_stored(o.dtype.value_or(DType::i64), "randint");
  for (const i64 end : {low, high - 1}) detail::require_held("randint", t, end, at);
  const UserCall call;
  return call.drawn(
      call.made(shape, t, o, at, {.kind = RandomKind::integers, .least = low, .limit = high}));
}

Tensor randperm(i64 n, const TensorOptions& o, Frame at) {
  if (n < 0) throw ShapeError(str("[randperm] a negative size: ", n));
  const DType t = require_stored(o.dtype.value_or(DType::i64), "randperm");
  if (n > 0) detail::require_held("randperm", t, n - 1, at);
  const UserCall call;
  TensorOptions made = o;
  made.dtype = t;
  Tensor out = empty({n}, made, at);
  if (n > 0 && !o.device.is_meta) {
    const TensorOptions numbers{.dtype = DType::i64, .device = o.device};
    // Of 64 bits: a million have equal ones among them with a probability of 3 in 10^8.
    const Tensor keys = call.made({n}, DType::i64, numbers, at,
                                  {.kind = RandomKind::integers,
                                   .least = std::numeric_limits<i64>::min(),
                                   .limit = std::numeric_limits<i64>::max()});
    const Tensor order = t == DType::i64 ? out : empty({n}, numbers, at);
    const Launch launch{nullptr, mode.native_stream, nullptr, o.device};
    run(SortArgs{{}, view_of(order.impl()), view_of(keys.impl())}, launch);
    if (t != DType::i64) run(CopyArgs{view_of(out.impl()), view_of(order.impl())}, launch);
  }
  return call.drawn(std::move(out));
}

Tensor bernoulli(const In& x) {
  CompositeScope s(info::bernoulli, x);
  detail::require_floating(s);
  const Tensor p = s.operand(0);
  if (!s.device().is_meta) require_probabilities(s, p);
  const UserCall call;
  const Tensor u = call.made(p.shape(), f64, {.device = p.device()}, s.frame(), {});
  return call.drawn(s.finish(to_dtype(lt(u, p), p.dtype())));
}

Tensor bernoulli(double p, const Shape& shape, const TensorOptions& o, Frame at) {
  detail::check_probability("bernoulli", p, at);
  const DType t = require_stored(detail::dtype_or_default(o), "bernoulli");
  const UserCall call;
  return call.drawn(call.made(shape, t, o, at, {.kind = RandomKind::bernoulli, .p = p}));
}

Tensor gumbel_softmax(const In& logits, const GumbelSoftmaxOptions& options) {
  CompositeScope s(info::gumbel_softmax, logits);
  detail::require_floating(s);
  if (!(options.tau > 0)) s.fail<UsageError>(str("tau must be greater than 0, got ", options.tau));
  const Tensor x = widened(s, 0);
  const int axis = s.axis(options.dim, x.ndim());
  const UserCall call;
  const Tensor u = call.made(x.shape(), f64, {.device = x.device()}, s.frame(), {});
  const Tensor noise = to_dtype(neg(log(neg(log(u)))), x.dtype());
  Tensor y = softmax(div(add(x, noise), options.tau), axis);
  if (options.hard && y.numel() > 0) {
    const Tensor one = to_dtype(hits(argmax(y, axis), y.size(axis), axis), y.dtype());
    y = add(sub(one, detach(y)), y);  // straight through: the value of one, the gradient of y
  }
  return call.drawn(s.finish(to_dtype(y, s.dtype())));
}

namespace detail {
OpInfos random_ops() {
  static constexpr const OpInfo* kOps[] = {&info::bernoulli, &info::gumbel_softmax};
  return kOps;
}
}  // namespace detail

}  // namespace wt
