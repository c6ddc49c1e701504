#include "warptape/nn/pointnet.h"

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/order.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/stats.h"
#include "warptape/core/factories.h"

namespace wt::models {
namespace {

nn::BatchNorm1d point_norm(i64 channels, Activation activation = Activation::relu) {
  return nn::BatchNorm1d{channels, {.activation = activation}};
}

// Each point [3 or 64] turned by its sample's matrix; x is [N, k, points].
Tensor turned(const Tensor& x, const Tensor& transform) {
  return matmul(x.transpose(1, 2), transform).transpose(1, 2);
}

// The largest over all points, whose place is all that backward needs: x, the largest tensor of the
// network, is not kept for it.
Tensor over_points(const Tensor& x) { return max_with_indices(x, 2).values; }

Tensor identity_like(i64 k, const Tensor& like) {
  return eye(k, {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

PointTransform::PointTransform(i64 k)
    : conv1(add("conv1", nn::Conv1d{k, 64, 1})),
      conv2(add("conv2", nn::Conv1d{64, 128, 1})),
      conv3(add("conv3", nn::Conv1d{128, 1024, 1})),
      fc1(add("fc1", nn::Linear{1024, 512})),
      fc2(add("fc2", nn::Linear{512, 256})),
      fc3(add("fc3", nn::Linear{256, k * k})),
      bn1(add("bn1", point_norm(64))),
      bn2(add("bn2", point_norm(128))),
      bn3(add("bn3", point_norm(1024))),
      bn4(add("bn4", point_norm(512))),
      bn5(add("bn5", point_norm(256))),
      k_(k) {}

Tensor PointTransform::forward(Tensor x) {
  x = bn3(conv3(bn2(conv2(bn1(conv1(std::move(x)))))));
  x = fc3(bn5(fc2(bn4(fc1(over_points(x))))));
  return x.reshape({-1, k_, k_}) + identity_like(k_, x);
}

PointNetBody::PointNetBody(bool feature_transform)
    : stn(add("stn", PointTransform{3})),
      conv1(add("conv1", nn::Conv1d{3, 64, 1})),
      conv2(add("conv2", nn::Conv1d{64, 128, 1})),
      conv3(add("conv3", nn::Conv1d{128, 1024, 1})),
      bn1(add("bn1", point_norm(64))),
      bn2(add("bn2", point_norm(128))),
      bn3(add("bn3", point_norm(1024, Activation::none))) {
  if (feature_transform) fstn.emplace(add("fstn", PointTransform{64}));
}

PointNetFeatures PointNetBody::forward(Tensor x) {
  PointNetFeatures f;
  f.input_transform = stn(x);
  x = bn1(conv1(turned(x, f.input_transform)));
  if (fstn) {
    f.feature_transform = (*fstn)(x);
    x = turned(x, f.feature_transform);
  }
  f.output = over_points(bn3(conv3(bn2(conv2(std::move(x))))));
  return f;
}

PointNet::PointNet(const PointNetOptions& o)
    : feat(add("feat", PointNetBody{o.feature_transform})),
      fc1(add("fc1", nn::Linear{1024, 512})),
      fc2(add("fc2", nn::Linear{512, 256})),
      fc3(add("fc3", nn::Linear{256, o.classes})),
      dropout(add("dropout", nn::Dropout{o.dropout})),
      bn1(add("bn1", point_norm(512))),
      bn2(add("bn2", point_norm(256))) {}

PointNetResult PointNet::forward(Tensor points) {
  const PointNetFeatures f = feat(std::move(points));
  const Tensor x = bn2(dropout(fc2(bn1(fc1(f.output)))));
  return {fc3(x), f.input_transform, f.feature_transform};
}

Tensor transform_penalty(const Tensor& t) {
  const Tensor off = matmul(t, t.transpose(1, 2)) - identity_like(t.size(1), t);
  return mean(norm(off, 2, {1, 2}));
}

}  // namespace wt::models
