// Running means of numbers that a device computes: adding one queues work and never waits; reading
// waits once.
//
//   metrics::MeanMeter loss;
//   for (auto& [x, y] : loader) { ...; loss.add(cross_entropy(net(x), y)); }
//   std::printf("%.4f\n", loss.value());
#pragma once
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/core/tensor.h"

namespace wt::metrics {

// The mean of all numbers that were added, by their weights. Sums are f64 on the device of what
// came first; nothing that is added is kept alive.
class WT_API MeanMeter {
 public:
  // Counts a tensor of one element, or a number of the host's, `weight` times. Throws ShapeError
  // for a tensor of more elements.
  void add(const Tensor& value, double weight = 1, Frame at = Frame::here());
  void add(double value, double weight = 1);
  // Counts a loss's sum and its weight, so that batches of unequal size add up exactly.
  void add(const Loss& loss, Frame at = Frame::here());
  // The mean; NaN when nothing was added. Waits for the device.
  double value() const;
  // The sum of all weights; 0 when nothing was added. Waits for the device.
  double weight() const;
  // Nothing is added any more; the next value decides on the device.
  void reset();
  // {sum, weight}: what adds up over parts of the data. Waits for the device.
  std::vector<double> sums() const;
  // Becomes the mean of {sum, weight}, on the cpu. Throws UsageError for other than two numbers.
  void set_sums(const std::vector<double>& sums);

 private:
  void start(Device d);
  Tensor sum_, weight_;  // 0-d f64; undefined: nothing yet
};

// An exponential average of numbers, corrected for its start (Kingma and Ba 2015, section 3): of
// one value it is that value.
class WT_API EmaMeter {
 public:
  // `decay` is the weight of what was there before. Throws UsageError unless 0 <= decay < 1.
  explicit EmaMeter(double decay = 0.98);
  // Takes in a tensor of one element, a number of the host's, or the mean of a loss, whatever its
  // weight. Throws ShapeError for a tensor of more elements.
  void add(const Tensor& value, Frame at = Frame::here());
  void add(double value);
  void add(const Loss& loss, Frame at = Frame::here());
  // The average; NaN when nothing was added. Waits for the device.
  double value() const;
  // Nothing is added any more: the next value is the average.
  void reset();

 private:
  double decay_, correction_ = 0;
  Tensor average_;  // 0-d f64
};

}  // namespace wt::metrics
