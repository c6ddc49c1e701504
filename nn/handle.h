// What the handles of a module are made of; what they share, ModuleState, is in nn/module_state.h.
// Behind nn/module.h.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>

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
}  // namespace wt::nn
