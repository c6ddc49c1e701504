// Optimizers. Options and formulas are PyTorch's.
//
//   optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
//   opt.zero_grad();
//   loss.backward();
//   opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
//
// An optimizer takes the module: its state is keyed by parameter names. Making one moves parameters
// and gradients into arenas (handles keep their identity, raw pointers do not) and allocates its
// state. Rate, step count and every option that may change live in memory of the parameters'
// device: a step never waits for the host.
#pragma once
#include <memory>
#include <span>

#include "warptape/core/frame.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/nn/module.h"
#include "warptape/optim/schedule.h"

namespace wt::optim {

namespace detail {
class Arenas;
struct Entry;
struct Run;
class StorageRef;
}  // namespace detail

// Device scalars, so that nothing waits for their values.
struct StepOptions {
  Tensor grad_factor{};  // 0-d: gradients are multiplied by it; .grad is not edited
  Tensor skip{};         // 0-d: not zero: the step changes nothing but the attempted count
};

class WT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Marks all gradients unwritten: no memory is touched. A parameter that no backward reaches
  // before the next step is neither updated nor decayed, and counts in no norm.
  void zero_grad();

  // One update from the gradients. While the device's mailbox holds a bad label or index, or `skip`
  // is raised, nothing changes but the attempted count. This protects parameters and the
  // optimizer's state only; TrainStep also protects buffers and random state. Throws UsageError
  // when another optimizer took the parameters over, NumericError for gradients that a throwing
  // backward left invalid; then nothing has changed.
  void step(const StepOptions& options = {}, Frame at = Frame::here());

  double lr() const { return hyper().lr; }
  void set_lr(double lr);
  // A factor of lr for rules that watch the loss (reduce on a plateau); 1 at first.
  double lr_factor() const { return hyper().lr_factor; }
  void set_lr_factor(double factor);
  // Factor of lr by applied steps; an empty one ends it.
  void set_schedule(Schedule schedule);
  // The rate that the next step uses: lr * lr_factor * schedule. Waits for the device.
  double rate() const;
  // Steps that changed parameters (waits for the device), and all steps.
  i64 applied() const;
  i64 attempted() const;

  // All state by name: optim.<slot>.<parameter>, and 0-d scalars optim.lr, optim.applied, ... The
  // tensors are the optimizer's own memory, not copies.
  std::vector<nn::NamedTensor> state() const;
  // Copies values in. Names and shapes must match exactly; throws UsageError listing what does not
  // fit, and then nothing was loaded.
  void load_state(const std::vector<nn::NamedTensor>& values);

  // Names and tensors in order of registration.
  std::vector<nn::NamedTensor> parameters() const;
  Device device() const;

  // --- internal: what TrainStep and clipping are made of -----------------------------------------
  // Follows moved parameters, then the ranges of written gradients. May throw; changes no value.
  const std::vector<detail::Run>& prepare();
  // Enqueues the norm of those ranges' gradients as partial sums; returns how many.
  i64 add_norm();
  const double* partials() const;
  // Enqueues the update of those ranges and the count. Nothing throws but DeviceError.
  void apply(const double* grad_factor, const StepFlags& flags, StepBlock* record,
             i64 dropout_calls = 0);
  // The block's own norm and clip factor, for clip_factor().
  double* own_norm() const;
  Tensor own_factor() const;
  detail::Arenas& arenas() const { return *arenas_; }
  const i32* mailbox() const { return mailbox_; }

 protected:
  struct Kind {
    const char* name;                                                   // "Sgd"
    std::vector<const char*> slots;                                     // state slots: "momentum"
    std::vector<std::pair<const char*, double OptimBlock::*>> scalars;  // saved options: "lr"
  };
  Optimizer(std::vector<detail::Entry> entries, const Kind& kind, const OptimBlock& hyper);
  virtual void update(const detail::Run& run, const double* grad_factor,
                      const StepFlags& flags) = 0;

  // The host's copy of what the host writes.
  const OptimBlock& hyper() const;
  // Writes a changed copy to the device; later steps use it.
  void set_hyper(const OptimBlock& values);
  const OptimBlock* block() const;
  Launch launch() const;
  static std::vector<detail::Entry> entries_of(const nn::ModuleBase& m);
  static std::vector<detail::Entry> entries_of(std::span<const nn::NamedTensor> parameters);

 private:
  struct Memory;
  void make_memory(const OptimBlock& values);
  void check(const OptimBlock& b) const;
  void write_block(const OptimBlock& values);
  void refill_schedule();
  OptimBlock read_block() const;

  Kind kind_;
  std::unique_ptr<detail::Arenas> arenas_;
  std::unique_ptr<Memory> memory_;
  Schedule schedule_;
  const i32* mailbox_ = nullptr;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;  // not on the first applied step
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
};
// g += weight_decay p; buffer = momentum buffer + (1 - dampening) g; p -= lr buffer (nesterov:
// p -= lr (g + momentum buffer)).
class WT_API Sgd : public Optimizer {
 public:
  explicit Sgd(const nn::ModuleBase& m, const SgdOptions& o = {});
  explicit Sgd(std::span<const nn::NamedTensor> parameters, const SgdOptions& o = {});
  double momentum() const { return hyper().momentum; }
  // Throws UsageError for an optimizer made without momentum: it has no buffers.
  void set_momentum(double v);
  double weight_decay() const { return hyper().weight_decay; }
  void set_weight_decay(double v);

 private:
  Sgd(std::vector<detail::Entry> entries, const SgdOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool nesterov_;
};

struct Betas {
  double first = 0.9, second = 0.999;
};
struct AdamWOptions {
  double lr = 1e-3;
  Betas betas{};
  double eps = 1e-8;
  double weight_decay = 1e-2;
};
// Adam with decoupled weight decay. The bias correction counts applied steps of the optimizer, not
// of each parameter.
class WT_API AdamW : public Optimizer {
 public:
  explicit AdamW(const nn::ModuleBase& m, const AdamWOptions& o = {});
  explicit AdamW(std::span<const nn::NamedTensor> parameters, const AdamWOptions& o = {});
  double weight_decay() const { return hyper().weight_decay; }
  void set_weight_decay(double v);
  Betas betas() const { return {hyper().beta1, hyper().beta2}; }
  void set_betas(Betas v);

 private:
  AdamW(std::vector<detail::Entry> entries, const AdamWOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

}  // namespace wt::optim
