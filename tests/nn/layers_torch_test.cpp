// Layers beside PyTorch's numbers: outputs, gradients of inputs and parameters, buffers, and the
// names of the state.
#include "warptape/autograd/ops/softmax.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/nn/torch_module.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("PyTorch's modules: convolutions", "[layers][torch]") {
  const LeakGuard guard;
  check_torch("conv1d", nn::Conv1d{3, 4, {.kernel = 3, .stride = 2, .padding = 1, .dtype = f64}});
  check_torch(
      "conv1d_reflect",
      nn::Conv1d{
          2, 2, {.kernel = 3, .padding = 2, .padding_mode = PadMode::reflect, .dtype = f64}});
  check_torch("conv2d", nn::Conv2d{2, 3, {.kernel = 3, .padding = 1, .dtype = f64}});
  check_torch("conv2d_plain", nn::Conv2d{4,
                                         6,
                                         {.kernel = {3, 2},
                                          .stride = {2, 1},
                                          .padding = {1, 0},
                                          .groups = 2,
                                          .bias = false,
                                          .dtype = f64}});
  const nn::ConvLayerOptions same{.kernel = {2, 3}, .padding = Padding::same, .dtype = f64};
  nn::ConvLayerOptions dilated = same, circular = same;
  dilated.dilation = {1, 2};
  check_torch("conv2d_same", nn::Conv2d{2, 2, dilated});
  circular.padding_mode = PadMode::circular;
  check_torch("conv2d_circular_same", nn::Conv2d{2, 2, circular});
  check_torch(
      "conv2d_replicate",
      nn::Conv2d{
          1,
          2,
          {.kernel = 3, .padding = {2, 1}, .padding_mode = PadMode::replicate, .dtype = f64}});
  check_torch("conv3d",
              nn::Conv3d{2, 2, {.kernel = {2, 1, 3}, .padding = {1, 0, 1}, .dtype = f64}});
  check_torch(
      "conv_transpose1d",
      nn::ConvTranspose1d{
          2, 3, {.kernel = 3, .stride = 2, .padding = 1, .output_padding = 1, .dtype = f64}});
  check_torch("conv_transpose2d", nn::ConvTranspose2d{4,
                                                      2,
                                                      {.kernel = {3, 2},
                                                       .stride = 2,
                                                       .padding = 1,
                                                       .output_padding = {1, 0},
                                                       .groups = 2,
                                                       .dtype = f64}});
  check_torch("conv_transpose3d",
              nn::ConvTranspose3d{2, 1, {.kernel = 2, .bias = false, .dilation = 2, .dtype = f64}});
}

TEST_CASE("PyTorch's modules: norms", "[layers][torch]") {
  const LeakGuard guard;
  check_torch("batch_norm1d", nn::BatchNorm1d{3, {.dtype = f64}});
  check_torch("batch_norm2d", nn::BatchNorm2d{2, {.momentum = std::nullopt, .dtype = f64}});
  check_torch_eval("batch_norm2d_eval", nn::BatchNorm2d{2, {.dtype = f64}});
  check_torch("batch_norm3d",
              nn::BatchNorm3d{2, {.eps = 0.1, .momentum = 0.3, .affine = false, .dtype = f64}});
  check_torch("group_norm", nn::GroupNorm{2, 4, {.dtype = f64}});
  check_torch("layer_norm", nn::LayerNorm{Shape{3, 4}, {.bias = false, .dtype = f64}});
  check_torch("rms_norm", nn::RMSNorm{5, {.dtype = f64}});
  check_torch("instance_norm1d", nn::InstanceNorm1d{3, {.dtype = f64}});
  check_torch("instance_norm1d_alone", nn::InstanceNorm1d{3, {.affine = true, .dtype = f64}});
  const nn::InstanceNormLayerOptions tracked{
      .affine = true, .track_running_stats = true, .dtype = f64};
  check_torch("instance_norm2d", nn::InstanceNorm2d{2, tracked});
  check_torch_eval("instance_norm2d_eval", nn::InstanceNorm2d{2, tracked});
  check_torch("instance_norm3d", nn::InstanceNorm3d{2, {.eps = 0.1, .dtype = f64}});
  check_torch("local_response_norm",
              nn::LocalResponseNorm{3, {.alpha = 0.5, .beta = 0.6, .k = 2.0}});
  check_torch("local_response_norm_even", nn::LocalResponseNorm{2, {.alpha = 0.5}});
}

TEST_CASE("PyTorch's modules: poolings and resizing", "[layers][torch]") {
  const LeakGuard guard;
  check_torch("max_pool1d", nn::MaxPool1d{3, {.stride = 2}});
  check_torch("max_pool2d", nn::MaxPool2d{{3, 2}, {.padding = 1, .ceil_mode = true}});
  check_torch("max_pool3d", nn::MaxPool3d{2, {.dilation = {1, 2, 1}}});
  check_torch("avg_pool1d", nn::AvgPool1d{2, {.stride = 1, .padding = 1}});
  check_torch("avg_pool2d",
              nn::AvgPool2d{3, {.stride = 2, .padding = 1, .count_include_pad = false}});
  check_torch("avg_pool3d", nn::AvgPool3d{{1, 2, 2}, {.divisor_override = 3}});
  check_torch("adaptive_avg_pool1d", nn::AdaptiveAvgPool1d{3});
  check_torch("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d{{2, 1}});
  check_torch("adaptive_avg_pool3d", nn::AdaptiveAvgPool3d{2});
  check_torch("adaptive_max_pool1d", nn::AdaptiveMaxPool1d{3});
  check_torch("adaptive_max_pool2d", nn::AdaptiveMaxPool2d{{2, 3}});
  check_torch("upsample_nearest", nn::Upsample{{.size = {3, 5}}});
  check_torch("upsample_bilinear", nn::Upsample{{.scale = {2}, .mode = UpsampleMode::bilinear}});
}

TEST_CASE("PyTorch's modules: activations, at their bends and far out", "[layers][torch]") {
  const LeakGuard guard;
  check_torch("relu", nn::ReLU{});
  check_torch("relu6", nn::ReLU6{});
  check_torch("hardtanh", nn::Hardtanh{-0.5, 3});
  check_torch("leaky_relu", nn::LeakyReLU{0.1});
  check_torch("elu", nn::ELU{1.5});
  check_torch("celu", nn::CELU{0.5});
  check_torch("selu", nn::SELU{});
  check_torch("gelu", nn::GELU{});
  check_torch("gelu_tanh", nn::GELU{nn::Approximate::tanh});
  check_torch("silu", nn::SiLU{});
  check_torch("mish", nn::Mish{});
  check_torch("softplus", nn::Softplus{2, 10});
  check_torch("hardswish", nn::Hardswish{});
  check_torch("hardsigmoid", nn::Hardsigmoid{});
  check_torch("sigmoid", nn::Sigmoid{});
  check_torch("tanh", nn::Tanh{});
  check_torch("log_sigmoid", nn::LogSigmoid{});
  check_torch("softsign", nn::Softsign{});
  check_torch("tanhshrink", nn::Tanhshrink{});
  check_torch("hardshrink", nn::Hardshrink{});
  check_torch("softshrink", nn::Softshrink{});
  check_torch("threshold", nn::Threshold{0.5, -2});
  check_torch("glu", nn::GLU{});
  check_torch("softmax", nn::Softmax{1});
  check_torch("log_softmax", nn::LogSoftmax{-1});
  check_torch("softmin", nn::Softmin{0});
  check_torch("softmax2d", nn::Softmax2d{});
  check_torch("prelu", nn::PReLU{{.dtype = f64}});
  check_torch("prelu_channels", nn::PReLU{{.num_parameters = 3, .dtype = f64}});
}

TEST_CASE("PyTorch's modules: linear, embedding, shapes, a sequence of layers", "[layers][torch]") {
  const LeakGuard guard;
  check_torch("linear", nn::Linear{3, 2, {.dtype = f64}});
  check_torch("embedding", nn::Embedding{5, 3, {.padding_idx = -2, .dtype = f64}});
  check_torch(
      "embedding_bag",
      nn::EmbeddingBag{5, 3, {.mode = EmbeddingBagMode::max, .padding_idx = 2, .dtype = f64}});
  const auto weighted = nn::EmbeddingBag{5, 3, {.mode = EmbeddingBagMode::sum, .dtype = f64}};
  check_torch("embedding_bag_offsets", weighted, [weighted](const Tensors& x) mutable -> Tensors {
    return {weighted(x[0], x[1], x[2])};
  });
  check_torch("unflatten", nn::Unflatten{1, {2, -1}});
  check_torch("flatten", nn::Flatten{1, 2});
  check_torch("sequential",
              nn::Sequential{nn::Conv2d{1, 2, {.kernel = 3, .dtype = f64}},
                             nn::BatchNorm2d{2, {.dtype = f64}}, nn::ReLU{}, nn::MaxPool2d{2},
                             nn::Flatten{}, nn::Linear{8, 3, {.dtype = f64}}});
}

TEST_CASE("PyTorch's modules: losses, and weights of their state", "[layers][torch]") {
  const LeakGuard guard;
  const Tensor weight = ones({5}, {.dtype = f64});  // the values come with the state
  check_torch<2>("cross_entropy_loss", nn::CrossEntropyLoss{{.label_smoothing = 0.1}});
  check_torch<2>("cross_entropy_loss_weight",
                 nn::CrossEntropyLoss{{.ignore_index = 2, .weight = weight.clone()}});
  check_torch<2>("nll_loss", nn::NLLLoss{{.weight = weight.clone()}});
  check_torch<2>("mse_loss", nn::MSELoss{});
  check_torch<2>("l1_loss", nn::L1Loss{});
  check_torch<2>("smooth_l1_loss", nn::SmoothL1Loss{{.beta = 0.5}});
  check_torch<2>("huber_loss", nn::HuberLoss{{.delta = 0.5}});
  check_torch<2>("bce_loss", nn::BCELoss{{.weight = weight.clone()}});
  check_torch<2>("bce_with_logits_loss",
                 nn::BCEWithLogitsLoss{{.weight = weight.clone(), .pos_weight = weight.clone()}});
  check_torch<2>("kl_div_loss", nn::KLDivLoss{});
  check_torch<2>("poisson_nll_loss", nn::PoissonNLLLoss{{.full = true}});
  check_torch<3>("gaussian_nll_loss", nn::GaussianNLLLoss{{.eps = 0.1}});
  check_torch<3>("margin_ranking_loss", nn::MarginRankingLoss{{.margin = 0.5}});
  check_torch<2>("hinge_embedding_loss", nn::HingeEmbeddingLoss{});
  check_torch<2>("soft_margin_loss", nn::SoftMarginLoss{});
  check_torch<2>("multi_margin_loss", nn::MultiMarginLoss{{.p = 2, .weight = weight.clone()}});
  check_torch<3>("cosine_embedding_loss", nn::CosineEmbeddingLoss{{.margin = 0.25}});
  check_torch<3>("triplet_margin_loss", nn::TripletMarginLoss{{.swap = true}});
  nn::CTCLoss ctc;
  check_torch("ctc_loss", ctc, [ctc](const Tensors& x) mutable -> Tensors {
    return {ctc(log_softmax(x[0], 2), x[1], x[2], x[3]).mean()};
  });
  check_torch<2>("cosine_similarity", nn::CosineSimilarity{});
  check_torch<2>("pairwise_distance", nn::PairwiseDistance{{.p = 3, .keep_dim = true}});
}
