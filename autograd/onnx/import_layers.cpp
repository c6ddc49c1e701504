// Products, convolution, pooling, normalisation.
#include <limits>

#include "warptape/autograd/onnx/import.h"
#include "warptape/autograd/ops.h"

namespace wt::onnx {
namespace {

using Results = std::vector<Tensor>;

Results product(const NodeCall& c) { return {matmul(c.in(0), c.in(1))}; }
Results gemm(const NodeCall& c) {
  Tensor a = c.in(0), b = c.in(1);
  c.require(a.ndim() == 2 && b.ndim() == 2, "Gemm takes matrices");
  if (c.integer("transA", 0)) a = a.t();
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  const bool rows = c.integer("transB", 0) != 0;
  if (rows && alpha == 1 && beta == 1 && is_floating(a.dtype()) &&
      (!c.has(2) || c.in(2).ndim() == 1))
    return {c.has(2) ? linear(a, b, c.in(2)) : linear(a, b)};
  if (rows) b = b.t();
  Tensor y = matmul(a, b);
  if (alpha != 1) y = mul(y, alpha);
  if (c.has(2)) y = add(y, beta == 1 ? c.in(2) : mul(c.in(2), beta));
  return {y};
}

// --- windows ---

struct Windows {
  int axes;
  std::vector<i64> kernel, strides, dilations, before, after;
  bool ceil = false;
};
std::vector<i64> or_ones(std::vector<i64> v, int n) {
  return v.empty() ? std::vector<i64>(size_t(n), 1) : v;
}
// auto_pad's numbers: as many places as there are strides in the input, and the rest of what is
// needed on one side.
void pad_automatically(const NodeCall& c, Windows& w, const std::string& how) {
  for (int d = 0; d < w.axes; ++d) {
    const size_t i = size_t(d);
    i64 total = 0;
    if (how != "VALID") {
      const i64 n = c.in(0).size(2 + d), places = (n + w.strides[i] - 1) / w.strides[i];
      const i64 reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
      total = std::max<i64>(0, (places - 1) * w.strides[i] + reach - n);
    }
    w.before[i] = how == "SAME_LOWER" ? total - total / 2 : total / 2;
    w.after[i] = total - w.before[i];
  }
}
Windows windows_of(const NodeCall& c, const Tensor* weight) {
  Windows w;
  w.axes = c.in(0).ndim() - 2;
  c.require(w.axes >= 1 && w.axes <= 3, str("takes 3 to 5 dimensions, not ", c.in(0).ndim()));
  w.kernel = c.integers("kernel_shape");
  if (weight)
    for (int d = 0; w.kernel.size() < size_t(w.axes) && d < w.axes; ++d)
      w.kernel.push_back(weight->size(2 + d));
  w.strides = or_ones(c.integers("strides"), w.axes);
  w.dilations = or_ones(c.integers("dilations"), w.axes);
  std::vector<i64> pads = c.integers("pads");
  if (pads.empty()) pads.assign(size_t(2 * w.axes), 0);
  const size_t n = size_t(w.axes);
  c.require(w.kernel.size() == n && w.strides.size() == n && w.dilations.size() == n &&
                pads.size() == 2 * n,
            str("its lists are not for ", w.axes, " spatial axes"));
  w.before.assign(pads.begin(), pads.begin() + w.axes);
  w.after.assign(pads.begin() + w.axes, pads.end());
  for (size_t i = 0; i < n; ++i)
    c.require(w.kernel[i] > 0 && w.strides[i] > 0 && w.dilations[i] > 0 && w.before[i] >= 0 &&
                  w.after[i] >= 0,
              "a size, stride or pad that none can have");
  const std::string how = c.text("auto_pad", "NOTSET");
  c.require(how == "NOTSET" || how == "VALID" || how == "SAME_UPPER" || how == "SAME_LOWER",
            "auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  if (how != "NOTSET") pad_automatically(c, w, how);
  w.ceil = c.integer("ceil_mode", 0) != 0;
  return w;
}
// x with what the other side has too much of; then `before` is that of both.
Tensor evened(Windows& w, const Tensor& x, double value) {
  std::vector<i64> pairs;
  bool any = false;
  for (size_t i = w.kernel.size(); i-- > 0;) {
    any |= w.before[i] != w.after[i];
    pairs.push_back(w.before[i]), pairs.push_back(w.after[i]);
  }
  if (!any) return x;
  w.before.assign(w.kernel.size(), 0);
  return pad(x, pairs, {.value = value});
}

template <class F, class Options>
Tensor with_bias(const NodeCall& c, F f, const Tensor& x, const Options& o) {
  return c.has(2) ? f(x, c.in(1), c.in(2), o) : f(x, c.in(1), o);
}
Results convolution(const NodeCall& c) {
  Windows w = windows_of(c, &c.in(1));
  const Tensor x = evened(w, c.in(0), 0);
  const ConvOptions o{.stride = w.strides,
                      .padding = PerAxis(w.before),
                      .dilation = w.dilations,
                      .groups = c.integer("group", 1)};
  const auto run = [&](auto... a) {
    return w.axes == 1 ? conv1d(a...) : w.axes == 2 ? conv2d(a...) : conv3d(a...);
  };
  return {with_bias(c, run, x, o)};
}
Results transposed_convolution(const NodeCall& c) {
  Windows w = windows_of(c, &c.in(1));
  c.require(c.integers("output_shape").empty() && c.text("auto_pad", "NOTSET") == "NOTSET",
            "output_shape and auto_pad of ConvTranspose are not read");
  std::vector<i64> extra = c.integers("output_padding");
  if (extra.empty()) extra.assign(size_t(w.axes), 0);
  c.require(extra.size() == size_t(w.axes) && w.before == w.after,
            "pads must be equal on both sides");
  const ConvTransposeOptions o{.stride = w.strides,
                               .padding = w.before,
                               .output_padding = extra,
                               .groups = c.integer("group", 1),
                               .dilation = w.dilations};
  const auto run = [&](auto... a) {
    return w.axes == 1   ? conv_transpose1d(a...)
           : w.axes == 2 ? conv_transpose2d(a...)
                         : conv_transpose3d(a...);
  };
  return {with_bias(c, run, c.in(0), o)};
}
Results largest(const NodeCall& c) {
  Windows w = windows_of(c, nullptr);
  c.require(c.outputs() == 1, "MaxPool with Indices is not read");
  const Tensor x = evened(w, c.in(0), -std::numeric_limits<double>::infinity());
  const MaxPoolOptions o{.stride = PerAxis(w.strides),
                         .padding = w.before,
                         .dilation = w.dilations,
                         .ceil_mode = w.ceil};
  return {w.axes == 1   ? max_pool1d(x, w.kernel, o)
          : w.axes == 2 ? max_pool2d(x, w.kernel, o)
                        : max_pool3d(x, w.kernel, o)};
}
Results averages(const NodeCall& c) {
  Windows w = windows_of(c, nullptr);
  const bool counts = c.integer("count_include_pad", 0) != 0;
  c.require(w.before == w.after || counts, "pads that differ and do not count");
  const Tensor x = evened(w, c.in(0), 0);
  const AvgPoolOptions o{.stride = PerAxis(w.strides),
                         .padding = w.before,
                         .ceil_mode = w.ceil,
                         .count_include_pad = counts};
  return {w.axes == 1   ? avg_pool1d(x, w.kernel, o)
          : w.axes == 2 ? avg_pool2d(x, w.kernel, o)
                        : avg_pool3d(x, w.kernel, o)};
}
std::vector<i64> spatial_axes(const NodeCall& c) {
  c.require(c.in(0).ndim() > 2, "takes three dimensions or more");
  std::vector<i64> axes;
  for (int d = 2; d < c.in(0).ndim(); ++d) axes.push_back(d);
  return axes;
}
Results average_of_all(const NodeCall& c) {
  return {mean(c.in(0), Dims(spatial_axes(c)), {.keep_dim = true})};
}
Results largest_of_all(const NodeCall& c) {
  return {max(c.in(0), Dims(spatial_axes(c)), {.keep_dim = true})};
}

// --- normalisation ---

Results batch_normalised(const NodeCall& c) {
  c.require(c.integer("training_mode", 0) == 0, "training_mode is 0");
  return {batch_norm(c.in(0), {.weight = c.in(1),
                               .bias = c.in(2),
                               .running_mean = c.in(3),
                               .running_var = c.in(4),
                               .eps = c.real("epsilon", 1e-5)})};
}
Results instance_normalised(const NodeCall& c) {
  return {
      instance_norm(c.in(0), {.weight = c.in(1), .bias = c.in(2), .eps = c.real("epsilon", 1e-5)})};
}
Results group_normalised(const NodeCall& c) {
  c.require(c.opset() >= 21, "GroupNormalization is read from opset 21 on");
  return {group_norm(c.in(0), c.integer("num_groups", 1),
                     {.weight = c.in(1), .bias = c.in(2), .eps = c.real("epsilon", 1e-5)})};
}
Results layer_normalised(const NodeCall& c) {
  const int axis = c.axis(c.integer("axis", -1));
  const Tensor& x = c.in(0);
  c.require(c.outputs() == 1, "LayerNormalization with statistics is not read");
  const Shape all = x.shape();
  const Shape last(all.begin() + axis, all.ndim() - axis);
  const LayerNormOptions o{.eps = c.real("epsilon", 1e-5)};
  return {c.has(2) ? layer_norm(x, last, c.in(1), c.in(2), o) : layer_norm(x, last, c.in(1), o)};
}

// --- resizing ---

UpsampleMode resize_mode(const NodeCall& c, const std::string& mode, int axes) {
  const std::string at = c.text("coordinate_transformation_mode", "half_pixel");
  if (mode == "nearest") {
    const std::string near = c.text("nearest_mode", "round_prefer_floor");
    if (at == "asymmetric" && near == "floor") return UpsampleMode::nearest;
    c.require(at == "half_pixel" && near == "round_prefer_ceil",
              "nearest is read with asymmetric and floor, or half_pixel and round_prefer_ceil");
    return UpsampleMode::nearest_exact;
  }
  c.require(mode == "linear", "mode is nearest or linear");
  c.require(at == "half_pixel" || at == "pytorch_half_pixel" || at == "align_corners",
            "linear is read with half_pixel, pytorch_half_pixel and align_corners");
  return axes == 1   ? UpsampleMode::linear
         : axes == 2 ? UpsampleMode::bilinear
                     : UpsampleMode::trilinear;
}
Results resized_by(const NodeCall& c) {
  const Tensor& x = c.in(0);
  const int axes = x.ndim() - 2;
  c.require(axes >= 1 && axes <= 3, "takes 3 to 5 dimensions");
  c.require(c.integer("antialias", 0) == 0, "antialias is 0");
  const std::string at = c.text("coordinate_transformation_mode", "half_pixel");
  UpsampleOptions o{.mode = resize_mode(c, c.text("mode", "nearest"), axes),
                    .align_corners = at == "align_corners"};
  const bool sizes = c.has(3) && c.in(3).numel() > 0;
  c.require(sizes || c.has(2), "has neither scales nor sizes");
  if (sizes) {
    const std::vector<i64> all = c.values(3);
    c.require(int(all.size()) == x.ndim() && all[0] == x.size(0) && all[1] == x.size(1),
              "sizes of batch and channels cannot change");
    o.size = Shape(all.data() + 2, axes);
  } else {
    const std::vector<float> all = c.in(2).to_vector<float>();
    c.require(int(all.size()) == x.ndim() && all[0] == 1 && all[1] == 1,
              "scales of batch and channels must be 1");
    o.scale.assign(all.begin() + 2, all.end());
  }
  return {upsample(x, o)};
}

}  // namespace

void add_layer_importers(Importers& to) {
  to["MatMul"] = {product, {}, 2, 2}, to["Gemm"] = {gemm, "alpha beta transA transB", 2, 3};
  to["Conv"] = {convolution, "auto_pad dilations group kernel_shape pads strides", 2, 3};
  to["ConvTranspose"] = {transposed_convolution,
                         "auto_pad dilations group kernel_shape output_padding output_shape pads "
                         "strides",
                         2, 3};
  to["MaxPool"] = {largest, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"};
  to["AveragePool"] = {averages,
                       "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"};
  to["GlobalAveragePool"] = {average_of_all}, to["GlobalMaxPool"] = {largest_of_all};
  to["BatchNormalization"] = {batch_normalised, "epsilon momentum training_mode", 5, 5};
  to["InstanceNormalization"] = {instance_normalised, "epsilon", 3, 3};
  to["GroupNormalization"] = {group_normalised, "epsilon num_groups stash_type", 3, 3};
  to["LayerNormalization"] = {layer_normalised, "axis epsilon stash_type", 2, 3};
  to["Softmax"] = {
      [](const NodeCall& c) -> Results { return {softmax(c.in(0), c.integer("axis", -1))}; },
      "axis"};
  to["LogSoftmax"] = {
      [](const NodeCall& c) -> Results { return {log_softmax(c.in(0), c.integer("axis", -1))}; },
      "axis"};
  to["Dropout"] = {[](const NodeCall& c) -> Results {
                     c.require(c.outputs() == 1 && (!c.has(2) || c.values(2).at(0) == 0),
                               "Dropout is read without its mask and for inference");
                     return {c.in(0)};
                   },
                   "seed", 1, 3, ~input_bit(0)};
  to["Resize"] = {resized_by,
                  "antialias coordinate_transformation_mode cubic_coeff_a exclude_outside "
                  "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
                  1, 4, ~input_bit(0)};
}

}  // namespace wt::onnx
