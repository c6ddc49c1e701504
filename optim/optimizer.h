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
//
// Groups give some parameters other options, by name:
//
//   optim::AdamW opt{net, {.lr = 3e-4, .groups = {{.names = {"*.bias"}, .weight_decay = 0}}}};
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/frame.h"
#include "warptape/core/owned.h"
#include "warptape/nn/module.h"
#include "warptape/optim/schedule.h"

namespace wt {
struct Launch;  // kernels/contract.h
struct LossScale;
struct OptimBlock;  // kernels/optim_step.h, with these
struct StepAdvanceArgs;
struct StepBlock;
struct StepFlags;
}  // namespace wt

namespace wt::optim {

class Sharding;
namespace detail {
class Arenas;
struct Entry;
struct Run;
class StorageRef;
}  // namespace detail

// Device scalars that step() reads, so that nothing waits for their values. Each has one element
// and lies where the parameters lie, else ShapeError or PlacementError; other dtypes are converted.
struct StepOptions {
  Tensor grad_factor{};  // 0-d: gradients are multiplied by it; .grad is not edited
  Tensor skip{};         // 0-d: not zero: the step changes nothing but the attempted count
};

// What zero_grad() leaves of the gradients.
struct ZeroGradOptions {
  // true: gradients are gone, no memory is touched. false: those that are there become zeros, so
  // that weight decay and momentum go on.
  bool set_to_none = true;
  bool discard = false;  // gradients that no step has used are not wanted: see zero_grad()
};

// The decay rates of the two running averages of Adam and its kin, each in [0, 1).
struct Betas {
  // first: of the gradients. second: of their squares (Lion: of the momentum that is kept).
  double first = 0.9, second = 0.999;
};

// Options of the parameters whose names match; what is not given is the optimizer's.
struct ParamGroup {
  // Patterns: * is any text, ? one character, everything else itself. Each must match a parameter,
  // and no parameter may be in two groups.
  std::vector<std::string> names{};
  // lr, weight_decay, momentum, dampening, eps, alpha (Adadelta's rho too), lr_decay, betas and
  // momentum_decay in place of the optimizer's. Throws UsageError for one that its rule lacks.
  std::optional<double> lr{}, weight_decay{}, momentum{}, dampening{}, eps{}, alpha{}, lr_decay{};
  std::optional<Betas> betas{};
  std::optional<double> momentum_decay{};
};

// How the average of the weights follows them.
struct EmaOptions {
  double decay = 0.999;  // of the average, a step; in [0, 1)
  // The first applied step makes the average a copy of the new weights, and only then it follows
  // them: AveragedModel's. Else it follows from the weights that track_ema() found.
  bool copy_first = false;
};

// What all optimizers have in common: parameters, their state, steps, rates and groups.
// Constructors throw UsageError for options out of range, patterns of groups that do not fit,
// parameters on several devices and none that requires a gradient; DtypeError for parameters that
// are neither f32 nor f64, InplaceError for one with live views.
class WT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Marks all gradients unwritten. A parameter that no backward reaches before the next step is
  // neither updated nor decayed, and counts in no norm. Throws UsageError where a loop that steps
  // after every k backwards (k > 1) would lose those of a shorter last window, unless `discard`.
  // What a backward adds between a step and zero_grad() counts as no window: a GAN's generator does
  // so in the discriminator.
  void zero_grad(const ZeroGradOptions& options = {}, Frame at = Frame::here());

  // One update from the gradients. While the device's mailbox holds a bad label or index, or `skip`
  // is raised, nothing changes but the attempted count. This protects parameters and the
  // optimizer's state only; TrainStep also protects buffers and random state. Throws UsageError
  // when another optimizer took the parameters over, when no backward came since the last step, for
  // gradients that are scaled (GradScaler::step is for these) or went through f16 unscaled, and
  // where the first step came after one backward and all others come after k: `i % k == 0` is true
  // for batch 0. Throws NumericError for gradients that a throwing backward left invalid. Then
  // nothing has changed.
  void step(const StepOptions& options = {}, Frame at = Frame::here());

  // The number of groups, group 0 included. Group 0 has the parameters that no pattern names, 1 is
  // the first of the options' groups. What takes a group throws IndexError for one that is none.
  i64 group_count() const;
  // The learning rate of a group without schedule and lr_factor, which rate() has.
  double lr(i64 group = 0) const;
  // Sets a group's learning rate from the next step on. Throws UsageError unless it is finite and
  // at least 0.
  void set_lr(double lr, i64 group = 0);
  // The factor of a group's weight decay.
  double weight_decay(i64 group = 0) const;
  // Sets a group's weight decay from the next step on. Throws UsageError unless it is finite and at
  // least 0.
  void set_weight_decay(double v, i64 group = 0);
  // A factor of lr for rules that watch the loss (ReduceLROnPlateau); 1 at first.
  double lr_factor(i64 group = 0) const;
  // Sets that factor from the next step on, of all groups or of one. Throws UsageError unless it is
  // finite and at least 0.
  void set_lr_factor(double factor);
  void set_lr_factor(double factor, i64 group);
  // Sets the factor of lr by applied steps, for all groups; an empty schedule ends it.
  void set_schedule(Schedule schedule);
  // The rate that the next step uses: lr * lr_factor * schedule. Waits for the device.
  double rate(i64 group = 0) const;
  // Steps that changed parameters; waits for the device. Of one parameter those that it took part
  // in, which is what bias corrections and first steps count by: a step without its gradient is
  // none of them. Throws UsageError for a name that no parameter has.
  i64 applied() const;
  i64 applied(std::string_view parameter) const;
  // All steps so far, those that were skipped too; the host's count, known at once.
  i64 attempted() const;

  // An average of the weights that follows each applied step, average += (1 - decay) * (weights -
  // average), and starts as a copy of them: torch.optim.swa_utils' get_ema_multi_avg_fn. It is part
  // of the step's transaction and of state(), as ema.<parameter>. Buffers are not averaged. Throws
  // UsageError for a decay outside [0, 1); with an average there it only changes the decay.
  void track_ema(double decay = 0.999, Frame at = Frame::here());
  void track_ema(const EmaOptions& options, Frame at = Frame::here());
  // Whether there is an average: true from the first track_ema() on.
  bool has_ema() const;
  // The averages, by the parameters' names: the optimizer's own memory. Empty without track_ema().
  std::vector<nn::NamedTensor> ema() const;

  // All state by name: optim.<slot>.<parameter>, ema.<parameter>, and 0-d scalars optim.lr,
  // optim.applied, ..., those of group k as optim.group<k>.lr; optim.kind.<optimizer> is its mark.
  // Of a parameter that has missed steps optim.step.<parameter> (NAdam: and optim.mu_product...).
  // The tensors are the optimizer's own memory, not copies.
  std::vector<nn::NamedTensor> state() const;
  // here = false, of sharded state: other ranks want it. This one gives them its part, and gets the
  // scalars and averages alone, which all have.
  std::vector<nn::NamedTensor> state(bool here) const;
  // A range of one state tensor's elements that this rank keeps.
  struct StatePiece {
    std::string name;  // of the tensor, as in state()
    Tensor values;     // 1-d, the optimizer's own memory
    i64 begin;         // in the tensor
  };
  // The state that this rank keeps, without asking others: flat ranges of the tensors' elements in
  // row-major order (an empty tensor is on rank 0). Throws NotAvailable for parameters that lie in
  // another order. What all ranks have is shared_state().
  std::vector<StatePiece> state_pieces() const;
  // Names and whole shapes of the state tensors that ranks keep parts of.
  std::vector<std::pair<std::string, Shape>> state_shapes() const;
  // The state that every rank has all of: averages, scalars and counts, as in state().
  std::vector<nn::NamedTensor> shared_state() const;
  // Copies the values of a state() in. Names and shapes must match exactly, but that a parameter
  // without a step count of its own has the optimizer's; throws UsageError for the state of another
  // optimizer and listing what does not fit, and then nothing was loaded.
  void load_state(const std::vector<nn::NamedTensor>& values, Frame at = Frame::here());

  // Lets this rank keep and step from here on a part of the state, and of the gradients where the
  // sharding says so (optim/sharding.h); null: all of it again. state() then holds copies of the
  // whole on the cpu, and it, load_state() and every step are for all ranks to call together.
  // Throws NotAvailable for rules that need whole matrices (Muon), UsageError for gradients in
  // parts where some are there that are no sums yet, OutOfMemory; then nothing has changed.
  void shard(std::shared_ptr<Sharding> s, Frame at = Frame::here());

  // Names and tensors of the parameters in order of registration; a tied one once, under its first
  // name.
  std::vector<nn::NamedTensor> parameters() const;
  // Where parameters and state lie; follows moved parameters at the next step.
  Device device() const;

  // --- internal: what TrainStep and clipping are made of ---

  // Follows moved parameters, then the ranges of written gradients. May throw; changes no value.
  const std::vector<detail::Run>& prepare();
  // Enqueues the norm of those ranges' gradients as partial sums, of all ranks where the state is
  // in parts; returns how many. f(range, where its sums go) may enqueue something else that gives
  // them.
  i64 add_norm();
  i64 add_norm(const std::function<void(const detail::Run&, double*)>& f);
  // Where add_norm() puts its partial sums, f64 on the device.
  const double* partials() const;
  // Enqueues the update of those ranges and the count. Nothing throws but DeviceError, and
  // OutOfMemory before anything was changed. `skipped`: the host knows on every rank that nothing
  // is updated, and no rank waits for another one's pieces (one of them may throw instead).
  void apply(const double* grad_factor, const StepFlags& flags, StepBlock* record,
             i64 dropout_calls = 0, LossScale* scaler = nullptr, bool skipped = false);
  // After prepare(): throws UsageError unless there are written gradients, all of them of the
  // scaler with this number (0: none; Leaf::scaler). check_step(): and unless they are fit for a
  // step; it counts their backwards.
  void check_gradients(const char* caller, u32 scaler) const;
  // check_gradients(), and what step() says of gradients that are not fit for one.
  void check_step(const char* caller, u32 scaler);
  // The device's flag whether inf or NaN was found: one of the optimizer's own, for GradScaler.
  i32* own_found() const;
  // apply(), with the factor (unless options has one) and the flags of a bare step.
  void apply_step(const StepOptions& options, const double* factor, const i32* found);
  // 16-bit copies of the parameters for autocast, which updates keep; after prepare().
  void keep_half(DType t);
  // The host's part of apply(), which leaves it out while work is recorded: for each replay.
  void count_step() noexcept;
  // own_norm(), own_factor(): the block's own norm and clip factor, for clip_factor().
  double* own_norm() const;
  Tensor own_factor() const;
  // arenas(): where parameters, gradients and state lie. mailbox(): the device's flag of bad labels
  // and indices, of the thread that stepped last.
  detail::Arenas& arenas() const { return *arenas_; }
  const i32* mailbox() const { return mailbox_; }
  // Goes up when what a recorded step has addresses of is of the past.
  u64 generation() const;
  // After prepare(): whether a step of these parameters cannot be recorded before it was made once.
  // Without a gradient there is none to record.
  bool needs_cohorts() const;

 protected:
  struct Kind;  // optim/kind.h
  // Of the parameters in `entries`, with the options `hyper` and those of the groups.
  Optimizer(std::vector<detail::Entry> entries, const Kind& kind, const OptimBlock& hyper,
            const std::vector<ParamGroup>& groups = {});
  // Before the updates of a step: what may throw. It may write nothing that outlives the step.
  virtual void begin_update(const double* /*grad_factor*/) {}
  // Enqueues the rule for one range of parameters with gradients; it changes nothing where one of
  // the flags is raised.
  virtual void update(const detail::Run& run, const double* grad_factor,
                      const StepFlags& flags) = 0;
  // Whether an element's update depends on that element alone.
  virtual bool is_elementwise() const { return true; }

  // The host's copy of a group's options. Throws IndexError for a group that is none.
  const OptimBlock& hyper(i64 group = 0) const;
  // set() writes one field of it, write_betas() both betas; later steps use them.
  void set(double OptimBlock::*field, double v, i64 group);
  void write_betas(Betas v, i64 group);
  // Writes a changed copy to the device; later steps use it. Throws UsageError for values out of
  // range.
  void set_hyper(const OptimBlock& values, i64 group);
  // block(): a range's options on the device. launch(): what its kernels are launched with.
  const OptimBlock* block(const detail::Run& run) const;
  Launch launch() const;
  // Fills a state of every parameter, by its number in Kind::slots_of().
  void fill_state(size_t slot, double value);
  // The trainable parameters of a module, or the given ones: UsageError for a tensor that is no
  // leaf that requires a gradient, and for a name that is there twice.
  static std::vector<detail::Entry> entries_of(const nn::ModuleBase& m);
  static std::vector<detail::Entry> entries_of(std::span<const nn::NamedTensor> parameters);

 private:
  friend class EmaScope;
  struct Memory;
  using Blocks = std::vector<OptimBlock>;
  static Blocks blocks_of(const Kind& kind, const OptimBlock& hyper,
                          const std::vector<ParamGroup>& groups, std::vector<detail::Entry>& all);
  static void check(const Kind& kind, const OptimBlock& b);
  static std::vector<int> state_counts(const Kind& kind);
  Optimizer(std::vector<detail::Entry>&& entries, const Kind& kind, const Blocks& blocks);
  void make_memory(const Blocks& values);
  void write_blocks(const Blocks& values);
  void refill_schedule(bool now);
  Blocks read_blocks() const;
  static void check_decay(double v);
  void gather_parameters();
  // By arena and slot, where the states that state() shows lie, if not in the arenas.
  using States = std::vector<std::vector<detail::StorageRef>>;
  template <class F>
  States states_of(const F& memory) const;
  std::vector<nn::NamedTensor> state_over(const States& elsewhere) const;
  void update_average(const StepFlags& flags);
  void follow_cohorts();
  void count_group(i64 group, StepAdvanceArgs& args);
  std::vector<nn::NamedTensor> count_state() const;

  Owned<const Kind> kind_;
  Owned<detail::Arenas> arenas_;
  Owned<Memory> memory_;
  Schedule schedule_;
  const i32* mailbox_ = nullptr;
  bool averaged_ = false;  // an EmaScope is open
  u64 layouts_ = 0;        // how often parameters began to count apart
  // How many backwards came before each step of a raw loop.
  struct Windows {
    i64 steps = 0;
    u32 first = 0, length = 0;  // of the first one, and of the last `equal` ones
    u32 equal = 0;
    bool stepped = false;  // since zero_grad()
  } windows_;
};

// In its scope the parameters are their averages, for evaluation:
//
//   { const optim::EmaScope averaged{opt}; evaluate(net, loader); }
//
// Costs a copy of the parameters. Meanwhile a step of the optimizer throws UsageError, and the
// module must not be moved. Throws UsageError without an average or inside another scope.
class WT_API EmaScope {
 public:
  // Writes the averages over the parameters; the destructor writes the weights back.
  explicit EmaScope(Optimizer& opt, const CallLine& = {});
  ~EmaScope();
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Optimizer& opt_;
  std::vector<Tensor> weights_;
};

// What Sgd is made with; the defaults are torch.optim.SGD's.
struct SgdOptions {
  double lr = 1e-3;                  // the learning rate
  double momentum = 0;               // of the buffer; 0: there is none
  double dampening = 0;              // not on a parameter's first step
  double weight_decay = 0;           // times the parameter, added to the gradient
  bool nesterov = false;             // needs momentum and no dampening
  std::vector<ParamGroup> groups{};  // other options for some parameters
};
// Stochastic gradient descent, with momentum where it is wanted (torch.optim.SGD):
//   g += weight_decay p; buffer = momentum buffer + (1 - dampening) g; p -= lr buffer
//   (nesterov: p -= lr (g + momentum buffer)).
class WT_API Sgd : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones. Throws UsageError for
  // nesterov without momentum or with dampening, and momentum in some groups only.
  explicit Sgd(const nn::ModuleBase& m, const SgdOptions& o = {}, const CallLine& = {});
  explicit Sgd(std::span<const nn::NamedTensor> parameters, const SgdOptions& o = {},
               const CallLine& = {});
  // The momentum of a group.
  double momentum(i64 group = 0) const;
  // Sets it from the next step on. Throws UsageError where it would turn momentum on or off: the
  // buffers are made with the optimizer.
  void set_momentum(double v, i64 group = 0);

 private:
  Sgd(std::vector<detail::Entry> entries, const SgdOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool nesterov_;
};
// PyTorch's name of Sgd.
using SGD = Sgd;

// What Adam is made with; the defaults are torch.optim.Adam's.
struct AdamOptions {
  double lr = 1e-3;                  // the learning rate
  Betas betas{};                     // of the averages of gradients and of their squares
  double eps = 1e-8;                 // added to the root
  double weight_decay = 0;           // times the parameter, added to the gradient
  std::vector<ParamGroup> groups{};  // other options for some parameters
  bool amsgrad = false;              // divides by the largest average of squares so far
};
// Adam (Kingma and Ba 2015): the decay is part of the gradient. The bias correction counts the
// applied steps that a parameter took part in (Optimizer::applied). With amsgrad (Reddi et al.
// 2018) the largest average of squares so far stands under the root: a third state.
class WT_API Adam : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit Adam(const nn::ModuleBase& m, const AdamOptions& o = {}, const CallLine& = {});
  explicit Adam(std::span<const nn::NamedTensor> parameters, const AdamOptions& o = {},
                const CallLine& = {});
  // The decay rates of a group's averages.
  Betas betas(i64 group = 0) const;
  // Sets them from the next step on. Throws UsageError for one outside [0, 1).
  void set_betas(Betas v, i64 group = 0) { write_betas(v, group); }

 protected:
  // For rules that differ in the kernel alone: `name` is that of state() and errors.
  Adam(const char* name, std::vector<detail::Entry> entries, const AdamOptions& o);
  // update() with the kernel whose arguments are Args.
  template <class Args>
  void update_by(const detail::Run&, const double*, const StepFlags&);

 private:
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool amsgrad_;
};

// What AdamW is made with; the defaults are torch.optim.AdamW's.
struct AdamWOptions {
  double lr = 1e-3;                  // the learning rate
  Betas betas{};                     // of the averages of gradients and of their squares
  double eps = 1e-8;                 // added to the root
  double weight_decay = 1e-2;        // times lr and the parameter, taken off beside the step
  std::vector<ParamGroup> groups{};  // other options for some parameters
  bool amsgrad = false;              // divides by the largest average of squares so far
};
// Adam with decoupled weight decay (Loshchilov and Hutter 2019): p -= lr weight_decay p beside the
// step.
class WT_API AdamW : public Adam {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit AdamW(const nn::ModuleBase& m, const AdamWOptions& o = {}, const CallLine& = {});
  explicit AdamW(std::span<const nn::NamedTensor> parameters, const AdamWOptions& o = {},
                 const CallLine& = {});

 private:
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

// What NAdam is made with; the defaults are torch.optim.NAdam's.
struct NAdamOptions {
  double lr = 2e-3;                     // the learning rate
  Betas betas{};                        // of the averages of gradients and of their squares
  double eps = 1e-8;                    // added to the root
  double weight_decay = 0;              // 0: none
  double momentum_decay = 4e-3;         // how fast mu rises from half of beta1 to beta1
  bool decoupled_weight_decay = false;  // as AdamW's; else part of the gradient
  std::vector<ParamGroup> groups{};     // other options for some parameters
};
// Adam with Nesterov's momentum (Dozat 2016), PyTorch's NAdam: the first average is weighed by
// mu = beta1 (1 - 0.96^(t momentum_decay) / 2), whose product over applied steps is part of the
// state (optim.mu_product).
class WT_API NAdam : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit NAdam(const nn::ModuleBase& m, const NAdamOptions& o = {}, const CallLine& = {});
  explicit NAdam(std::span<const nn::NamedTensor> parameters, const NAdamOptions& o = {},
                 const CallLine& = {});
  // The decay rates of a group's averages.
  Betas betas(i64 group = 0) const;
  // Sets them from the next step on. Throws UsageError for one outside [0, 1).
  void set_betas(Betas v, i64 group = 0) { write_betas(v, group); }

 private:
  NAdam(std::vector<detail::Entry> entries, const NAdamOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool decoupled_;
};

// What RAdam is made with; the defaults are torch.optim.RAdam's.
struct RAdamOptions {
  double lr = 1e-3;                     // the learning rate
  Betas betas{};                        // of the averages of gradients and of their squares
  double eps = 1e-8;                    // added to the root
  double weight_decay = 0;              // 0: none
  bool decoupled_weight_decay = false;  // as AdamW's; else part of the gradient
  std::vector<ParamGroup> groups{};     // other options for some parameters
};
// Rectified Adam (Liu et al. 2020): steps of momentum alone until enough squares have been averaged
// for a variance, Adam's times a factor that grows to 1 from there on.
class WT_API RAdam : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit RAdam(const nn::ModuleBase& m, const RAdamOptions& o = {}, const CallLine& = {});
  explicit RAdam(std::span<const nn::NamedTensor> parameters, const RAdamOptions& o = {},
                 const CallLine& = {});
  // The decay rates of a group's averages.
  Betas betas(i64 group = 0) const;
  // Sets them from the next step on. Throws UsageError for one outside [0, 1).
  void set_betas(Betas v, i64 group = 0) { write_betas(v, group); }

 private:
  RAdam(std::vector<detail::Entry> entries, const RAdamOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool decoupled_;
};

// What Adagrad is made with; the defaults are torch.optim.Adagrad's.
struct AdagradOptions {
  double lr = 1e-2;                      // the learning rate
  double lr_decay = 0;                   // of the rate, by steps: lr / (1 + applied lr_decay)
  double weight_decay = 0;               // times the parameter, added to the gradient
  double initial_accumulator_value = 0;  // what the sums of squares begin with
  double eps = 1e-10;                    // added to the root
  std::vector<ParamGroup> groups{};      // other options for some parameters
};
// Rates that fall by the sum of an element's squared gradients (torch.optim.Adagrad; Duchi et al.
// 2011):
//   g += weight_decay p; sum += g g; p -= lr / (1 + applied lr_decay) g / (sqrt(sum) + eps).
class WT_API Adagrad : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones. Throws UsageError for
  // an initial_accumulator_value below 0.
  explicit Adagrad(const nn::ModuleBase& m, const AdagradOptions& o = {}, const CallLine& = {});
  explicit Adagrad(std::span<const nn::NamedTensor> parameters, const AdagradOptions& o = {},
                   const CallLine& = {});

 private:
  Adagrad(std::vector<detail::Entry> entries, const AdagradOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

// What RmsProp is made with; the defaults are torch.optim.RMSprop's.
struct RmsPropOptions {
  double lr = 1e-2;                  // the learning rate
  double alpha = 0.99;               // of the average of squares, in [0, 1)
  double eps = 1e-8;                 // added to the root
  double weight_decay = 0;           // times the parameter, added to the gradient
  double momentum = 0;               // of the buffer; 0: there is none
  bool centered = false;             // divides by the deviation in place of the root mean square
  std::vector<ParamGroup> groups{};  // other options for some parameters
};
// Steps divided by a running root mean square of the gradient (torch.optim.RMSprop):
//   g += weight_decay p; square_avg = alpha square_avg + (1 - alpha) g g;
//   p -= lr g / (sqrt(square_avg) + eps).
// centered: the square of g's own average is taken off square_avg; momentum: the quotient is added
// up in a buffer that p follows.
class WT_API RmsProp : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones. Throws UsageError for
  // momentum in some groups only.
  explicit RmsProp(const nn::ModuleBase& m, const RmsPropOptions& o = {}, const CallLine& = {});
  explicit RmsProp(std::span<const nn::NamedTensor> parameters, const RmsPropOptions& o = {},
                   const CallLine& = {});

 private:
  RmsProp(std::vector<detail::Entry> entries, const RmsPropOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
  bool has_momentum_, centered_;
};
// PyTorch's name of RmsProp.
using RMSprop = RmsProp;

// What Lion is made with; the defaults are those of its authors' program.
struct LionOptions {
  double lr = 1e-4;                  // how far every weight moves
  Betas betas{0.9, 0.99};            // of the step's momentum, and of the one that is kept
  double weight_decay = 0;           // decoupled, as AdamW's
  std::vector<ParamGroup> groups{};  // other options for some parameters
};
// Lion (Chen et al. 2023): p -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay p); m = beta2 m +
// (1 - beta2) g. Every weight moves by lr: take a third to a tenth of AdamW's rate.
class WT_API Lion : public Optimizer {
 public:
  // Of the module's parameters that require gradients, or of the given ones.
  explicit Lion(const nn::ModuleBase& m, const LionOptions& o = {}, const CallLine& = {});
  explicit Lion(std::span<const nn::NamedTensor> parameters, const LionOptions& o = {},
                const CallLine& = {});
  // The decay rates of a group's averages.
  Betas betas(i64 group = 0) const;
  // Sets them from the next step on. Throws UsageError for one outside [0, 1).
  void set_betas(Betas v, i64 group = 0) { write_betas(v, group); }

 private:
  Lion(std::vector<detail::Entry> entries, const LionOptions& o);
  void update(const detail::Run&, const double*, const StepFlags&) override;
};

}  // namespace wt::optim
