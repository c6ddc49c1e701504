// What the handles of a module are made of; what they share, ModuleState, is in nn/module_state.h.
// Behind nn/module.h.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "warptape/core/frame.h"
#include "warptape/core/owned.h"
#include "warptape/core/tensor.h"

namespace wt::nn {

class ModuleBase;

namespace detail {

struct ModuleState;

// The place of one tensor in a module. Handles (Param) and optimizers refer to the slot.
struct ParamSlot {
  std::string name;  // within its module
  Tensor tensor;
  bool is_buffer = false;
  bool held = false;  // an optimizer has laid it out: re-seating throws
};

// What a hook is called with, and what its result takes the place of: forward_pre(x), forward(x, y)
// for y, backward_pre(gy), backward(gx, gy) for gx. An undefined result changes nothing.
// watch(x, y) changes nothing, and y may be undefined: where the result is no tensor.
enum class HookKind : u8 { forward_pre, forward, backward_pre, backward, watch };
using HookFunction = std::function<Tensor(const ModuleBase&, const Tensor&, const Tensor&)>;

// While one lives on this thread, copies of modules and parameters are independent of what they are
// copied from: ModuleBase::clone(). What is met twice is copied once.
class WT_API CopyScope {
 public:
  CopyScope();
  ~CopyScope();
  CopyScope(const CopyScope&) = delete;
  CopyScope& operator=(const CopyScope&) = delete;
  static CopyScope* current();

  std::shared_ptr<ModuleState> copy(const std::shared_ptr<ModuleState>& m);
  std::shared_ptr<ParamSlot> copy(const std::shared_ptr<ParamSlot>& slot);
  // Any other object that handles share. The copy is made by its copy constructor.
  template <class T>
  std::shared_ptr<T> copy(const std::shared_ptr<T>& object) {
    if (std::shared_ptr<void> known = find(object.get())) return std::static_pointer_cast<T>(known);
    auto made = std::make_shared<T>(*object);
    remember(object.get(), made);
    return made;
  }

 private:
  struct Copies;  // what has been copied, and to what
  std::shared_ptr<void> find(const void* object) const;
  void remember(const void* object, std::shared_ptr<void> copy);
  Owned<Copies> copies_;
  CopyScope* const outer_;
};

template <class M>
M cloned(const M& module) {
  const CopyScope scope;
  return M(module);
}

template <class M>
auto handle_to(const M& module) {
  if constexpr (std::is_copy_constructible_v<M>) return M(module);
}

// What the handles of a container share: as a shared_ptr, but a copy within clone() is independent.
template <class T>
class Shared {
 public:
  Shared() : object_(std::make_shared<T>()) {}
  explicit Shared(T object) : object_(std::make_shared<T>(std::move(object))) {}
  Shared(const Shared& o) : object_(o.object_) {
    if (CopyScope* scope = CopyScope::current()) object_ = scope->copy(o.object_);
  }
  Shared(Shared&&) = default;
  Shared& operator=(const Shared&) = default;
  Shared& operator=(Shared&&) = default;
  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }

 private:
  std::shared_ptr<T> object_;
};

}  // namespace detail

// The base of modules by which what they give back of themselves has their own type:
//
//   auto net = nn::Linear{3, 1}.to(device).eval();   // a Linear
//   net = net.to(f64);
//
// nn::Module has this for the class that derives from it. A class that derives from a class of
// modules derives through this one, by which it inherits the constructors too; else what it gives
// back is one of the base, a slice of it:
//
//   struct Gabor : nn::Derived<Gabor, nn::Conv2d> { using Derived::Derived; };
template <class Self, class Base>
class Derived : public Base {
 public:
  using Base::Base;

  // One declaration for all kinds of objects: each class of modules has these, and warptape.h is
  // measured.

  // Moves parameters and buffers in place, to a device, a dtype or both, as ModuleBase::to() says,
  // and gives a handle to this module as a Self (nothing where the class cannot be copied).
  auto to(Device d) const { return Base::to(d), detail::handle_to(self()); }
  auto to(DType t, Frame at = Frame::here()) const {
    return Base::to(t, at), detail::handle_to(self());
  }
  auto to(Device d, DType t, Frame at = Frame::here()) const {
    return Base::to(d, t, at), detail::handle_to(self());
  }
  // Switches this module and all below to training or evaluation, and gives a handle to this one.
  auto train(bool on = true) const { return Base::train(on), detail::handle_to(self()); }
  // Switches this module and all below to evaluation, and gives a handle to this one.
  auto eval() const { return train(false); }
  // Whether all parameters want gradients, or are frozen (ModuleBase::requires_grad_); gives a
  // handle to this module.
  template <std::same_as<bool> B = bool>
  auto requires_grad_(B on = true) const {
    return Base::requires_grad_(on), detail::handle_to(self());
  }
  // Whether the parameters whose name fits a pattern of '*' and '?' want gradients; returns how
  // many fit. Throws UsageError when none does.
  template <std::convertible_to<std::string_view> S>
  i64 requires_grad_(const S& pattern, bool on = true) const {
    return Base::requires_grad_(pattern, on);
  }

  // An independent copy: its parameters, buffers and modules are new, tied ones are tied again, and
  // flags, frozen parameters and hooks are as here. Gradients are not copied, no optimizer holds
  // the copy, and what a class of your own keeps beside registered tensors and modules is copied as
  // its copy constructor says. Throws OutOfMemory.
  Self clone() const { return detail::cloned(self()); }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace wt::nn
