// Adamax, Adadelta and Rprop. Options and formulas are PyTorch's.
#pragma once
#include "warptape/core/misnamed.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas{};
  double eps = 1e-8;
  double weight_decay = 0;
  std::vector<ParamGroup> groups{};
};
// Adam with the largest gradient, decaying, in place of the root of the average of squares (Kingma
// and Ba 2015): u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1^t) m / u.
class WT_API Adamax : public Optimizer {
 public:
  explicit Adamax(const nn::ModuleBase& m, const AdamaxOptions& o = {}, const CallLine& = {});
  explicit Adamax(std::span<const nn::NamedTensor> parameters, const AdamaxOptions& o = {},
                  const CallLine& = {});
  Betas betas(i64 group = 0) const;
  void set_betas(Betas v, i64 group = 0) { write_betas(v, group); }

 private:
  Adamax(std::vector<detail::Entry> entries, const AdamaxOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;  // of the running averages; of a group: ParamGroup::alpha
  double eps = 1e-6;
  double weight_decay = 0;
  std::vector<ParamGroup> groups{};
};
// Steps in the proportion of the root mean squares of earlier steps and of gradients (Zeiler 2012,
// arXiv:1212.5701).
class WT_API Adadelta : public Optimizer {
 public:
  explicit Adadelta(const nn::ModuleBase& m, const AdadeltaOptions& o = {}, const CallLine& = {});
  explicit Adadelta(std::span<const nn::NamedTensor> parameters, const AdadeltaOptions& o = {},
                    const CallLine& = {});

 private:
  Adadelta(std::vector<detail::Entry> entries, const AdadeltaOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

struct RpropOptions {
  double lr = 1e-2;  // the first step of each element: rates and schedules change nothing later
  double eta_minus = 0.5, eta_plus = 1.2;       // PyTorch's etas
  double least_step = 1e-6, largest_step = 50;  // PyTorch's step_sizes
  WT_MISNAMED_SAYS(etas, "they are .eta_minus and .eta_plus");
  WT_MISNAMED_SAYS(step_sizes, "they are .least_step and .largest_step");
};
// Steps of an element's own size against the sign of its gradient (Riedmiller and Braun 1993): the
// size grows while the sign stays and shrinks when it changes, which skips the element once. For
// gradients of whole data sets. Throws UsageError unless 0 < eta_minus < 1 < eta_plus and
// 0 <= least_step <= largest_step.
class WT_API Rprop : public Optimizer {
 public:
  explicit Rprop(const nn::ModuleBase& m, const RpropOptions& o = {}, const CallLine& = {});
  explicit Rprop(std::span<const nn::NamedTensor> parameters, const RpropOptions& o = {},
                 const CallLine& = {});

 private:
  Rprop(std::vector<detail::Entry> entries, const RpropOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  RpropOptions options_;
};

}  // namespace wt::optim
