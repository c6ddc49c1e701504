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

// What a PointNet is made with.
struct PointNetOptions {
  i64 classes = 40;                // logits of a cloud
  bool feature_transform = false;  // turn the 64 features of each point too
  double dropout = 0.3;            // before the last norm and layer
  WT_MISNAMED(k, classes);
  WT_MISNAMED(num_classes, classes);
};

// Finds a k x k matrix for a cloud x [N, k, points] of k features: [N, k, k], near the identity.
class WT_API PointTransform : public nn::Module<PointTransform> {
 public:
  // For points of k features. Throws ShapeError for a k below 1.
  explicit PointTransform(i64 k);
  // [N, k, points] to [N, k, k].
  Tensor forward(Tensor x);
  nn::Conv1d conv1, conv2, conv3;           // of each point: k to 64, 128, 1024
  nn::Linear fc1, fc2, fc3;                 // of the cloud: 1024 to 512, 256, k * k
  nn::BatchNorm1d bn1, bn2, bn3, bn4, bn5;  // all but the last product have one, and relu

 private:
  i64 k_;
};

// What PointNetBody gives: features of a cloud, and how it was turned.
struct PointNetFeatures {
  Tensor output;                              // [N, 1024]: the largest of each feature
  Tensor input_transform, feature_transform;  // [N, 3, 3]; [N, 64, 64] or undefined
};
// Points to 1024 features of their cloud: turned, 64, 128 and 1024 features of each, the largest of
// each over the points.
class WT_API PointNetBody : public nn::Module<PointNetBody> {
 public:
  // Whether the 64 features of each point are turned too.
  explicit PointNetBody(bool feature_transform);
  // [N, 3, points] to [N, 1024], with the transforms [N, 3, 3] and [N, 64, 64].
  PointNetFeatures forward(Tensor x);
  PointTransform stn;                  // of the points
  nn::Conv1d conv1, conv2, conv3;      // 3 to 64, 128, 1024
  nn::BatchNorm1d bn1, bn2, bn3;       // behind each; the last without relu
  std::optional<PointTransform> fstn;  // of the 64 features, where there is one
};

// What PointNet gives: logits, and how the cloud was turned, for transform_penalty().
struct PointNetResult {
  Tensor output;                              // logits [N, classes]
  Tensor input_transform, feature_transform;  // as of PointNetFeatures
};
// PointNet for classes: points [N, 3, points], in any order and as many as there are, to logits [N,
// classes]. The original ends in a log-softmax; these are the logits that cross_entropy() takes.
// Throws ShapeError for classes below 1, UsageError for a dropout outside [0, 1].
class WT_API PointNet : public nn::Module<PointNet> {
 public:
  // By default for ModelNet40's classes, without the transform of features.
  explicit PointNet(const PointNetOptions& o = {});
  // [N, 3, points] to logits [N, classes], with the transforms.
  PointNetResult forward(Tensor points);
  PointNetBody feat;         // to 1024 features
  nn::Linear fc1, fc2, fc3;  // 1024 to 512, 256, classes
  nn::Dropout dropout;       // behind fc2
  nn::BatchNorm1d bn1, bn2;  // with relu, behind fc1 and dropout
};

// The mean of |T T^T - 1| over the samples, T [N, k, k], with the Frobenius norm; 0-d. It keeps a
// transform near a rotation: 0.001 times it is what the paper adds to the loss.
WT_API Tensor transform_penalty(const Tensor& transform);

}  // namespace wt::models
