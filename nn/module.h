// Modules: named parameters, buffers and children around a forward function.
//
//   struct Net : nn::Module<Net> {
//     nn::Linear fc1 = add("fc1", nn::Linear{784, 128});
//     nn::Linear fc2 = add("fc2", nn::Linear{128, 10});
//     Tensor forward(Tensor x) { return fc2(relu(fc1(std::move(x)))); }
//   };
//
// A module is a handle: a copy shares parameters. An independent copy comes from a factory and a
// state dict. `net(x)` captures the caller's line, runs hooks and names the module in errors,
// memory reports and profiles; `net.forward(x)` does none of this.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/in.h"
#include "warptape/core/mode.h"

namespace wt::nn {

class ModuleBase;

namespace detail {

// The place of one tensor in a module. Handles (Param) and optimizers refer to the slot.
struct ParamSlot {
  std::string name;  // within its module
  Tensor tensor;
  bool is_buffer = false;
  bool held = false;  // an optimizer has laid it out: re-seating throws
};

struct ModuleState {
  std::string name;  // within its parent; empty at the root
  const char* type = "Module";
  bool registered = false;
  bool training = true;
  std::vector<std::shared_ptr<ParamSlot>> slots;
  std::vector<std::pair<std::string, std::shared_ptr<ModuleState>>> children;
  std::vector<std::pair<u64, std::function<void(const ModuleBase&, const Tensor&)>>> hooks;
  // Where it was called last: the interned path and mode id, so that a call looks nothing up.
  const ModulePath* outer = nullptr;
  const ModulePath* path = nullptr;
  ModuleScope::Cache cache;
};

}  // namespace detail

// A parameter or buffer of a module: stands for its tensor wherever an operator takes one.
class WT_API Param {
 public:
  explicit Param(std::shared_ptr<detail::ParamSlot> slot) : slot_(std::move(slot)) {}
  Param(const Param&) = default;
  // Re-seats the slot for every copy of the module (this ties weights). A parameter stays one: what
  // takes its place wants a gradient too. Throws UsageError once an optimizer holds it or for the
  // result of an operator, ShapeError for another shape.
  Param& operator=(const Param& o);
  Param& operator=(const Tensor& t);

  const Tensor& tensor() const { return slot_->tensor; }
  operator const Tensor&() const { return slot_->tensor; }  // NOLINT: implicit by design
  const Tensor* operator->() const { return &slot_->tensor; }
  bool defined() const { return slot_->tensor.defined(); }
  const std::shared_ptr<detail::ParamSlot>& slot() const { return slot_; }

 private:
  std::shared_ptr<detail::ParamSlot> slot_;
};
using Buffer = Param;

struct NamedTensor {
  std::string name;  // "head.2.weight"
  Tensor tensor;
};

class WT_API ModuleBase {
 public:
  ModuleBase();

  // Depth first, in the order of registration; a tied parameter appears once, under its first name.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<Tensor> parameters() const;
  i64 parameter_count() const;
  // Every name with its tensor, parameters and buffers, tied ones under each name.
  std::vector<NamedTensor> state_dict() const;
  // Copies values in by name. Names and shapes must match exactly; throws UsageError listing
  // missing, unexpected and misshapen names, and then nothing was loaded. What was on a meta device
  // is then on the real one of its kind.
  void load_state_dict(const std::vector<NamedTensor>& values) const;

  // Training mode of this module and all below.
  void train(bool on = true) const;
  void eval() const { train(false); }
  bool is_training() const { return state_->training; }

  // Moves parameters and buffers in place; handles keep their identity, pending backwards throw.
  // Throws before anything moved when the device is not there or has no room.
  void to(Device d) const;
  // A tree of modules with output shapes unknown: names, types, parameter shapes and counts.
  std::string summary() const;
  void zero_grad() const;
  // Called after every operator() with the module and its output. Returns an id.
  u64 register_forward_hook(std::function<void(const ModuleBase&, const Tensor&)> hook) const;
  void remove_hook(u64 id) const;

  const std::shared_ptr<detail::ModuleState>& state() const { return state_; }

 protected:
  // Register in the member's initialiser. Names are letters, digits and '_'; one name twice throws.
  Param add(const char* name, Tensor parameter);
  Buffer add_buffer(const char* name, Tensor buffer);
  template <class M>
  requires std::derived_from<M, ModuleBase> M add(const std::string& name, M module) {
    add_child(name, module);
    return module;
  }
  void add_child(const std::string& name, const ModuleBase& child);
  void set_type(const char* type) { state_->type = type; }

  std::shared_ptr<detail::ModuleState> state_;
};

namespace detail {

// Enters a module for the length of a call.
class WT_API CallScope {
 public:
  CallScope(const ModuleBase& m, Frame at);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  // The type of the module that makes this call; null at top level and when a module calls itself.
  const char* caller() const;

  const CallScope* const outer_;
  ModuleState& module_state_;
  FrameScope frame_;
  ModuleScope module_;
};
void WT_API run_hooks(const ModuleBase& m, const Tensor& y);

// The tensor of an operand: moved out of an rvalue, else shared.
inline Tensor argument(const In& x) {
  if (!x.impl()) wt::detail::use_of_undefined();
  if (x.is_rvalue()) {
    x.take();
    return Tensor(x.give());
  }
  retain(x.impl());
  return Tensor(x.impl());
}

}  // namespace detail

// The base of every module: CRTP, so that forward may have any signature.
template <class Self>
class Module : public ModuleBase {
 public:
  // The first argument is a tensor: its line is the user's line.
  template <class... Rest>
  auto operator()(const In& x, Rest&&... rest) {
    const detail::CallScope scope(*this, x.frame());
    auto y = self().forward(detail::argument(x), std::forward<Rest>(rest)...);
    finish(y);
    return y;
  }
  template <class... Rest>
  auto operator()(const In& x, Rest&&... rest) const {
    return const_cast<Module*>(this)->operator()(x, std::forward<Rest>(rest)...);
  }
  // Anything else (no line).
  template <class First, class... Rest>
  requires(!std::convertible_to<First, const Tensor&>) auto operator()(First&& first,
                                                                       Rest&&... rest) {
    const detail::CallScope scope(*this, Frame{});
    auto y = self().forward(std::forward<First>(first), std::forward<Rest>(rest)...);
    finish(y);
    return y;
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  template <class Y>
  void finish(const Y& y) {
    if constexpr (std::is_same_v<Y, Tensor>)
      if (!state_->hooks.empty()) [[unlikely]]
        detail::run_hooks(*this, y);
  }
};

// Puts the training flags back as they were: { nn::EvalScope eval(net); ... }.
class WT_API EvalScope {
 public:
  [[nodiscard]] explicit EvalScope(const ModuleBase& m);
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<detail::ModuleState>, bool>> before_;
};

}  // namespace wt::nn
