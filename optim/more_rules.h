// Adamax, Adadelta and Rprop. Options and formulas are PyTorch's.
#pragma once
#include "warptape/core/misnamed.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

// What Adamax is made with; the defaults are torch.optim.Adamax's.
struct AdamaxOptions {
  double lr = 2e-3;                  // the learning rate
  Betas betas{};                     // of the average of gradients and of the largest one
  double eps = 1e-8;                 // added to a gradient's size
  double weight_decay = 0;           // times the parameter, added to the gradient
  std::vector<ParamGroup> groups{};  // other options for some parameters
};
// Adam with the largest gradient, decaying, in place of the root of the average of squares (Kingma
// and Ba 2015): u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1^t) m / u.
class WT_API Adamax : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit Adamax(const nn::ModuleBase& m, const AdamaxOptions& o = {}, const CallLine& = {});
  explicit Adamax(std::span<const nn::NamedTensor> parameters, const AdamaxOptions& o = {},
                  const CallLine& = {});
  // The decay rates of a group's averages.
  Betas betas(i64 group = 0) const;
  // Sets them from the next step on. Throws UsageError for one outside [0, 1).
  void set_betas(Betas v, i64 group = 0) { write_betas(v, group); }

 private:
  Adamax(std::vector<detail::Entry> entries, const AdamaxOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

// What Adadelta is made with; the defaults are torch.optim.Adadelta's.
struct AdadeltaOptions {
  double lr = 1;                     // the learning rate
  double rho = 0.9;                  // of the running averages; of a group: ParamGroup::alpha
  double eps = 1e-6;                 // added to both averages
  double weight_decay = 0;           // times the parameter, added to the gradient
  std::vector<ParamGroup> groups{};  // other options for some parameters
};
// Steps in the proportion of the root mean squares of earlier steps and of gradients (Zeiler 2012,
// arXiv:1212.5701).
class WT_API Adadelta : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones. Throws UsageError for
  // a rho outside [0, 1).
  explicit Adadelta(const nn::ModuleBase& m, const AdadeltaOptions& o = {}, const CallLine& = {});
  explicit Adadelta(std::span<const nn::NamedTensor> parameters, const AdadeltaOptions& o = {},
                    const CallLine& = {});

 private:
  Adadelta(std::vector<detail::Entry> entries, const AdadeltaOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

// What Rprop is made with; the defaults are torch.optim.Rprop's, whose etas and step_sizes are
// pairs.
struct RpropOptions {
  double lr = 1e-2;  // the first step of each element: rates and schedules change nothing later
  double eta_minus = 0.5, eta_plus = 1.2;  // a step's factors after a change of sign and without
  double least_step = 1e-6, largest_step = 50;  // bounds of an element's step
  WT_MISNAMED_SAYS(etas, "they are .eta_minus and .eta_plus");
  WT_MISNAMED_SAYS(step_sizes, "they are .least_step and .largest_step");
};
// Steps of an element's own size against the sign of its gradient (Riedmiller and Braun 1993): the
// size grows while the sign stays and shrinks when it changes, which skips the element once. For
// gradients of whole data sets. Throws UsageError unless 0 < eta_minus < 1 < eta_plus and
// 0 <= least_step <= largest_step.
class WT_API Rprop : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit Rprop(const nn::ModuleBase& m, const RpropOptions& o = {}, const CallLine& = {});
  explicit Rprop(std::span<const nn::NamedTensor> parameters, const RpropOptions& o = {},
                 const CallLine& = {});

 private:
  Rprop(std::vector<detail::Entry> entries, const RpropOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  RpropOptions options_;
};

}  // namespace wt::optim
