// L-BFGS: a few host-driven iterations a step, with the loss evaluated by a closure.
//
//   optim::Lbfgs opt{net, {.line_search = optim::LineSearch::strong_wolfe}};
//   opt.step([&] {
//     opt.zero_grad();
//     auto loss = mse_loss(net(x), y);
//     loss.backward();
//     return loss;
//   });
//
// It is no Optimizer: the line search must see losses, so each evaluation waits for the device, and
// the same data must be seen by every evaluation of a step. For full batches.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "warptape/core/frame.h"
#include "warptape/core/misnamed.h"
#include "warptape/core/owned.h"
#include "warptape/nn/module.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

// How far an iteration goes. none: lr, the first of all min(1, 1 / |gradient|_1) lr; strong_wolfe:
// as far as a search for a point with the strong Wolfe conditions says, from there on.
enum class LineSearch { none, strong_wolfe };

// Names, defaults and meaning are PyTorch's.
struct LbfgsOptions {
  double lr = 1;                   // the step along a direction, or where the search begins
  i64 max_iter = 20;               // iterations a step
  i64 max_eval = 0;                // evaluations a step; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    // of the gradient's largest element
  double tolerance_change = 1e-9;  // of the loss and of the parameter that moves most
  i64 history_size = 100;          // steps that the curvature is known from
  LineSearch line_search = LineSearch::none;  // how far an iteration goes
  WT_MISNAMED(line_search_fn, line_search);
};

// The quasi-Newton method L-BFGS: Nocedal and Wright, Numerical Optimization, algorithms 7.5, 3.5
// and 3.6, as torch.optim.LBFGS does them. The history takes 2 * history_size copies of the
// parameters.
class WT_API Lbfgs {
 public:
  // Of the module's parameters that require gradients, or of the given ones. Throws UsageError for
  // options out of range and parameters of several dtypes or devices, DtypeError for other dtypes
  // than f32 and f64.
  explicit Lbfgs(const nn::ModuleBase& m, const LbfgsOptions& o = {}, const CallLine& = {});
  explicit Lbfgs(std::span<const nn::NamedTensor> parameters, const LbfgsOptions& o = {},
                 const CallLine& = {});
  ~Lbfgs();
  Lbfgs(const Lbfgs&) = delete;
  Lbfgs& operator=(const Lbfgs&) = delete;

  // Clears the gradients, as set_to_none says; `discard` changes nothing here.
  void zero_grad(const ZeroGradOptions& options = {});

  // Calls `closure` (zero_grad, forward, backward, return the loss: a Tensor, a Loss or a number)
  // until a stopping rule holds; returns the first loss. A parameter without a gradient stays. A
  // point of the line search whose loss is not finite counts as too far. Throws what the closure
  // throws, NumericError for a loss or gradient that is not finite: parameters and state are then
  // as before.
  template <class F>
  double step(F&& closure, Frame at = Frame::here()) {
    const FrameScope frame(at);
    return step_with([&]() -> double {
      auto loss = closure();
      if constexpr (std::is_convertible_v<decltype(loss), double>)
        return double(loss);
      else
        return loss.item();
    });
  }

  // The learning rate of the next step.
  double lr() const;
  // Sets it. Throws UsageError unless it is at least 0.
  void set_lr(double lr);
  // iterations(), evaluations(): how many all steps together made, of the closure the latter.
  i64 iterations() const;
  i64 evaluations() const;

  // All that a step leaves behind, by name: optim.direction.<parameter>,
  // optim.old_dirs.<k>.<parameter>, ... and 0-d scalars: direction and history, so that a resumed
  // run goes on as if never stopped.
  std::vector<nn::NamedTensor> state() const;
  // Takes a state() over. Throws UsageError for the state of another optimizer, listing what does
  // not fit, and for more history than history_size; then nothing was loaded.
  void load_state(const std::vector<nn::NamedTensor>& values, Frame at = Frame::here());

  // Names and tensors of the parameters in order of registration.
  std::vector<nn::NamedTensor> parameters() const;
  // Where they lie; follows moved parameters at the next step.
  Device device() const;

 private:
  struct Impl;
  Lbfgs(std::vector<detail::Entry> entries, const LbfgsOptions& o);
  double step_with(const std::function<double()>& closure);
  Owned<Impl> impl_;
};
// PyTorch's name of Lbfgs.
using LBFGS = Lbfgs;

}  // namespace wt::optim
