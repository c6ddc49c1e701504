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
  // A bias of one number is for all columns.
  const bool columns = c.has(2) && c.in(2).ndim() == 1 && c.in(2).size(0) == b.size(0);
  if (rows && alpha == 1 && beta == 1 && is_floating(a.dtype()) && (!c.has(2) || columns))
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
std::string windows_unread(const NodeCall& c) {
  const std::string how = c.text("auto_pad", "NOTSET");
  const bool known =
      how == "NOTSET" || how == "VALID" || how == "SAME_UPPER" || how == "SAME_LOWER";
  return known ? "" : "auto_pad " + how;
}
// Beyond these no tensor has a place, and sums and products of them fit.
constexpr i64 kMostOfWindow = i64{1} << 31;
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
  const auto from = [](i64 v, i64 least) { return v >= least && v < kMostOfWindow; };
  for (size_t i = 0; i < n; ++i)
    c.require(from(w.kernel[i], 1) && from(w.strides[i], 1) && from(w.dilations[i], 1) &&
                  from(w.before[i], 0) && from(w.after[i], 0),
              "a size, stride or pad that none can have");
  const std::string how = c.text("auto_pad", "NOTSET");
  if (how != "NOTSET") pad_automatically(c, w, how);
  w.ceil = c.integer("ceil_mode", 0) != 0;
  return w;
}
// Pooling pads both sides alike, by at most half a window.
bool pads_as_pooling(const std::vector<i64>& kernel, const std::vector<i64>& before,
                     const std::vector<i64>& after) {
  bool all = before == after && kernel.size() == before.size();
  for (size_t i = 0; all && i < kernel.size(); ++i) all = before[i] <= kernel[i] / 2;
  return all;
}
bool pads_apart(const NodeCall& c) {
  const std::vector<i64> pads = c.integers("pads");
  const i64 n = i64(pads.size() / 2);
  return n > 0 && !pads_as_pooling(c.integers("kernel_shape"), {pads.begin(), pads.begin() + n},
                                   {pads.begin() + n, pads.end()});
}
// x with its pads; then there are none left.
Tensor padded_by(Windows& w, const Tensor& x, double value) {
  std::vector<i64> pairs;
  for (size_t i = w.kernel.size(); i-- > 0;)
    pairs.push_back(w.before[i]), pairs.push_back(w.after[i]);
  w.before.assign(w.kernel.size(), 0);
  return pad(x, pairs, {.value = value});
}

template <class F, class Options>
Tensor with_bias(const NodeCall& c, F f, const Tensor& x, const Options& o) {
  return c.has(2) ? f(x, c.in(1), c.in(2), o) : f(x, c.in(1), o);
}
Results convolution(const NodeCall& c) {
  Windows w = windows_of(c, &c.in(1));
  const Tensor x = w.before == w.after ? c.in(0) : padded_by(w, c.in(0), 0);
  const ConvOptions o{.stride = w.strides,
                      .padding = PerAxis(w.before),
                      .dilation = w.dilations,
                      .groups = c.integer("group", 1)};
  const auto run = [&](auto... a) {
    return w.axes == 1 ? conv1d(a...) : w.axes == 2 ? conv2d(a...) : conv3d(a...);
  };
  return {with_bias(c, run, x, o)};
}
std::string conv_transpose_unread(const NodeCall& c) {
  if (!c.integers("output_shape").empty()) return "output_shape";
  const std::string how = c.text("auto_pad", "NOTSET");
  if (how != "NOTSET") return "auto_pad " + how;
  const std::vector<i64> pads = c.integers("pads");
  const size_t n = pads.size() / 2;
  for (size_t i = 0; i < n; ++i)
    if (pads[i] != pads[n + i]) return "pads that differ";
  return "";
}
Results transposed_convolution(const NodeCall& c) {
  Windows w = windows_of(c, &c.in(1));
  std::vector<i64> extra = c.integers("output_padding");
  if (extra.empty()) extra.assign(size_t(w.axes), 0);
  c.require(extra.size() == size_t(w.axes), "output_padding is not for its axes");
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
constexpr const char* kPadsApart = "pads that differ, or of over half a window, and do not count";
// Windows that ceil_mode adds would see pads that were put around the tensor.
std::string pool_unread(const NodeCall& c) {
  if (const std::string what = windows_unread(c); !what.empty()) return what;
  if (c.integer("ceil_mode", 0) == 0) return "";
  if (c.text("auto_pad", "NOTSET").starts_with("SAME")) return "ceil_mode beside auto_pad";
  return pads_apart(c) ? "ceil_mode beside pads that differ, or of over half a window" : "";
}
std::string averages_unread(const NodeCall& c) {
  for (const i64 d : c.integers("dilations"))
    if (d != 1) return "dilations";
  if (c.integer("count_include_pad", 0) == 0 && pads_apart(c)) return kPadsApart;
  return pool_unread(c);
}
Results largest(const NodeCall& c) {
  Windows w = windows_of(c, nullptr);
  const double least = -std::numeric_limits<double>::infinity();
  const Tensor x =
      pads_as_pooling(w.kernel, w.before, w.after) ? c.in(0) : padded_by(w, c.in(0), least);
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
  const bool as_ours = pads_as_pooling(w.kernel, w.before, w.after);
  c.require(as_ours || counts, kPadsApart);  // of auto_pad, which the size decides
  const Tensor x = as_ours ? c.in(0) : padded_by(w, c.in(0), 0);
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

std::string batch_norm_unread(const NodeCall& c) {
  return c.integer("training_mode", 0) == 0 ? "" : "training_mode";
}
Results batch_normalised(const NodeCall& c) {
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
std::string group_norm_unread(const NodeCall& c) {
  return c.opset() >= 21 ? "" : "weights of groups, before opset 21";
}
Results group_normalised(const NodeCall& c) {
  return {group_norm(c.in(0), c.integer("num_groups", 1),
                     {.weight = c.in(1), .bias = c.in(2), .eps = c.real("epsilon", 1e-5)})};
}
Results layer_normalised(const NodeCall& c) {
  const int axis = c.axis(c.integer("axis", -1));
  const Tensor& x = c.in(0);
  const Shape all = x.shape();
  const Shape last(all.begin() + axis, all.ndim() - axis);
  const LayerNormOptions o{.eps = c.real("epsilon", 1e-5)};
  return {c.has(2) ? layer_norm(x, last, c.in(1), c.in(2), o) : layer_norm(x, last, c.in(1), o)};
}

// --- resizing ---

// nearest: asymmetric with floor, or half_pixel with round_prefer_ceil.
std::string resize_unread(const NodeCall& c) {
  const std::string mode = c.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear") return "mode " + mode;
  if (c.integer("antialias", 0) != 0) return "antialias";
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch") return "keep_aspect_ratio_policy " + policy;
  const std::string at = c.text("coordinate_transformation_mode", "half_pixel");
  if (mode == "nearest") {
    const std::string near = c.text("nearest_mode", "round_prefer_floor");
    const bool known = (at == "asymmetric" && near == "floor") ||
                       (at == "half_pixel" && near == "round_prefer_ceil");
    return known ? "" : str("mode nearest, ", at, ", ", near);
  }
  const bool known = at == "half_pixel" || at == "pytorch_half_pixel" || at == "align_corners";
  return known ? "" : str("mode linear, ", at);
}
UpsampleMode resize_mode(const NodeCall& c, const std::string& mode, int axes) {
  const std::string at = c.text("coordinate_transformation_mode", "half_pixel");
  if (mode == "nearest") {
    const std::string near = c.text("nearest_mode", "round_prefer_floor");
    return at == "asymmetric" && near == "floor" ? UpsampleMode::nearest
                                                 : UpsampleMode::nearest_exact;
  }
  return axes == 1   ? UpsampleMode::linear
         : axes == 2 ? UpsampleMode::bilinear
                     : UpsampleMode::trilinear;
}
Results resized_by(const NodeCall& c) {
  const Tensor& x = c.in(0);
  const int axes = x.ndim() - 2;
  c.require(axes >= 1 && axes <= 3, "takes 3 to 5 dimensions");
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
  to["Conv"] = {convolution,   "auto_pad dilations group kernel_shape pads strides", 2, 3, 0,
                windows_unread};
  to["ConvTranspose"] = {transposed_convolution,
                         "auto_pad dilations group kernel_shape output_padding output_shape pads "
                         "strides",
                         2,
                         3,
                         0,
                         conv_transpose_unread};
  to["MaxPool"] = {largest, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
                   1,       1,
                   0,       pool_unread};
  to["AveragePool"] = {
      averages, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
      1,        1,
      0,        averages_unread};
  to["GlobalAveragePool"] = {average_of_all}, to["GlobalMaxPool"] = {largest_of_all};
  to["BatchNormalization"] = {batch_normalised, "epsilon momentum training_mode", 5, 5, 0,
                              batch_norm_unread};
  to["InstanceNormalization"] = {instance_normalised, "epsilon", 3, 3};
  to["GroupNormalization"] = {group_normalised, "epsilon num_groups stash_type", 3, 3, 0,
                              group_norm_unread};
  to["LayerNormalization"] = {layer_normalised, "axis epsilon stash_type", 2, 3};
  to["Softmax"] = {
      [](const NodeCall& c) -> Results { return {softmax(c.in(0), c.integer("axis", -1))}; },
      "axis"};
  to["LogSoftmax"] = {
      [](const NodeCall& c) -> Results { return {log_softmax(c.in(0), c.integer("axis", -1))}; },
      "axis"};
  to["Dropout"] = {[](const NodeCall& c) -> Results {
                     c.require(!c.has(2) || c.value(2) == 0, "Dropout is read for inference");
                     return {c.in(0)};
                   },
                   "seed", 1, 3, ~input_bit(0)};
  to["Resize"] = {resized_by,
                  "antialias coordinate_transformation_mode cubic_coeff_a exclude_outside "
                  "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
                  1,
                  4,
                  ~input_bit(0),
                  resize_unread};
}

}  // namespace wt::onnx
