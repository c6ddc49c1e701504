#include "warptape/nn/attention.h"

#include <cmath>

#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

constexpr const char* kName = "MultiheadAttention";

i64 checked_heads(i64 embed_dim, i64 heads) {
  detail::at_least_1(kName, "embed_dim", embed_dim);
  detail::at_least_1(kName, "num_heads", heads);
  if (embed_dim % heads != 0)
    throw ShapeError(str("[MultiheadAttention] num_heads ", heads, " does not divide embed_dim ",
                         embed_dim, at_line()));
  return heads;
}

Tensor xavier(Tensor t) {
  if (t.defined()) init::xavier_uniform_(t);
  return t;
}

// What is added to the scores, from a mask of either kind.
Tensor additive(const char* argument, const Tensor& mask, DType t) {
  if (mask.dtype() == DType::boolean)
    return masked_fill(zeros(mask.shape(), {.dtype = t, .device = mask.device()}), mask, -INFINITY);
  if (!is_floating(mask.dtype()))
    throw DtypeError(str("[MultiheadAttention] ", argument, " must be bool or floating, got ",
                         dtype_name(mask.dtype()), at_line()));
  return mask.to(t);
}

void check_mask(const char* argument, const Tensor& mask, bool fits, const Shape& wanted) {
  if (!fits)
    throw ShapeError(str("[MultiheadAttention] ", argument, " must be ", wanted, ", got ",
                         mask.shape(), at_line()));
}

// The sum of all masks, which broadcasts to [N, heads, L, S]; undefined when there is none.
Tensor mask_of(const AttentionCall& call, const Shape& scores, DType t, Device d) {
  const i64 n = scores[0], heads = scores[1], l = scores[2], s = scores[3];
  Tensor sum;
  const auto add_mask = [&](const Tensor& m) { sum = sum.defined() ? sum + m : m; };
  if (const Tensor& m = call.attn_mask; m.defined()) {
    const bool flat = m.ndim() == 2;
    check_mask("attn_mask", m, m.shape() == (flat ? Shape{l, s} : Shape{n * heads, l, s}),
               flat ? Shape{l, s} : Shape{n * heads, l, s});
    const Tensor added = additive("attn_mask", m, t);
    add_mask(flat ? added : reshape(added, {n, heads, l, s}));
  }
  if (const Tensor& m = call.key_padding_mask; m.defined()) {
    check_mask("key_padding_mask", m, m.shape() == Shape{n, s}, {n, s});
    add_mask(reshape(additive("key_padding_mask", m, t), {n, 1, 1, s}));
  }
  if (call.is_causal) {
    const Tensor key = arange(s, {.device = d}), query = arange(l, {.device = d});
    add_mask(additive("is_causal", gt(key, unsqueeze(query, 1)), t));
  }
  return sum;
}

// The heads' softmax of the scores. Keys that no query sees and queries that see no key become 0,
// so that nothing of them is read, and a query that sees no key has no weights; `mask`, undefined:
// none, is added.
Tensor weights_of(const Tensor& q, Tensor& k, Tensor& v, const Tensor& mask, double scale) {
  if (!mask.defined() || mask.numel() == 0)
    return softmax(matmul(q * scale, transpose(k, 2, 3)), -1);
  const Tensor seen = ne(mask.detach(), -INFINITY);
  const Tensor by_any = transpose(max(seen, -2, {.keep_dim = true}), -2, -1);
  const Tensor any = max(seen, -1, {.keep_dim = true});
  k = where(by_any, k, 0.0), v = where(by_any, v, 0.0);
  const Tensor scores = matmul(where(any, q, 0.0) * scale, transpose(k, 2, 3)) + mask;
  return where(seen, softmax(where(any, where(seen, scores, -INFINITY), 0.0), -1), 0.0);
}

}  // namespace

MultiheadAttention::MultiheadAttention(i64 e, i64 heads, const MultiheadAttentionOptions& o,
                                       const CallLine&)
    : in_proj_weight(
          (checked_heads(e, heads),
           add("in_proj_weight",
               xavier(detail::make_parameter(
                   {3 * e, e}, o.dtype, (!o.kdim || o.kdim == e) && (!o.vdim || o.vdim == e)))))),
      q_proj_weight(add("q_proj_weight", xavier(detail::make_parameter(
                                             {e, e}, o.dtype, !in_proj_weight.defined())))),
      k_proj_weight(
          add("k_proj_weight", xavier(detail::make_parameter({e, o.kdim ? o.kdim : e}, o.dtype,
                                                             !in_proj_weight.defined())))),
      v_proj_weight(
          add("v_proj_weight", xavier(detail::make_parameter({e, o.vdim ? o.vdim : e}, o.dtype,
                                                             !in_proj_weight.defined())))),
      in_proj_bias(add("in_proj_bias", detail::make_constant({3 * e}, o.dtype, 0, o.bias))),
      out_proj(add("out_proj", Linear{e, e, {.bias = o.bias, .dtype = o.dtype}})),
      embed_dim_(e),
      heads_(heads),
      kdim_(o.kdim ? o.kdim : e),
      vdim_(o.vdim ? o.vdim : e),
      dropout_(detail::probability(kName, o.dropout)),
      batch_first_(o.batch_first) {
  if (o.bias) init::zeros_(out_proj.bias);
}

void MultiheadAttention::check_inputs(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const auto refuse = [&](const std::string& what) {
    throw ShapeError(str("[MultiheadAttention] ", what, "\n  query ", q.shape(), "\n  key ",
                         k.shape(), "\n  value ", v.shape(), at_line()));
  };
  if (q.ndim() != 3 || k.ndim() != 3 || v.ndim() != 3)
    refuse("query, key and value must all have 3 axes, or 2 without samples");
  if (q.size(2) != embed_dim_ || k.size(2) != kdim_ || v.size(2) != vdim_)
    refuse(str("query, key and value must have ", embed_dim_, ", ", kdim_, " and ", vdim_,
               " features"));
  if (q.size(0) != k.size(0) || k.size(0) != v.size(0))
    refuse("query, key and value must have equally many samples");
  if (k.size(1) != v.size(1)) refuse("key and value must be equally long");
}

// [N, L, E] to [N, heads, L, E / heads].
Tensor MultiheadAttention::heads_of(const Tensor& x) const {
  return transpose(reshape(x, {x.size(0), x.size(1), heads_, embed_dim_ / heads_}), 1, 2);
}

MultiheadAttention::Projected MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                          const Tensor& value) {
  const auto product = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return b.defined() ? linear(x, w, b) : linear(x, w);
  };
  if (in_proj_weight.defined() && query.same_as(key) && key.same_as(value)) {
    const std::vector<Tensor> all =
        split(product(query, in_proj_weight, in_proj_bias), embed_dim_, 2);
    return {heads_of(all[0]), heads_of(all[1]), heads_of(all[2])};
  }
  const auto part = [&](const Param& p, i64 i) {
    return p.defined() ? slice(p, 0, {i * embed_dim_, (i + 1) * embed_dim_}) : Tensor();
  };
  const auto weight = [&](const Param& own, i64 i) {
    return own.defined() ? own.tensor() : part(in_proj_weight, i);
  };
  return {heads_of(product(query, weight(q_proj_weight, 0), part(in_proj_bias, 0))),
          heads_of(product(key, weight(k_proj_weight, 1), part(in_proj_bias, 1))),
          heads_of(product(value, weight(v_proj_weight, 2), part(in_proj_bias, 2)))};
}

AttentionResult MultiheadAttention::forward(Tensor query, const Tensor& key, const Tensor& value,
                                            const AttentionCall& given) {
  AttentionCall call = given;
  const bool alone = query.ndim() == 2;
  // [N, L, E], and one tensor where the caller gave one.
  const auto samples_first = [&](const Tensor& t) {
    if (alone) return t.ndim() == 2 ? unsqueeze(t, 0) : t;
    return batch_first_ || t.ndim() != 3 ? t : transpose(t, 0, 1);
  };
  const Tensor q_in = samples_first(query);
  const Tensor k_in = key.same_as(query) ? q_in : samples_first(key);
  const Tensor v_in = value.same_as(query) ? q_in
                      : value.same_as(key) ? k_in
                                           : samples_first(value);
  check_inputs(q_in, k_in, v_in);
  if (alone && call.key_padding_mask.defined() && call.key_padding_mask.ndim() == 1)
    call.key_padding_mask = unsqueeze(call.key_padding_mask, 0);
  const double p = is_training() ? dropout_ : 0;
  const bool only_causal = call.is_causal && !call.need_weights && !call.attn_mask.defined() &&
                           !call.key_padding_mask.defined();
  Tensor mask;
  if (!only_causal)
    mask = mask_of(call, {q_in.size(0), heads_, q_in.size(1), k_in.size(1)}, q_in.dtype(),
                   q_in.device());
  auto [q, k, v] = project(q_in, k_in, v_in);
  AttentionResult r;
  Tensor y;
  if (call.need_weights) {
    const double scale = std::sqrt(1.0 / double(embed_dim_ / heads_));
    const Tensor weights = dropout(weights_of(q, k, v, mask, scale), p, p > 0);
    y = matmul(weights, v);
    r.weights = call.average_attn_weights ? mean(weights, 1) : weights;
    if (alone) r.weights = squeeze(std::move(r.weights), 0);
  } else {
    const wt::AttentionOptions options{.causal = only_causal, .dropout_p = p};
    y = mask.defined() ? scaled_dot_product_attention(q, k, v, mask, options)
                       : scaled_dot_product_attention(q, k, v, options);
  }
  y = reshape(transpose(std::move(y), 1, 2), q_in.shape());
  y = out_proj(std::move(y));
  if (alone)
    y = squeeze(std::move(y), 0);
  else if (!batch_first_)
    y = transpose(std::move(y), 0, 1);
  r.output = std::move(y);
  return r;
}

}  // namespace wt::nn
