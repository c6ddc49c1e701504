// What users read when an operator is called wrongly: one whole message for each class of mistake,
// against tests/golden/operator_errors.txt. The rows of the case table check the others in part.
#include <limits>

#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/tests/golden/golden.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

// Nothing here has a result: it throws.
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-value"

namespace {

Tensor numbers(std::initializer_list<i64> v) {
  return tensor(std::vector<i64>(v), {.dtype = DType::i64});
}
const TensorOptions kMeta{.device = Device::meta()};

const golden::Examples kShapes = {
    {"a window longer than its axis", [](auto&) { unfold(ones({4}), 0, 5, 1); }},
    {"chunks of nothing", [](auto&) { chunk(ones({4}), 0, 0); }},
    {"a reflection wider than its axis",
     [](auto&) {
       pad(ones({2, 3}), {3, 0}, {.mode = PadMode::reflect});
     }},
    {"a padding of half an axis",
     [](auto&) {
       pad(ones({2, 3}), {1, 1, 1});
     }},
    {"cropped to less than nothing",
     [](auto&) {
       pad(ones({2, 3}), {-2, -2});
     }},
    {"a slice that does not fit",
     [](auto&) {
       slice_scatter(ones({4, 2}), ones({3, 2}), 0, {0, 2});
     }},
    {"a gather with another rank",
     [](auto&) {
       gather(ones({2, 3}), 1, numbers({0}));
     }},
    {"a gather with indices of floats", [](auto&) { gather(ones({3}), 0, ones({2})); }},
    {"a gather out of range",
     [](auto&) {
       gather(ones({3}), 0, numbers({0, 3}));
     }},
    {"a mask of another shape",
     [](auto&) {
       masked_select(ones({2, 3}), gt(ones({2, 2}), 0.0));
     }},
    {"a mask on the meta device",
     [](auto&) { masked_select(ones({3}, kMeta), gt(ones({3}, kMeta), 0.0)); }},
    {"a class beyond one_hot",
     [](auto&) {
       one_hot(numbers({0, 5}), 4);
     }},
    {"a value that does not fit its indices",
     [](auto&) {
       index_put(ones({4, 2}), {numbers({0})}, ones({3}));
     }},
    {"indices that do not broadcast",
     [](auto&) {
       index(ones({4, 4}), {numbers({0, 1}), numbers({0, 1, 2})});
     }},
    {"a copy that does not broadcast",
     [](auto&) {
       Tensor x = ones({4, 2});
       x.copy_(ones({3}));
     }},
    {"a size and a scale at once",
     [](auto&) {
       upsample(ones({1, 1, 4, 4}), {.size = {8}, .scale = {2.0}});
     }},
    {"a scale of zero",
     [](auto&) {
       upsample(ones({1, 1, 4, 4}), {.scale = {0.0}});
     }},
    {"a repeat too large for memory",
     [](auto&) {
       repeat(ones({1 << 20}, kMeta), {1 << 20, 1 << 20, 1 << 20});
     }},
};

const golden::Examples kNumbers = {
    {"a variance of two axes that are one",
     [](auto&) {
       var(ones({2, 3}), {1, -1});
     }},
    {"more values than there are", [](auto&) { topk(ones({3}), 4); }},
    {"a singular matrix of several",
     [](auto&) {
       inverse(zeros({3, 2, 2}));
     }},
    {"singular values of what is not finite",
     [](auto&) {
       svd(full({2, 2}, std::numeric_limits<double>::quiet_NaN()));
     }},
    {"a quantile beyond the last element", [](auto&) { quantile(ones({3}), 1.5, 0); }},
    {"the median of nothing",
     [](auto&) {
       median(ones({2, 0}), 1);
     }},
    {"places in lists of other rows",
     [](auto&) {
       searchsorted(ones({2, 3}), ones({3}));
     }},
    {"pieces that are more than the axis",
     [](auto&) {
       split(ones({4}), {2, 3});
     }},
    {"counts of a negative number",
     [](auto&) {
       bincount(numbers({1, -2}));
     }},
    {"draws without replacement", [](auto&) { multinomial(ones({3}), 4); }},
    {"draws from nothing", [](auto&) { multinomial(zeros({3}), 1); }},
    {"an equation that names another rank",
     [](auto&) {
       einsum("ij,jk->ik", {ones({2}), ones({2, 3})});
     }},
    {"an equation of unequal sizes",
     [](auto&) {
       einsum("ij,jk->ik", {ones({2, 3}), ones({4, 5})});
     }},
    {"an equation with an unknown output",
     [](auto&) {
       einsum("ij->iz", {ones({2, 3})});
     }},
    {"a matrix that is not positive definite",
     [](auto&) {
       cholesky(tensor({{1.0, 2.0}, {2.0, 1.0}}));
     }},
    {"a matrix that is not square",
     [](auto&) {
       cholesky(ones({2, 3}));
     }},
    {"distances of other widths",
     [](auto&) {
       cdist(ones({2, 3}), ones({2, 4}));
     }},
    {"a spectrum of real numbers",
     [](auto&) {
       fft(ones({4, 3}));
     }},
    {"a spectrum of halves", [](auto&) { rfft(ones({4}, {.dtype = f16})); }},
    {"a signal shorter than its frames", [](auto&) { stft(ones({3}), 8); }},
    {"a scan along no axis", [](auto&) { cumsum(ones({2}), 1); }},
};

const golden::Examples kLayers = {
    {"a window over integers",
     [](auto&) {
       max_pool1d(arange(4).view({1, 1, 4}), 2);
     }},
    {"a norm of integers", [](auto&) { layer_norm(arange(4), {4}); }},
    {"a norm of integers over channels",
     [](auto&) {
       group_norm(arange(4).view({1, 4}), 2);
     }},
    {"attention over integers",
     [](auto&) {
       const Tensor x = arange(4).view({1, 1, 2, 2});
       scaled_dot_product_attention(x, x, x);
     }},
    {"a convolution of other channels",
     [](auto&) {
       conv2d(ones({1, 3, 8, 8}), ones({4, 2, 3, 3}));
     }},
    {"a kernel larger than the image",
     [](auto&) {
       conv2d(ones({1, 1, 2, 8}), ones({4, 1, 3, 3}));
     }},
    {"a stride of zero",
     [](auto&) {
       conv2d(ones({1, 1, 8, 8}), ones({4, 1, 3, 3}), {.stride = 0});
     }},
    {"a negative padding",
     [](auto&) {
       conv2d(ones({1, 1, 8, 8}), ones({4, 1, 3, 3}), {.padding = -1});
     }},
    {"groups that do not divide",
     [](auto&) {
       conv2d(ones({1, 4, 8, 8}), ones({3, 2, 3, 3}), {.groups = 2});
     }},
    {"same padding with a stride",
     [](auto&) {
       conv2d(ones({1, 1, 8, 8}), ones({4, 1, 3, 3}), {.stride = 2, .padding = Padding::same});
     }},
    {"a convolution of the wrong rank",
     [](auto&) {
       conv2d(ones({8, 8}), ones({4, 1, 3, 3}));
     }},
    {"a convolution of two dtypes",
     [](auto&) {
       conv2d(ones({1, 1, 8, 8}), ones({4, 1, 3, 3}, {.dtype = f64}));
     }},
    {"a residual of the image before its convolution",
     [](auto&) {
       fused_conv2d(ones({1, 4, 8, 8}), ones({4, 4, 3, 3}), {.residual = ones({1, 4, 8, 8})});
     }},
    {"an output padding beyond the stride",
     [](auto&) {
       conv_transpose2d(ones({1, 1, 4, 4}), ones({1, 2, 3, 3}), {.stride = 2, .output_padding = 2});
     }},
    {"an output too large",
     [](auto&) {
       conv_transpose1d(ones({1, 1, i64(1) << 40}, kMeta), ones({1, i64(1) << 20, 2}, kMeta),
                        {.stride = 1 << 20});
     }},
    {"a window of nothing",
     [](auto&) {
       max_pool2d(ones({1, 1, 4, 4}), 0);
     }},
    {"a pooling padded by more than half",
     [](auto&) {
       max_pool2d(ones({1, 1, 4, 4}), 2, {.padding = 2});
     }},
    {"adaptive pooling to nothing",
     [](auto&) {
       adaptive_avg_pool2d(ones({1, 1, 4, 4}), 0);
     }},
    {"one value a channel",
     [](auto&) {
       batch_norm(ones({1, 3}), {.training = true});
     }},
    {"statistics of another length",
     [](auto&) {
       batch_norm(ones({2, 3}), {.running_mean = zeros({2}), .running_var = ones({2})});
     }},
    {"one value a channel, with its activation",
     [](auto&) {
       fused_batch_norm(ones({1, 3}), Activation::relu, {.training = true});
     }},
    {"groups of channels that do not divide",
     [](auto&) {
       group_norm(ones({2, 4, 3}), 3);
     }},
    {"a normalised shape that is not at the end",
     [](auto&) {
       layer_norm(ones({2, 4}), {3});
     }},
    {"a residual of another shape",
     [](auto&) {
       (void)add_layer_norm(ones({2, 4}), ones({1, 4}), {4});
     }},
    {"a mask that does not broadcast",
     [](auto&) {
       scaled_dot_product_attention(ones({2, 4, 8}), ones({2, 5, 8}), ones({2, 5, 8}),
                                    gt(ones({3, 5}), 0.0));
     }},
    {"heads that do not divide",
     [](auto&) {
       scaled_dot_product_attention(ones({4, 4, 8}), ones({3, 4, 8}), ones({3, 4, 8}),
                                    {.enable_gqa = true});
     }},
    {"rotary pairs of an odd width",
     [](auto&) {
       rotary_embedding(ones({4, 3}));
     }},
};

const golden::Examples kLosses = {
    {"a loss of unequal shapes",
     [](auto&) {
       mse_loss(ones({4, 1}), ones({4}));
     }},
    {"a loss of integers",
     [](auto&) {
       l1_loss(numbers({1, 2}), numbers({1, 3}));
     }},
    {"class weights of another length",
     [](auto&) {
       cross_entropy(ones({2, 3}), numbers({0, 1}), {.weight = ones({2})});
     }},
    {"a smoothing beyond one",
     [](auto&) {
       cross_entropy(ones({2, 3}), numbers({0, 1}), {.label_smoothing = 1.5});
     }},
    {"a negative variance",
     [](auto&) {
       gaussian_nll_loss(ones({2}), ones({2}), numbers({1, -1}).to(f32));
     }},
    {"a temperature of 0", [](auto&) { gumbel_softmax(ones({2}), {.tau = 0}); }},
    {"a negative beta", [](auto&) { smooth_l1_loss(ones({2}), ones({2}), {.beta = -1}); }},
    {"a margin of zero",
     [](auto&) {
       triplet_margin_loss(ones({2, 3}), ones({2, 3}), ones({2, 3}), {.margin = 0});
     }},
    {"a length of labels beyond the targets",
     [](auto&) {
       ctc_loss(zeros({5, 1, 3}), numbers({1, 2}).view({1, 2}), numbers({5}), numbers({3}));
     }},
    {"a blank beyond the classes",
     [](auto&) {
       ctc_loss(zeros({5, 1, 3}), numbers({1, 2}).view({1, 2}), numbers({5}), numbers({2}),
                {.blank = 3});
     }},
};

}  // namespace

TEST_CASE("golden: whole error messages of operators") {
  golden::compare("operator_errors.txt", {&kShapes, &kNumbers, &kLayers, &kLosses});
}
