// A search for a learning rate: steps with ever larger ones, and what the loss makes of it.
#pragma once
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "warptape/optim/optimizer.h"

namespace wt::doctor {

// What the search found.
struct RateCurve {
  std::vector<std::pair<double, double>> points{};  // rate, loss of the step behind it
  // A third of the rate with the lowest loss; that loss. NaN where none is a hundredth lower than
  // the first: what is left is noise.
  double rate = NAN, loss = NAN;
};
// Makes up to 24 steps of one batch with rates from a thousandth of the optimizer's to a thousand
// times it, or from 1e-6 on where that is 0; ends where the loss is four times the lowest one or
// not finite. Model, optimizer, rate and random state are then as before.
RateCurve search_for_rate(const nn::ModuleBase& net, optim::Optimizer& opt,
                          const std::function<double()>& step);

}  // namespace wt::doctor
