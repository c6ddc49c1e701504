// Independent copies of modules: Module::clone().
#include <map>

#include "warptape/nn/module.h"

#include "warptape/nn/module_state.h"

namespace wt::nn {
namespace detail {

static thread_local CopyScope* current_scope = nullptr;

struct CopyScope::Copies {
  std::map<const void*, std::shared_ptr<void>> objects;
  std::map<const TensorImpl*, Tensor> tensors;  // tied ones are the same tensor in the copy too
};

CopyScope::CopyScope() : copies_(std::make_unique<Copies>()), outer_(current_scope) {
  current_scope = this;
}
CopyScope::~CopyScope() { current_scope = outer_; }
CopyScope* CopyScope::current() { return current_scope; }

std::shared_ptr<void> CopyScope::find(const void* object) const {
  const auto known = copies_->objects.find(object);
  return known == copies_->objects.end() ? nullptr : known->second;
}
void CopyScope::remember(const void* object, std::shared_ptr<void> copy) {
  copies_->objects[object] = std::move(copy);
}

std::shared_ptr<ParamSlot> CopyScope::copy(const std::shared_ptr<ParamSlot>& slot) {
  if (!slot) return nullptr;
  if (const auto known = find(slot.get())) return std::static_pointer_cast<ParamSlot>(known);
  auto made = std::make_shared<ParamSlot>(ParamSlot{slot->name, {}, slot->is_buffer});
  remember(slot.get(), made);
  if (!slot->tensor.defined()) return made;
  Tensor& t = copies_->tensors[slot->tensor.impl()];
  if (!t.defined()) {
    const NoGrad no_grad;
    t = slot->tensor.clone();
    if (slot->tensor.requires_grad()) t.set_requires_grad();
  }
  made->tensor = t;
  return made;
}

std::shared_ptr<ModuleState> CopyScope::copy(const std::shared_ptr<ModuleState>& m) {
  if (const auto known = find(m.get())) return std::static_pointer_cast<ModuleState>(known);
  auto made = std::make_shared<ModuleState>();
  remember(m.get(), made);
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
