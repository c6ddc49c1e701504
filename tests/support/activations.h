// The activations of epilogues in double.
#pragma once
#include <algorithm>
#include <cmath>

#include "warptape/core/activation.h"

namespace wt_test {

inline double activated(wt::Activation f, double x) {
  switch (f) {
    case wt::Activation::relu:
      return std::max(x, 0.0);
    case wt::Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2));
    case wt::Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case wt::Activation::silu:
      return x / (1 + std::exp(-x));
    case wt::Activation::relu6:
      return std::clamp(x, 0.0, 6.0);
    case wt::Activation::hardswish:
      return x * std::clamp(x + 3, 0.0, 6.0) / 6;
    default:
      return x;
  }
}
// The derivative, told from x, or from the result where it is told from that.
inline double slope_of(wt::Activation f, double x) {
  const double normal = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  const double sigmoid = 1 / (1 + std::exp(-x));
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  switch (f) {
    case wt::Activation::none:
      return 1;
    case wt::Activation::relu:
      return x > 0;
    case wt::Activation::gelu:
      return 0.5 * std::erfc(-x / std::sqrt(2)) + x * normal;
    case wt::Activation::gelu_tanh:
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    case wt::Activation::silu:
      return sigmoid * (1 + x * (1 - sigmoid));
    case wt::Activation::relu6:
      return x > 0 && x < 6;
    case wt::Activation::hardswish:
      return x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1;
  }
  return 1;
}
// No slope of it is above that.
constexpr double steepest(wt::Activation f) { return f == wt::Activation::hardswish ? 1.5 : 1.13; }

}  // namespace wt_test
