// Layers and products, each through a file and back, and on the devices.
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/autograd/onnx/round_trip.h"

using namespace wt;
using wt_test::round_trip;

TEST_CASE("onnx layers: convolution and pooling") {
  manual_seed(1);
  const Tensor x = randn({2, 4, 9, 7});
  const Tensor w = randn({6, 4, 3, 3}), wg = randn({8, 2, 3, 3}), wd = randn({4, 1, 3, 3}),
               wt_ = randn({4, 3, 2, 3}), b = randn({6});
  const auto go = [&](const char* name, auto f, double tolerance = 2e-6) {
    round_trip(name, f, {x}, {}, tolerance);
  };
  go("conv2d", [&](const Tensor& t) { return conv2d(t, w, b, {.stride = {2, 1}, .padding = 1}); });
  go("conv2d_grouped", [&](const Tensor& t) { return conv2d(t, wg, {.groups = 2}); });
  go("conv2d_depthwise", [&](const Tensor& t) {
    return conv2d(t, wd, {.padding = {1, 2}, .groups = 4});
  });
  go("conv2d_dilated", [&](const Tensor& t) { return conv2d(t, w, {.dilation = {2, 3}}); });
  go("conv2d_same", [&](const Tensor& t) { return conv2d(t, w, {.padding = Padding::same}); });
  go("conv2d_no_batch", [&](const Tensor& t) { return conv2d(t[0], w, b); });
  go("conv_transpose2d", [&](const Tensor& t) {
    return conv_transpose2d(t, wt_, {.stride = 2, .padding = {0, 1}, .output_padding = {1, 0}});
  });
  go("fused_conv2d", [&](const Tensor& t) {
    return fused_conv2d(t, w, {.bias = b, .activation = Activation::relu, .conv = {.padding = 1}});
  });
  go("max_pool2d", [](const Tensor& t) { return max_pool2d(t, 3, {.stride = 2, .padding = 1}); });
  go("max_pool2d_ceil", [](const Tensor& t) { return max_pool2d(t, 2, {.ceil_mode = true}); });
  go("avg_pool2d", [](const Tensor& t) { return avg_pool2d(t, 2); });
  go("avg_pool2d_pad",
     [](const Tensor& t) { return avg_pool2d(t, 3, {.stride = 2, .padding = 1}); });
  go("avg_pool2d_exclude",
     [](const Tensor& t) { return avg_pool2d(t, 3, {.padding = 1, .count_include_pad = false}); });
  go("avg_pool2d_divisor",
     [](const Tensor& t) { return avg_pool2d(t, 3, {.divisor_override = 5}); });
  go("adaptive_avg_pool2d_one", [](const Tensor& t) { return adaptive_avg_pool2d(t, 1); });
  go("adaptive_avg_pool2d", [](const Tensor& t) { return adaptive_avg_pool2d(t, {3, 7}); });
  go("adaptive_max_pool2d", [](const Tensor& t) { return adaptive_max_pool2d(t, {3, 1}); });
  go("upsample_nearest",
     [](const Tensor& t) { return upsample(t, {.scale = {2}, .mode = UpsampleMode::nearest}); });
  go("upsample_exact", [](const Tensor& t) {
    return upsample(t, {.size = {13, 8}, .mode = UpsampleMode::nearest_exact});
  });
  go(
      "upsample_bilinear",
      [](const Tensor& t) {
        return upsample(t, {.size = {5, 14}, .mode = UpsampleMode::bilinear});
      },
      4e-6);
  go(
      "upsample_corners",
      [](const Tensor& t) {
        return upsample(t, {.scale = {2}, .mode = UpsampleMode::bilinear, .align_corners = true});
      },
      4e-6);
  const Tensor line = randn({2, 4, 9}), cube = randn({1, 2, 5, 6, 4}), w3 = randn({3, 2, 3, 3, 3});
  round_trip("conv1d", [&](const Tensor& t) { return conv1d(t, w.select(-1, 0), b); }, {line});
  round_trip("conv3d", [&](const Tensor& t) { return conv3d(t, w3, {.padding = 1}); }, {cube});
  round_trip("avg_pool1d", [](const Tensor& t) { return avg_pool1d(t, 3); }, {line});
  round_trip("max_pool3d", [](const Tensor& t) { return max_pool3d(t, 2); }, {cube});
}

TEST_CASE("onnx layers: normalisation") {
  manual_seed(2);
  const Tensor x = randn({3, 4, 5, 6}) + 1.0;
  const Tensor weight = randn({4}), bias = randn({4}), mean = randn({4}), var = rand({4}) + 0.5;
  const auto go = [&](const char* name, auto f) { round_trip(name, f, {x}, {}, 4e-6); };
  go("batch_norm", [&](const Tensor& t) {
    return batch_norm(
        t, {.weight = weight, .bias = bias, .running_mean = mean, .running_var = var, .eps = 1e-3});
  });
  go("batch_norm_plain",
     [&](const Tensor& t) { return batch_norm(t, {.running_mean = mean, .running_var = var}); });
  go("fused_batch_norm", [&](const Tensor& t) {
    return fused_batch_norm(
        t, Activation::relu,
        {.weight = weight, .bias = bias, .running_mean = mean, .running_var = var});
  });
  go("group_norm",
     [&](const Tensor& t) { return group_norm(t, 2, {.weight = weight, .bias = bias}); });
  go("group_norm_plain", [&](const Tensor& t) { return group_norm(t, 4); });
  go("instance_norm",
     [&](const Tensor& t) { return instance_norm(t, {.weight = weight, .bias = bias}); });
  const Tensor w6 = randn({6}), b6 = randn({6}), w56 = randn({5, 6});
  go("layer_norm", [&](const Tensor& t) { return layer_norm(t, {6}, w6, b6, {.eps = 1e-4}); });
  go("layer_norm_plain", [&](const Tensor& t) { return layer_norm(t, {5, 6}); });
  go("layer_norm_weight", [&](const Tensor& t) { return layer_norm(t, {5, 6}, w56); });
  go("rms_norm", [&](const Tensor& t) { return rms_norm(t, {6}, w6); });
  go("add_layer_norm", [&](const Tensor& t) {
    const AddNormResult r = add_layer_norm(t, t * 2, {6}, w6, b6);
    return std::pair(r.y, r.sum);
  });
  go("add_rms_norm", [&](const Tensor& t) {
    const AddNormResult r = add_rms_norm(t, t * 2, {6}, w6);
    return std::pair(r.y, r.sum);
  });
}

TEST_CASE("onnx layers: products and attention") {
  manual_seed(3);
  const Tensor x = randn({2, 3, 8}), w = randn({5, 8}), b = randn({5}), w2 = randn({8, 5}),
               b2 = randn({8});
  const auto go = [&](const char* name, auto f) { round_trip(name, f, {x}, {}, 4e-6); };
  go("matmul", [&](const Tensor& t) { return matmul(t, w.t()); });
  go("matmul_batched", [](const Tensor& t) { return matmul(t, t.transpose(1, 2)); });
  go("matmul_vector", [&](const Tensor& t) { return matmul(t, b2); });
  go("linear", [&](const Tensor& t) { return linear(t, w, b); });
  go("linear_of_a_matrix", [&](const Tensor& t) { return linear(t.reshape({6, 8}), w, b); });
  go("linear_plain", [&](const Tensor& t) { return linear(t.reshape({6, 8}), w); });
  go("fused_linear", [&](const Tensor& t) {
    return fused_linear(t, w, {.bias = b, .activation = Activation::gelu});
  });
  go("feed_forward", [&](const Tensor& t) {
    return feed_forward(t, w, w2,
                        {.bias1 = b, .bias2 = b2, .residual = t, .activation = Activation::silu});
  });
  const Tensor q = randn({2, 4, 5, 8}), k = randn({2, 4, 7, 8}), v = randn({2, 4, 7, 6});
  const auto attend = [&](const char* name, auto f) { round_trip(name, f, {q, k, v}, {}, 4e-6); };
  using T = const Tensor&;
  attend("attention", [](T a, T c, T d) { return scaled_dot_product_attention(a, c, d); });
  attend("attention_causal", [](T a, T c, T d) {
    return scaled_dot_product_attention(a, c, d, {.causal = true, .scale = 0.3});
  });
  attend("attention_mask", [](T a, T c, T d) {
    const Tensor seen =
        ge(arange(5, {.dtype = int64}).unsqueeze(1), arange(7, {.dtype = int64}) + 1);
    return scaled_dot_product_attention(a, c, d, seen);  // the first query sees nothing
  });
  attend("attention_added", [](T a, T c, T d) {
    return scaled_dot_product_attention(a, c, d, matmul(a, c.transpose(-1, -2)));
  });
  attend("attention_gqa", [](T a, T c, T d) {
    return scaled_dot_product_attention(a, c.slice(1, {0, 2}), d.slice(1, {0, 2}),
                                        {.enable_gqa = true});
  });
  round_trip(
      "rotary_embedding", [](T a) { return rotary_embedding(a); }, {q}, {}, 4e-6);
}

TEST_CASE("onnx layers: modules") {
  manual_seed(4);
  nn::TransformerEncoderLayer layer{8, 2, {.dim_feedforward = 16, .batch_first = true}};
  layer.eval();
  round_trip(
      "encoder_layer", [&](const Tensor& x) { return layer(x); }, {randn({2, 5, 8})}, {}, 4e-6);
}
