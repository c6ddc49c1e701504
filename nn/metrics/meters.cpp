#include "warptape/nn/meters.h"

#include <cmath>
#include <limits>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"

namespace wt::metrics {
namespace {

// As a 0-d f64 on `d`.
Tensor scalar_of(const char* meter, const Tensor& v, Device d) {
  if (v.numel() != 1)
    throw ShapeError(str("[", meter, "] a value must have one element\n  value ", describe(v)));
  return reshape(v.to(d).to(DType::f64), {});
}

TensorOptions f64_on(Device d) { return {.dtype = DType::f64, .device = d}; }

}  // namespace

void MeanMeter::start(Device d) {
  if (sum_.defined()) return;
  sum_ = zeros({}, f64_on(d));
  weight_ = zeros({}, f64_on(d));
}

void MeanMeter::add(const Tensor& value, double weight, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  const Device d = sum_.defined() ? sum_.device() : value.device();
  const Tensor v = scalar_of("MeanMeter", value, d);
  start(d);
  sum_ = sum_ + v * weight;
  weight_ = weight_ + weight;
}

void MeanMeter::add(double value, double weight) {
  const NoGrad no_grad;
  start(Device::cpu());
  sum_ = sum_ + value * weight;
  weight_ = weight_ + weight;
}

void MeanMeter::add(const Loss& loss, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  const Device d = sum_.defined() ? sum_.device() : loss.sum.device();
  const Tensor s = scalar_of("MeanMeter", loss.sum, d), w = scalar_of("MeanMeter", loss.weight, d);
  start(d);
  sum_ = sum_ + s;
  weight_ = weight_ + w;
}

double MeanMeter::value() const {
  return sum_.defined() ? sum_.item() / weight_.item() : std::numeric_limits<double>::quiet_NaN();
}
double MeanMeter::weight() const { return weight_.defined() ? weight_.item() : 0; }
void MeanMeter::reset() { sum_ = weight_ = Tensor(); }
std::vector<double> MeanMeter::sums() const {
  if (!sum_.defined()) return {0, 0};
  return {sum_.item(), weight_.item()};
}
void MeanMeter::set_sums(const std::vector<double>& sums) {
  if (sums.size() != 2)
    throw UsageError(str("[MeanMeter] there are ", sums.size(), " sums, it has 2"));
  const TensorOptions f64_on_cpu{.dtype = DType::f64, .device = Device::cpu()};
  sum_ = tensor(sums[0], f64_on_cpu);
  weight_ = tensor(sums[1], f64_on_cpu);
}

EmaMeter::EmaMeter(double decay) : decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    throw UsageError(str("[EmaMeter] decay must be at least 0 and below 1, got ", decay));
}

void EmaMeter::add(const Tensor& value, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  const Device d = average_.defined() ? average_.device() : value.device();
  const Tensor v = scalar_of("EmaMeter", value, d);
  if (!average_.defined()) average_ = zeros({}, f64_on(d));
  average_ = average_ * decay_ + v * (1 - decay_);
  correction_ = correction_ * decay_ + (1 - decay_);
}

void EmaMeter::add(double value) {
  const Device d = average_.defined() ? average_.device() : Device::cpu();
  add(full({}, value, f64_on(d)));
}

void EmaMeter::add(const Loss& loss, Frame at) {
  const NoGrad no_grad;
  add(loss.mean(at), at);
}

double EmaMeter::value() const {
  return average_.defined() ? average_.item() / correction_
                            : std::numeric_limits<double>::quiet_NaN();
}
void EmaMeter::reset() {
  average_ = Tensor();
  correction_ = 0;
}

}  // namespace wt::metrics
