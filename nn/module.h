// Modules: named parameters, buffers and children around a forward function.
//
//   struct Net : nn::Module<Net> {
//     nn::Linear fc1 = add("fc1", nn::Linear{784, 128});
//     nn::Linear fc2 = add("fc2", nn::Linear{128, 10});
//     Tensor forward(Tensor x) { return fc2(relu(fc1(std::move(x)))); }
//   };
//
// A module is a handle: a copy shares parameters; clone() makes an independent one. `net(x)`
// captures the caller's line, runs hooks and names the module in errors, memory reports and
// profiles; `net.forward(x)` does none of this.
#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/at_line.h"
#include "warptape/core/call_lines.h"
#include "warptape/core/in.h"
#include "warptape/core/mode.h"
#include "warptape/core/owned.h"
#include "warptape/nn/handle.h"

namespace wt {

// The result of a custom operator `op` for 1 to 8 operands, recorded with its own backward
// (autograd/custom.h).
template <class Op>
auto apply(const Op& op, const In& a);
template <class Op>
auto apply(const Op& op, const In& a, const In& b);
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c);
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d);
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e);
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
           const In& f);
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
           const In& f, const In& g);
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
           const In& f, const In& g, const In& h);

}  // namespace wt

namespace wt::nn {

// A parameter or buffer of a module: stands for its tensor wherever an operator takes one.
class WT_API Param {
 public:
  // A handle to a slot; modules make it, in add() and add_buffer().
  explicit Param(std::shared_ptr<detail::ParamSlot> slot) : slot_(std::move(slot)) {}
  // The same slot; within clone() that of the copy.
  Param(const Param& o);
  Param(Param&&) = default;
  // Re-seats the slot for every copy of the module (this ties weights). A parameter stays one: what
  // takes its place wants a gradient too. Throws UsageError once an optimizer holds it or for the
  // result of an operator, ShapeError for another shape.
  Param& operator=(const Param& o);
  Param& operator=(const Tensor& t);

  // The tensor in the slot now, undefined where the layer was made without it.
  const Tensor& tensor() const { return slot_->tensor; }
  // The tensor in the slot, wherever an operator takes one.
  operator const Tensor&() const { return slot_->tensor; }  // NOLINT: implicit by design
  // Methods of the tensor, those in place too: net.fc.weight->mul_(0.9) under NoGrad.
  Tensor* operator->() const { return &slot_->tensor; }
  // False where the layer was made without it: the bias of {.bias = false}.
  bool defined() const { return slot_->tensor.defined(); }
  // The place of the tensor, which all handles to it share; optimizers hold it too.
  const std::shared_ptr<detail::ParamSlot>& slot() const { return slot_; }

 private:
  std::shared_ptr<detail::ParamSlot> slot_;
};
// A tensor that belongs to a module's state and has no gradient: running statistics, masks.
using Buffer = Param;

template <class Self>
class Module;

namespace detail {
template <class Self>
std::type_identity<Self> self_of(const Module<Self>*);
template <class C, class R, class... A>
std::type_identity<C> owner_of(R (C::*)(A...));
template <class C, class R, class... A>
std::type_identity<C> owner_of(R (C::*)(A...) const);
// Whether M, derived from a class of modules, has a forward of its own: calls would pass it by.
template <class M>
constexpr bool hides_forward() {
  if constexpr (requires {
                  owner_of(&M::forward);
                  self_of(static_cast<M*>(nullptr));
                })
    return !std::derived_from<typename decltype(self_of(static_cast<M*>(nullptr)))::type,
                              typename decltype(owner_of(&M::forward))::type>;
  else
    return false;
}
template <class M>
constexpr void check_forward() {
  static_assert(!hides_forward<M>(),
                "calls of this module run the forward of the class it derives from, not its own: "
                "derive from nn::Module<...> and hold the other module as a member");
}
}  // namespace detail

// A tensor under its full name in a module, a state or a file.
struct NamedTensor {
  std::string name;  // "head.2.weight"
  Tensor tensor;     // shared with the module where it comes from one
};

struct NamedModule;  // {name, module}

// How ModuleBase::load_state_dict() takes a state that does not fit.
struct LoadStateOptions {
  bool strict = true;  // false: load what fits and report the rest
};
// What of a state and a module did not fit; all lists are empty where everything did.
struct LoadStateResult {
  // A name that both have, with different shapes.
  struct Misshapen {
    std::string name;   // in the module and in the state
    Shape here, there;  // of the module, of the state
  };
  std::vector<std::string> missing;     // the module's names without a value
  std::vector<std::string> unexpected;  // names that the module does not have
  std::vector<Misshapen> misshapen;     // names of both, with different shapes
  // Nothing is missing, unexpected or misshapen.
  WT_API bool complete() const;
};

namespace detail {

class OutputShapes;

// A user's hook may return a tensor or nothing.
template <class F, class... A>
Tensor call_hook(F& f, const A&... a) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const A&...>>) {
    f(a...);
    return {};
  } else {
    return f(a...);
  }
}

}  // namespace detail

// What all modules have whatever their class: the tree of names, parameters and buffers, training
// flags and hooks. A handle: copies are the same module. Classes of your own derive from
// Module<Self>.
class WT_API ModuleBase {
 public:
  ModuleBase();
  // The same module; within clone() its copy.
  ModuleBase(const ModuleBase& o);
  ModuleBase(ModuleBase&&) = default;
  ModuleBase& operator=(const ModuleBase&) = default;
  ModuleBase& operator=(ModuleBase&&) = default;

  // What summary() and errors call it: the name of its class ("Linear"), or what set_type() said.
  std::string_view type() const;
  // Under which its parent has it, in a list or dict with that one's: "blocks.0". Empty at the
  // root.
  const std::string& name() const;

  // The modules one level below, as handles, in the order of registration; one that is registered
  // twice appears once.
  std::vector<ModuleBase> children() const;
  // The modules one level below with their names ("head"); one that is registered twice appears
  // once, under its first name.
  std::vector<NamedModule> named_children() const;
  // This module and all below, as handles, depth first, a parent before its children; one that is
  // registered twice appears once.
  std::vector<ModuleBase> modules() const;
  // This module and all below with their full names, "" for this one, then "head", "head.0", ...;
  // one that is registered twice appears once, under its first name.
  std::vector<NamedModule> named_modules() const;
  // Calls f(module) for all below and for this one, each once, children before their parent:
  //
  //   net.apply([](const nn::ModuleBase& m) {
  //     if (m.type() == "Linear") nn::init::xavier_uniform_(m.parameter("weight"));
  //   });
  template <class F>
  requires std::invocable<F&, ModuleBase&>
  void apply(F&& f) const {
    for (ModuleBase& m : children_first()) f(m);
  }
  // wt::apply(), a custom operator's call, which the name above hides inside a module. Static: in
  // lambdas that do not capture `this` too.
  template <class Op>
  static auto apply(const Op& op, const In& a) {
    return wt::apply(op, a);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b) {
    return wt::apply(op, a, b);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b, const In& c) {
    return wt::apply(op, a, b, c);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d) {
    return wt::apply(op, a, b, c, d);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e) {
    return wt::apply(op, a, b, c, d, e);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
                    const In& f) {
    return wt::apply(op, a, b, c, d, e, f);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
                    const In& f, const In& g) {
    return wt::apply(op, a, b, c, d, e, f, g);
  }
  template <class Op>
  static auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
                    const In& f, const In& g, const In& h) {
    return wt::apply(op, a, b, c, d, e, f, g, h);
  }

  // The parameter of a name, "weight" or "head.2.weight"; a tied one has all its names. Undefined
  // where the layer was made without it ({.bias = false}). Throws UsageError, with the near name,
  // when there is none.
  Param parameter(std::string_view name, Frame at = Frame::here()) const;
  // The buffer of a name, "running_mean" or "bn1.running_mean"; otherwise as parameter().
  Buffer buffer(std::string_view name, Frame at = Frame::here()) const;

  // All parameters with their full names, depth first, in the order of registration; a tied one
  // appears once, under its first name. Frozen ones are among them, undefined ones are not.
  std::vector<NamedTensor> named_parameters() const;
  // All buffers with their full names, in the same order; a tied one appears once.
  std::vector<NamedTensor> named_buffers() const;
  // All parameters, as named_parameters() has them, without the names.
  std::vector<Tensor> parameters() const;
  // The number of elements of all parameters, tied ones counted once.
  i64 parameter_count() const;
  // Every name with its tensor, parameters and buffers, tied ones under each name.
  std::vector<NamedTensor> state_dict() const;
  // Copies values in by name, converted to each tensor's dtype and device. A tied tensor is there
  // when one of its names is. Unless names and shapes match exactly it throws UsageError with all
  // that is missing, unexpected or misshapen; with {.strict = false} it loads what fits and returns
  // those. When it throws, nothing was loaded. What was on a meta device is then on the real one of
  // its kind.
  LoadStateResult load_state_dict(const std::vector<NamedTensor>& values,
                                  const LoadStateOptions& options = {},
                                  Frame at = Frame::here()) const;

  // Switches this module and all below to training mode, in which a module begins, or to that of
  // evaluation.
  void train(bool on = true) const;
  // Evaluation mode for this module and all below: dropout passes on, norms use running statistics.
  void eval() const { train(false); }
  // The mode of this module; one below may have been switched by itself.
  bool is_training() const;

  // Moves parameters and buffers in place; handles keep their identity, pending backwards throw.
  // Throws NotAvailable or PlacementError when the device is not there, OutOfMemory when it has no
  // room; then nothing was moved.
  void to(Device d) const;
  // Converts floating parameters and buffers to t in place, others stay; gradients are dropped.
  // Throws DtypeError unless t is f64, f32, f16 or bf16, UsageError for a parameter whose dtype
  // would change while an optimizer holds it, OutOfMemory; then nothing was converted.
  void to(DType t, Frame at = Frame::here()) const;
  void to(Device d, DType t, Frame at = Frame::here()) const;
  // A tree of modules: names, types, parameter shapes and counts. With an input, net.summary(x),
  // output shapes too (Module).
  std::string summary() const;
  // Forgets the gradients of all parameters: grad() is undefined until the next backward.
  void zero_grad() const;
  // Whether the parameters of this module and all below want gradients. Without, they are frozen:
  // a backward passes them by, an optimizer that is made later leaves them out, one that was made
  // before leaves them as they are until they want gradients again.
  template <std::same_as<bool> B = bool>
  void requires_grad_(B on = true) const {
    set_requires_grad("*", on);
  }
  // Whether the parameters whose name fits a pattern want gradients; in it '*' stands for any
  // characters and '?' for one: requires_grad_("layers.*.weight", false). A tied parameter has all
  // its names. Returns how many fit. Throws UsageError, with the near name, when none does.
  template <std::convertible_to<std::string_view> S>
  i64 requires_grad_(const S& pattern, bool on = true) const {
    return set_requires_grad(pattern, on);
  }

  // Has operator() call `hook` before forward, as f(module, x) with the first argument: it returns
  // another x, or nothing. Hooks of every kind are called in the order of their registration; the
  // result is an id for remove_hook().
  template <class F>
  u64 register_forward_pre_hook(F hook) const {
    return add_hook(detail::HookKind::forward_pre,
                    [hook = std::move(hook)](const ModuleBase& m, const Tensor& x,
                                             const Tensor&) mutable -> Tensor {
                      return detail::call_hook(hook, m, x);
                    });
  }
  // Has operator() call `hook` after forward, as f(module, y) or f(module, x, y): it returns
  // another y, or nothing. y is the result, or its member `output` or `first`; x lives until then.
  // Where the result is no tensor of the kind, the call of a module with hooks throws UsageError.
  // Returns an id for remove_hook().
  template <class F>
  u64 register_forward_hook(F hook) const {
    return add_hook(
        detail::HookKind::forward,
        [hook = std::move(hook)](const ModuleBase& m, const Tensor& x,
                                 const Tensor& y) mutable -> Tensor {
          if constexpr (std::is_invocable_v<F&, const ModuleBase&, const Tensor&, const Tensor&>)
            return detail::call_hook(hook, m, x, y);
          else
            return detail::call_hook(hook, m, y);
        });
  }
  // Has a backward call `hook`, as f(module, gy) with the gradient of y, before it is used: it
  // returns another gy, or nothing. Returns an id for remove_hook().
  template <class F>
  u64 register_full_backward_pre_hook(F hook) const {
    return add_hook(detail::HookKind::backward_pre,
                    [hook = std::move(hook)](const ModuleBase& m, const Tensor& gy,
                                             const Tensor&) mutable -> Tensor {
                      return detail::call_hook(hook, m, gy);
                    });
  }
  // Has a backward call `hook`, as f(module, gx, gy) once the gradient of this call's x is known
  // (of other arguments it hears nothing): it returns another gx, or nothing. Where x needs no
  // gradient gx is undefined and the hook is called with gy. Under create_graph gy comes without
  // its graph. A module with backward hooks takes and gives views: they cannot be written in place.
  // Returns an id for remove_hook().
  template <class F>
  u64 register_full_backward_hook(F hook) const {
    return add_hook(detail::HookKind::backward,
                    [hook = std::move(hook)](const ModuleBase& m, const Tensor& gx,
                                             const Tensor& gy) mutable -> Tensor {
                      return detail::call_hook(hook, m, gx, gy);
                    });
  }
  // Takes a hook of this module away; an id that it does not have is passed over.
  void remove_hook(u64 id) const;

  // What the handles of this module share (nn/module_state.h); for the library's own parts.
  const std::shared_ptr<detail::ModuleState>& state() const { return state_; }

 protected:
  // Registers a parameter, whose gradient is wanted from then on, in its member's initialiser.
  // Names are letters, digits and '_'. Throws UsageError for others and for one that is there
  // already, DtypeError for a tensor of integers. An undefined tensor is a parameter that the layer
  // lacks.
  Param add(const char* name, Tensor parameter);
  // Registers a buffer of any dtype; its name is held to the same rules.
  Buffer add_buffer(const char* name, Tensor buffer);
  // Registers a module below this one and returns it, a handle to the same; its name is held to the
  // same rules. A module may be registered at several places.
  template <class M>
  requires std::derived_from<M, ModuleBase> M add(const std::string& name, M module) {
    detail::check_forward<M>();
    add_child(name, module);
    return module;
  }
  // What add() does for a module whose class is not known here. Throws UsageError where it is this
  // one.
  void add_child(const std::string& name, const ModuleBase& child);
  // Another name than that of the class. A literal: it is not copied.
  void set_type(const char* type);
  // --- internal ---
  void set_class(const char* signature);  // the class's name in signature_of()
  void set_list();                        // ModuleState::is_list

  std::shared_ptr<detail::ModuleState> state_;

 private:
  friend detail::OutputShapes;
  u64 add_hook(detail::HookKind kind, detail::HookFunction call) const;
  i64 set_requires_grad(std::string_view pattern, bool on) const;
  explicit ModuleBase(std::shared_ptr<detail::ModuleState> state);
  std::vector<ModuleBase> children_first() const;
};

// A module with its name in the one that it was asked of; "" for that itself.
struct NamedModule {
  std::string name;   // "head.2"
  ModuleBase module;  // a handle
};

namespace detail {

// Enters a module for the length of a call.
class WT_API CallScope {
 public:
  CallScope(const ModuleBase& m, Frame at);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  bool hooked() const { return hooked_; }

 private:
  // The module that makes this call; null at top level and when a module calls itself.
  const ModuleState* caller() const;

  const CallScope* const outer_;
  const ModuleCall call_;
  ModuleState& module_state_;
  const bool hooked_;
  FrameScope frame_;
  ModuleScope module_;
};

// The call of a module that has hooks.
class WT_API HookedCall {
 public:
  // Runs the pre-hooks; x is undefined where the first argument is no tensor.
  HookedCall(const ModuleBase& m, Tensor& x);
  // Runs the forward hooks. Throws UsageError for null.
  void finish(Tensor* y) const;

 private:
  const ModuleBase& module_;
  Tensor input_;
  struct Watch;  // the backward of this call
  std::shared_ptr<Watch> watch_;
};
// The tensor in a result that hooks are about.
template <class Y>
Tensor* output_of(Y& y) {
  if constexpr (std::is_same_v<Y, Tensor>)
    return &y;
  else if constexpr (requires {
                       { (y.output) } -> std::same_as<Tensor&>;
                     })
    return &y.output;
  else if constexpr (requires {
                       { (y.first) } -> std::same_as<Tensor&>;
                     })
    return &y.first;
  else
    return nullptr;
}

// The tensor of an operand: moved out of an rvalue, else shared.
inline Tensor argument(const In& x) {
  if (!x.impl()) wt::detail::use_of_undefined(x.frame());
  if (x.is_rvalue()) {
    x.take();
    return Tensor(x.give());
  }
  retain(x.impl());
  return Tensor(x.impl());
}

}  // namespace detail

namespace detail {
// "... [with Self = a::Net]" from g++, "... [Self = a::Net]" from clang: what nn/type_name.h reads
// the class's name from. Not here, where each class of modules would have the search compiled.
template <class Self>
constexpr const char* signature_of() {
  return __PRETTY_FUNCTION__;
}
}  // namespace detail

// Evaluation mode for a module and all below while it lives; then every training flag is what it
// was before: { nn::EvalScope eval(net); ... }.
class WT_API EvalScope {
 public:
  // Switches `m` and all below to evaluation and keeps their flags, to put them back.
  [[nodiscard]] explicit EvalScope(const ModuleBase& m);
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  struct Flags;
  Owned<Flags> before_;
};

// The summary of a module and all below, as text.
WT_API std::ostream& operator<<(std::ostream& out, const ModuleBase& m);

namespace detail {
// Behind Module::summary(x): sees what the modules give while it lives.
class WT_API OutputShapes {
 public:
  explicit OutputShapes(const ModuleBase& root);
  ~OutputShapes();
  OutputShapes(const OutputShapes&) = delete;
  OutputShapes& operator=(const OutputShapes&) = delete;
  std::string summary() const;

 private:
  struct Seen;
  Owned<Seen> seen_;
};
}  // namespace detail

// The base of every class of modules: CRTP, so that forward may have any signature, and that to(),
// train(), requires_grad_() and clone() give back a Self.
template <class Self>
class Module : public Derived<Self, ModuleBase> {
 public:
  Module() { this->set_class(detail::signature_of<Self>()); }
  // Calls forward(x, rest...) under this module's name, with its hooks; the line of x is the user's
  // line in errors. Throws UsageError for an undefined x, and inside another module's call where
  // this one has parameters or buffers and was not registered.
  template <class... Rest>
  auto operator()(const In& x, Rest&&... rest) {
    const detail::CallScope scope(*this, x.frame());
    if (scope.hooked()) [[unlikely]]
      return hooked(detail::argument(x), std::forward<Rest>(rest)...);
    if constexpr (sizeof...(Rest) == 0) {
      return self().forward(detail::argument(x));
    } else {
      // Before the others, which forward may take by value: f(x, std::move(x)) is then the same in
      // every order of evaluation.
      Tensor first = detail::argument(x);
      return self().forward(std::move(first), std::forward<Rest>(rest)...);
    }
  }
  using ModuleBase::summary;
  // The tree of modules with the shape of what each gave where it was first called, and how many
  // parameters are trained and how many frozen. Calls the module with these arguments, without
  // gradients and in eval mode, so that no statistics are taken and nothing is dropped; flags and
  // hooks are then as they were.
  template <class... Rest>
  std::string summary(const In& x, Rest&&... rest) const {
    const detail::OutputShapes shapes(*this);
    (void)(*this)(x, std::forward<Rest>(rest)...);
    return shapes.summary();
  }
  // Calls forward through a const handle, which is a handle to the same module.
  template <class... Rest>
  auto operator()(const In& x, Rest&&... rest) const {
    return const_cast<Module*>(this)->operator()(x, std::forward<Rest>(rest)...);
  }
  // Calls forward where the first argument is no tensor: the user's line is then not known.
  template <class First, class... Rest>
  requires(!std::convertible_to<First, const Tensor&>) auto operator()(First&& first,
                                                                       Rest&&... rest) {
    const detail::CallScope scope(*this, Frame{});
    if (!scope.hooked()) [[likely]]
      return self().forward(std::forward<First>(first), std::forward<Rest>(rest)...);
    Tensor none;
    const detail::HookedCall call(*this, none);
    auto y = self().forward(std::forward<First>(first), std::forward<Rest>(rest)...);
    call.finish(detail::output_of(y));
    return y;
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  template <class... Rest>
  auto hooked(Tensor x, Rest&&... rest) {
    const detail::HookedCall call(*this, x);
    auto y = self().forward(std::move(x), std::forward<Rest>(rest)...);
    call.finish(detail::output_of(y));
    return y;
  }
};

}  // namespace wt::nn
