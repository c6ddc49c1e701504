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

// The mean of all that was added, by weight. Sums are f64 on the device of what came first; nothing
// that is added is kept alive.
class WT_API MeanMeter {
 public:
  // A tensor of one element (ShapeError).
  void add(const Tensor& value, double weight = 1, Frame at = Frame::here());
  void add(double value, double weight = 1);
  // Its sum and its weight, so that batches of unequal size add up exactly.
  void add(const Loss& loss, Frame at = Frame::here());
  // NaN when nothing was added. Waits for the device.
  double value() const;
  double weight() const;
  void reset();
  // Sum and weight; the mean of another sum.
  std::vector<double> sums() const;
  void set_sums(const std::vector<double>& sums);

 private:
  void start(Device d);
  Tensor sum_, weight_;  // 0-d f64; undefined: nothing yet
};

// An exponential average, corrected for its start (Kingma and Ba 2015, section 3): of one value it
// is that value.
class WT_API EmaMeter {
 public:
  // Throws UsageError unless 0 <= decay < 1.
  explicit EmaMeter(double decay = 0.98);
  void add(const Tensor& value, Frame at = Frame::here());
  void add(double value);
  void add(const Loss& loss, Frame at = Frame::here());
  double value() const;  // NaN when nothing was added; waits for the device
  void reset();

 private:
  double decay_, correction_ = 0;
  Tensor average_;  // 0-d f64
};

}  // namespace wt::metrics
