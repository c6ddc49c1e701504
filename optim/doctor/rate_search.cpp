#include "warptape/optim/doctor/rate_search.h"

#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/random.h"

namespace wt::doctor {
namespace {

std::vector<nn::NamedTensor> copies_of(std::vector<nn::NamedTensor> list) {
  const NoGrad no_grad;
  for (nn::NamedTensor& t : list) t.tensor = t.tensor.detach().clone();
  return list;
}

// Puts everything back when it goes, a rate that was set too.
class KeptState {
 public:
  KeptState(const nn::ModuleBase& net, optim::Optimizer& opt)
      : net_(net),
        opt_(opt),
        model_(copies_of(net.state_dict())),
        state_(copies_of(opt.state())),
        random_(generator()),
        rate_(opt.lr()) {}
  ~KeptState() {
    try {
      opt_.set_lr(rate_);
      net_.load_state_dict(model_);
      opt_.load_state(state_);
      generator() = random_;
    } catch (...) {  // a device that has failed
    }
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  const nn::ModuleBase& net_;
  optim::Optimizer& opt_;
  std::vector<nn::NamedTensor> model_, state_;
  Generator random_;
  double rate_;
};

}  // namespace

RateCurve search_for_rate(const nn::ModuleBase& net, optim::Optimizer& opt,
                          const std::function<double()>& step) {
  constexpr int kPoints = 24;
  const KeptState kept(net, opt);
  RateCurve curve;
  const double before = opt.lr(), lowest_rate = before > 0 ? before / 1e3 : 1e-6;
  double best = INFINITY;
  // A schedule that is 0 here, or a rule that watches the loss, would hide the rate.
  for (int i = 0; i < kPoints; ++i) {
    const double rate = lowest_rate * std::pow(1e6, double(i) / (kPoints - 1));
    double loss = NAN;
    try {
      opt.set_lr(rate);
      loss = step();
    } catch (const std::exception&) {  // the step was refused, by itself or by the program
    }
    if (!std::isfinite(loss) || (i > 3 && loss > 4 * best)) break;
    // The loss is from before this step's update: it judges the rate before.
    if (i > 0)
      curve.points.emplace_back(lowest_rate * std::pow(1e6, double(i - 1) / (kPoints - 1)), loss);
    if (i > 0 && loss < best)
      best = loss, curve.rate = curve.points.back().first / 3, curve.loss = loss;
  }
  if (!curve.points.empty()) {
    const double first = curve.points.front().second;
    if (!(first - curve.loss > 0.01 * std::abs(first))) curve.rate = curve.loss = NAN;
  }
  return curve;
}

}  // namespace wt::doctor
