// Convolutions, pooling, normalisation, attention, losses of classes.
#include <numeric>

#include "warptape/tests/fuzz/operators.h"

namespace wt_test {
namespace {

// --- along spatial axes ---
PerAxis per_axis(Draw& d, int axes, i64 low, i64 high) {
  if (d.flag()) return PerAxis(d.number(low, high));
  std::vector<i64> v;
  for (int i = 0; i < axes; ++i) v.push_back(d.number(low, high));
  if (d.chance(0.03)) v.push_back(d.number(low, high));
  return PerAxis(v);
}
// [N, C, sizes...] or [C, sizes...]
Shape image(Draw& d, int axes, i64 channels) {
  Shape s;
  if (d.chance(0.7)) s.push_back(d.chance(0.05) ? 0 : 1 + d.pick(2));
  s.push_back(channels);
  for (int i = 0; i < axes; ++i) s.push_back(axes == 3 ? 2 + d.pick(3) : 2 + d.pick(6));
  return d.bent(s);
}
Shape kernel_shape(Draw& d, i64 out, i64 in, int axes) {
  Shape s{out, in};
  for (int i = 0; i < axes; ++i) s.push_back(1 + d.pick(3));
  return d.bent(s);
}

struct Convolution {
  Tensor x, w;
  i64 out;
  ConvOptions options;
};
Convolution convolution(Draw& d, int axes) {
  d.floats();
  const i64 groups = 1 + d.pick(2), in = groups * (1 + d.pick(2)), out = groups * (1 + d.pick(3));
  const Tensor x = d.tensor(image(d, axes, in));
  const Tensor w = d.tensor(kernel_shape(d, out, in / groups, axes));
  ConvOptions o;
  o.stride = per_axis(d, axes, 1, 2);
  o.padding = d.chance(0.2) ? ConvPadding(Padding::same) : ConvPadding(per_axis(d, axes, 0, 2));
  o.dilation = per_axis(d, axes, 1, 2);
  o.groups = d.chance(0.1) ? d.number(0, 3) : groups;
  return {x, w, out, o};
}

using Conv = Tensor (*)(const In&, const In&, const ConvOptions&);
using ConvBias = Tensor (*)(const In&, const In&, const In&, const ConvOptions&);
Results convolved(Draw& d, int axes, Conv plain, ConvBias with_bias) {
  const Convolution c = convolution(d, axes);
  if (d.flag()) return plain(c.x, c.w, c.options);
  const Tensor b = d.tensor(d.bent({c.out}));
  return with_bias(c.x, c.w, b, c.options);
}
using FusedConv = Tensor (*)(const In&, const In&, const FusedConvOptions&);
Results fused(Draw& d, int axes, FusedConv conv) {
  const Convolution c = convolution(d, axes);
  FusedConvOptions o{.activation = kAllActivations[d.pick(7)], .conv = c.options};
  if (d.flag()) o.bias = d.tensor(d.bent({c.out}));
  if (d.flag()) o.residual = d.tensor(d.bent(conv(c.x, c.w, {.conv = c.options}).shape()));
  return conv(c.x, c.w, o);
}
using Up = Tensor (*)(const In&, const In&, const ConvTransposeOptions&);
using UpBias = Tensor (*)(const In&, const In&, const In&, const ConvTransposeOptions&);
Results transposed(Draw& d, int axes, Up plain, UpBias with_bias) {
  d.floats();
  const i64 groups = 1 + d.pick(2), in = groups * (1 + d.pick(2)), out = 1 + d.pick(3);
  const Tensor x = d.tensor(image(d, axes, in));
  const Tensor w = d.tensor(kernel_shape(d, in, out, axes));
  ConvTransposeOptions o;
  o.stride = per_axis(d, axes, 1, 3);
  o.padding = per_axis(d, axes, 0, 1);
  o.output_padding = d.flag() ? PerAxis(0) : per_axis(d, axes, 0, 1);
  o.dilation = per_axis(d, axes, 1, 2);
  o.groups = d.chance(0.1) ? d.number(0, 3) : groups;
  if (d.flag()) return plain(x, w, o);
  const Tensor b = d.tensor(d.bent({groups * out}));
  return with_bias(x, w, b, o);
}

using Max = Tensor (*)(const In&, const PerAxis&, const MaxPoolOptions&);
using MaxAt = MaxPool (*)(const In&, const PerAxis&, const MaxPoolOptions&);
Results max_pooled(Draw& d, int axes, Max values, MaxAt both) {
  d.floats();
  const Tensor x = d.tensor(image(d, axes, 1 + d.pick(3)));
  const PerAxis kernel = per_axis(d, axes, 1, 3);
  MaxPoolOptions o;
  if (d.flag()) o.stride = per_axis(d, axes, 1, 3);
  o.padding = d.flag() ? PerAxis(0) : per_axis(d, axes, 0, 1);
  o.dilation = per_axis(d, axes, 1, 2);
  o.ceil_mode = d.flag();
  if (d.flag()) return both(x, kernel, o);
  return values(x, kernel, o);
}
using Avg = Tensor (*)(const In&, const PerAxis&, const AvgPoolOptions&);
Results avg_pooled(Draw& d, int axes, Avg f) {
  d.floats();
  const Tensor x = d.tensor(image(d, axes, 1 + d.pick(3)));
  const PerAxis kernel = per_axis(d, axes, 1, 3);
  AvgPoolOptions o;
  if (d.flag()) o.stride = per_axis(d, axes, 1, 3);
  o.padding = d.flag() ? PerAxis(0) : per_axis(d, axes, 0, 1);
  o.ceil_mode = d.flag();
  o.count_include_pad = d.flag();
  if (d.chance(0.2)) o.divisor_override = d.number(1, 5);
  return f(x, kernel, o);
}
using Adaptive = Tensor (*)(const In&, const PerAxis&);
Results adapted(Draw& d, int axes, Adaptive f) {
  d.floats();
  const Tensor x = d.tensor(image(d, axes, 1 + d.pick(3)));
  return f(x, per_axis(d, axes, 1, 4));
}

void add_spatial(Callers& to) {
  to["conv1d"] = [](Draw& d) { return convolved(d, 1, conv1d, conv1d); };
  to["conv2d"] = [](Draw& d) { return convolved(d, 2, conv2d, conv2d); };
  to["conv3d"] = [](Draw& d) { return convolved(d, 3, conv3d, conv3d); };
  to["fused_conv1d"] = [](Draw& d) { return fused(d, 1, fused_conv1d); };
  to["fused_conv2d"] = [](Draw& d) { return fused(d, 2, fused_conv2d); };
  to["fused_conv3d"] = [](Draw& d) { return fused(d, 3, fused_conv3d); };
  to["conv_transpose1d"] = [](Draw& d) {
    return transposed(d, 1, conv_transpose1d, conv_transpose1d);
  };
  to["conv_transpose2d"] = [](Draw& d) {
    return transposed(d, 2, conv_transpose2d, conv_transpose2d);
  };
  to["conv_transpose3d"] = [](Draw& d) {
    return transposed(d, 3, conv_transpose3d, conv_transpose3d);
  };
  to["conv_weight_grad"] = [](Draw& d) {
    d.floats();
    const i64 in = 1 + d.pick(3), out = 1 + d.pick(3), n = 4 + d.pick(4), k = 1 + d.pick(3);
    const Tensor gy = d.tensor(d.bent({2, out, n - k + 1})), x = d.tensor(d.bent({2, in, n}));
    ConvOptions o;
    if (d.chance(0.3)) o.stride = per_axis(d, 1, 1, 2);
    if (d.chance(0.2)) o.padding = per_axis(d, 1, 0, 1);
    return conv_weight_grad(gy, x, d.as_argument({out, in, k}), o);
  };
  to["max_pool1d"] = [](Draw& d) { return max_pooled(d, 1, max_pool1d, max_pool1d_with_indices); };
  to["max_pool2d"] = [](Draw& d) { return max_pooled(d, 2, max_pool2d, max_pool2d_with_indices); };
  to["max_pool3d"] = [](Draw& d) { return max_pooled(d, 3, max_pool3d, max_pool3d_with_indices); };
  to["avg_pool1d"] = [](Draw& d) { return avg_pooled(d, 1, avg_pool1d); };
  to["avg_pool2d"] = [](Draw& d) { return avg_pooled(d, 2, avg_pool2d); };
  to["avg_pool3d"] = [](Draw& d) { return avg_pooled(d, 3, avg_pool3d); };
  to["adaptive_avg_pool1d"] = [](Draw& d) { return adapted(d, 1, adaptive_avg_pool1d); };
  to["adaptive_avg_pool2d"] = [](Draw& d) { return adapted(d, 2, adaptive_avg_pool2d); };
  to["adaptive_avg_pool3d"] = [](Draw& d) { return adapted(d, 3, adaptive_avg_pool3d); };
  to["adaptive_max_pool2d"] = [](Draw& d) { return adapted(d, 2, adaptive_max_pool2d); };
  to["pixel_shuffle"] = [](Draw& d) {
    const i64 r = 1 + d.pick(3);
    return pixel_shuffle(d.tensor(image(d, 2, r * r * (1 + d.pick(2)))), d.number(r, r));
  };
  to["pixel_unshuffle"] = [](Draw& d) {
    const i64 r = 1 + d.pick(3);
    const Tensor x = d.tensor(d.bent({1 + d.pick(2), r * (1 + d.pick(3)), r * (1 + d.pick(3))}));
    return pixel_unshuffle(x, d.number(r, r));
  };
  const auto folded = [](Draw& d, bool back) -> Results {
    d.floats();
    const FoldOptions o{d.flag() ? PerAxis(1) : per_axis(d, 2, 1, 2), per_axis(d, 2, 0, 1),
                        per_axis(d, 2, 1, 2)};
    const PerAxis kernel = per_axis(d, 2, 1, 3);
    const Tensor x = d.tensor(image(d, 2, 1 + d.pick(2)));
    const Tensor y = unfold2d(x, kernel, o);
    if (!back) return y;
    return fold(d.tensor(d.bent(y.shape())), {x.size(-2), x.size(-1)}, kernel, o);
  };
  to["unfold2d"] = [=](Draw& d) { return folded(d, false); };
  to["fold"] = [=](Draw& d) { return folded(d, true); };
  const auto resized = [](Draw& d, bool back) -> Results {
    d.floats();
    const Tensor x = d.tensor(d.shape(0, 4));
    const i64 a = d.axis(x.ndim()), size = d.number(1, 7);
    ResizeOptions o{d.flag() ? ResizeMode::nearest : ResizeMode::linear, d.flag(), 0};
    if (d.chance(0.2)) o.scale = d.real(0.2, 3);
    return back ? resize_axis_backward(x, a, size, o) : resize_axis(x, a, size, o);
  };
  to["resize_axis"] = [=](Draw& d) { return resized(d, false); };
  to["resize_axis_backward"] = [=](Draw& d) { return resized(d, true); };
  to["affine_grid"] = [](Draw& d) {
    d.floats();
    const i64 axes = 2 + d.pick(2);
    Shape size{1 + d.pick(2), 1};
    for (i64 i = 0; i < axes; ++i) size.push_back(1 + d.pick(4));
    const Tensor theta = d.tensor(d.bent({size[0], axes, axes + 1}));
    return affine_grid(theta, d.as_argument(size), {.align_corners = d.flag()});
  };
  to["grid_sample"] = [](Draw& d) {
    d.floats();
    const int axes = 2 + int(d.pick(2));
    Shape image{1 + d.pick(2), d.size()}, places{image[0]};
    for (int i = 0; i < axes; ++i) image.push_back(1 + d.pick(4)), places.push_back(d.size());
    places.push_back(axes);
    const Tensor x = d.tensor(d.bent(image)), grid = d.tensor(d.bent(places), -2, 2);
    GridSampleOptions o{GridSampleMode(d.pick(2)), GridSamplePadding(d.pick(3)), d.flag()};
    if (axes == 2 ? d.chance(0.4) : d.chance(0.1)) o.mode = GridSampleMode::bicubic;
    return grid_sample(x, grid, o);
  };
  to["upsample"] = [](Draw& d) {
    d.floats();
    const int axes = 1 + int(d.pick(3));
    Shape s{1 + d.pick(2), 1 + d.pick(2)};
    for (int i = 0; i < axes; ++i) s.push_back(1 + d.pick(4));
    const Tensor x = d.tensor(d.bent(s));
    constexpr UpsampleMode kModes[] = {UpsampleMode::nearest,       UpsampleMode::linear,
                                       UpsampleMode::bilinear,      UpsampleMode::trilinear,
                                       UpsampleMode::nearest_exact, UpsampleMode::bicubic};
    UpsampleOptions o;
    o.mode = d.chance(0.2) ? kModes[d.pick(6)] : d.flag() ? UpsampleMode::nearest : kModes[axes];
    if (axes == 2 && d.chance(0.3)) o.mode = UpsampleMode::bicubic;
    if (d.chance(0.1)) o.mode = UpsampleMode::nearest_exact;
    o.align_corners =
        o.mode != UpsampleMode::nearest && o.mode != UpsampleMode::nearest_exact && d.flag();
    o.antialias = axes == 2 && !o.align_corners && d.chance(0.3);
    for (int i = 0, n = d.flag() ? 1 : axes; i < n; ++i) {
      if (n == 1) o.scale.push_back(d.real(0.5, 3));
      if (n != 1) o.size.push_back(d.number(1, 6));
    }
    return upsample(x, o);
  };
}

// --- normalisation and attention ---
Tensor perhaps(Draw& d, const Shape& s, double low = -2) {
  return d.flag() ? d.tensor(d.bent(s), low, 2) : Tensor();
}

void add_norms(Callers& to) {
  to["layer_norm"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 4);
    const int from = int(d.pick(s.ndim()));
    Shape last;
    for (int i = from; i < s.ndim(); ++i) last.push_back(s[i]);
    const Tensor x = d.tensor(s);
    const LayerNormOptions o{.eps = d.real(1e-5, 0.1)};
    const Shape given = d.as_argument(last);
    if (d.flag()) return layer_norm(x, given, o);
    const Tensor w = d.tensor(d.bent(last)), b = d.tensor(d.bent(last));
    return d.flag() ? layer_norm(x, given, w, o) : layer_norm(x, given, w, b, o);
  };
  to["rms_norm"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 4);
    const Tensor x = d.tensor(s);
    const Shape last{s[s.ndim() - 1]};
    RmsNormOptions o;
    if (d.flag()) o.eps = d.real(1e-5, 0.1);
    if (d.flag()) return rms_norm(x, d.as_argument(last), o);
    const Tensor w = d.tensor(d.bent(last));
    return rms_norm(x, last, w, o);
  };
  const auto added = [](auto call) {
    return [call](Draw& d) {
      d.floats();
      const Shape s = d.shape(1, 4);
      const Shape last{s[s.ndim() - 1]};
      const Tensor x = d.tensor(s), residual = d.tensor(d.bent(s));
      const AddNormResult r =
          call(x, residual, d.as_argument(last), perhaps(d, last), d.real(1e-5, 0.1));
      return d.flag() ? r.y : d.flag() ? r.sum : r.y + r.sum;
    };
  };
  to["add_layer_norm"] = added([](auto& x, auto& r, const Shape& last, const Tensor& w, double e) {
    return add_layer_norm(x, r, last, {.weight = w, .eps = e});
  });
  to["add_rms_norm"] = added([](auto& x, auto& r, const Shape& last, const Tensor& w, double e) {
    return add_rms_norm(x, r, last, {.weight = w, .eps = e});
  });
  // A norm by itself (f is null), and with an activation behind it.
  const auto both = [&to](const std::string& name, auto call) {
    to[name] = [call](Draw& d) { return call(d, nullptr); };
    to["fused_" + name] = [call](Draw& d) { return call(d, &kAllActivations[d.pick(7)]); };
  };
  both("batch_norm", [](Draw& d, const Activation* f) {
    d.floats();
    const i64 c = 1 + d.pick(4);
    const Tensor x = d.tensor(image(d, int(d.pick(3)), c));
    BatchNormOptions o;
    o.weight = perhaps(d, {c});
    o.bias = perhaps(d, {c});
    if (d.flag()) {
      o.running_mean = d.target(d.bent({c}));
      o.running_var = d.target(d.bent({c}));
    }
    o.training = d.flag();
    o.momentum = d.real(0, 1);
    o.eps = d.real(1e-5, 0.1);
    return f ? fused_batch_norm(x, *f, o) : batch_norm(x, o);
  });
  both("group_norm", [](Draw& d, const Activation* f) {
    d.floats();
    const i64 groups = 1 + d.pick(3), c = groups * (1 + d.pick(3));
    const Tensor x = d.tensor(image(d, int(d.pick(3)), c));
    GroupNormOptions o;
    o.weight = perhaps(d, {c});
    o.bias = perhaps(d, {c});
    o.eps = d.real(1e-5, 0.1);
    const i64 given = d.chance(0.8) ? groups : d.number(0, 4);
    return f ? fused_group_norm(x, given, *f, o) : group_norm(x, given, o);
  });
  both("instance_norm", [](Draw& d, const Activation* f) {
    d.floats();
    const i64 c = 1 + d.pick(3);
    const Tensor x = d.tensor(image(d, 1 + int(d.pick(2)), c));
    InstanceNormOptions o;
    o.weight = perhaps(d, {c});
    o.bias = perhaps(d, {c});
    o.use_input_stats = d.chance(0.8);
    if (d.flag()) {
      o.running_mean = d.target(d.bent({c}));
      o.running_var = d.target(d.bent({c}));
    }
    o.momentum = d.real(0, 1);
    return f ? fused_instance_norm(x, *f, o) : instance_norm(x, o);
  });
  to["scaled_dot_product_attention"] = [](Draw& d) {
    d.floats();
    const i64 l = d.size(), s = d.size(), e = d.size(), v = d.size(), heads = 1 + d.pick(2);
    const i64 shared = d.chance(0.8) ? heads : 1;
    const Tensor q = d.tensor(d.bent({2, heads, l, e})), k = d.tensor(d.bent({2, shared, s, e}));
    const Tensor values = d.tensor(d.bent({2, shared, s, v}));
    AttentionOptions o;
    o.causal = d.flag();
    if (d.chance(0.2)) o.dropout_p = d.real(0, 1);
    if (d.chance(0.3)) o.scale = d.real(0.1, 2);
    o.enable_gqa = shared != heads || d.chance(0.2);
    if (d.flag()) return scaled_dot_product_attention(q, k, values, o);
    const Shape m = d.narrower({2, heads, l, s});
    const Tensor mask = d.flag() ? d.truth(m) : d.tensor(m);
    return scaled_dot_product_attention(q, k, values, mask, o);
  };
  to["rotary_embedding"] = [](Draw& d) {
    d.floats();
    const i64 t = d.size();
    Shape s = d.shape(0, 2);
    s.push_back(t), s.push_back(2 * d.size());
    const Tensor x = d.tensor(d.bent(s));
    const RotaryOptions o{
        .base = d.real(2, 10000), .interleaved = d.flag(), .offset = d.number(0, 9)};
    if (d.flag()) return rotary_embedding(x, o);
    const Tensor at = d.index(d.bent({t}), 50);
    return rotary_embedding(x, at, o);
  };
}

// --- losses of classes ---
void add_losses(Callers& to) {
  to["cross_entropy"] = [](Draw& d) {
    d.floats();
    const i64 n = d.size(), c = 1 + d.pick(5);
    const Shape s = d.flag() ? Shape{n, c} : d.flag() ? Shape{c} : Shape{n, c, d.size()};
    const Tensor x = d.tensor(d.bent(s));
    CrossEntropyOptions o;
    if (d.flag()) o.ignore_index = d.number(-2, c);
    if (d.chance(0.3)) o.label_smoothing = d.real(0, 1);
    if (d.chance(0.3)) o.weight = d.tensor(d.bent({c}), 0, 2);
    if (d.chance(0.2)) return cross_entropy(x, d.tensor(s, 0, 1), o);
    Shape labels = s;
    labels.erase(s.ndim() > 1 ? 1 : 0);
    return cross_entropy(x, d.index(d.bent(labels), c), o);
  };
  to["nll_loss"] = [](Draw& d) {
    d.floats();
    const i64 n = d.size(), c = 1 + d.pick(5);
    const Shape s = d.flag() ? Shape{n, c} : Shape{n, c, d.size()};
    const Tensor x = d.tensor(d.bent(s));
    NllOptions o;
    if (d.flag()) o.ignore_index = d.number(-2, c);
    if (d.chance(0.3)) o.weight = d.tensor(d.bent({c}), 0, 2);
    Shape labels = s;
    labels.erase(1);
    return nll_loss(x, d.index(d.bent(labels), c), o);
  };
  to["ctc_loss"] = [](Draw& d) {
    d.floats();
    const i64 t = 1 + d.pick(5), n = 1 + d.pick(2), c = 2 + d.pick(3), most = 1 + d.pick(3);
    const Tensor x = d.tensor(d.bent({t, n, c}), -4, 0), targets = d.index(d.bent({n, most}), c);
    const Tensor lengths = d.index(d.bent({n}), t + 1),
                 target_lengths = d.index(d.bent({n}), most + 1);
    return ctc_loss(
        x, targets, lengths, target_lengths,
        {.blank = d.number(0, c - 1), .divide_by_length = d.flag(), .zero_infinity = d.flag()});
  };
  to["cosine_similarity"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 3);
    const Tensor a = d.tensor(s), b = d.tensor(d.narrower(s));
    return cosine_similarity(a, b, {.dim = d.axis(s.ndim()), .eps = d.real(1e-8, 0.1)});
  };
  to["normalize"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor(d.shape(0, 4));
    constexpr double kNorms[] = {2, 1, HUGE_VAL, 0};
    return normalize(x, {.p = d.flag() ? kNorms[d.pick(4)] : d.real(0.5, 3),
                         .dim = d.axis(x.ndim()),
                         .eps = d.real(1e-12, 0.1)});
  };
  to["pairwise_distance"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 3);
    const Tensor a = d.tensor(s), b = d.tensor(d.narrower(s));
    return pairwise_distance(a, b,
                             {.p = d.real(0.5, 3), .eps = d.real(1e-6, 0.1), .keep_dim = d.flag()});
  };
  to["cosine_embedding_loss"] = [](Draw& d) {
    d.floats();
    const i64 n = d.size(), k = d.size();
    const Tensor a = d.tensor(d.bent({n, k})), b = d.tensor(d.bent({n, k}));
    const Tensor sign = d.tensor(d.bent({n}), -1, 1);
    return cosine_embedding_loss(a, b, sign, {.margin = d.real(-0.5, 0.5)});
  };
  to["poisson_nll_loss"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor(), t = d.tensor(d.bent(x.shape()), 0, 3);
    return poisson_nll_loss(x, t,
                            {.log_input = d.flag(), .full = d.flag(), .eps = d.real(1e-8, 0.1)});
  };
  to["gaussian_nll_loss"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 3);
    Shape rows = s;
    rows.erase(s.ndim() - 1);
    const Tensor x = d.tensor(s), t = d.tensor(d.bent(s));
    const Tensor var = d.tensor(d.bent(d.flag() ? s : rows), 0, 2);
    return gaussian_nll_loss(x, t, var, {.full = d.flag(), .eps = d.real(1e-6, 0.1)});
  };
  to["margin_ranking_loss"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(0, 3);
    const Tensor a = d.tensor(s), b = d.tensor(d.bent(s)), t = d.tensor(s, -1, 1);
    return margin_ranking_loss(a, b, t, {.margin = d.real(0, 1)});
  };
  to["hinge_embedding_loss"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(0, 3);
    const Tensor x = d.tensor(s), t = d.tensor(d.bent(s), -1, 1);
    return hinge_embedding_loss(x, t, {.margin = d.real(0, 2)});
  };
  to["soft_margin_loss"] = [](Draw& d) {
    d.floats();
    const Tensor x = d.tensor(), t = d.tensor(d.bent(x.shape()), -1, 1);
    return soft_margin_loss(x, t);
  };
  to["multi_margin_loss"] = [](Draw& d) {
    d.floats();
    const i64 n = d.size(), c = 1 + d.pick(5);
    MultiMarginOptions o{.p = 1 + d.pick(2), .margin = d.real(0, 2)};
    if (d.chance(0.3)) o.weight = d.tensor(d.bent({c}), 0, 2);
    const Tensor x = d.tensor(d.bent({n, c}));
    return multi_margin_loss(x, d.index(d.bent({n}), c), o);
  };
  to["triplet_margin_loss"] = [](Draw& d) {
    d.floats();
    const Shape s = d.shape(1, 3);
    const Tensor a = d.tensor(s), b = d.tensor(d.bent(s)), c = d.tensor(d.bent(s));
    return triplet_margin_loss(
        a, b, c,
        {.margin = d.real(0, 2), .p = d.real(1, 3), .eps = d.real(1e-6, 0.1), .swap = d.flag()});
  };
}

}  // namespace

void add_structured_callers(Callers& to) {
  add_spatial(to);
  add_norms(to);
  add_losses(to);
}

}  // namespace wt_test
