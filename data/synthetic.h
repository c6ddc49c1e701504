// Data that needs no file: for tests, examples and measurements.
//
// Every sample is a function of (options, index): a dataset of any size costs no memory, any thread
// makes the same bits, and two datasets with different `first` never share a sample.
#pragma once
#include "warptape/data/dataset.h"

namespace wt::data {

// How many images SyntheticImages has, and of what.
struct SyntheticImagesOptions {
  i64 samples = 1000;  // how many images there are
  // The `classes`, and the `channels`, `height` and `width` of an image.
  i64 classes = 10, channels = 1, height = 28, width = 28;
  double noise = 0.5;  // deviation; the patterns themselves have about 1
  u64 seed = 0;        // of the patterns and of all that is drawn
  i64 first = 0;       // index of the first sample: a test set goes on where the training set ends
};
// A smooth pattern for each class, shifted by up to an eighth of the image, plus noise: x is f32
// [N, channels, height, width], y is i64 in [0, classes).
class WT_API SyntheticImages {
 public:
  // Makes the classes' patterns. Throws UsageError for negative numbers, sizes below 1 and patterns
  // of more than 2^32 numbers.
  explicit SyntheticImages(const SyntheticImagesOptions& o = {});
  // The number of images, options' `samples`.
  i64 size() const { return o_.samples; }
  // These images on the cpu; their classes are drawn too. Throws IndexError.
  Batch batch(std::span<const i64> indices) const;

 private:
  SyntheticImagesOptions o_;
  std::vector<float> patterns_;  // [classes, channels, height, width]
};

// How many chains SyntheticTokens has, and of what.
struct SyntheticTokensOptions {
  i64 samples = 1000;                 // how many chains there are
  i64 context = 32, vocabulary = 64;  // tokens of x, and how many different ones there are
  i64 choices = 4;  // tokens that may follow a token, the first of them most often; at most 30
  u64 seed = 0;     // of what may follow what, and of the chains
  i64 first = 0;    // index of the first sample: a test set goes on where the training set ends
};
// Chains in which each token is drawn by the one before it: x is i64 [N, context], y the token
// after each of x, [N, context]. No model can get below entropy() on new samples.
class WT_API SyntheticTokens {
 public:
  // Draws which tokens may follow each. Throws UsageError for negative samples or first,
  // other numbers below 1, choices above the vocabulary or 30, and a vocabulary above 2^24.
  explicit SyntheticTokens(const SyntheticTokensOptions& o = {});
  // The number of chains, options' `samples`.
  i64 size() const { return o_.samples; }
  // These chains on the cpu. Throws IndexError.
  Batch batch(std::span<const i64> indices) const;
  // The least mean loss that a model can reach: nats a token, given the one before it.
  double entropy() const;

 private:
  SyntheticTokensOptions o_;
  std::vector<i64> followers_;  // [vocabulary, choices]
};

// Where the points of a class lie: `blobs` about a centre a class, two half circles that clasp
// (`moons`), two `circles` about one middle, or an arm of a spiral a class (`spirals`).
enum class PointShape { blobs, moons, circles, spirals };
// How many points SyntheticPoints has, and where.
struct SyntheticPointsOptions {
  i64 samples = 1000;                    // how many points there are
  PointShape shape = PointShape::blobs;  // blobs, moons, circles or spirals
  i64 classes = 2;                       // moons and circles have two
  i64 dimensions = 2;                    // of blobs; the others are plane
  double noise = 0.1;                    // deviation, along each axis
  u64 seed = 0;                          // of the centres and the points
  i64 first = 0;  // index of the first sample: a test set goes on where the training set ends
};
// Points of classes that a linear model can tell apart (blobs) or not: x is f32 [N, dimensions], y
// is i64 [N], in [0, classes).
class WT_API SyntheticPoints {
 public:
  // Draws the centres of blobs. Throws UsageError for negative samples, first or noise, classes or
  // dimensions below 1, moons or circles of other than 2 classes, and shapes but blobs of other
  // than 2 dimensions.
  explicit SyntheticPoints(const SyntheticPointsOptions& o = {});
  // The number of points, options' `samples`.
  i64 size() const { return o_.samples; }
  // These points on the cpu; their classes are drawn too. Throws IndexError.
  Batch batch(std::span<const i64> indices) const;

 private:
  SyntheticPointsOptions o_;
  std::vector<float> centres_;  // of blobs: [classes, dimensions]
};

}  // namespace wt::data
