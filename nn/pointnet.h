// PointNet (Qi et al. 2016, arXiv:1612.00593) for classes of point clouds, with the names of
// fxia22's pointnet.pytorch.
#pragma once
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/norms.h"

namespace wt::models {

struct PointNetOptions {
  i64 classes = 40;
  bool feature_transform = false;  // turn the 64 features of each point too
  double dropout = 0.3;
  WT_MISNAMED(k, classes);
  WT_MISNAMED(num_classes, classes);
};

// Finds a k x k matrix for a cloud x [N, k, points] of k features: [N, k, k], near the identity.
class WT_API PointTransform : public nn::Module<PointTransform> {
 public:
  explicit PointTransform(i64 k);
  Tensor forward(Tensor x);
  nn::Conv1d conv1, conv2, conv3;
  nn::Linear fc1, fc2, fc3;
  nn::BatchNorm1d bn1, bn2, bn3, bn4, bn5;  // all but the last product have one, and relu

 private:
  i64 k_;
};

struct PointNetFeatures {
  Tensor output;                              // [N, 1024]: the largest of each feature
  Tensor input_transform, feature_transform;  // [N, 3, 3]; [N, 64, 64] or undefined
};
class WT_API PointNetBody : public nn::Module<PointNetBody> {
 public:
  explicit PointNetBody(bool feature_transform);
  PointNetFeatures forward(Tensor x);
  PointTransform stn;
  nn::Conv1d conv1, conv2, conv3;
  nn::BatchNorm1d bn1, bn2, bn3;
  std::optional<PointTransform> fstn;
};

struct PointNetResult {
  Tensor output;                              // logits [N, classes]
  Tensor input_transform, feature_transform;  // as of PointNetFeatures
};
// Points [N, 3, points], in any order and as many as there are. The original ends in a log-softmax;
// these are the logits that cross_entropy() takes.
class WT_API PointNet : public nn::Module<PointNet> {
 public:
  explicit PointNet(const PointNetOptions& o = {});
  PointNetResult forward(Tensor points);
  PointNetBody feat;
  nn::Linear fc1, fc2, fc3;
  nn::Dropout dropout;
  nn::BatchNorm1d bn1, bn2;
};

// mean |T T^T - 1| over the samples, T [N, k, k]: keeps a transform near a rotation, 0.001 times it
// is what the paper adds to the loss. 0-d.
WT_API Tensor transform_penalty(const Tensor& transform);

}  // namespace wt::models
