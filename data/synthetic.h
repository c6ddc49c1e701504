// Data that needs no file: for tests, examples and measurements.
//
// Every sample is a function of (options, index): a dataset of any size costs no memory, any thread
// makes the same bits, and two datasets with different `first` never share a sample.
#pragma once
#include "warptape/data/dataset.h"

namespace wt::data {

struct SyntheticImagesOptions {
  i64 samples = 1000;
  i64 classes = 10, channels = 1, height = 28, width = 28;
  double noise = 0.5;  // deviation; the patterns themselves have about 1
  u64 seed = 0;
  i64 first = 0;  // index of the first sample: a test set goes on where the training set ends
};
// A smooth pattern for each class, shifted by up to an eighth of the image, plus noise: x is f32
// [N, channels, height, width], y is i64 in [0, classes).
class WT_API SyntheticImages {
 public:
  explicit SyntheticImages(const SyntheticImagesOptions& o = {});
  i64 size() const { return o_.samples; }
  Batch batch(std::span<const i64> indices) const;

 private:
  SyntheticImagesOptions o_;
  std::vector<float> patterns_;  // [classes, channels, height, width]
};

struct SyntheticTokensOptions {
  i64 samples = 1000;
  i64 context = 32, vocabulary = 64;
  i64 choices = 4;  // tokens that may follow a token, the first of them most often
  u64 seed = 0;
  i64 first = 0;
};
// Chains in which each token is drawn by the one before it: x is i64 [N, context], y the token
// after each of x, [N, context]. No model can get below entropy() on new samples.
class WT_API SyntheticTokens {
 public:
  explicit SyntheticTokens(const SyntheticTokensOptions& o = {});
  i64 size() const { return o_.samples; }
  Batch batch(std::span<const i64> indices) const;
  // Nats a token, given the one before it.
  double entropy() const;

 private:
  SyntheticTokensOptions o_;
  std::vector<i64> followers_;  // [vocabulary, choices]
};

enum class PointShape { blobs, moons, circles, spirals };
struct SyntheticPointsOptions {
  i64 samples = 1000;
  PointShape shape = PointShape::blobs;
  i64 classes = 2;     // moons and circles have two
  i64 dimensions = 2;  // of blobs; the others are plane
  double noise = 0.1;
  u64 seed = 0;
  i64 first = 0;
};
// Points of classes that a linear model can tell apart (blobs) or not: x is f32 [N, dimensions], y
// is i64.
class WT_API SyntheticPoints {
 public:
  explicit SyntheticPoints(const SyntheticPointsOptions& o = {});
  i64 size() const { return o_.samples; }
  Batch batch(std::span<const i64> indices) const;

 private:
  SyntheticPointsOptions o_;
  std::vector<float> centres_;  // of blobs: [classes, dimensions]
};

}  // namespace wt::data
