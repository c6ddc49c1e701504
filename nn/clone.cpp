// Independent copies of modules: Module::clone().
#include "warptape/nn/module.h"

namespace wt::nn {
namespace detail {

static thread_local CopyScope* current_scope = nullptr;

CopyScope::CopyScope() : outer_(current_scope) { current_scope = this; }
CopyScope::~CopyScope() { current_scope = outer_; }
CopyScope* CopyScope::current() { return current_scope; }

std::shared_ptr<ParamSlot> CopyScope::copy(const std::shared_ptr<ParamSlot>& slot) {
  if (!slot) return nullptr;
  std::shared_ptr<void>& known = objects_[slot.get()];
  if (known) return std::static_pointer_cast<ParamSlot>(known);
  auto made = std::make_shared<ParamSlot>(ParamSlot{slot->name, {}, slot->is_buffer});
  known = made;
  if (!slot->tensor.defined()) return made;
  Tensor& t = tensors_[slot->tensor.impl()];
  if (!t.defined()) {
    const NoGrad no_grad;
    t = slot->tensor.clone();
    if (slot->tensor.requires_grad()) t.set_requires_grad();
  }
  made->tensor = t;
  return made;
}

std::shared_ptr<ModuleState> CopyScope::copy(const std::shared_ptr<ModuleState>& m) {
  std::shared_ptr<void>& known = objects_[m.get()];
  if (known) return std::static_pointer_cast<ModuleState>(known);
  auto made = std::make_shared<ModuleState>();
  known = made;
  made->name = m->name;
  made->type = m->type;
  made->type_given = m->type_given;
  made->registered = m->registered;
  made->training = m->training;
  made->is_list = m->is_list;
  made->hooks = m->hooks;
  made->own = m->own;
  for (const auto& slot : m->slots) made->slots.push_back(copy(slot));
  for (const auto& [name, child] : m->children) made->children.emplace_back(name, copy(child));
  return made;
}

}  // namespace detail

Param::Param(const Param& o) : slot_(o.slot_) {
  if (detail::CopyScope* scope = detail::CopyScope::current()) slot_ = scope->copy(o.slot_);
}

ModuleBase::ModuleBase(const ModuleBase& o) : state_(o.state_) {
  if (detail::CopyScope* scope = detail::CopyScope::current()) state_ = scope->copy(o.state_);
}

}  // namespace wt::nn
