// Attention: the memory-lean kernels where a device has them, the chain of operators elsewhere and
// for higher derivatives.
#include "warptape/autograd/ops/attention.h"

#include <cmath>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/dropout_draw.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/kernels/attention.h"

namespace wt {
namespace info {
constexpr OpInfo scaled_dot_product_attention{.name = "scaled_dot_product_attention",
                                              .autocast = Autocast::lower};
constexpr OpInfo rotary_embedding{
    .name = "rotary_embedding", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

enum : int { kQuery, kKey, kValue, kMask };  // operands, and slots of the node
enum : int { kSavedOutput = 4, kSavedLse, kSavedBase };

struct Attributes {
  double scale;
  bool causal;
  detail::DropoutDraw draw;
};

// --- checks ---

void check_dtypes(const OpScope& s) {
  const DType t = s.dtype(kQuery);
  detail::require_floating(s, t);
  for (int i = kKey; i <= kValue; ++i)
    if (s.dtype(i) != t) s.fail<DtypeError>("query, key and value differ in dtype");
  if (s.size() > kMask && s.dtype(kMask) != t && s.dtype(kMask) != DType::boolean)
    s.fail<DtypeError>(
        str("attn_mask must be bool or ", dtype_name(t), ", got ", dtype_name(s.dtype(kMask))));
}

void check_options(const OpScope& s, const AttentionOptions& o) {
  if (!(o.dropout_p >= 0 && o.dropout_p <= 1))
    s.fail<UsageError>(str("dropout_p must be in [0, 1], got ", o.dropout_p));
  if (o.scale && !std::isfinite(*o.scale))
    s.fail<UsageError>(str("scale must be finite, got ", *o.scale));
}

// Returns the shape of all scores, [.., L, S].
Shape check_shapes(const OpScope& s, bool grouped) {
  const Geometry &q = s.geometry(kQuery), &k = s.geometry(kKey), &v = s.geometry(kValue);
  const int n = q.ndim;
  if (n < 2) s.fail<ShapeError>(str("query needs at least two dimensions, got ", n));
  if (k.ndim != n || v.ndim != n)
    s.fail<ShapeError>("query, key and value must have the same number of dimensions");
  for (int d = 0; d < n - 2; ++d) {
    const bool head = grouped && d == n - 3;
    if (k.shape[d] != v.shape[d])
      s.fail<ShapeError>(
          str("axis ", d, " of key (", k.shape[d], ") \u2260 that of value (", v.shape[d], ")"));
    if (head ? (k.shape[d] == 0 ? q.shape[d] != 0 : q.shape[d] % k.shape[d] != 0)
             : q.shape[d] != k.shape[d])
      s.fail<ShapeError>(head ? str("the ", q.shape[d], " heads of query are no multiple of the ",
                                    k.shape[d], " of key")
                              : str("axis ", d, " of query (", q.shape[d], ") \u2260 that of key (",
                                    k.shape[d], ")"),
                         d == n - 3 && !head ? "{.enable_gqa = true} if heads share keys" : "");
  }
  if (q.shape[n - 1] != k.shape[n - 1])
    s.fail<ShapeError>(str("the last axis of query (", q.shape[n - 1], ") \u2260 that of key (",
                           k.shape[n - 1], ")"));
  if (k.shape[n - 2] != v.shape[n - 2])
    s.fail<ShapeError>(str(k.shape[n - 2], " keys but ", v.shape[n - 2], " values"));
  Shape scores = shape_of(q);
  scores[n - 1] = k.shape[n - 2];
  check_numel(s, scores);
  if (s.size() > kMask) {
    const Shape mask = shape_of(s.geometry(kMask));
    Shape all;
    try {
      all = broadcast_shapes("", scores, mask);
    } catch (const ShapeError&) {}
    if (all != scores)
      s.fail<ShapeError>(str("attn_mask ", mask, " does not broadcast to the scores ", scores));
  }
  return scores;
}

// --- the chain of operators ---

// key or value with a head for every head of query.
Tensor spread_heads(const Tensor& t, const Tensor& query) {
  const int n = t.ndim();
  if (n < 3 || t.size(n - 3) == query.size(n - 3)) return t;
  const i64 shared = query.size(n - 3) / t.size(n - 3);
  Shape wide = t.shape();
  wide[n - 3] = query.size(n - 3);
  Shape split;
  for (int d = 0; d < n; ++d) {
    split.push_back(t.size(d));
    if (d == n - 3) split.push_back(shared);
  }
  return reshape(expand(unsqueeze(t, n - 2), split), wide);
}
// Its gradient.
Tensor gather_heads(Tensor g, const Shape& shape) {
  const int n = g.ndim();
  if (n < 3 || g.size(n - 3) == shape[n - 3]) return g;
  Shape split;
  for (int d = 0; d < n; ++d) {
    split.push_back(shape[d]);
    if (d == n - 3) split.push_back(g.size(d) / shape[d]);
  }
  return sum(reshape(std::move(g), split), n - 2);
}

struct Operands {
  Tensor query, key, value, mask;  // mask may be undefined
};
// The same in the dtype that kernels compute in, with a head for every head of query.
struct Chain {
  Tensor query, key, value;
  Tensor added;  // to the scores; may be undefined
  Tensor seen;   // which pairs may attend: bool [.., L, S]; undefined: all
};

// Which pairs may attend; undefined: all.
Tensor seen_pairs(const Operands& in, const Attributes& a) {
  const i64 queries = in.query.size(-2), keys = in.key.size(-2);
  Tensor seen;
  if (a.causal) {
    const TensorOptions o{.dtype = DType::i64, .device = in.query.device()};
    seen = ge(unsqueeze(arange(queries, o), 1), arange(keys, o));
  }
  if (!in.mask.defined()) return seen;
  const Tensor visible =
      in.mask.dtype() == DType::boolean ? in.mask : ne(detach(in.mask), -INFINITY);
  if (seen.defined()) return logical_and(seen, visible);
  return visible.ndim() < 2 ? reshape(visible, {1, visible.numel()}) : visible;
}

// Queries that see no key and keys that no query sees are 0: their products with a weight or a
// gradient of 0 would be NaN where they are.
Chain chain_of(const Operands& in, const Attributes& a) {
  const DType t = in.query.dtype(), wide = t == DType::f64 ? t : DType::f32;
  Chain c{to_dtype(in.query, wide), spread_heads(to_dtype(in.key, wide), in.query),
          spread_heads(to_dtype(in.value, wide), in.query), Tensor(), seen_pairs(in, a)};
  if (in.mask.defined() && in.mask.dtype() != DType::boolean) c.added = to_dtype(in.mask, wide);
  if (!c.seen.defined() || c.key.size(-2) == 0 || c.query.size(-2) == 0) return c;
  c.query = where(max(c.seen, {-1}, {.keep_dim = true}), c.query, 0.0);
  const Tensor by_any = transpose(max(c.seen, {-2}, {.keep_dim = true}), -2, -1);
  c.key = where(by_any, c.key, 0.0);
  c.value = where(by_any, c.value, 0.0);
  return c;
}

// The softmax of the scores. No key, no weight: rows of only -inf would be NaN, so they take zeros
// and are zeroed afterwards.
Tensor weights_of(const Chain& c, const Attributes& a) {
  Tensor scores = mul(matmul(c.query, c.key.t()), a.scale);
  if (c.added.defined()) scores = add(std::move(scores), c.added);
  if (!c.seen.defined() || scores.size(-1) == 0) return softmax(scores, -1);
  const Tensor none = logical_not(max(c.seen, {-1}, {.keep_dim = true}));
  const Tensor finite = where(c.seen, scores, -INFINITY);
  const Tensor weights = softmax(where(none, 0.0, finite), -1);
  return where(c.seen, weights, 0.0);
}

Tensor drop(Tensor weights, const Attributes& a, const Tensor& base) {
  return a.draw.p > 0 ? detail::dropout_with(std::move(weights), a.draw, base) : weights;
}

Tensor attention_chain(const Operands& in, const Attributes& a, const Tensor& base) {
  const Chain c = chain_of(in, a);
  const Tensor weights = drop(weights_of(c, a), a, base);
  return to_dtype(matmul(weights, c.value), in.query.dtype());
}

Tensor base_of(Backward& g) {
  return g.node->n_slots > kSavedBase ? g.saved(kSavedBase) : Tensor();
}

// The gradients, from operators that record.
void attention_chain_backward(Backward& g, const Attributes& a) {
  const bool masked = g.node->n_edges > kMask;
  const Operands in{g.saved(kQuery), g.saved(kKey), g.saved(kValue),
                    g.has_saved(kMask) ? g.saved(kMask) : Tensor()};
  const Tensor base = base_of(g);
  const Chain c = chain_of(in, a);
  const Tensor weights = weights_of(c, a);
  const DType t = in.query.dtype();
  const Tensor gy = to_dtype(g.grad(), weights.dtype());
  if (g.wants(kValue)) {
    const Tensor gv = matmul(drop(weights, a, base).t(), gy);
    g.put(kValue, to_dtype(gather_heads(gv, in.value.shape()), t));
  }
  const Tensor d = drop(matmul(gy, c.value.t()), a, base);
  const Tensor ds = mul(weights, sub(d, sum(mul(d, weights), -1, {.keep_dim = true})));
  if (masked && g.wants(kMask)) g.put_broadcast(kMask, to_dtype(ds, t));
  const Tensor scaled = mul(ds, a.scale);
  if (g.wants(kQuery)) g.put(kQuery, to_dtype(matmul(scaled, c.key), t));
  if (g.wants(kKey)) {
    const Tensor gk = matmul(scaled.t(), c.query);
    g.put(kKey, to_dtype(gather_heads(gk, in.key.shape()), t));
  }
}

// --- the kernels ---

// A tensor as [B, H, rows, columns]: leading axes are added or merged; where they do not merge the
// tensor is copied. Lives as long as the view is used.
class HeadsOf {
 public:
  explicit HeadsOf(const Tensor& t) : tensor_(t) {
    const NoGrad no_grad;
    const int n = t.ndim();
    if (n == 4) return;
    Shape shape;
    for (int d = n; d < 4; ++d) shape.push_back(1);
    i64 batches = 1;
    for (int d = 0; d < n - 3; ++d) batches *= t.size(d);
    if (n > 4) shape.push_back(batches);
    for (int d = n > 4 ? n - 3 : 0; d < n; ++d) shape.push_back(t.size(d));
    tensor_ = reshape(t, shape);
  }
  View view() const { return view_of(tensor_.impl()); }

 private:
  Tensor tensor_;
};

// Where the heads of a row are neighbours in `like`, [B, L, H, E] seen as [B, H, L, E], they become
// so in p, which is fresh: what comes back to [B, L, H * E] then needs no copy.
void follow_heads(TensorImpl* p, const Geometry& like) {
  Geometry& g = p->geometry;
  if (g.ndim != 4 || like.strides[1] >= like.strides[2]) return;
  g.strides[1] = g.shape[3];
  g.strides[2] = g.shape[1] * g.shape[3];
  finish_geometry(g);
}

Tensor handle(const TensorImpl* p) { return Tensor(detail::retained(const_cast<TensorImpl*>(p))); }

AttentionScores scores_of(const HeadsOf& q, const HeadsOf& k, const HeadsOf* mask,
                          const Attributes& a, const Tensor& base) {
  AttentionScores s{q.view(), k.view(), mask ? mask->view() : View{}, a.scale, a.causal};
  if (a.draw.p > 0) {
    s.key = a.draw.key;
    s.call = a.draw.call;
    s.threshold = a.draw.threshold();
    s.keep_scale = a.draw.scale();
    if (base.defined()) s.call_base = static_cast<const i64*>(base.impl()->data);
  }
  return s;
}

void attention_backward(Backward& g) {
  const Attributes& a = g.attribute<Attributes>();
  if (g.recording()) return attention_chain_backward(g, a);
  const NoGrad no_grad;
  const Tensor &query = g.saved(kQuery), &key = g.saved(kKey), &value = g.saved(kValue);
  const Tensor base = base_of(g);
  const HeadsOf q(query), k(key), v(value), out(g.saved(kSavedOutput)), gout(g.grad());
  std::optional<HeadsOf> mask;
  if (g.has_saved(kMask)) {
    Shape scores = query.shape();
    scores[scores.ndim() - 1] = key.size(-2);
    mask.emplace(expand(g.saved(kMask), scores));
  }
  const auto fresh = [](const Tensor& like) {
    Tensor t = empty(like.shape(), {.dtype = like.dtype(), .device = like.device()});
    follow_heads(t.impl(), like.impl()->geometry);
    return t;
  };
  Tensor gq = fresh(query), gk = fresh(key), gv = fresh(value);
  const HeadsOf gq4(gq), gk4(gk), gv4(gv);
  const Tensor& lse = g.saved(kSavedLse);
  run(AttentionBackwardArgs{gq4.view(), gk4.view(), gv4.view(), gout.view(), out.view(),
                            view_of(lse.impl()), v.view(),
                            scores_of(q, k, mask ? &*mask : nullptr, a, base)},
      g.launch());
  if (g.wants(kQuery)) g.put(kQuery, std::move(gq));
  if (g.wants(kKey)) g.put(kKey, std::move(gk));
  if (g.wants(kValue)) g.put(kValue, std::move(gv));
}

bool has_kernels(Device d) { return ContractTable<AttentionForwardArgs>::rows[int(d.kind)]; }

Attributes attributes_of(const OpScope& s, const AttentionOptions& o, const RandomCall& draw) {
  const Geometry& q = s.geometry(kQuery);
  const i64 depth = q.shape[q.ndim - 1];
  return {o.scale.value_or(depth > 0 ? 1 / std::sqrt(double(depth)) : 1.0),
          o.causal,
          {draw.key, draw.call, o.dropout_p}};
}

Tensor attention_by_chain(const In* const* in, int n, const AttentionOptions& o,
                          const RandomCall& draw) {
  CompositeScope s(info::scaled_dot_product_attention, in, n);
  check_dtypes(s);
  check_shapes(s, o.enable_gqa);
  check_options(s, o);
  const Operands t{s.operand(kQuery), s.operand(kKey), s.operand(kValue),
                   n > kMask ? s.operand(kMask) : Tensor()};
  return s.finish(attention_chain(t, attributes_of(s, o, draw), draw.base));
}

Tensor attention_by_kernel(const In* const* in, int n, const AttentionOptions& o,
                           const RandomCall& draw) {
  OpScope s(info::scaled_dot_product_attention, in, n, Types::any);
  check_dtypes(s);
  const Shape all = check_shapes(s, o.enable_gqa);
  check_options(s, o);
  const Attributes a = attributes_of(s, o, draw);
  const HeadsOf q(handle(s.impl(kQuery))), k(handle(s.impl(kKey))), v(handle(s.impl(kValue)));
  std::optional<HeadsOf> mask;
  if (n > kMask) {
    const NoGrad no_grad;
    mask.emplace(expand(handle(s.impl(kMask)), all));
  }
  View lse;
  if (s.recording()) {
    for (int i = kQuery; i <= kValue; ++i) s.save_input(i);
    s.save_input_if(n > kMask, n > kMask ? kMask : 0);
    s.save_output();
    const Tensor sums =
        empty({q.view().size(0), q.view().size(1), q.view().size(2)},
              {.dtype = s.dtype() == DType::f64 ? DType::f64 : DType::f32, .device = s.device()});
    lse = view_of(sums.impl());
    s.save_extra(sums);
    if (draw.base.defined() && o.dropout_p > 0) s.save_extra(draw.base);
  }
  Shape shape = shape_of(s.geometry(kQuery));
  shape[shape.ndim() - 1] = v.view().size(3);
  Result y = s.result(shape, s.dtype());
  follow_heads(y.impl(), s.geometry(kQuery));
  const HeadsOf out(handle(y.impl()));
  s.record(attention_backward);
  s.set_attribute(a);
  run(AttentionForwardArgs{out.view(), lse, v.view(),
                           scores_of(q, k, mask ? &*mask : nullptr, a, draw.base)},
      s.launch());
  return s.finish(std::move(y));
}

Tensor attention(const In* const* in, int n, const AttentionOptions& o) {
  for (int i = 0; i < n; ++i)
    if (!in[i]->impl()) detail::use_of_undefined(in[i]->frame());
  const bool draws = o.dropout_p > 0;
  const RandomCall draw = draws ? detail::next_dropout_call(in[0]->frame()) : RandomCall{};
  const bool mask_wants = n > kMask && mode.grad && in[kMask]->impl()->node;
  Tensor y = has_kernels(device_of(in[kQuery]->impl())) && !mask_wants
                 ? attention_by_kernel(in, n, o, draw)
                 : attention_by_chain(in, n, o, draw);
  if (draws) count_random_call(RandomStream::dropout, draw);
  return y;
}

}  // namespace

Tensor scaled_dot_product_attention(const In& query, const In& key, const In& value,
                                    const AttentionOptions& options) {
  const In* const in[] = {&query, &key, &value};
  return attention(in, 3, options);
}
Tensor scaled_dot_product_attention(const In& query, const In& key, const In& value,
                                    const In& attn_mask, const AttentionOptions& options) {
  const In* const in[] = {&query, &key, &value, &attn_mask};
  return attention(in, 4, options);
}

// --- rotary embedding ---

namespace {

void check_rotary(const OpScope& s, const RotaryOptions& o) {
  const Geometry& x = s.geometry(0);
  detail::require_floating(s);
  if (x.ndim < 2) s.fail<ShapeError>(str("x needs at least two dimensions, got ", int(x.ndim)));
  if (x.shape[x.ndim - 1] % 2)
    s.fail<ShapeError>(str("the last axis of x must be even, got ", x.shape[x.ndim - 1]));
  if (!(o.base > 0)) s.fail<UsageError>(str("base must be above 0, got ", o.base));
}

// positions [..] in f64
Tensor rotate(const Tensor& x, const Tensor& positions, const RotaryOptions& o) {
  const i64 half = x.size(-1) / 2;
  const DType t = x.dtype(), wide = t == DType::f64 ? t : DType::f32;
  // base^(-i / half), made where x is: a list of the host would have to be copied.
  const Tensor pairs = arange(0, half, 1, {.dtype = DType::f64, .device = x.device()});
  const Tensor rates = exp(mul(pairs, -std::log(o.base) / double(half)));
  const Tensor angles = mul(unsqueeze(positions, -1), rates);
  const Tensor c = to_dtype(cos(angles), wide), s = to_dtype(sin(angles), wide);
  const Tensor w = to_dtype(x, wide);
  Tensor a, b;
  if (o.interleaved) {
    Shape pairs = x.shape();
    pairs[pairs.ndim() - 1] = half;
    pairs.push_back(2);
    const Tensor p = reshape(w, pairs);
    a = select(p, -1, 0), b = select(p, -1, 1);
  } else {
    a = slice(w, -1, {0, half}), b = slice(w, -1, {half, 2 * half});
  }
  const Tensor turned[] = {sub(mul(a, c), mul(b, s)), add(mul(b, c), mul(a, s))};
  const Tensor y = o.interleaved ? reshape(stack(turned, -1), x.shape()) : cat(turned, -1);
  return to_dtype(y, t);
}

}  // namespace

Tensor rotary_embedding(const In& x, const RotaryOptions& options) {
  CompositeScope s(info::rotary_embedding, x);
  check_rotary(s, options);
  const Tensor t = s.operand(0);
  const i64 rows = t.size(-2);
  const Tensor positions =
      add(arange(rows, {.dtype = DType::f64, .device = t.device()}), double(options.offset));
  return s.finish(rotate(t, positions, options));
}

Tensor rotary_embedding(const In& x, const In& positions, const RotaryOptions& options) {
  CompositeScope s(info::rotary_embedding, x, positions);
  check_rotary(s, options);
  const DType t = s.dtype(1);
  if (t != DType::i64 && t != DType::i32)
    s.fail<DtypeError>(str("positions must be i64 or i32, got ", dtype_name(t)));
  const Geometry& x_in = s.geometry(0);
  const Shape rows(x_in.shape, x_in.ndim - 1);
  Shape all;
  try {
    all = broadcast_shapes("", rows, shape_of(s.geometry(1)));
  } catch (const ShapeError&) {}
  if (all != rows)
    s.fail<ShapeError>(str("positions ", shape_of(s.geometry(1)),
                           " do not broadcast to x's axes but the last, ", rows));
  return s.finish(rotate(s.operand(0), to_dtype(s.operand(1), DType::f64), options));
}

namespace detail {
OpInfos attention_ops() {
  static constexpr const OpInfo* kOps[] = {&info::scaled_dot_product_attention,
                                           &info::rotary_embedding};
  return kOps;
}
}  // namespace detail

}  // namespace wt
