// Rows of attention and of the rotary embedding.
#include <algorithm>

#include "warptape/autograd/ops/attention.h"
#include "warptape/core/philox.h"
#include "warptape/core/random.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

constexpr u64 kSeed = 91;

struct Way {
  std::string label, torch;  // PyTorch's arguments after a, b, c
  AttentionOptions options{};
  std::optional<Input> mask{};
};

bool kept(i64 element, double p) {
  const u32 bits =
      philox(philox_key(kSeed, RandomStream::dropout), u64(element) / 4, 0).v[u64(element) % 4];
  return double(bits >> 8) * 0x1p-24 >= p;
}

// One query: its scores, weights and the weighted sum of the values.
struct Query {
  std::vector<double> weight;
  double size = 0;  // the largest sum of |q k|, which the roundings of an exponent are relative to
};
Query weigh(const std::vector<Array>& in, const Way& w, std::vector<i64> at) {
  const Array &q = in[0], &k = in[1];
  const int n = q.shape.ndim();
  const i64 depth = q.shape[n - 1], keys = k.shape[n - 2];
  const double scale = w.options.scale.value_or(depth ? 1 / std::sqrt(double(depth)) : 1);
  std::vector<i64> key = at;
  if (n > 2 && k.shape[n - 3]) key[size_t(n - 3)] /= q.shape[n - 3] / k.shape[n - 3];
  Query r;
  double most = -INFINITY;
  for (i64 j = 0; j < keys; ++j) {
    double sum = 0, size = 0;
    key[size_t(n - 2)] = j;
    for (i64 e = 0; e < depth; ++e) {
      at[size_t(n - 1)] = key[size_t(n - 1)] = e;
      const double product = wt_test::at(q, at) * wt_test::at(k, key) * scale;
      sum += product;
      size += std::fabs(product);
    }
    if (w.options.causal && j > at[size_t(n - 2)]) sum = -INFINITY;
    if (w.mask) {
      std::vector<i64> pair = at;
      pair[size_t(n - 1)] = j;
      const double m = wt_test::at(in[3], pair);
      sum = w.mask->role == Role::truth ? (m != 0 ? sum : -INFINITY) : sum + m;
    }
    r.weight.push_back(sum);
    r.size = std::max(r.size, size);
    most = std::max(most, sum);
  }
  double total = 0;
  for (double& x : r.weight) total += x = std::isinf(x) ? 0 : std::exp(x - most);
  for (double& x : r.weight) x = total > 0 ? x / total : 0;
  return r;
}

Array attention_oracle(const std::vector<Array>& in, const Way& w) {
  const Array &q = in[0], &k = in[1], &v = in[2];
  const int n = q.shape.ndim();
  Array r{q.shape, {}};
  r.shape[n - 1] = v.shape[n - 1];
  const i64 keys = k.shape[n - 2];
  Query one;  // of the row that f is in
  for (i64 f = 0; f < count(r.shape); ++f) {
    std::vector<i64> at = unravel(f, r.shape), value = at;
    Shape rows = r.shape;
    rows[n - 1] = keys;
    if (at.back() == 0) one = weigh(in, w, at);
    if (n > 2 && k.shape[n - 3]) value[size_t(n - 3)] /= q.shape[n - 3] / k.shape[n - 3];
    double y = 0, size = 0;
    for (i64 j = 0; j < keys; ++j) {
      std::vector<i64> pair = at;
      pair[size_t(n - 1)] = j;
      value[size_t(n - 2)] = j;
      double p = one.weight[size_t(j)];
      if (w.options.dropout_p > 0)
        p = kept(ravel(pair, rows), w.options.dropout_p) ? p / (1 - w.options.dropout_p) : 0;
      y += p * wt_test::at(v, value);
      size += p * std::fabs(wt_test::at(v, value));
    }
    r.v.push_back(y);
    r.magnitude.push_back(size * (1 + 2 * one.size));
    r.rounded.push_back(size);  // the probabilities (kernels/attention.h)
  }
  r.terms = double(q.shape[n - 1] + keys) + 16;
  return r;
}

Sample attention_sample(const Shape& q, const Shape& k, const Shape& v, const Way& w) {
  Sample s{w.label, {{q}, {k}, {v}}, {}, {}};
  if (w.mask) s.inputs.push_back(*w.mask);
  s.call = [o = w.options, masked = w.mask.has_value()](std::span<const Tensor> in) {
    manual_seed(kSeed);
    return masked ? scaled_dot_product_attention(in[0], in[1], in[2], in[3], o)
                  : scaled_dot_product_attention(in[0], in[1], in[2], o);
  };
  s.oracle = [w](const std::vector<Array>& in) { return attention_oracle(in, w); };
  if (w.options.dropout_p == 0) s.torch = "F.scaled_dot_product_attention(a, b, c" + w.torch + ")";
  return s;
}

void add_attention(std::vector<OpCase>& rows) {
  OpCase c{"scaled_dot_product_attention", {"attention_forward", "attention_backward"}, kFloats};
  c.cancels = true;
  const Way plain{"", ""}, causal{"causal", ", is_causal=True", {.causal = true}};
  const auto add = [&](const Shape& q, const Shape& k, const Shape& v, const Way& w) {
    c.samples.push_back(attention_sample(q, k, v, w));
  };
  add({1, 2, 3, 2}, {1, 2, 4, 2}, {1, 2, 4, 3}, plain);
  add({2, 3, 2}, {2, 3, 2}, {2, 3, 4}, causal);
  add({3, 4}, {5, 4}, {5, 2}, {"scale", ", scale=0.3", {.scale = 0.3}});
  add({1, 4, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2},
      {"grouped heads", ", enable_gqa=True", {.enable_gqa = true}});
  add({1, 2, 3, 2}, {1, 2, 4, 2}, {1, 2, 4, 1},
      {"bool mask", ", attn_mask=d", {}, truth_input({3, 4})});
  add({2, 3, 2}, {2, 4, 2}, {2, 4, 1}, {"added mask", ", attn_mask=d", {}, Input{{3, 4}}});
  add({2, 3, 2}, {2, 4, 2}, {2, 4, 1}, {"dropout", "", {.dropout_p = 0.25}});
  add({2, 2, 70, 5}, {2, 2, 140, 5}, {2, 2, 140, 3}, plain);
  add({2, 1, 129, 7}, {2, 1, 129, 7}, {2, 1, 129, 9}, causal);  // one more than a block
  add({1, 1, 2, 6, 3}, {1, 1, 2, 5, 3}, {1, 1, 2, 5, 3},
      {"five axes, causal, masked",
       ", attn_mask=d & torch.ones(6, 5, dtype=torch.bool).tril()",
       {.causal = true},
       truth_input({2, 1, 5})});
  add({2, 0, 3}, {2, 4, 3}, {2, 4, 2}, plain);
  add({2, 3, 3}, {2, 0, 3}, {2, 0, 2}, plain);
  add({1, 4, 66, 8}, {1, 2, 66, 8}, {1, 2, 66, 8},
      {"grouped heads, dropout", "", {.causal = true, .dropout_p = 0.5, .enable_gqa = true}});
  const Way grouped{"grouped heads", "", {.causal = true, .enable_gqa = true}};
  // Tiles are padded to 32, 64, 128 and 256 elements, which one to eight lanes share; beyond that
  // there are none.
  add({1, 2, 2, 33}, {1, 1, 17, 33}, {1, 1, 17, 35}, {"", "", {.enable_gqa = true}});
  add({1, 1, 2, 65}, {1, 1, 3, 65}, {1, 1, 3, 2}, causal);
  add({1, 1, 3, 66}, {1, 1, 18, 66}, {1, 1, 18, 129}, {"bool mask", "", {}, truth_input({3, 18})});
  add({1, 4, 19, 100}, {1, 2, 18, 100}, {1, 2, 18, 90},
      {"grouped heads, dropout", "", {.causal = true, .dropout_p = 0.5, .enable_gqa = true}});
  add({1, 4, 18, 136}, {1, 2, 19, 136}, {1, 2, 19, 200},
      {"grouped heads, dropout", "", {.causal = true, .dropout_p = 0.5, .enable_gqa = true}});
  add({1, 1, 2, 256}, {1, 1, 17, 256}, {1, 1, 17, 5}, {"added mask", "", {}, Input{{2, 17}}});
  add({1, 1, 2, 257}, {1, 1, 3, 257}, {1, 1, 3, 2}, causal);
  add({1, 1, 66, 32}, {1, 1, 130, 32}, {1, 1, 130, 32}, plain);  // whole tiles of whole packs
  // Vectors at multiples of 16 bytes, which go into tiles by cp.async: tiles of 32, 64 and 128
  // elements, their vectors whole and in part, heads that follow each other in one pipeline.
  add({1, 2, 70, 24}, {1, 2, 67, 24}, {1, 2, 67, 16},
      {"bool mask", "", {.causal = true}, truth_input({70, 67})});
  add({1, 4, 35, 40}, {1, 2, 70, 40}, {1, 2, 70, 64},
      {"grouped heads, dropout", "", {.dropout_p = 0.5, .enable_gqa = true}});
  add({1, 2, 66, 72}, {1, 2, 65, 72}, {1, 2, 65, 128}, causal);
  add({1, 1, 130, 128}, {1, 1, 33, 128}, {1, 1, 33, 104}, {"added mask", "", {}, Input{{130, 1}}});
  add({2, 0, 8}, {2, 30, 8}, {2, 30, 8}, plain);
  add({2, 30, 8}, {2, 0, 8}, {2, 0, 8}, plain);
  for (Sample& s : c.samples) s.constant = s.inputs[1].shape[1] == 0;  // no key: zeros
  add({1, 0, 3, 8}, {1, 2, 4, 8}, {1, 2, 4, 8}, grouped);              // keys that no query has
  c.samples.back().torch.clear();
  const auto x = [](const Shape& s, Device d, DType t = f32) {
    return ones(s, {.dtype = t, .device = d});
  };
  c.errors = {
      undefined_tensor(
          [](const Tensor& a, const Tensor& b) { (void)scaled_dot_product_attention(b, b, a); }),
      error_input<DtypeError>("integers", "expected a floating dtype that computes, got i64",
                              [x](Device d) {
                                const Tensor q = x({2, 3}, d, DType::i64);
                                (void)scaled_dot_product_attention(q, q, q);
                              }),
      error_input<DtypeError>("dtypes", "query, key and value differ in dtype",
                              [x](Device d) {
                                const Tensor q = x({2, 3}, d);
                                (void)scaled_dot_product_attention(q, q, x({2, 3}, d, f64));
                              }),
      error_input<ShapeError>("rank", "query needs at least two dimensions, got 1",
                              [x](Device d) {
                                const Tensor q = x({3}, d);
                                (void)scaled_dot_product_attention(q, q, q);
                              }),
      error_input<ShapeError>(
          "depth", "the last axis of query (3) \u2260 that of key (4)",
          [x](Device d) {
            (void)scaled_dot_product_attention(x({2, 3}, d), x({2, 4}, d), x({2, 4}, d));
          }),
      error_input<ShapeError>("heads", "axis 1 of query (4) \u2260 that of key (2)",
                              [x](Device d) {
                                const Tensor k = x({1, 2, 5, 3}, d);
                                (void)scaled_dot_product_attention(x({1, 4, 5, 3}, d), k, k);
                              }),
      error_input<ShapeError>(
          "heads that do not divide", "the 3 heads of query are no multiple of the 2 of key",
          [x](Device d) {
            const Tensor k = x({1, 2, 5, 3}, d);
            (void)scaled_dot_product_attention(x({1, 3, 5, 3}, d), k, k, {.enable_gqa = true});
          }),
      error_input<ShapeError>(
          "mask", "attn_mask [4, 4] does not broadcast to the scores [2, 3]",
          [x](Device d) {
            const Tensor k = x({3, 5}, d);
            (void)scaled_dot_product_attention(x({2, 5}, d), k, k, x({4, 4}, d));
          }),
      error_input<UsageError>("dropout", "dropout_p must be in [0, 1], got -1", [x](Device d) {
        const Tensor q = x({2, 3}, d);
        (void)scaled_dot_product_attention(q, q, q, {.dropout_p = -1});
      })};
  rows.push_back(std::move(c));
}

// --- rotary embedding ---

Array rotary_oracle(const std::vector<Array>& in, const RotaryOptions& o) {
  const Array& x = in[0];
  const int n = x.shape.ndim();
  const i64 width = x.shape[n - 1], half = width / 2;
  Array r = filled(x.shape, [&](const std::vector<i64>& i) {
    const i64 e = i[size_t(n - 1)];
    const i64 pair = o.interleaved ? e / 2 : e % half;
    const bool second = o.interleaved ? e % 2 : e >= half;
    std::vector<i64> row(i.begin(), i.end() - 1), other = i;
    other[size_t(n - 1)] = o.interleaved ? e ^ 1 : second ? e - half : e + half;
    const double p = in.size() > 1 ? at(in[1], row) : double(o.offset + i[size_t(n - 2)]);
    const double angle = p * std::pow(o.base, -2.0 * double(pair) / double(width));
    const double a = at(x, i), b = at(x, other);
    return second ? a * std::cos(angle) + b * std::sin(angle)
                  : a * std::cos(angle) - b * std::sin(angle);
  });
  r.terms = kTermsOfFormula;
  r.magnitude.assign(r.v.size(), 4);
  return r;
}

void add_rotary(std::vector<OpCase>& rows) {
  OpCase c{"rotary_embedding", {}, kFloats};
  const auto add = [&](const std::string& label, const Shape& s, const RotaryOptions& o) {
    c.samples.push_back({label,
                         {{s}},
                         [o](std::span<const Tensor> in) { return rotary_embedding(in[0], o); },
                         [o](const std::vector<Array>& in) { return rotary_oracle(in, o); }});
  };
  add("", {3, 4}, {});
  add("interleaved", {2, 3, 4}, {.interleaved = true});
  c.samples.back().torch =
      "torch.view_as_real(torch.view_as_complex(a.reshape(2, 3, 2, 2)) * torch.polar("
      "torch.ones(3, 2, dtype=torch.float64), torch.outer(torch.arange(3.).double(), "
      "10000.0 ** (-torch.arange(0, 4, 2).double() / 4)))).reshape(2, 3, 4)";
  add("offset", {2, 3, 4}, {.base = 100, .offset = 5});
  add("", {2, 5, 33, 6}, {});
  add("", {0, 4}, {});
  add("", {3, 0}, {});
  add("", {1, 2}, {});
  const RotaryOptions o{.base = 50};
  for (const auto& [s, p] : {std::pair<Shape, Shape>{{2, 3, 4}, {3}}, {{2, 3, 4}, {2, 1}}})
    c.samples.push_back(
        {"positions",
         {{s}, index_input(p, 40)},
         [o](std::span<const Tensor> in) { return rotary_embedding(in[0], in[1], o); },
         [o](const std::vector<Array>& in) { return rotary_oracle(in, o); }});
  c.errors = {
      undefined_operand("rotary_embedding",
                        [](const Tensor& a, const Tensor&) { (void)rotary_embedding(a); }),
      error_input<ShapeError>("odd", "[rotary_embedding] the last axis of x must be even, got 3",
                              [](Device d) {
                                (void)rotary_embedding(ones({2, 3}, {.device = d}));
                              }),
      error_input<UsageError>("base", "[rotary_embedding] base must be above 0, got 0",
                              [](Device d) {
                                (void)rotary_embedding(ones({2, 4}, {.device = d}), {.base = 0});
                              }),
      error_input<ShapeError>(
          "positions", "positions [5] do not broadcast to x's axes but the last, [2]",
          [](Device d) {
            (void)rotary_embedding(ones({2, 4}, {.device = d}),
                                   ones({5}, {.dtype = DType::i64, .device = d}));
          }),
      error_input<DtypeError>("position dtype", "positions must be i64 or i32, got f32",
                              [](Device d) {
                                const Tensor x = ones({2, 4}, {.device = d});
                                (void)rotary_embedding(x, ones({2}, {.device = d}));
                              })};
  rows.push_back(std::move(c));
}

void add_attention_cases(std::vector<OpCase>& rows) {
  add_attention(rows);
  add_rotary(rows);
}

const CaseFile file{add_attention_cases};

}  // namespace
}  // namespace wt_test
